#!/usr/bin/python3
"""Sends one handwritten digit to a running Tandem and prints what it answers.

usage: classify.py [ADDRESS [NUMBER]]   ADDRESS: host:port, NUMBER: which of the committed digits
Ends with 1 when the answer is wrong.
"""
import sys
import time

import digits
import grpc_service_pb2 as pb


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8001"
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    images, labels = digits.load()
    image, label = images[number:number + 1], labels[number]
    stub = digits.connect(address)
    stub.ServerLive(pb.ServerLiveRequest(), timeout=30)  # so that connecting is not measured
    start = time.perf_counter()
    probabilities = digits.infer(stub, image)[0]
    milliseconds = (time.perf_counter() - start) * 1000
    answer = int(probabilities.argmax())
    print(digits.draw(image))
    print(f"\nThe model says {answer} ({probabilities[answer]:.1%} sure); written was {label}.")
    print(f"Answered in {milliseconds:.2f} ms.")
    return 0 if answer == label else 1


if __name__ == "__main__":
    sys.exit(main())
