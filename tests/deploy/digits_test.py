"""The demo model over gRPC: it is right, its numbers are PyTorch's, and batches change nothing.

usage: digits_test.py TANDEM [unittest arguments]; PYTHONPATH names the stubs and deploy/demo.
"""
import concurrent.futures
import pathlib
import sys
import unittest

import digits
import numpy as np
from tandem_process import TandemProcess

TANDEM = sys.argv.pop(1)
WANTED = 0.97
LOGITS = pathlib.Path(__file__).resolve().parents[1] / "data" / "digits" / "logits.csv"


class DigitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = TandemProcess([TANDEM], digits.REPOSITORY)
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.stub = digits.connect(cls.daemon.address())
        cls.images, cls.labels = digits.load()
        cls.singles = np.concatenate(
            [digits.infer(cls.stub, cls.images[i:i + 1], "logits") for i in range(len(cls.images))])

    def test_most_held_back_digits_are_right(self):
        self.assertGreaterEqual(len(self.labels), 360)
        right = int((self.singles.argmax(axis=1) == self.labels).sum())
        self.assertGreaterEqual(right, WANTED * len(self.labels), f"{right} are right")

    def test_logits_are_those_of_pytorch(self):
        expected = np.loadtxt(LOGITS, delimiter=",", dtype=np.float32)
        # Sums of at most 144 products in another order, through five layers.
        bound = 144 * 5 * np.finfo(np.float32).eps * np.abs(expected).max()
        self.assertLessEqual(np.abs(self.singles - expected).max(), bound)

    def test_batches_have_the_bits_of_single_requests(self):
        for size in (2, 3, 7, 8, 32):
            batches = [digits.infer(self.stub, self.images[i:i + size], "logits")
                       for i in range(0, len(self.images), size)]
            self.assertEqual(self.singles.tobytes(), np.concatenate(batches).tobytes(), f"{size} a batch")

    def test_requests_at_the_same_time_have_the_bits_of_single_requests(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda i: digits.infer(self.stub, self.images[i:i + 1], "logits"),
                                    range(len(self.images))))
        self.assertEqual(self.singles.tobytes(), np.concatenate(answers).tobytes())

    def test_probabilities_are_the_softmax_of_the_logits(self):
        found = digits.infer(self.stub, self.images[:9])
        exact = self.singles[:9].astype(np.float64)
        exact = np.exp(exact - exact.max(axis=1, keepdims=True))
        exact /= exact.sum(axis=1, keepdims=True)
        self.assertLessEqual(np.abs(found - exact).max(), 10 * np.finfo(np.float32).eps)


if __name__ == "__main__":
    unittest.main()
