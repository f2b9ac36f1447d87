# SPDX-License-Identifier: GPL-2.0-or-later
"""When elements came into force, by the kernel's own messages to whoever listens (as nft monitor does).

The kernel writes them inside the transaction, which gets dearer by it: CPU time is not to be measured with
an observer.
"""

import socket
import struct
import threading
import time

NETLINK_NETFILTER, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTABLES = 12, 270, 1, 7
NFT_MSG_NEWSETELEM = 10 << 8 | 12
SET_ELEM_LIST_ELEMENTS, SET_ELEM_DATA, DATA_VALUE = 3, 2, 1
TYPE_MASK = 0x3FFF
BUFFER = 64 * 1024 * 1024


def attributes(data):
    """(type, payload) of each."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & TYPE_MASK, data[at + 4:at + length]
        at += length + 3 & ~3


def inner(data, *path):
    """All attributes at the end of @path."""
    for kind, payload in attributes(data):
        if kind == path[0]:
            yield from inner(payload, *path[1:]) if len(path) > 1 else [payload]


def new_values(datagram):
    """What the elements that were added to maps lead to."""
    at = 0
    while at + 16 <= len(datagram):
        length, kind = struct.unpack_from("=IH", datagram, at)
        if kind == NFT_MSG_NEWSETELEM:
            yield from inner(datagram[at + 20:at + length], SET_ELEM_LIST_ELEMENTS, 1, SET_ELEM_DATA,
                             DATA_VALUE)
        at += length + 3 & ~3


class Observer:
    """Listens in this thread's network namespace from now on."""

    def __init__(self):
        self.seen = []  # (time.monotonic(), datagram)
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, 33, BUFFER)  # SO_RCVBUFFORCE
        except PermissionError:
            pass  # loses some if there are very many: raises in the thread
        self.sock.bind((0, 0))
        self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTABLES)
        self.sock.settimeout(0.5)
        self.ending = False
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        while True:
            try:
                data = self.sock.recv(1 << 20)
                self.seen.append((time.monotonic(), data))
            except TimeoutError:
                if self.ending:
                    return

    def end(self):
        """{value of a map: when it was there first}"""
        self.ending = True
        self.thread.join()
        self.sock.close()
        times = {}
        for when, datagram in self.seen:
            for value in new_values(datagram):
                times.setdefault(value, when)
        return times
