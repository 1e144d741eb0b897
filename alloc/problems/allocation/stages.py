"""Stages of jobs in an instance: what ends before what, and the jobs that they are parts of.

Positions are those of `alloc.problems.allocation.instance.Instance.unfolded`, in which each stage
is a job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.problems.allocation.instance import Instance


@dataclass(frozen=True)
class Graph:
    """The precedences of an unfolded instance.

    Parameters
    ----------
    before, after
        Positions of what ends before each job starts, and of what waits for its end.
    owner
        Position in the instance of the job that each is a part of.
    parts
        Positions of the parts of each job of the instance.
    """

    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    owner: Sequence[int]
    parts: Sequence[range]


def graph_of(instance: Instance) -> Graph:
    """Return the precedences of an instance, unfolded.

    Parameters
    ----------
    instance
        The instance, as it is asked.
    """
    before: list[list[int]] = []
    owner: list[int] = []
    parts: list[range] = []
    for j, job in enumerate(instance.jobs):
        first = len(before)
        before += [[first + p for p in predecessors] for predecessors in job.predecessors]
        owner += [j] * (len(before) - first)
        parts.append(range(first, len(before)))
    after: list[list[int]] = [[] for _ in before]
    for k, predecessors in enumerate(before):
        for p in predecessors:
            after[p].append(k)
    return Graph(before, after, owner, parts)


def ends_of_jobs(instance: Instance, ends_s: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return when each job completes: with the last of its stages.

    Parameters
    ----------
    instance
        The instance, as it is asked.
    ends_s
        The completion of each job of it unfolded, seconds, or None; a job without one has none.
    """
    if instance.unfolded is instance:
        return {job.id: ends_s.get(job.id) for job in instance.jobs}
    return {job.id: _last([ends_s.get(part.id) for part in job.parts]) for job in instance.jobs}


def starts_of_jobs(
    instance: Instance, starts_s: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return when each job first ran: with the first of its stages, seconds, or None.

    Parameters
    ----------
    instance
        The jobs, as they were before `unfolded`.
    starts_s
        When each job of the instance unfolded first ran, seconds, by id; None: never.
    """
    if instance.unfolded is instance:
        return {job.id: starts_s.get(job.id) for job in instance.jobs}
    found: dict[str, float | None] = {}
    for job in instance.jobs:
        begun = [s for part in job.parts if (s := starts_s.get(part.id)) is not None]
        found[job.id] = min(begun, default=None)
    return found


def _last(ends: Sequence[float | None]) -> float | None:
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None
