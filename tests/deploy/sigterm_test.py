"""SIGTERM: what was accepted is answered, then the daemon ends with 0.

usage: sigterm_test.py TANDEM [unittest arguments]; PYTHONPATH names the stubs and deploy/demo.
"""
import sys
import threading
import time
import unittest

import digits
import grpc
from tandem_process import TandemProcess

TANDEM = sys.argv.pop(1)
CLIENTS = 8


class SigtermTest(unittest.TestCase):
    def test_an_idle_daemon_ends_with_zero(self):
        with TandemProcess([TANDEM], digits.REPOSITORY) as daemon:
            self.assertEqual(0, daemon.stop())

    def test_under_load_every_request_is_answered_or_refused_as_unavailable(self):
        images, _ = digits.load()
        outcomes = [[] for _ in range(CLIENTS)]
        flowing = threading.Barrier(CLIENTS + 1, timeout=30)

        def send(mine):
            stub = digits.connect(daemon.address())
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

        with TandemProcess([TANDEM], digits.REPOSITORY) as daemon:
            clients = [threading.Thread(target=send, args=(mine,)) for mine in outcomes]
            for client in clients:
                client.start()
            flowing.wait()
            self.assertEqual(0, daemon.stop())
            for client in clients:
                client.join(30)
        codes = {code for mine in outcomes for code in mine}
        self.assertLessEqual(codes, {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE})

    def test_clients_that_retry_until_it_is_gone_never_see_a_cancelled_call(self):
        images, _ = digits.load()
        outcomes = [set() for _ in range(2 * CLIENTS)]
        flowing = threading.Barrier(len(outcomes) + 1, timeout=30)
        gone = threading.Event()

        def send(mine, pause_seconds):
            channel = grpc.insecure_channel(
                daemon.address(), options=[("grpc.use_local_subchannel_pool", 1)])
            grpc.channel_ready_future(channel).result(30)  # a busy machine may refuse at first
            stub = digits.pb_grpc.GRPCInferenceServiceStub(channel)
            digits.infer(stub, images[:4])
            flowing.wait()
            while not gone.is_set():
                try:
                    digits.infer(stub, images[:4], timeout=20)
                    mine.add(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    mine.add(error.code())
                    time.sleep(pause_seconds)

        with TandemProcess([TANDEM], digits.REPOSITORY) as daemon:
            clients = [threading.Thread(target=send, args=(mine, 0.005 + 0.095 * i / len(outcomes)))
                       for i, mine in enumerate(outcomes)]
            for client in clients:
                client.start()
            flowing.wait()
            self.assertEqual(0, daemon.stop())
            gone.set()
            for client in clients:
                client.join(30)
        self.assertLessEqual(set.union(*outcomes),
                             {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE})


if __name__ == "__main__":
    unittest.main()
