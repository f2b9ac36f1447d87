# SPDX-License-Identifier: GPL-2.0-or-later
"""SCTP by hand, over raw sockets: what it takes to open an association and to exchange messages on it.

The kernels that tests run on often have no SCTP sockets, but they all route, track and translate SCTP
packets. Both sides check the CRC32c of what they get, so the kernel's new one after a translation counts.

The server keeps no state: it takes the client's tag for its own, and the cookie holds nothing but its
name. Both sides ignore ABORT: a kernel that does have SCTP sees the raw packets as well and sends one,
as it knows nothing of these associations.
"""

import random
import socket
import struct
import time
import typing

IPPROTO_SCTP = 132
IP_PKTINFO = 8
IPV6_FREEBIND = 78

DATA, INIT, INIT_ACK, ABORT, COOKIE_ECHO, COOKIE_ACK = 0, 1, 2, 6, 10, 11
WHOLE_MESSAGE = 3  # flags of DATA: its first piece and its last
STATE_COOKIE = 7

HEADER = struct.Struct("!HHII")  # ports, tag, checksum
CHUNK = struct.Struct("!BBH")  # type, flags, length
INIT_FIELDS = struct.Struct("!IIHHI")  # tag, window, streams out and in, first TSN
DATA_FIELDS = struct.Struct("!IHHI")  # TSN, stream, number in the stream, payload protocol
PARAMETER = struct.Struct("!HH")  # type, length
WINDOW = 65536


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# ---- packets --------------------------------------------------------------------------------------


class Packet(typing.NamedTuple):
    """A packet of one chunk."""

    source: int
    to: int
    tag: int
    kind: int
    value: bytes
    flags: int = 0

    def encode(self) -> bytes:
        chunk = CHUNK.pack(self.kind, self.flags, CHUNK.size + len(self.value)) + self.value
        chunk += bytes(-len(chunk) % 4)
        unsummed = HEADER.pack(self.source, self.to, self.tag, 0) + chunk
        return unsummed[:8] + struct.pack("<I", crc32c(unsummed)) + chunk


def decode(data: bytes) -> Packet | None:
    """None if it is not a whole packet with the right checksum."""
    if len(data) < HEADER.size + CHUNK.size:
        return None
    source, to, tag, _ = HEADER.unpack_from(data)
    kind, flags, length = CHUNK.unpack_from(data, HEADER.size)
    value = data[HEADER.size + CHUNK.size : HEADER.size + length]
    if len(value) != length - CHUNK.size:
        return None
    (checksum,) = struct.unpack_from("<I", data, 8)
    if checksum != crc32c(data[:8] + bytes(4) + data[12:]):
        return None
    return Packet(source, to, tag, kind, value, flags)


def init_value(tag: int, cookie: bytes | None = None) -> bytes:
    value = INIT_FIELDS.pack(tag, WINDOW, 1, 1, tag)
    if cookie is not None:
        value += PARAMETER.pack(STATE_COOKIE, PARAMETER.size + len(cookie)) + cookie
    return value


def data_value(tsn: int, text: bytes) -> bytes:
    return DATA_FIELDS.pack(tsn, 0, 0, 0) + text


# ---- the client -----------------------------------------------------------------------------------


