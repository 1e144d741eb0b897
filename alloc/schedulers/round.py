"""A round: who has been given what so far, while a policy makes up its mind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.ladder import (
    SERVER,
    WORKER,
    GangLadder,
    Ladder,
    LadderCache,
    Level,
    TaskLadder,
    gang_ladder,
)
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.workload import Configuration

Watch = Callable[[str, str], None]
"""Told of each task that is given out, as it is: job id and role."""


class Outcome(Enum):
    """What came of a step."""

    GRANTED = "granted"
    MISFIT = "misfit"
    """The rules of placement found no room."""
    TOP = "top"
    """There is no further step for this job, or its tenant's quota forbids it."""


@dataclass(slots=True)
class Grant:
    """What one job has been given: tasks one by one, or a configuration as a whole."""

    view: JobView
    ladder: Ladder
    workers: int = 0
    servers: int = 0
    on_hosts: dict[tuple[int, str], int] = field(default_factory=dict)
    bundles_on: list[int] = field(default_factory=list)
    configuration: int | None = None
    tasks: tuple[TaskPlacement, ...] = ()

    @property
    def reached(self) -> int | None:
        """The configuration that the job could run now, or None if it has too little for any."""
        if isinstance(self.ladder, TaskLadder):
            return self.ladder.index.get((self.workers, self.servers))
        return self.configuration

    @property
    def rate(self) -> float:
        """Rate of that configuration as seen, work units per second; 0 if there is none."""
        reached = self.reached
        return 0.0 if reached is None else self.view.configurations[reached].rate

    @property
    def demand(self) -> tuple[int, ...]:
        """All that the job holds, in the order of `Configuration.demand`."""
        if isinstance(self.ladder, TaskLadder):
            return tuple(
                self.workers * w + self.servers * u
                for w, u in zip(self.ladder.worker, self.ladder.server, strict=True)
            )
        if self.configuration is None:
            return tuple(0 for _ in self.view.configurations[0].demand)
        return self.view.configurations[self.configuration].demand


