"""Starts a daemon for a test and stops it again."""

import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

WAIT_SECONDS = 30


class TandemProcess:
    """A daemon on ports of the system's choice, on 127.0.0.1.

    `command` is what starts it: its path, or a wrapper's words before it. Its log is read until it
    ends; `ports` has what it listens on, by server. As a context it is ready, and ended behind it.
    """

    def __init__(self, command, repository, *flags):
        command = [*command, "--model-repository", str(repository)]
        for server in ("grpc", "http", "metrics"):
            command += [f"--{server}-address=127.0.0.1", f"--{server}-port=0"]
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        self._last = None
        self.process = subprocess.Popen(
            command + list(flags), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self.await_line("listening")
        self.ports = {name: int(port) for name, port in re.findall(r"(\w+)=127\.0\.0\.1:(\d+)", line)}

    def __enter__(self):
        try:
            self.await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()

    def address(self, server="grpc"):
        return f"127.0.0.1:{self.ports[server]}"

    def get(self, server, path):
        """The body of an answer over HTTP."""
        with urllib.request.urlopen(f"http://{self.address(server)}{path}", timeout=10) as reply:
            return reply.read().decode()

    def await_ready(self):
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.get("http", "/v2/health/ready")
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError("not ready:\n" + "\n".join(self.lines)) from None
                time.sleep(0.05)

    def await_line(self, part, seconds=WAIT_SECONDS):
        """The first line of the log that holds `part`."""
        with self._changed:
            found = lambda: next((line for line in self.lines if part in line), None)
            self._changed.wait_for(lambda: found() or self._ended, seconds)
            if found() is None:
                log = "\n".join(self.lines)
                raise AssertionError(f"no line of the log says {part!r}:\n{log}")
            return found()

    def stop(self, number=signal.SIGTERM):
        """Sends the signal and returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(WAIT_SECONDS)
            self.process.stderr.close()

    def close_log_after(self, part):
        """Closes our end of the log when a line that holds `part` comes."""
        self._last = part

    def _read(self):
        for line in self.process.stderr:
            if self._last and self._last in line:
                self.process.stderr.close()
                break
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
