"""deploy/quickstart.sh and signals, with nothing to install and nothing to build."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import grpc_service_pb2

BINARY = os.environ["TANDEM_BINARY"]
SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE"])
STUBS = pathlib.Path(grpc_service_pb2.__file__).parent
WAIT_SECONDS = 60


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        write_program(self.root / "bin" / "cmake", "#!/bin/sh\n")
        write_program(self.root / "deploy" / "install.sh", "#!/bin/sh\n")
        shutil.copy(SOURCE / "deploy" / "quickstart.sh", self.root / "deploy")
        (self.root / "deploy" / "demo").symlink_to(SOURCE / "deploy" / "demo")
        (self.root / "build" / "release" / "server").mkdir(parents=True)
        (self.root / "build" / "release" / "server" / "tandem").symlink_to(BINARY)
        (self.root / "build" / "release" / "python").symlink_to(STUBS)

    def start(self, *arguments):
        script = subprocess.Popen(
            [self.root / "deploy" / "quickstart.sh", *arguments],
            env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        kill = threading.Timer(WAIT_SECONDS, lambda: os.killpg(script.pid, signal.SIGKILL))
        kill.start()
        self.addCleanup(kill.cancel)
        return script

    def assert_drained(self, script, said):
        said += script.stdout.read()  # until the server has ended, too
        script.stdout.close()
        self.assertEqual(script.wait(), 0, said)
        self.assertIn("draining", said)
        self.assertIn("info stopped", said.splitlines()[-1])

    def test_a_signal_to_the_script_or_to_both_drains_the_server(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for send in (os.kill, os.killpg):  # as a supervisor; as Ctrl-C in a terminal
                with self.subTest(f"{number.name} {send.__name__}"):
                    script = self.start()
                    said = ""
                    while "Ctrl-C stops it" not in said:
                        line = script.stdout.readline()
                        self.assertNotEqual(line, "", said)
                        said += line
                    send(script.pid, number)
                    self.assert_drained(script, said)

    def test_once_ends_by_itself(self):
        self.assert_drained(self.start("--once"), "")


if __name__ == "__main__":
    unittest.main()
