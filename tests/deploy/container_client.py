"""Starts the container's entry point and asks it: digits, health check, user, SIGTERM.

usage: container_client.py RUN, where `RUN COMMAND...` runs a command in the container.
"""
import pathlib
import subprocess
import sys

import digits
from tandem_process import TandemProcess


def children_of(pid):
    """Process ids of the children of `pid`, whichever of its threads started them."""
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, children.read_text().split())


def process_below(pid, name):
    """The process id of the descendant of `pid` that runs `name`."""
    for child in children_of(pid):
        if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
            return child
        found = process_below(child, name)
        if found:
            return found
    return None


def main():
    run = sys.argv[1]
    images, labels = digits.load()
    with TandemProcess([run, "tandem"], "/models") as daemon:
        server = process_below(daemon.process.pid, "tandem")
        assert server, "no process named tandem"
        status = pathlib.Path(f"/proc/{server}/status").read_text()
        uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
        assert set(uids) == {"1000"}, f"runs as {uids}"
        subprocess.run([run, "tandem", "health", "--addr", daemon.address()], check=True, timeout=60)
        answers = digits.infer(digits.connect(daemon.address()), images[:32]).argmax(axis=1)
        right = int((answers == labels[:32]).sum())
        assert right >= 31, f"{right} of 32 digits are right"
        subprocess.run(["kill", "-TERM", str(server)], check=True)
        code = daemon.wait()
        assert code == 0, f"ended with {code}"
    print("the container serves")


if __name__ == "__main__":
    main()