class Round:
    """Gives out tasks and gangs from a pool of hosts and keeps count.

    Tasks go, as in DL2's evaluation, to the least loaded host: the one with the smallest sum of the
    used fractions of its GPUs and of its CPUs, ties to the first. Where a task does not fit on that
    host, it does not fit. (DL2 adds up used slots, 8 CPU and 8 GPU slots a host; on its hosts the
    two sums order hosts alike.) Gangs stay on their hosts or go to the best fit.

    Parameters
    ----------
    state
        What the policy sees.
    ladders
        Ladders of the jobs.
    pool
        Where to take from.
    held
        GPU that tenants with a quota hold already, milli-GPU.
    watch
        Told of each task that is given out, or None. What is taken back later was told all the
        same.
    """

    def __init__(
        self,
        state: ClusterState,
        ladders: LadderCache,
        pool: HostPool,
        held: dict[str, int],
        watch: Watch | None = None,
    ) -> None:
        self.state = state
        self.pool = pool
        self.grants: dict[str, Grant] = {}
        self.pinned: dict[str, tuple[JobView, Assignment]] = {}
        self._ladders = ladders
        self._held = held
        self._watch = watch
        self._load: npt.NDArray[np.float64] | None = None

    def grant_of(self, view: JobView) -> Grant:
        """Return what a job has been given, nothing at first."""
        grant = self.grants.get(view.id)
        if grant is None:
            grant = self.grants[view.id] = Grant(view, self._ladders.get(view, self.state.topology))
        return grant

    def pin(self, views: Iterable[JobView]) -> None:
        """Let running jobs keep what they have; the round is for the others."""
        for view in views:
            current = view.current
            if current is None:
                continue
            configuration = view.configurations[current.configuration]
            if current.tasks:
                self.pool.take(configuration, current.tasks)
            else:
                placed = self.pool.place(configuration, required=view.placement.required)
                if placed is None:
                    continue
                current = Assignment(view.id, current.configuration, placed)
            self._add_held(view, configuration.demand[0])
            self.pinned[view.id] = (view, current)
        self._load = None

    def step(self, view: JobView) -> Outcome:
        """Give a job its next bundle (one worker and one PS on one host) or its next gang."""
        grant = self.grant_of(view)
        if isinstance(grant.ladder, GangLadder):
            return self._step_gang(grant)
        pair = grant.ladder.next_pair(grant.workers)
        if pair is None:
            return Outcome.TOP
        bundle = ((WORKER, grant.ladder.worker), (SERVER, grant.ladder.server))
        return self._give(grant, bundle, pair - grant.workers)

    def step_task(self, view: JobView, role: str, count: int) -> Outcome:
        """Give a job more tasks of one role, each on the host least loaded by then."""
        grant = self.grant_of(view)
        assert isinstance(grant.ladder, TaskLadder)
        demand = grant.ladder.worker if role == WORKER else grant.ladder.server
        return self._give(grant, ((role, demand),), count)

    def next_level(self, view: JobView) -> Level | None:
        """Return the next level of a job's gangs that is faster and within quota, or None."""
        grant = self.grant_of(view)
        assert isinstance(grant.ladder, GangLadder)
        configurations = view.configurations
        for level in grant.ladder.levels:
            if any(configurations[c].rate > grant.rate for c in level.configurations) and (
                self.allows(view, level.demand[0] - grant.demand[0])
            ):
                return level
        return None

    def next_demand(self, view: JobView) -> tuple[int, ...]:
        """Return what a job's next level asks for on top of what it has; nothing at its top."""
        level, held = self.next_level(view), self.grant_of(view).demand
        if level is None:
            return tuple(0 for _ in held)
        return tuple(a - b for a, b in zip(level.demand, held, strict=True))

    def fill(self, view: JobView) -> Outcome:
        """Give a job as much as it takes: bundles to the top, or the fastest gang that fits."""
        grant = self.grant_of(view)
        if isinstance(grant.ladder, GangLadder):
            return self._fill_gang(grant, grant.ladder)
        while (outcome := self.step(view)) is Outcome.GRANTED:
            pass
        return outcome

    def give(self, view: JobView, c: int) -> Outcome:
        """Give a job one configuration as a whole: on the hosts it has, else those of best fit."""
        grant = self.grants[view.id] = Grant(view, gang_ladder(view))
        if not self.allows(view, view.configurations[c].demand[0]):
            return Outcome.TOP
        return Outcome.GRANTED if self._place(grant, c) else Outcome.MISFIT

    def give_on(self, view: JobView, host: int) -> bool:
        """Give a job one more bundle on a given host; return whether it fits there.

        On the way over a gap in its table the job may hold a pair that it cannot run; `trim` takes
        back what did not lead to one.
        """
        grant = self.grant_of(view)
        assert isinstance(grant.ladder, TaskLadder)
        demand = grant.ladder.bundle
        if not self.allows(view, demand[0]) or not self._take(host, demand):
            return False
        for role in (WORKER, SERVER):
            self._enter(grant, host, role, 1)
        grant.bundles_on.append(host)
        self._add_held(view, demand[0])
        return True

    def allows_bundle(self, view: JobView) -> bool:
        """Return whether more bundles are of use to a job and its tenant's quota allows one."""
        grant = self.grant_of(view)
        if not isinstance(grant.ladder, TaskLadder):
            return False
        further = grant.ladder.next_pair(grant.workers) is not None
        return further and self.allows(view, grant.ladder.bundle[0])

    def trim(self) -> None:
        """Take back the last bundles of jobs that hold a pair they cannot run."""
        for grant in self.grants.values():
            while grant.bundles_on and grant.reached is None:
                assert isinstance(grant.ladder, TaskLadder)
                host = grant.bundles_on.pop()
                self._take(host, tuple(-amount for amount in grant.ladder.bundle))
                for role in (WORKER, SERVER):
                    self._enter(grant, host, role, -1)
                self._add_held(grant.view, -grant.ladder.bundle[0])

    def rescue(self, views: Iterable[JobView]) -> None:
        """If nobody runs at all, let the first job run that can, as fast as it can.

        The rule may start nothing on an empty cluster where hosts differ or pairs are missing from
        tables. That cannot happen on DL2's hosts and tables, and would leave jobs waiting for ever.
        """
        if self.pinned or any(grant.reached is not None for grant in self.grants.values()):
            return
        for grant in self.grants.values():
            if isinstance(grant.ladder, TaskLadder):
                for (host, role), count in grant.on_hosts.items():
                    demand = grant.ladder.worker if role == WORKER else grant.ladder.server
                    self._take(host, tuple(-amount * count for amount in demand))
                self._add_held(grant.view, -grant.demand[0])
        self.grants.clear()
        for view in views:
            ladder = gang_ladder(view)
            grant = self.grants[view.id] = Grant(view, ladder)
            if self._fill_gang(grant, ladder) is Outcome.GRANTED:
                return

    def decision(self, preempted: Sequence[JobView] = ()) -> Decision:
        """Return the decision that gives the jobs what they were given.

        Parameters
        ----------
        preempted
            In continuous time, running jobs that took part in the round: those that were given
            nothing are paused.
        """
        if not self.grants and not self.pinned and not preempted:
            return Decision()
        wanted = self._settle()
        if self.state.slot_s is not None:
            pinned = tuple(assignment for _, assignment in self.pinned.values())
            return Decision(assign=pinned + tuple(wanted.values()))
        return Decision(
            assign=tuple(
                assignment
                for job_id, assignment in wanted.items()
                if self.grants[job_id].view.current != assignment
            ),
            release=tuple(view.id for view in preempted if view.id not in wanted),
        )

    def _settle(self) -> dict[str, Assignment]:
        """Return the assignments, with jobs left on their hosts where that does no harm.

        A job that was served earlier may have been given hosts on which a job served later, in an
        unchanged configuration, is running. If all fit the other way round as well, nobody moves.
        Tasks given out one by one in slots are where DL2 puts them, whoever was there before.
        """
        wanted = {
            job_id: Assignment(job_id, reached, self._placements(grant))
            for job_id, grant in self.grants.items()
            if (reached := grant.reached) is not None
        }
        if not any(self._moved(assignment) for assignment in wanted.values()):
            return wanted
        pool = HostPool(self.state.topology)
        for view, assignment in self.pinned.values():
            pool.take(view.configurations[assignment.configuration], assignment.tasks)
        settled = dict(wanted)
        leaving: list[str] = []
        # Those that stand where they were put come first: nobody may go back to their hosts.
        for job_id, assignment in wanted.items():
            if not self._may_settle(job_id):
                view = self.grants[job_id].view
                pool.take(view.configurations[assignment.configuration], assignment.tasks)
        for job_id, assignment in wanted.items():
            if not self._may_settle(job_id):
                continue
            view = self.grants[job_id].view
            current = view.current
            configuration = view.configurations[assignment.configuration]
            if (
                current is not None
                and current.configuration == assignment.configuration
                and pool.fits(configuration, current.tasks)
            ):
                pool.take(configuration, current.tasks)
                settled[job_id] = current
            else:
                leaving.append(job_id)
        for job_id in leaving:
            assignment = wanted[job_id]
            view = self.grants[job_id].view
            configuration = view.configurations[assignment.configuration]
            placed = pool.place(configuration, required=view.placement.required)
            if placed is None:
                return wanted
            settled[job_id] = Assignment(job_id, assignment.configuration, placed)
        return settled

    def _may_settle(self, job_id: str) -> bool:
        tasks_in_slots = (
            isinstance(self.grants[job_id].ladder, TaskLadder) and self.state.slot_s is not None
        )
        return not tasks_in_slots

    def _moved(self, assignment: Assignment) -> bool:
        """Return whether a job goes on as before but on other hosts, without need."""
        current = self.grants[assignment.job].view.current
        return (
            current is not None
            and bool(current.tasks)
            and current.configuration == assignment.configuration
            and set(current.tasks) != set(assignment.tasks)
            and self._may_settle(assignment.job)
        )

    def _placements(self, grant: Grant) -> tuple[TaskPlacement, ...]:
        if not isinstance(grant.ladder, TaskLadder):
            return grant.tasks
        hosts = self.state.topology.hosts
        return tuple(
            TaskPlacement(hosts[h].id, role, count)
            for (h, role), count in sorted(grant.on_hosts.items())
            if count
        )

    # Tasks, one by one.

    def _give(
        self, grant: Grant, together: Sequence[tuple[str, tuple[int, ...]]], count: int
    ) -> Outcome:
        """Give a job `count` times the tasks of `together`, which share a host; or nothing."""
        demand = tuple(sum(amounts) for amounts in zip(*(d for _, d in together), strict=True))
        if not self.allows(grant.view, demand[0] * count):
            return Outcome.TOP
        chosen: list[int] = []
        for _ in range(count):
            h = int(self._loads().argmin())
            if not self._take(h, demand):
                for taken in chosen:
                    self._take(taken, tuple(-amount for amount in demand))
                return Outcome.MISFIT
            chosen.append(h)
        for h in chosen:
            for role, _ in together:
                self._enter(grant, h, role, 1)
        self._add_held(grant.view, demand[0] * count)
        return Outcome.GRANTED

    def _enter(self, grant: Grant, host: int, role: str, count: int) -> None:
        if self._watch is not None and count > 0:
            self._watch(grant.view.id, role)
        key = (host, role)
        grant.on_hosts[key] = grant.on_hosts.get(key, 0) + count
        if role == WORKER:
            grant.workers += count
        else:
            grant.servers += count

    def _take(self, host: int, demand: tuple[int, ...]) -> bool:
        """Take a demand from a host if it has that much."""
        row = self.pool.free[host]
        # Jobs that are given out task by task ask for nothing beyond GPU, CPU and memory.
        left = [have - need for have, need in zip(row.tolist(), demand, strict=True)]
        # What the task does not ask for cannot be short.
        if any(rest < 0 < need for rest, need in zip(left, demand, strict=True)):
            return False
        row[:] = left
        if self._load is not None:
            self._load[host] = self._loads_of(np.array([host]))[0]
        return True

    def _loads(self) -> npt.NDArray[np.float64]:
        if self._load is None:
            self._load = self._loads_of(np.arange(self.state.topology.num_hosts))
        return self._load

    def _loads_of(self, hosts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the load of hosts: used fraction of GPUs plus used fraction of CPUs."""
        capacity = self.state.topology.capacity[hosts, :2]
        used = capacity - self.pool.free[hosts, :2]
        fractions = used / np.maximum(capacity, 1)
        # Equal loads must be equal numbers for the tie to go to the first host.
        return np.asarray(np.round(fractions.sum(axis=1), 12), dtype=np.float64)

    # Gangs.

    def _step_gang(self, grant: Grant) -> Outcome:
        """Raise a job to its next level: the smallest demand that is faster."""
        level = self.next_level(grant.view)
        if level is None:
            return Outcome.TOP
        faster = [c for c in level.configurations if grant.view.configurations[c].rate > grant.rate]
        placed = any(self._place(grant, c) for c in faster)
        return Outcome.GRANTED if placed else Outcome.MISFIT

    def _fill_gang(self, grant: Grant, ladder: GangLadder) -> Outcome:
        """Give a job the fastest configuration that fits."""
        configurations = grant.view.configurations
        choices: Sequence[int] = ladder.choices
        if len(choices) > 1:
            choices = sorted(choices, key=lambda c: -configurations[c].rate)
        outcome = Outcome.TOP
        for c in choices:
            if not self.allows(grant.view, configurations[c].demand[0]):
                continue
            if self._place(grant, c):
                return Outcome.GRANTED
            outcome = Outcome.MISFIT
        return outcome

    def _place(self, grant: Grant, c: int) -> bool:
        """Put a job on hosts in a configuration, in place of what it was given before."""
        view = grant.view
        configuration = view.configurations[c]
        before = grant.configuration
        if before is not None:
            self.pool.release(view.configurations[before], grant.tasks)
        current = view.current
        tasks: tuple[TaskPlacement, ...] | None
        if (
            current is not None
            and current.configuration == c
            and current.tasks
            and self.pool.fits(configuration, current.tasks)
        ):
            tasks = current.tasks
            self.pool.take(configuration, tasks)
        else:
            tasks = None
            if not self._too_large(configuration):
                tasks = self.pool.place(configuration, required=view.placement.required)
        if tasks is None:
            if before is not None:
                self.pool.take(view.configurations[before], grant.tasks)
            return False
        self._add_held(view, configuration.demand[0] - grant.demand[0])
        grant.configuration, grant.tasks = c, tasks
        self._load = None
        return True

    def _too_large(self, configuration: Configuration) -> bool:
        """Return whether a configuration asks for more GPU than is free: a cheap look first."""
        free = self.pool.free[:, 0]
        return not self.pool.open_gpus and configuration.demand[0] > int(np.add.reduce(free))

    # Quotas.

    def allows(self, view: JobView, gpu_milli: int) -> bool:
        """Return whether the quota of a job's tenant allows that much more GPU."""
        tenant = view.tenant
        if tenant is None or tenant not in self.state.quotas:
            return True
        return self._held.get(tenant, 0) + gpu_milli <= self.state.quotas[tenant]

    def _add_held(self, view: JobView, gpu_milli: int) -> None:
        if view.tenant in self.state.quotas and view.tenant is not None:
            self._held[view.tenant] = self._held.get(view.tenant, 0) + gpu_milli
