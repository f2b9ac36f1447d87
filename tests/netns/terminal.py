# SPDX-License-Identifier: GPL-2.0-or-later
"""What a subcommand prints on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from daemon import BINARY, environment


def on_terminal(namespace, columns: int, *arguments: str, **variables: str) -> list[str]:
    """The lines that a terminal gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    with namespace.inside():
        process = subprocess.Popen(
            [str(BINARY), *arguments], stdin=subprocess.DEVNULL, stdout=theirs, env=environment() | variables
        )
    os.close(theirs)
    text = b""
    try:
        while more := os.read(ours, 65536):
            text += more
    except OSError:  # what a terminal says when nobody has its other end
        pass
    os.close(ours)
    assert process.wait(20) == 0
    return text.decode().splitlines()
