# SPDX-License-Identifier: GPL-2.0-or-later
"""Over raw sockets: ping, and the refusals that sockets are not told of."""

import random
import socket
import struct
import time

HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, number
REQUEST = {4: 8, 6: 128}
REPLY = {4: 0, 6: 129}
UNREACHABLE = struct.Struct("!BBHI24x16sHH")  # ICMPv6 type, code, ...; of the packet: address and ports
PORT_UNREACHABLE = (1, 4)


def checksum(data: bytes) -> int:
    """Of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Echo:
    """Used like a connected socket. A connected raw socket is told of ICMP errors, as OSError."""

    def __init__(self, address: str, timeout: float) -> None:
        self.family = 6 if ":" in address else 4
        self.identifier = random.randrange(1, 1 << 16)
        self.timeout = timeout
        kinds = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}
        family, protocol = kinds[self.family]
        self.sock = socket.socket(family, socket.SOCK_RAW, protocol)
        self.sock.connect((address, 0))

    def send(self, _text: bytes) -> None:
        request = HEADER.pack(REQUEST[self.family], 0, 0, self.identifier, 1)
        if self.family == 4:  # for the other one the kernel does it
            request = HEADER.pack(REQUEST[4], 0, checksum(request), self.identifier, 1)
        self.sock.send(request)

    def recv(self, _size: int) -> bytes:
        """The word "echo"."""
        deadline = time.monotonic() + self.timeout
        while True:
            self.sock.settimeout(max(deadline - time.monotonic(), 1e-6))
            data = self.sock.recv(65536)
            data = data[(data[0] & 0xF) * 4 :] if self.family == 4 else data
            kind, _, _, identifier, _ = HEADER.unpack_from(data)
            if (kind, identifier) == (REPLY[self.family], self.identifier):
                return b"echo"

    def getsockname(self) -> tuple:
        return self.sock.getsockname()

    def __enter__(self) -> "Echo":
        return self

    def __exit__(self, *_) -> None:
        self.sock.close()


class Refusals:
    """Hears of rejects over IPv6 in the namespace that it is made in. A TCP client may be deaf to the first
    one, while it still sends."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        self.sock.setblocking(False)

    def heard(self, address: str, port: int) -> bool:
        """Whether something that was sent there has been refused."""
        wanted = (*PORT_UNREACHABLE, socket.inet_pton(socket.AF_INET6, address), port)
        while True:
            try:
                data = self.sock.recv(65536)
            except BlockingIOError:
                return False
            if len(data) >= UNREACHABLE.size:
                kind, code, _, _, there, _, number = UNREACHABLE.unpack_from(data)
                if (kind, code, there, number) == wanted:
                    return True

    def __enter__(self) -> "Refusals":
        return self

    def __exit__(self, *_) -> None:
        self.sock.close()
