"""What an instance must be like for GPUs that take time to move, and for interference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alloc.errors import InstanceError
from alloc.units import MILLI, require_time
from alloc.workload import InterferenceTable, Job


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


def require_tables(
    tables: Sequence[InterferenceTable], parts: Iterable[Job], where: str, obstacle: str | None
) -> None:
    """Refuse tables of interference that do not fit an instance.

    Parameters
    ----------
    tables
        The tables.
    parts
        The jobs, each stage as one.
    where
        Whose they are, for messages.
    obstacle
        What the instance has beside them that rules them out, in words; None: nothing.

    Raises
    ------
    InstanceError
        If there is an obstacle, a GPU type has two tables, or a job that may share a GPU has
        no model that is in the tables.
    """
    if obstacle is not None:
        raise InstanceError(
            f"{where}: has interference and {obstacle}; speeds beside other jobs are worked out "
            "slot by slot, on hosts that stay up."
        )
    types = [table.gpu_type for table in tables]
    for gpu_type in types:
        if types.count(gpu_type) > 1:
            raise InstanceError(f'{where}: has two interference tables of "{gpu_type}"; keep one.')
    for part in parts:
        for configuration in part.configurations:
            if not any(group.shares_gpu for group in configuration.tasks):
                continue
            for table in tables:
                if configuration.gpu_type not in (None, table.gpu_type):
                    continue
                if part.model is None:
                    raise InstanceError(
                        f'job "{part.id}": may share a GPU of type "{table.gpu_type}" and names no '
                        "model; give one of the interference table's."
                    )
                table.position(part.model)
