# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes on beside a test."""

import threading
import typing


class Background(threading.Thread):
    """run() goes on until .ended is set: at the end of the with-block, or by stop()."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()

    def __enter__(self) -> typing.Self:
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def stop(self) -> None:
        self.ended.set()
        self.join()
