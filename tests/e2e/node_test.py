"""Runs the JavaScript client against the real daemon."""

import os
import subprocess
import unittest

from support import ServedTest


class NodeTest(ServedTest):
    def test_the_javascript_client(self):
        environment = {**os.environ, "TANDEM_ADDRESS": self.server.address()}
        result = subprocess.run(
            [os.environ["TANDEM_NODE"], "--test", "client_test.mjs"],
            cwd=os.environ["TANDEM_NODE_DIR"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, "# pass [1-9]")


if __name__ == "__main__":
    unittest.main()
