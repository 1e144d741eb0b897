"""Where GPUs may take time to move from job to job: what `Instance.move_s` is counted for."""

from __future__ import annotations

from collections.abc import Iterable

from alloc.errors import InstanceError
from alloc.units import MILLI, require_time
from alloc.workload import Job


def require_moving(move_s: float, parts: Iterable[Job], where: str, *, is_plain: bool) -> None:
    """Refuse a time to move GPUs where runs are not what it is counted for.

    Parameters
    ----------
    move_s
        The time, seconds.
    parts
        The jobs, each stage as one.
    where
        Whose they are, for messages.
    is_plain
        Whether the instance has continuous time, an empty cluster at its start, and no outages.

    Raises
    ------
    InstanceError
        If a part may pause or change its configuration, or takes parts of GPUs, or the instance is
        not plain.
    """
    require_time(move_s, where, "move_s")
    missing = None if is_plain else "continuous time from an empty cluster whose hosts stay up"
    for part in parts if is_plain else ():
        groups = [group for c in part.configurations for group in c.tasks]
        if part.preemptible or part.elasticity == "malleable":
            missing = f'jobs that run once, and "{part.id}" may pause or change'
        elif any(group.gpu_milli % MILLI or group.mig_profile for group in groups):
            missing = f'whole GPUs, and "{part.id}" takes parts of some'
    if missing is not None:
        raise InstanceError(
            f"{where}: move_s is {move_s:g}, which is for {missing}; leave move_s out, or change "
            "that (elasticity moldable or rigid, preemptible false)."
        )
