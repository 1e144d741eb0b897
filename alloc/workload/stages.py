"""Stages: the parts of a job that is a graph, each with its work and the ways to run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.units import require_positive
from alloc.workload.configuration import Configuration


@dataclass(frozen=True)
class Stage:
    """A part of a job, which starts when those before it have ended.

    Parameters
    ----------
    id
        Unique in its job, not empty.
    work
        Its work, in the work units of the configurations' rates, more than 0.
    configurations
        The ways it can run, at least one.
    predecessors
        Ids of the stages of its job that end before it starts.
    """

    id: str
    work: float
    configurations: tuple[Configuration, ...]
    predecessors: tuple[str, ...] = ()

    @property
    def min_run_s(self) -> float:
        """Least time in which it can be done, seconds."""
        return self.work / max(configuration.rate for configuration in self.configurations)


def order_of(stages: Sequence[Stage], where: str) -> tuple[int, ...]:
    """Return the positions of the stages of a job, each after its predecessors.

    Parameters
    ----------
    stages
        The stages.
    where
        Whose they are, for messages.

    Raises
    ------
    InstanceError
        If the predecessors go round in a circle; the message names it.
    """
    position = {stage.id: k for k, stage in enumerate(stages)}
    before = [{position[p] for p in stage.predecessors} for stage in stages]
    after: list[list[int]] = [[] for _ in stages]
    for k, its in enumerate(before):
        for p in its:
            after[p].append(k)
    waits = [len(its) for its in before]
    order = [k for k, count in enumerate(waits) if not count]
    for k in order:  # grows as it goes
        for follower in after[k]:
            waits[follower] -= 1
            if not waits[follower]:
                order.append(follower)
    if len(order) < len(stages):
        stuck, path = {*range(len(stages))} - {*order}, list[int]()
        at = min(stuck)
        while at not in path:
            path.append(at)
            at = min(before[at] & stuck)
        circle = [stages[k].id for k in reversed([*path[path.index(at) :], at])]
        raise InstanceError(
            f"{where}: its stages go round in a circle: {' -> '.join(circle)}; take one of the "
            "predecessors out."
        )
    return tuple(order)


def require_stages(stages: Sequence[Stage], where: str) -> None:
    """Refuse stages of a job that are no graph, or that cannot run.

    Parameters
    ----------
    stages
        Stages of one job, in any order.
    where
        Whose stages they are, for the message.

    Raises
    ------
    InstanceError
        If an id is empty, unknown or there twice, a stage has no work or no configuration that
        does any, or the predecessors go round in a circle.
    """
    ids = [stage.id for stage in stages]
    for stage_id, count in Counter(ids).items():
        if not stage_id:
            raise InstanceError(f"{where}: a stage has an empty id; give every stage a unique id.")
        if count > 1:
            raise InstanceError(
                f'{where}: stage "{stage_id}" is there {count} times; ids are unique in a job.'
            )
    for stage in stages:
        its = f'{where}, stage "{stage.id}"'
        require_positive(stage.work, its, "work")
        if not any(configuration.rate > 0 for configuration in stage.configurations):
            raise InstanceError(
                f"{its}: has no configuration with a rate above 0; give at least one way to run it."
            )
        for before in stage.predecessors:
            if before not in ids:
                raise InstanceError(
                    f'{its}: its predecessor "{before}" is no stage of the job'
                    f"{nearest(before, ids, '.')} Predecessors are ids of stages of the same job."
                )
    order_of(stages, where)
