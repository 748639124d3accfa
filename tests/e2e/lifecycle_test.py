"""Start, ports, readiness and the end of the daemon."""

import http.client
import json
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

import grpc_service_pb2 as pb
import grpc_service_pb2_grpc
import health_pb2
import health_pb2_grpc
from support import BINARY, DEADLINE_SECONDS, MODELS, await_serving, pair_product, pair_request
from tandem_process import WAIT_SECONDS, TandemProcess

Status = health_pb2.HealthCheckResponse
REPEATED_SIGNAL_SECONDS = 2  # within which further signals mean no more than the first


def run(*arguments):
    return subprocess.run(
        [BINARY, *arguments], capture_output=True, text=True, timeout=WAIT_SECONDS
    )


def http_status(server, path, port="http"):
    connection = http.client.HTTPConnection("127.0.0.1", server.ports[port], timeout=20)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def count_request(turns):
    request = pb.ModelInferRequest(model_name="count")
    request.inputs.add(name="turns", datatype="INT64")
    request.raw_input_contents.append(struct.pack("<q", turns))
    return request


ENDLESS = 2**60  # turns
RUNNING = 'tandem_requests_running{model="count",version="1"}'


def failed(reason):
    return f'tandem_requests_failed_total{{model="count",version="1",reason="{reason}"}}'


