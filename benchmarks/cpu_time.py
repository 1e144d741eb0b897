"""CPU time of processes and of all that they started, from Linux's table of processes."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_s(root: int) -> tuple[float, float]:
    """Return the CPU time of a process and that of its living descendants, seconds.

    Parameters
    ----------
    root
        Id of the process.
    """
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            pid = int(folder.name)
            parents[pid] = int(fields[1])
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    family, last = {root}, 0
    while len(family) > last:
        last = len(family)
        family |= {pid for pid, parent in parents.items() if parent in family}
    return used.get(root, 0.0), sum(used.get(pid, 0.0) for pid in family - {root})