class Association:
    """The client's side, used like a connected socket. Raises OSError as the kernel says it: a connected
    raw socket is told of ICMP errors."""

    def __init__(self, address: str, port: int, source_port: int, timeout: float) -> None:
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.ports = source_port, port
        self.tag = random.randrange(1, 1 << 32)
        self.tsn = self.tag
        self.timeout = timeout
        self.sock = socket.socket(self.family, socket.SOCK_RAW, IPPROTO_SCTP)
        try:
            self.sock.connect((address, 0))
            self._open()
        except BaseException:
            self.sock.close()
            raise

    def _open(self) -> None:
        self._send(INIT, init_value(self.tag), tag=0)
        answer = self._receive(INIT_ACK)
        cookie = answer[INIT_FIELDS.size + PARAMETER.size :]
        self._send(COOKIE_ECHO, cookie)
        self._receive(COOKIE_ACK)

    def send(self, text: bytes) -> None:
        self._send(DATA, data_value(self.tsn, text), flags=WHOLE_MESSAGE)
        self.tsn = self.tsn + 1 & 0xFFFFFFFF

    def recv(self, size: int) -> bytes:
        return self._receive(DATA)[DATA_FIELDS.size :][:size]

    def settimeout(self, timeout: float) -> None:
        self.timeout = timeout

    def getsockname(self) -> tuple:
        return self.sock.getsockname()

    def __enter__(self) -> "Association":
        return self

    def __exit__(self, *_) -> None:
        """Ends it without further talk, so that conntrack forgets it soon."""
        try:
            self._send(ABORT, b"")
        except OSError:
            pass
        self.sock.close()

    def _send(self, kind: int, value: bytes, *, tag: int | None = None, flags: int = 0) -> None:
        tag = self.tag if tag is None else tag
        try:
            self.sock.send(Packet(*self.ports, tag, kind, value, flags).encode())
        except PermissionError:
            pass  # The output hook let it not go. SCTP takes that for a loss; only an ICMP error ends it.

    def _receive(self, kind: int) -> bytes:
        """The value of the next chunk of a kind. A raw socket gets other traffic of its peer, too."""
        deadline = time.monotonic() + self.timeout
        while True:
            self.sock.settimeout(max(deadline - time.monotonic(), 1e-6))
            data = self.sock.recv(65536)
            packet = decode(data[ip_header_size(data) :] if self.family == socket.AF_INET else data)
            if packet and (packet.to, packet.source, packet.tag, packet.kind) == (*self.ports, self.tag, kind):
                return packet.value


def ip_header_size(data: bytes) -> int:
    return (data[0] & 0xF) * 4


# ---- the server -----------------------------------------------------------------------------------


class Listener:
    """The server's side in one IP family. Answers each message with what @reply makes of the name that
    belongs to its port and of the client's address, from the address that it was sent to."""

    def __init__(
        self, family: int, names: dict[int, str], reply: typing.Callable[[str, tuple], bytes]
    ) -> None:
        self.family = family
        self.names = names
        self.reply = reply
        self.sock = socket.socket(family, socket.SOCK_RAW, IPPROTO_SCTP)
        self.sock.setblocking(False)
        if family == socket.AF_INET6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)

    def serve(self) -> None:
        """Deals with one packet."""
        data, ancillary, _, client = self.sock.recvmsg(65536, socket.CMSG_SPACE(20))
        if self.family == socket.AF_INET:
            size = ip_header_size(data)
            own = (socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=i4s4s", 0, data[16:20], bytes(4)))
            data = data[size:]
        else:
            (own,) = [(*part[:2], part[2][:16] + bytes(4)) for part in ancillary]
        packet = decode(data)
        answer = packet and self.answer(packet, client)
        if answer:
            self.sock.sendmsg([answer.encode()], [own], 0, client)

    def answer(self, packet: Packet, client: tuple) -> Packet | None:
        name = self.names.get(packet.to)
        if name is None:
            return None
        cookie = name.encode()
        tag, value = packet.tag, packet.value
        if packet.kind == INIT and tag == 0 and len(value) >= INIT_FIELDS.size:
            tag = INIT_FIELDS.unpack_from(value)[0]
            return Packet(packet.to, packet.source, tag, INIT_ACK, init_value(tag, cookie=cookie))
        if packet.kind == COOKIE_ECHO and value == cookie:
            return Packet(packet.to, packet.source, tag, COOKIE_ACK, b"")
        if packet.kind == DATA:
            text = self.reply(name, client)
            return Packet(packet.to, packet.source, tag, DATA, data_value(tag, text), WHOLE_MESSAGE)
        return None