class LifecycleTest(unittest.TestCase):
    def start(self, repository="good", *flags):
        server = TandemProcess([BINARY], MODELS / repository, *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        channel = grpc.insecure_channel(server.address())
        self.addCleanup(channel.close)
        return server, channel, grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def await_metric(self, server, name, value, seconds=10):
        line = f"\n{name} {value}\n"
        end = time.monotonic() + seconds
        while line not in (text := http_status(server, "/metrics", "metrics")[1]):
            self.assertLess(time.monotonic(), end, f"no {line.strip()!r} in:\n{text}")

    def test_health_client_and_http_follow_readiness(self):
        server, channel, _ = self.start()
        await_serving(channel)
        self.assertEqual(run("health", "--addr", server.address()).returncode, 0)
        self.assertEqual(http_status(server, "/v2/health/live")[0], 200)
        self.assertEqual(http_status(server, "/v2/health/ready")[0], 200)
        self.assertEqual(http_status(server, "/v2/models/pair/ready")[0], 200)
        self.assertEqual(http_status(server, "/v2/models/nobody/ready")[0], 404)
        status, text = http_status(server, "/metrics", "metrics")
        self.assertEqual(status, 200)
        self.assertIn('model="pair"', text)
        self.assertEqual(server.stop(), 0)
        answer = run("health", "--addr", server.address(), "--timeout", "2")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(server.address(), answer.stderr)

    def test_a_broken_model_is_reported_and_the_others_serve(self):
        server, channel, stub = self.start("mixed")
        server.await_line("not ready")
        response = stub.ModelInfer(pair_request(), timeout=DEADLINE_SECONDS)
        self.assertEqual(response.raw_output_contents[0], pair_product())
        self.assertFalse(stub.ServerReady(pb.ServerReadyRequest()).ready)
        self.assertFalse(stub.ModelReady(pb.ModelReadyRequest(name="broken")).ready)
        self.assertEqual(http_status(server, "/v2/health/ready")[0], 503)
        self.assertEqual(run("health", "--addr", server.address()).returncode, 1)
        index = {m.name: m for m in stub.RepositoryIndex(pb.RepositoryIndexRequest()).models}
        self.assertEqual(index["broken"].state, "UNAVAILABLE")
        self.assertNotEqual(index["broken"].reason, "")
        request = pair_request()
        request.model_name = "broken"
        with self.assertRaises(grpc.RpcError) as caught:
            stub.ModelInfer(request, timeout=DEADLINE_SECONDS)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(server.stop(), 0)

    def test_exit_on_error_ends_a_daemon_with_a_broken_model(self):
        server, _, _ = self.start("mixed", "--exit-on-error")
        self.assertEqual(server.wait(), 1)

    def test_readiness_that_is_not_strict(self):
        server, channel, stub = self.start("mixed", "--strict-readiness=false")
        await_serving(channel)
        self.assertTrue(stub.ServerReady(pb.ServerReadyRequest()).ready)
        self.assertEqual(server.stop(), 0)

    def test_sigterm_says_not_serving_then_answers_what_it_accepts(self):
        server, channel, stub = self.start("good", "--drain-delay", "2")
        await_serving(channel)
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=DEADLINE_SECONDS
        )
        self.assertEqual(next(watch).status, Status.SERVING)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(next(watch).status, Status.NOT_SERVING)
        self.assertEqual(http_status(server, "/v2/health/ready")[0], 503)
        self.assertEqual(http_status(server, "/v2/health/live")[0], 200)
        response = stub.ModelInfer(pair_request(), timeout=DEADLINE_SECONDS)
        self.assertEqual(response.raw_output_contents[0], pair_product())
        self.assertEqual(server.wait(), 0)

    def test_sigterm_under_load_loses_nothing(self):
        server, channel, stub = self.start()
        await_serving(channel)
        answered = threading.Semaphore(0)
        faults = []

        def send():
            while True:
                try:
                    response = stub.ModelInfer(pair_request(2), timeout=DEADLINE_SECONDS)
                    if response.raw_output_contents[0] != pair_product(2):
                        faults.append("wrong answer")
                    answered.release()
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        faults.append(f"{error.code()} {error.details()}")
                    return

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            self.assertTrue(answered.acquire(timeout=DEADLINE_SECONDS))
        self.assertEqual(server.stop(), 0)
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        self.assertEqual(faults, [])

    def test_what_takes_longer_than_the_drain_timeout_is_told_so(self):
        server, channel, stub = self.start("slow", "--drain-timeout", "1")
        await_serving(channel)
        call = stub.ModelInfer.future(count_request(ENDLESS), timeout=DEADLINE_SECONDS)
        self.await_metric(server, RUNNING, 1)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(call.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(
            call.details(),
            "model 'count' version 1: the server is shutting down and did not answer the request within "
            "the drain timeout of 1000 ms",
        )

    def test_a_signal_long_after_the_first_ends_the_daemon_at_once(self):
        server, _, _ = self.start("good", "--drain-delay", "600")
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.await_line("draining")
        while server.process.poll() is None:
            self.assertLess(time.monotonic() - start, WAIT_SECONDS)
            server.process.send_signal(signal.SIGINT)
            try:
                server.process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        self.assertGreater(time.monotonic() - start, REPEATED_SIGNAL_SECONDS)
        self.assertEqual(server.wait(), 128 + signal.SIGINT)

    def test_signals_at_the_same_time_are_one(self):
        for gap in (0, 0.001, 0.1):
            server, channel, _ = self.start("good", "--drain-delay", "0.5")
            await_serving(channel)
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                server.process.send_signal(number)
                time.sleep(gap)
            self.assertEqual(server.wait(), 0)
            self.assertIn("stopped", server.lines[-1])

    def test_sigint_is_as_sigterm(self):
        server, _, _ = self.start()
        self.assertEqual(server.stop(signal.SIGINT), 0)

    def test_a_port_in_use_ends_the_start_with_2_and_names_the_address(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for server in ("grpc", "http", "metrics"):
                flags = [f"--{s}-address=127.0.0.1" for s in ("grpc", "http", "metrics")]
                flags += [
                    f"--{s}-port={taken.getsockname()[1] if s == server else 0}"
                    for s in ("grpc", "http", "metrics")
                ]
                result = run("--model-repository", str(MODELS / "good"), *flags)
                self.assertEqual(result.returncode, 2)
                errors = [line for line in result.stderr.splitlines() if " error " in line]
                self.assertEqual(len(errors), 1, result.stderr)
                self.assertIn(f"cannot listen on {address}: Address already in use", errors[0])
                self.assertNotIn("pair", result.stderr)

    def test_a_bad_command_line_or_repository_ends_with_2(self):
        result = run("--model-repository", str(MODELS / "good"), "--no-such-flag")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no-such-flag", result.stderr)
        server, _, _ = self.start("nowhere")
        self.assertEqual(server.wait(), 2)

    def test_json_log_is_one_object_a_line(self):
        server, channel, _ = self.start("mixed", "--log-format=json")
        server.await_line("not ready")
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.lines]
        self.assertTrue(all({"time", "level", "message"} == set(event) for event in events))
        self.assertTrue(any("broken" in event["message"] for event in events))
        self.assertEqual(events[-1]["message"], "stopped")

    def test_what_libraries_say_is_an_event_of_the_log(self):
        server, channel, stub = self.start("good", "--log-format=json")
        await_serving(channel)
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        message = pair_request().SerializeToString().replace(b"pair", b"p\xffir")
        with self.assertRaises(grpc.RpcError) as caught:
            infer(message, timeout=DEADLINE_SECONDS)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INTERNAL)
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.lines]
        said = [event for event in events if "invalid UTF-8" in event["message"]]
        self.assertEqual([event["level"] for event in said], ["warning"])
        self.assertIn("protobuf: ", said[0]["message"])

    def test_a_log_that_nobody_reads_any_more_stops_nothing(self):
        server, channel, stub = self.start()
        await_serving(channel)
        server.close_log_after("draining")  # "stopped" finds nobody
        self.assertEqual(server.stop(), 0)
        self.assertTrue(server.process.stderr.closed)

    def test_an_expired_deadline_and_a_cancelled_call(self):
        server, channel, stub = self.start("slow")
        await_serving(channel)
        call = stub.ModelInfer.future(count_request(ENDLESS), timeout=0.5)
        self.assertEqual(call.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.await_metric(server, failed("deadline_exceeded"), 1)
        self.await_metric(server, RUNNING, 0)
        call = stub.ModelInfer.future(count_request(ENDLESS), timeout=DEADLINE_SECONDS)
        self.await_metric(server, RUNNING, 1)
        call.cancel()
        self.assertEqual(call.code(), grpc.StatusCode.CANCELLED)
        self.await_metric(server, failed("cancelled"), 1)
        self.await_metric(server, RUNNING, 0)
        response = stub.ModelInfer(count_request(3), timeout=DEADLINE_SECONDS)
        self.assertEqual(response.raw_output_contents[0], struct.pack("<q", 3))
        self.assertEqual(server.stop(), 0)

    def test_a_connection_that_is_closed_cancels_its_requests(self):
        server, channel, stub = self.start("slow")
        await_serving(channel)
        call = stub.ModelInfer.future(count_request(ENDLESS))
        self.await_metric(server, RUNNING, 1)
        channel.close()
        self.assertEqual(call.code(), grpc.StatusCode.CANCELLED)
        self.await_metric(server, failed("cancelled"), 1)
        self.await_metric(server, RUNNING, 0)
        self.assertEqual(server.stop(), 0)

    def test_long_runs_on_every_thread_leave_the_server_answering(self):
        server, channel, stub = self.start("slow", "--threads=2")
        await_serving(channel)
        calls = []
        for running in (1, 2):
            own = grpc.insecure_channel(
                server.address(), options=[("grpc.use_local_subchannel_pool", 1)]
            )
            self.addCleanup(own.close)
            own_stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(own)
            calls.append(own_stub.ModelInfer.future(count_request(ENDLESS)))
            self.await_metric(server, RUNNING, running)
        self.assertTrue(stub.ServerLive(pb.ServerLiveRequest(), timeout=1).live)
        health = run("health", "--addr", server.address(), "--timeout", "1")
        self.assertEqual(health.returncode, 0, health.stderr)
        self.assertEqual(http_status(server, "/v2/health/live")[0], 200)
        for call in calls:
            call.cancel()
        self.await_metric(server, failed("cancelled"), 2)
        self.await_metric(server, RUNNING, 0)
        self.assertEqual(server.stop(), 0)

    def test_an_idle_client_that_calls_while_the_server_ends_is_never_cancelled(self):
        # Its channel does not read that the server goes before it calls.
        for delay in (0.1, 0.4, 0.5):
            server, channel, stub = self.start("slow")
            await_serving(channel)
            stub.ModelInfer(count_request(3), timeout=DEADLINE_SECONDS)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(delay)
            with self.assertRaises(grpc.RpcError) as refused:
                stub.ModelInfer(count_request(3), timeout=DEADLINE_SECONDS)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE, delay)
            self.assertEqual(server.wait(), 0)

    def test_an_empty_repository_serves_nothing_and_is_ready(self):
        with tempfile.TemporaryDirectory() as empty:
            server = TandemProcess([BINARY], pathlib.Path(empty))
            with grpc.insecure_channel(server.address()) as channel:
                await_serving(channel)
                stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                self.assertEqual(
                    len(stub.RepositoryIndex(pb.RepositoryIndexRequest()).models), 0
                )
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
