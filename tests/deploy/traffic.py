#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections to a service of this machine while something happens to it:

    traffic.py ADDRESS ENDPOINT FOLDER

Answers for ENDPOINT (ADDRESS:PORT, which it gives to lo) over TCP and UDP, and connects to port 80 of ADDRESS from the
machine itself: anew every 10 ms, and by connections that stay. FOLDER/ready is there when all have been answered once;
when FOLDER/end is there it ends, with status 1 if one was not answered within 2 s. Nothing is tried again.
"""
from __future__ import annotations

import itertools
import pathlib
import socket
import subprocess
import sys
import threading
import time

KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
CLIENT = "192.0.2.1"
INTERVAL = 0.01
PATIENCE = 2.0


def serve_stream(listener: socket.socket) -> None:
    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    while True:
        threading.Thread(target=echo, args=listener.accept()[:1], daemon=True).start()


def serve_datagrams(sock: socket.socket) -> None:
    while True:
        data, client = sock.recvfrom(4096)
        sock.sendto(data, client)


def ask(sock: socket.socket, number: int) -> None:
    sent = b"%08d" % number
    sock.sendall(sent)
    if sock.recv(64) != sent:
        raise OSError("another answer")


def connect(kind: int, address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    sock.settimeout(PATIENCE)
    sock.connect((address, 80))
    return sock


def main(address: str, endpoint: str, folder: pathlib.Path) -> int:
    host, port = endpoint.split(":")
    for own in (host, CLIENT):
        subprocess.run(["ip", "address", "replace", f"{own}/32", "dev", "lo"], check=True)
    subprocess.run(["ip", "route", "replace", "default", "dev", "lo", "src", CLIENT], check=True)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((host, int(port)))
    listener = socket.create_server((host, int(port)), backlog=128)
    threading.Thread(target=serve_datagrams, args=(datagrams,), daemon=True).start()
    threading.Thread(target=serve_stream, args=(listener,), daemon=True).start()
    kept = [connect(kind, address) for kind in KINDS]
    failed = 0
    for number in itertools.count():
        for kind, old in zip(KINDS, kept):
            try:
                ask(old, number)
                with connect(kind, address) as new:
                    ask(new, number)
            except OSError as error:
                failed += 1
                print(f"{time.time():.3f} {kind.name} {number}: {error}", flush=True)
        if number == 1 and not failed:
            (folder / "ready").touch()
        if (folder / "end").exists():
            print(f"{number} rounds, {failed} failures")
            return 1 if failed else 0
        time.sleep(INTERVAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])))
