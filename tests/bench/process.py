# SPDX-License-Identifier: GPL-2.0-or-later
"""What a process uses, from its clock and /proc."""

import os
import pathlib
import re
import time


def cpu_seconds(pid):
    """What a process has used, by its CPU clock (clock_getcpuclockid). What the kernel does in its
    system calls is in it."""
    return time.clock_gettime((~pid << 3) | 2)


def memory(pid):
    """Resident memory, the part of it that is no file's, and the most that there ever was, in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()

    def field(name):
        return int(re.search(rf"{name}:\s*(\d+) kB", status)[1]) * 1024

    return {"resident": field("VmRSS"), "anonymous": field("RssAnon"), "peak": field("VmHWM")}


def wake_ups(pid):
    """How often its threads have gone to sleep, which is how often they were woken. A thread that was
    only sent off a busy CPU was not asleep."""
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(),
                             re.M)[1])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def ended(process):
    """CPU seconds and peak bytes of a child that has closed its output: waits for it."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {"cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}


def ksoftirqd(processor):
    """The folder in /proc of the thread that takes over packets from a busy processor; None where it cannot
    be seen."""
    for name in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if name.read_text() == f"ksoftirqd/{processor}\n":
                return name.parent
        except OSError:
            continue  # it ended meanwhile
    return None


def running_time(folder):
    """Nanoseconds of CPU time of a thread with that folder in /proc; 0 without one."""
    return int((folder / "schedstat").read_text().split()[0]) if folder else 0


class Machine:
    """CPU seconds of the whole machine, interrupts and all, since it was made: to the hundredth."""

    def __init__(self):
        self.clock, self.idle = time.monotonic(), self._idle()

    @staticmethod
    def _idle():
        """Of all processors together."""
        return float(pathlib.Path("/proc/uptime").read_text().split()[1])

    def busy(self):
        return (time.monotonic() - self.clock) * os.cpu_count() - (self._idle() - self.idle)
