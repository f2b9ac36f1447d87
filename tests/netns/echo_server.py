# SPDX-License-Identifier: GPL-2.0-or-later
"""Answers every request with its own name and the address that the request came from: what runs in a pod.

    echo_server.py NAME PORT...

Serves TCP, UDP and SCTP on both IP families at each port. The answer is "NAME ADDRESS" from the first
port and "NAME/PORT ADDRESS" from the others. It leaves from the address the request was sent to, so that
one server can stand for every address of a network. Prints "ready" once it listens.
"""

import selectors
import socket
import sys

import sctp

BACKLOG = 1024


def listener(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", port))
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def datagrams(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    sock.setsockopt(socket.IPPROTO_IPV6, sctp.IPV6_FREEBIND, 1)  # answer from addresses no link has
    sock.bind(("::", port))
    sock.setblocking(False)
    return sock


def reply(name: str, client: tuple) -> bytes:
    return f"{name} {client[0].removeprefix('::ffff:')}".encode()


class EchoServer:
    def __init__(self, name: str, ports: list[int]) -> None:
        self.selector = selectors.DefaultSelector()
        names = {port: name if port == ports[0] else f"{name}/{port}" for port in ports}
        for port in ports:
            self.watch(listener(port), self.accept, names[port])
            self.watch(datagrams(port), self.answer_datagram, names[port])
        for family in (socket.AF_INET, socket.AF_INET6):
            raw = sctp.Listener(family, names, reply)
            self.watch(raw.sock, self.answer_sctp, raw)

    def watch(self, sock, handler, knowledge) -> None:
        self.selector.register(sock, selectors.EVENT_READ, (handler, knowledge))

    def accept(self, sock: socket.socket, name: str) -> None:
        try:
            connection, client = sock.accept()
        except OSError:
            return  # the client gave up in the meantime
        connection.setblocking(False)
        self.watch(connection, self.answer, reply(name, client))

    def answer(self, sock: socket.socket, text: bytes) -> None:
        try:
            if sock.recv(4096):
                sock.send(text)
                return
        except OSError:
            pass
        self.selector.unregister(sock)
        sock.close()

    def answer_datagram(self, sock: socket.socket, name: str) -> None:
        try:
            _, ancillary, _, client = sock.recvmsg(4096, socket.CMSG_SPACE(20))
            to = [part for part in ancillary if part[:2] == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)]
            # Only the address counts: the interface of the answer is for the routes to choose.
            info = [(level, kind, data[:16] + bytes(4)) for level, kind, data in to]
            sock.sendmsg([reply(name, client)], info, 0, client)
        except OSError:
            pass

    def answer_sctp(self, _sock: socket.socket, raw: sctp.Listener) -> None:
        try:
            raw.serve()
        except OSError:
            pass

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                handler, knowledge = key.data
                handler(key.fileobj, knowledge)


def main() -> None:
    server = EchoServer(sys.argv[1], [int(port) for port in sys.argv[2:]])
    print("ready", flush=True)
    server.run()


if __name__ == "__main__":
    main()
