"""A cluster in operation: nodes that can be switched on as one of several types, jobs, a plan.

A decision is taken when a job arrives or completes: which nodes are on and as which type, and which
job runs where on how many GPUs until the next decision. Times are in seconds since the start,
money in one currency, energy in kWh.

References
----------
F. Filippini et al., "ANDREAS: Artificial intelligence traiNing scheDuler foR accElerAted resource
clusterS", FiCloud 2021, arXiv:2105.05080; F. Filippini et al., "A Path Relinking Method for the
Joint Online Scheduling and Capacity Allocation of DL Training Workloads in GPU as a Service
Systems", IEEE Trans. Services Computing 16(3), 2023, doi:10.1109/TSC.2022.3188440.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.problems.operation.jobs import EarlyStop as EarlyStop
from alloc.problems.operation.jobs import OperationJob as OperationJob
from alloc.problems.operation.nodes import NodePool as NodePool
from alloc.problems.operation.nodes import NodeType as NodeType
from alloc.tabular import Tabular
from alloc.units import HOUR_S, require_non_negative, require_positive, require_time

Accounting = Literal["first-completion", "whole-job"]


@dataclass(frozen=True)
class RunningJob:
    """A job that runs now: on which node, switched on as which type, on how many GPUs.

    Parameters
    ----------
    job
        Id of the job.
    node
        Id of the node.
    type
        What the node is switched on as.
    gpus
        GPUs that the job holds.
    """

    job: str
    node: str
    type: str
    gpus: int


@dataclass(frozen=True)
class OperationProblem(Problem):
    """A decision in operation: nodes, jobs, what runs now, and what counts.

    Parameters
    ----------
    name
        Name for people.
    types
        The types of nodes, names unique, at least one, all in `currency`.
    pools
        The nodes, names of pools unique.
    jobs
        The jobs that have arrived and are not complete, ids unique, at least one.
    now_s
        The time of the decision, seconds since the start.
    replan_s
        Time to the next decision at the latest, seconds: a job that is postponed waits so long.
    postponement_factor
        Weight of the tardiness to be feared of jobs that are postponed, 0 or more (the papers'
        rho). It is the tardiness after a wait of `replan_s` in the slowest way to run.
    currency
        Currency of all money in the problem.
    energy_price_per_kwh
        Price of energy, money per kWh, 0 or more.
    power_cap_w
        Most power of all nodes, watts; ``None``: none.
    running
        What runs now: going on as before saves a restart.
    accounting
        What a plan is charged for its nodes. ``first-completion``, as in the papers: each node
        until the first of its jobs completes, when a new decision is taken. ``whole-job``: each
        job its share of a full node until it completes, and the rest of the node's rate until the
        first completion; a postponed job the least share it will cost later. The first is blind
        to what follows the first completion; the second is the better guide over time.
    """

    name: str
    types: tuple[NodeType, ...]
    pools: tuple[NodePool, ...]
    jobs: tuple[OperationJob, ...]
    now_s: float = 0.0
    replan_s: float = HOUR_S
    postponement_factor: float = 1.0
    currency: str = "EUR"
    energy_price_per_kwh: float = 0.0
    power_cap_w: float | None = None
    running: tuple[RunningJob, ...] = ()
    accounting: Accounting = "first-completion"

    def __post_init__(self) -> None:
        where = f'problem "{self.name}"'
        require_time(self.now_s, where, "now_s")
        require_time(self.replan_s, where, "replan_s")
        require_non_negative(self.postponement_factor, where, "postponement_factor")
        require_non_negative(self.energy_price_per_kwh, where, "energy_price_per_kwh")
        if self.power_cap_w is not None:
            require_positive(self.power_cap_w, where, "power_cap_w")
        if self.accounting not in get_args(Accounting):
            raise InstanceError(
                f'{where}: accounting is "{self.accounting}"'
                f"{nearest(str(self.accounting), get_args(Accounting), ';')} "
                f"known: {', '.join(get_args(Accounting))}."
            )
        _require_unique((t.name for t in self.types), where, "node type")
        _require_unique((p.name for p in self.pools), where, "node pool")
        _require_unique((n for p in self.pools for n in p.nodes), where, "node")
        _require_unique((j.id for j in self.jobs), where, "job")
        self._check_types(where)
        for job in self.jobs:
            self._check_job(job)
        self._check_running()

    def _check_types(self, where: str) -> None:
        for node_type in self.types:
            if node_type.price_per_h and node_type.currency != self.currency:
                raise InstanceError(
                    f'node type "{node_type.name}": its price is in {node_type.currency}, and '
                    f"{where} counts in {self.currency}; convert one of them."
                )
            if self.power_cap_w is not None and not node_type.power_w:
                raise InstanceError(
                    f'node type "{node_type.name}": has no power_w, and {where} has a power cap; '
                    "give the power of every type."
                )
        for pool in self.pools:
            for name in pool.types:
                if name not in self.type_index:
                    raise InstanceError(
                        f'node pool "{pool.name}": type "{name}" is not in types'
                        f"{nearest(name, self.type_index, '; name one of the types.')}"
                    )

    def _check_job(self, job: OperationJob) -> None:
        where = f'job "{job.id}"'
        if job.arrival_s > self.now_s:
            raise InstanceError(
                f"{where}: arrives at {job.arrival_s:g} s, after now, {self.now_s:g} s; leave "
                "future jobs out of a decision."
            )
        possible = False
        for name, times in job.duration_s.items():
            if name not in self.type_index:
                raise InstanceError(
                    f'{where}: duration_s names the node type "{name}", which is not in types'
                    f"{nearest(name, self.type_index, '; add the type or drop this.')}"
                )
            gpus = self.type(name).num_gpus
            if len(times) > gpus:
                raise InstanceError(
                    f'{where}: has a duration for {len(times)} GPUs on "{name}", which has {gpus}; '
                    "a job runs on one node."
                )
            possible = possible or (
                name in self.offered_types and any(t is not None for t in times)
            )
        if not possible:
            offered = ", ".join(sorted(self.offered_types))
            raise InstanceError(
                f"{where}: can run on no type that a pool offers ({offered}); "
                "add a pool or a duration."
            )

    def _check_running(self) -> None:
        jobs = {job.id for job in self.jobs}
        _require_unique((r.job for r in self.running), "running", "job")
        for running in self.running:
            where = f'running job "{running.job}"'
            if running.job not in jobs:
                cure = nearest(running.job, jobs, "; add the job or drop this.")
                raise InstanceError(f"{where}: is not in jobs{cure}")
            if running.node not in self.pool_of_node:
                cure = nearest(running.node, self.pool_of_node, "; name one of the nodes.")
                raise InstanceError(f'{where}: node "{running.node}" is in no pool{cure}')
            if running.type not in self.pool_of_node[running.node].types:
                raise InstanceError(
                    f'{where}: node "{running.node}" cannot be of type "{running.type}"; its pool '
                    f"offers {', '.join(self.pool_of_node[running.node].types)}."
                )
            if not 1 <= running.gpus <= self.type(running.type).num_gpus:
                raise InstanceError(
                    f'{where}: holds {running.gpus} GPUs of a "{running.type}", which has '
                    f"{self.type(running.type).num_gpus}."
                )
        self._check_nodes_of_running()

    def _check_nodes_of_running(self) -> None:
        """Refuse nodes that are two types at once, or hold more than they have."""
        on: dict[str, tuple[RunningJob, int]] = {}
        for running in self.running:
            first, held = on.get(running.node, (running, 0))
            where = f'running jobs "{first.job}" and "{running.job}"'
            if running.type != first.type:
                raise InstanceError(
                    f'{where}: node "{running.node}" is of type "{first.type}" for one and of '
                    f'"{running.type}" for the other; a node is one of them.'
                )
            on[running.node] = first, held + running.gpus
            most = self.type(running.type).num_gpus
            if held + running.gpus > most:
                raise InstanceError(
                    f'{where}: jobs on node "{running.node}" hold {held + running.gpus} GPUs '
                    f'together, and a "{running.type}" has {most}.'
                )

    @cached_property
    def type_index(self) -> dict[str, int]:
        """Position of each type."""
        return {node_type.name: v for v, node_type in enumerate(self.types)}

    @cached_property
    def offered_types(self) -> frozenset[str]:
        """Names of the types that a node can be switched on as: those of some pool."""
        return frozenset(name for pool in self.pools for name in pool.types)

    @cached_property
    def job_index(self) -> dict[str, int]:
        """Position of each job."""
        return {job.id: j for j, job in enumerate(self.jobs)}

    @cached_property
    def pool_of_node(self) -> dict[str, NodePool]:
        """Pool of each node."""
        return {node: pool for pool in self.pools for node in pool.nodes}

    @cached_property
    def running_as(self) -> dict[str, RunningJob]:
        """What each running job runs as."""
        return {running.job: running for running in self.running}

    def type(self, name: str) -> NodeType:
        """Return the type of that name."""
        return self.types[self.type_index[name]]

    def rate_per_h(self, node_type: NodeType, gpus: int) -> float:
        """Return what a node costs with so many GPUs in use, money per hour, energy included.

        Parameters
        ----------
        node_type
            The type of the node.
        gpus
            GPUs in use, 0 (the node is off) to those of the node.
        """
        energy = node_type.power_at(gpus) / 1000 * self.energy_price_per_kwh
        return node_type.price_at(gpus) + energy

    def duration(self, job: OperationJob, node_type: str, gpus: int) -> float | None:
        """Return the time to completion if the job runs so from now on, seconds, or None.

        Parameters
        ----------
        job
            The job.
        node_type
            Name of the type of node that it runs on.
        gpus
            GPUs that it holds there.
        """
        times = job.duration_s.get(node_type, ())
        time = times[gpus - 1] if 1 <= gpus <= len(times) else None
        if time is None:
            return None
        now = self.running_as.get(job.id)
        goes_on = now is not None and (now.type, now.gpus) == (node_type, gpus)
        return time if goes_on else time + job.restart_s

    def worst_duration(self, job: OperationJob) -> float:
        """Return the longest time that any way to run the job on these nodes takes, seconds."""
        known = (
            time
            for name, times in job.duration_s.items()
            if name in self.offered_types
            for time in times
            if time is not None
        )
        return max(known) + job.restart_s


def _require_unique(names: Iterable[str], where: str, noun: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InstanceError(f'{where}: {noun} "{name}" appears twice; names must be unique.')
        seen.add(name)
    if not seen and where != "running":
        raise InstanceError(f"{where}: has no {noun}; give at least one.")


@dataclass(frozen=True)
class NodePlan:
    """A node that is on.

    Parameters
    ----------
    node
        Id of the node.
    type
        What it is switched on as.
    jobs
        The jobs on it, each with its number of GPUs; at least one.
    """

    node: str
    type: str
    jobs: tuple[tuple[str, int], ...]

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return sum(gpus for _, gpus in self.jobs)


@dataclass(frozen=True)
class OperationPlan(Tabular):
    """What is on and what runs until the next decision; nodes that are not named are off.

    Parameters
    ----------
    nodes
        The nodes that are on.
    postponed
        Ids of the jobs that wait.
    """

    nodes: tuple[NodePlan, ...]
    postponed: tuple[str, ...] = ()

    @cached_property
    def place_of(self) -> dict[str, tuple[NodePlan, int]]:
        """The node and the GPUs of each job that runs."""
        return {job: (node, gpus) for node in self.nodes for job, gpus in node.jobs}
