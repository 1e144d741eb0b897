"""The exact optimum of each round (family F1), slot after slot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from alloc.errors import UnsupportedFeatureError
from alloc.objectives import round_utility
from alloc.packing import HostPool
from alloc.problems.allocation.instance import misfit
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.topology import HostType, Topology
from alloc.units import MILLI, RESOURCES

if TYPE_CHECKING:
    from alloc.solving import RoundMemory


class ExactRound:
    """Choose, in every slot, the configurations with the largest sum of utilities.

    Solves the multiple-choice knapsack of the round (`alloc.solving.allocate_round`) to optimality
    and places the result. Jobs that must not be paused keep what they have; a job that is bound to
    a configuration is offered only that one.

    Parameters
    ----------
    utility
        A round utility of `alloc.objectives`: ``progress`` (DL2's reward), ``remaining_time``
        (Optimus' drop in remaining time) or ``goodput``.

    References
    ----------
    The utilities are those of Peng et al., "Optimus", EuroSys 2018, and Peng et al., "DL2", IEEE
    TPDS 2021; choosing exactly is this project's yardstick for their greedy or learned choice.
    """

    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations"
    draws = False

    def __init__(self, utility: str = "progress") -> None:
        self._utility = round_utility(utility).name
        self._memory: RoundMemory | None = None  # made with the first round
        self.name = f"exact-{self._utility.replace('_', '-')}"

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._memory = None

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            In continuous time, where there are no rounds.
        """
        if state.slot_s is None:
            raise UnsupportedFeatureError(
                f"scheduler {self.name} allocates in rounds, but the instance has no slots; "
                "set slot_s."
            )
        from alloc.solving import RoundMemory, allocate_round

        kept, quotas = _keep(state)
        topology = _what_is_left(state.topology, state.pool) if kept else state.topology
        views = [
            view
            for view in state.jobs
            if view.id not in kept and (not kept or _fits(view, topology))
        ]
        if not views:
            return Decision(assign=tuple(kept.values()))
        if self._memory is None:
            self._memory = RoundMemory()
        chosen, notes = allocate_round(
            topology,
            [_offered(view) for view in views],
            state.slot_s,
            self._utility,
            quotas,
            memory=self._memory,
        )
        if state.pool.open_gpus:
            chosen = tuple([_around(assignment, state) for assignment in chosen])
        bound = {
            view.id: c
            for view in views
            if view.elasticity != "malleable" and (c := view.bound_to) is not None
        }
        if bound:
            chosen = tuple(
                [
                    dataclasses.replace(placed, configuration=bound[placed.job])
                    if placed.job in bound
                    else placed
                    for placed in chosen
                ]
            )
        return Decision(assign=(*kept.values(), *chosen), notes=dict(notes))


def _keep(state: ClusterState) -> tuple[dict[str, Assignment], Mapping[str, int]]:
    """Take what jobs that must not be paused keep; return that and the quotas they leave."""
    kept: dict[str, Assignment] = {}
    quotas = dict(state.quotas)
    for view in state.jobs:
        current = view.current
        if view.preemptible or current is None:
            continue
        configuration = view.configurations[current.configuration]
        state.pool.take(configuration, current.tasks)
        kept[view.id] = current
        if view.tenant is not None and view.tenant in quotas:
            quotas[view.tenant] = max(quotas[view.tenant] - configuration.demand[0], 0)
    return kept, quotas


def _fits(view: JobView, topology: Topology) -> bool:
    """Return whether a job could run at all on what is left."""
    return any(misfit(topology, c) is None for c in _offered(view).configurations if c.rate > 0)


def _what_is_left(topology: Topology, pool: HostPool) -> Topology:
    """Return a topology whose hosts offer only what is free in a pool.

    Of GPUs that are shared nothing is offered: what is free on them is lost to the round.
    """
    kinds: dict[tuple[str, tuple[int, ...]], HostType] = {}
    hosts = []
    for host, row in zip(topology.hosts, pool.free.tolist(), strict=True):
        key = (host.type, tuple(row))
        if key not in kinds:
            gpu, cpu, memory = row[: len(RESOURCES)]
            kinds[key] = dataclasses.replace(
                topology.host_type(host),
                name=f"{host.type}/{len(kinds)}",
                num_gpus=gpu // MILLI,
                cpu_milli=cpu if cpu >= MILLI // 100 else 0,  # less is not a share at all
                memory_mib=memory,
                links=(),
                resources=topology.host_amounts(row),
            )
        hosts.append(dataclasses.replace(host, type=kinds[key].name))
    return topology.replace(
        host_types=tuple(kinds.values()),
        hosts=tuple(hosts),
        links=(),
        resources=topology.cluster_amounts(pool.free[0].tolist()),
    )


def _around(assignment: Assignment, state: ClusterState) -> Assignment:
    """Return an assignment with the GPUs its tasks share counted without those already shared."""
    opened = state.pool.open_gpus
    topology = state.topology
    tasks = []
    for task in assignment.tasks:
        h = topology.host_index[task.host]
        if task.gpus and opened.get(h):
            num_gpus = topology.host_type(topology.hosts[h]).num_gpus
            closed = [g for g in range(num_gpus) if g not in opened[h]]
            task = dataclasses.replace(task, gpus=tuple(closed[g] for g in task.gpus))
        tasks.append(task)
    return dataclasses.replace(assignment, tasks=tuple(tasks))


def _offered(view: JobView) -> JobView:
    """Return the view of a job with only the configuration it is bound to."""
    if view.elasticity == "malleable" or (bound := view.bound_to) is None:
        return view
    first = [
        None if a is None else dataclasses.replace(a, configuration=0)
        for a in (view.current, view.last)
    ]
    return dataclasses.replace(
        view, configurations=(view.configurations[bound],), current=first[0], last=first[1]
    )


def exact_progress() -> ExactRound:
    """Maximise, exactly in every slot, the work done as a fraction of each job's whole work.

    This is DL2's reward. Jobs that must not be paused keep what they have.

    References
    ----------
    Peng et al., "DL2", IEEE TPDS 2021; choosing exactly is this project's yardstick.
    """
    return ExactRound("progress")


def exact_remaining_time() -> ExactRound:
    """Maximise, exactly in every slot, the drop in the jobs' remaining times.

    This is what Optimus chooses greedily. Jobs that must not be paused keep what they have.

    References
    ----------
    Peng et al., "Optimus", EuroSys 2018; choosing exactly is this project's yardstick.
    """
    return ExactRound("remaining_time")


def exact_goodput() -> ExactRound:
    """Maximise, exactly in every slot, the work done, each job's in its own units.

    Jobs that must not be paused keep what they have.
    """
    return ExactRound("goodput")
