# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections that come at a steady pace, and connections that stay."""

import time

from background import Background
from daemon import wait_for
from lab import Lab, ask_on

INTERVAL = 0.01  # between new connections of each kind, in seconds


class Steady(Background):
    """A new connection each INTERVAL, or a new flow of UDP; each is asked once. Nothing is tried again."""

    def __init__(self, lab: Lab, address: str, protocol: str, good: set[str]) -> None:
        super().__init__()
        self.lab = lab
        self.target = address, 80, protocol
        self.good = good
        self.asked = 0
        self.bad: list[str] = []

    def run(self) -> None:
        while not self.ended.wait(INTERVAL):
            answer = self.lab.ask(self.lab.client, *self.target)
            self.asked += 1
            if answer not in self.good:
                self.bad.append(f"{answer} from {self.target} at {time.monotonic():.3f}")

    def wait_more(self, number: int) -> None:
        """Until it has asked so many times more: on a busy machine the pace is what it is."""
        until = self.asked + number
        wait_for(lambda: self.asked >= until, f"{number} more connections", 60)


class Kept:
    """A connection that stays open."""

    def __init__(self, lab: Lab, address: str, protocol: str) -> None:
        self.sock = lab.open(lab.client, address, 80, protocol, timeout=2)
        self.first = ask_on(self.sock)

    def check(self) -> None:
        assert ask_on(self.sock) == self.first
