#!/usr/bin/python3
"""Prints the given ports, each replaced by a free one when 127.0.0.1 has it in use already."""
import socket
import sys


def main():
    taken = []
    for port in map(int, sys.argv[1:]):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        taken.append(listener)
    print(*(listener.getsockname()[1] for listener in taken))


if __name__ == "__main__":
    main()
