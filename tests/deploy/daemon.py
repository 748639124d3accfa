"""A daemon for tests: started on free ports of 127.0.0.1, ended by its own process id."""
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO_REPOSITORY = ROOT / "deploy" / "demo" / "repository"
READY_SECONDS = 60


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Daemon:
    """Context manager; `command` is what starts tandem: its path, or a wrapper's words before it."""

    def __init__(self, command, repository=DEMO_REPOSITORY, flags=()):
        self.grpc_port, self.http_port, self.metrics_port = free_ports(3)
        self.address = f"127.0.0.1:{self.grpc_port}"
        self.arguments = [
            *command, f"--model-repository={repository}",
            f"--grpc-port={self.grpc_port}", f"--http-port={self.http_port}",
            f"--metrics-port={self.metrics_port}", "--grpc-address=127.0.0.1",
            "--http-address=127.0.0.1", "--metrics-address=127.0.0.1", *flags]
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL)
        try:
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            return reply.read().decode()

    def metrics(self):
        return self.get(self.metrics_port, "/metrics")

    def wait_ready(self):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the daemon ended with {self.process.returncode}")
            try:
                self.get(self.http_port, "/v2/health/ready")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        raise TimeoutError(f"the daemon was not ready after {READY_SECONDS} s")

    def terminate(self, timeout=40):
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)
