"""The runner itself, on a suite of a few cases: what it accepts and what it refuses.

usage: runner_test.py RUNNER [unittest arguments]
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx.numpy_helper

RUNNER = sys.argv.pop(1)
DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")
PASSES = "test_abs"
REFUSED = "test_training_dropout_default"  # it trains
WRONG = "test_neg"  # with the answers of another case


class RunnerTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for case in (PASSES, REFUSED, WRONG):
            shutil.copytree(DATA / case, self.root / "cases" / case)
        shutil.copy(DATA / "test_exp/test_data_set_0/output_0.pb",
                    self.root / "cases" / WRONG / "test_data_set_0/output_0.pb")
        self.list("passes/few.txt", PASSES)
        self.list("different.txt", f"few/{WRONG} for a test")

    def list(self, name, *lines):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("# a comment\n" + "".join(line + "\n" for line in lines))

    def run_suite(self, *flags):
        done = subprocess.run(
            [RUNNER, "few", str(self.root / "cases"), f"--lists={self.root}", *flags],
            capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_fault(self, part, *flags):
        code, text = self.run_suite(*flags)
        self.assertEqual(1, code, text)
        self.assertIn(part, text)

    def test_what_is_as_listed_is_accepted(self):
        code, text = self.run_suite()
        self.assertEqual(0, code, text)
        self.assertIn("3 cases, 1 passed, 1 refused at load, 1 wrong", text)

    def test_a_listed_case_that_answers_wrongly_is_a_fault(self):
        self.list("passes/few.txt", PASSES, WRONG)
        self.assert_fault(f"{WRONG} is listed as passing but answers wrongly: test_data_set_0: "
                          "output 'y': element 0 of ")

    def test_a_listed_case_that_is_refused_is_a_fault(self):
        self.list("passes/few.txt", PASSES, REFUSED)
        self.assert_fault(f"{REFUSED} is listed as passing but is refused: ")

    def test_a_listed_case_that_is_not_there_is_a_fault(self):
        self.list("passes/few.txt", PASSES, "test_of_yesterday")
        self.assert_fault("test_of_yesterday is listed as passing but there is no such case")

    def test_an_unlisted_case_that_passes_is_a_fault(self):
        self.list("passes/few.txt")
        self.assert_fault(f"{PASSES} passes but is not listed so: run `ninja conformance_update`")

    def test_an_unlisted_case_that_loads_and_answers_wrongly_is_a_fault(self):
        self.list("different.txt")
        self.assert_fault(f"{WRONG} loads but answers wrongly: ")

    def test_a_case_listed_as_different_that_passes_is_a_fault(self):
        self.list("passes/few.txt")
        self.list("different.txt", f"few/{PASSES} for a test", f"few/{WRONG} for a test")
        self.assert_fault(f"{PASSES} passes but is listed as different")

    def test_answers_within_the_looser_rule_only_are_listed_as_such(self):
        output = self.root / "cases" / PASSES / "test_data_set_0/output_0.pb"
        tensor = onnx.load_tensor(str(output))
        array = onnx.numpy_helper.to_array(tensor) * numpy.float32(1.0005)
        output.write_bytes(onnx.numpy_helper.from_array(array, tensor.name).SerializeToString())
        self.assert_fault(f"{PASSES} is listed as passing but passes loosely only: ")
        self.list("passes/few.txt", f"{PASSES} loosely")
        self.assertEqual(0, self.run_suite()[0])

    def test_an_update_lists_what_passes(self):
        self.list("passes/few.txt", WRONG)
        code, text = self.run_suite("--update")
        self.assertEqual(0, code, text)
        self.assertIn(f"+ {PASSES}\n- {WRONG}: test_data_set_0", text)
        lines = (self.root / "passes/few.txt").read_text().splitlines()
        self.assertEqual([PASSES], lines[1:])
        self.assertEqual(0, self.run_suite()[0])

    def test_a_folder_without_cases_is_an_error(self):
        done = subprocess.run([RUNNER, "few", str(self.root / "passes"), f"--lists={self.root}"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("there are no cases in", done.stderr)


if __name__ == "__main__":
    unittest.main()
