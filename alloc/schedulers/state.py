"""What a scheduler sees, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from alloc.packing import HostPool
from alloc.solution import Assignment
from alloc.topology import Topology
from alloc.workload import Configuration

Knowledge = Literal["exact", "estimate", "none"]


@dataclass
class JobView:
    """A job as a scheduler may see it at the time of a decision.

    The experiment decides what is known: with ``exact`` knowledge the numbers are the truth, with
    ``estimate`` they carry the error that the experiment set, with ``none`` work and remaining
    work are None.

    Parameters
    ----------
    id
        Job id.
    arrival_s
        Arrival, seconds.
    configurations
        The ways it can run, with rates as known.
    weight
        Importance.
    work, work_left
        Total and remaining work as known, work units, or None when unknown.
    attained_gpu_s
        GPU time received so far, GPU seconds (LAS).
    started_s
        First start, seconds, or None.
    current
        What it runs now, or None.
    """

    id: str
    arrival_s: float
    configurations: tuple[Configuration, ...]
    weight: float
    work: float | None
    work_left: float | None
    attained_gpu_s: float = 0.0
    started_s: float | None = None
    current: Assignment | None = None
    preemptible: bool = True
    model: str | None = None
    tenant: str | None = None


@dataclass
class ClusterState:
    """What a scheduler may look at: the time, the jobs in the system, the cluster.

    Parameters
    ----------
    now_s
        Time of the decision, seconds.
    slot_s
        Length of the coming slot, seconds, or None in continuous time.
    jobs
        Jobs that have arrived and are not complete, in order of arrival (ties: instance order).
    topology
        The cluster.
    pool
        Free capacity: in rounds the empty cluster; in continuous time what running jobs leave.
        A scheduler may take from it while it decides.
    quotas
        Most GPU of each tenant, milli-GPU.
    knowledge
        What the scheduler was given.
    rng
        The experiment's random generator, for policies that draw.
    """

    now_s: float
    slot_s: float | None
    jobs: Sequence[JobView]
    topology: Topology
    pool: HostPool
    quotas: Mapping[str, int]
    knowledge: Knowledge
    rng: np.random.Generator


@dataclass(frozen=True)
class Decision:
    """What a scheduler wants from now on.

    Parameters
    ----------
    assign
        Jobs with the configuration and hosts they get from now on.
    release
        Running jobs to pause. In rounds every job that is not in `assign` is paused anyway.
    notes
        Counters for the report, for example fallbacks of a rolling horizon.
    """

    assign: tuple[Assignment, ...] = ()
    release: tuple[str, ...] = ()
    notes: Mapping[str, float] = field(default_factory=dict)


class Scheduler(Protocol):
    """A scheduling policy.

    `name` is unique; `needs` is the least knowledge it works with (``none`` for policies that never
    look at work); `information` says in one sentence what it uses.
    """

    name: str
    needs: Knowledge
    information: str

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        ...

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        ...
