"""SIGTERM: what was accepted is answered, then the daemon ends with 0.

usage: sigterm_test.py TANDEM [unittest arguments]; PYTHONPATH names the stubs and deploy/demo.
"""
import sys
import threading
import unittest

import digits
import grpc
from daemon import Daemon

TANDEM = sys.argv.pop(1)
CLIENTS = 8


class SigtermTest(unittest.TestCase):
    def test_an_idle_daemon_ends_with_zero(self):
        with Daemon([TANDEM]) as daemon:
            self.assertEqual(0, daemon.terminate())

    def test_under_load_every_request_is_answered_or_refused_as_unavailable(self):
        images, _ = digits.load()
        outcomes = [[] for _ in range(CLIENTS)]
        flowing = threading.Barrier(CLIENTS + 1, timeout=30)

        def send(mine):
            stub = digits.connect(daemon.address)
            digits.infer(stub, images[:32])
            flowing.wait()
            while grpc.StatusCode.UNAVAILABLE not in mine:
                try:
                    digits.infer(stub, images[:32], timeout=20)
                    mine.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    mine.append(error.code())
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        return

        with Daemon([TANDEM]) as daemon:
            clients = [threading.Thread(target=send, args=(mine,)) for mine in outcomes]
            for client in clients:
                client.start()
            flowing.wait()
            self.assertEqual(0, daemon.terminate())
            for client in clients:
                client.join(30)
        codes = {code for mine in outcomes for code in mine}
        self.assertLessEqual(codes, {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE})


if __name__ == "__main__":
    unittest.main()
