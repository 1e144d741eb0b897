"""Weeks of published traces as instances: which options of a reader make week N."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from alloc.errors import InstanceError, nearest

WEEK_S = 7 * 86_400.0
"""Seconds in a week."""
LOAD = 0.9
"""GPU time asked for over GPU time, where the size of the cluster is not published: busy, and it
can be served."""
PHILLY_START = date(2017, 9, 4)
"""First day of Philly's job table, a Monday."""
WEEKS = {"itp": 9, "philly": 16}
"""Weeks of each table: ITP's 60 days from its clock's start, Philly's 109 from `PHILLY_START`; the
last one is cut short."""
_SIZES = ("load", "cluster_gpus", "num_hosts", "topology", "vcs", "machines")


def week_options(kind: str, path: Path, week: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a reader that make a week of a trace.

    What is given counts; where nothing says how large the cluster is, it is sized for `LOAD`.

    Parameters
    ----------
    kind
        ``itp`` or ``philly``.
    path
        The job table; the name of the instance begins with its name.
    week
        Number of the week, from 1.
    given
        Options that the user has set.

    Raises
    ------
    InstanceError
        If the trace has no weeks or not so many, or a window is given as well.
    """
    if kind not in WEEKS:
        raise InstanceError(
            f'--week: is for {" and ".join(WEEKS)}, and this is "{kind}"'
            f"{nearest(kind, WEEKS, ';')} "
            "cut a window with -O start_s and -O length_s instead."
        )
    if not 1 <= week <= WEEKS[kind]:
        raise InstanceError(f"--week: is {week}; {kind} has the weeks 1 to {WEEKS[kind]}.")
    for option in ("start", "start_s", "length_s"):
        if option in given:
            raise InstanceError(f"--week: {option} is given as well; leave one of them out.")
    stem = path.name.partition(".")[0]
    part = f"-{given['vc']}" if "vc" in given else ""
    made: dict[str, Any] = {"length_s": str(WEEK_S), "name": f"{kind}-{stem}{part}-week-{week:02d}"}
    if kind == "itp":
        made["start_s"] = str((week - 1) * WEEK_S)
    else:
        made["start"] = (PHILLY_START + timedelta(weeks=week - 1)).isoformat()
    if not any(option in given for option in _SIZES):
        made["load"] = str(LOAD)
    return {**made, **given}
