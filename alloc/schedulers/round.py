"""A round: who has been given what so far, while a policy makes up its mind.

Parameters
----------
view, grant
    A job, and what it has in this round.
role, roles
    `WORKER` or ``ps``; those of a bundle stand together.
host, hosts
    Positions of hosts, one for each task of a role.
count, c
    Tasks to add, 1 or more; the position of a configuration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import is_

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.grant import BUNDLE, Grant, Outcome
from alloc.schedulers.ladder import (
    WORKER,
    GangLadder,
    Ladder,
    Level,
    TaskLadder,
    gang_ladder,
)
from alloc.schedulers.least_loaded import LeastLoaded
from alloc.schedulers.memory import Memory
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.workload import Configuration

Watch = Callable[[str, str], None]
"""Told of each task that is given out, as it is: job id and role."""

Tasks = tuple[TaskPlacement, ...]


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
    memory
        What the policy remembers from round to round.
    pool
        Where to take from.
    held
        GPU that tenants with a quota hold already, milli-GPU.
    watch
        Told of each task that is given out, also of those taken back later; or None.
    """

    def __init__(
        self,
        state: ClusterState,
        memory: Memory,
        pool: HostPool,
        held: dict[str, int],
        watch: Watch | None = None,
    ) -> None:
        self.state = state
        self.grants: dict[str, Grant] = {}
        self.pinned: dict[str, tuple[JobView, Assignment]] = {}
        self._memory = memory
        self._held = held
        self._watch = watch
        self._pool = pool
        # Where tasks are given out one by one: in step with the pool, written to it when needed.
        self._hosts: LeastLoaded | None = None

    @property
    def pool(self) -> HostPool:
        """Where all that was given is taken from."""
        if self._hosts is not None:
            self._hosts.write(self._pool.free)
        return self._pool

    @property
    def hosts(self) -> LeastLoaded:
        """The hosts in the order of their loads."""
        if self._hosts is None:
            self._hosts = self._memory.hosts(self.state.topology)
            self._hosts.read(self._pool.free)
        return self._hosts

    def grant_of(self, view: JobView) -> Grant:
        """Return what a job has been given, nothing at first."""
        grant = self.grants.get(view.id)
        if grant is None:
            grant = self.grants[view.id] = Grant(view, self.ladder_of(view))
        return grant

    def ladder_of(self, view: JobView) -> Ladder:
        """Return the ladder of a job, before it is given anything."""
        return self._memory.ladder(view, self.state.topology)

    def pin(self, views: Iterable[JobView]) -> None:
        """Let running jobs keep what they have; the round is for the others."""
        for view in views:
            current = view.current
            if current is None:
                continue
            if not current.tasks:
                configuration = view.configurations[current.configuration]
                placed = self.pool.place(configuration, required=view.placement.required)
                if placed is None:
                    continue
                self.pool.release(configuration, placed)
                current = Assignment(view.id, current.configuration, placed)
            self.put(view, current)

    def put(self, view: JobView, assignment: Assignment) -> None:
        """Give a job exactly this, on hosts that have room for it; in slots it stays there.

        Parameters
        ----------
        assignment
            Configuration and hosts, on which there is room.
        """
        configuration = view.configurations[assignment.configuration]
        self.pool.take(configuration, assignment.tasks)
        self._add_held(view, configuration.demand[0])
        self.pinned[view.id] = (view, assignment)
        self._hosts = None

    def step(self, view: JobView) -> Outcome:
        """Give a job its next bundle (one worker and one PS on one host) or its next gang."""
        grant = self.grant_of(view)
        if isinstance(grant.ladder, GangLadder):
            return self._step_gang(grant)
        pair = grant.ladder.next_pair(grant.workers)
        if pair is None:
            return Outcome.TOP
        return self._give_bundles(grant, grant.ladder, pair - grant.workers)

    def step_task(self, view: JobView, role: str, count: int) -> Outcome:
        """Give a job more tasks of one role, each on the host least loaded by then."""
        grant = self.grant_of(view)
        assert isinstance(grant.ladder, TaskLadder)
        demand = grant.ladder.worker if role == WORKER else grant.ladder.server
        if not self.allows(view, demand[0] * count):
            return Outcome.TOP
        if not self.give_tasks(grant, (role,), demand, count):
            return Outcome.MISFIT
        self._add_held(view, demand[0] * count)
        return Outcome.GRANTED

    @property
    def is_watched(self) -> bool:
        """Whether somebody is told of each task that is given out."""
        return self._watch is not None

    def give_tasks(
        self, grant: Grant, roles: Sequence[str], demand: tuple[int, ...], count: int
    ) -> bool:
        """Give a job so many more tasks of each role, whatever the quotas; return if they fit.

        Parameters
        ----------
        demand
            What one task of each role ask for together.
        """
        hosts = self.hosts.give_all(demand, count)
        if hosts is None:
            return False
        self.enter(grant, hosts, roles)
        return True

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
        ladder = self.ladder_of(view)
        if isinstance(ladder, GangLadder):
            return self._fill_gang(self.grant_of(view), ladder)
        if view.tenant in self.state.quotas:
            while (outcome := self.step(view)) is Outcome.GRANTED:
                pass
            return outcome
        # Without a quota in the way, all steps at once.
        grant = self.grants.get(view.id)
        before, top = grant.workers if grant else 0, ladder.pairs[-1]
        hosts = self.hosts.give_up_to(ladder.bundle, top - before)
        if not hosts:
            return Outcome.TOP if before >= top else Outcome.MISFIT
        reached = before + len(hosts)
        if reached < top:
            kept = bisect_right(ladder.pairs, reached)
            surplus = reached - max(before, ladder.pairs[kept - 1] if kept else 0)
            for _ in range(surplus):
                self.hosts.occupy(hosts.pop(), ladder.bundle, -1)
        if hosts:  # none if no pair of the table was reached
            self.enter(grant or self.grant_of(view), hosts, BUNDLE)
        return Outcome.TOP if reached >= top else Outcome.MISFIT

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
        if not self.allows(view, demand[0]) or not self.hosts.take(host, demand):
            return False
        self.enter(grant, (host,), BUNDLE)
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
            # Only bundles were given, so workers and PSs stand side by side.
            while grant.workers_on and grant.reached is None:
                assert isinstance(grant.ladder, TaskLadder)
                host = grant.workers_on.pop()
                grant.servers_on.pop()
                self.hosts.occupy(host, grant.ladder.bundle, -1)
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
                for host in grant.workers_on:
                    self.hosts.occupy(host, grant.ladder.worker, -1)
                for host in grant.servers_on:
                    self.hosts.occupy(host, grant.ladder.server, -1)
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
        wanted: dict[str, Assignment] = {}
        all_stay = self.state.slot_s is not None
        for job_id, grant in self.grants.items():
            ladder = grant.ladder
            if isinstance(ladder, TaskLadder):
                workers_on, servers_on = grant.workers_on, grant.servers_on
                reached = ladder.index.get((len(workers_on), len(servers_on)))
                if reached is None:
                    continue
                tasks = self.hosts.placed(workers_on, servers_on)
                now = grant.view.current
                # Placements that are the same are one object, as a rule.
                if (
                    now is None
                    or now.configuration != reached
                    or len(now.tasks) != len(tasks)
                    or not all(map(is_, now.tasks, tasks))
                ):
                    now = Assignment(job_id, reached, tasks)
                wanted[job_id] = now
            elif grant.configuration is not None:
                wanted[job_id] = Assignment(job_id, grant.configuration, grant.tasks)
                all_stay = False
        if all_stay or not any(
            self._moved(a) for job_id, a in wanted.items() if self._may_settle(job_id)
        ):
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
        if self.state.slot_s is None:
            return True
        return not isinstance(self.grants[job_id].ladder, TaskLadder)

    def _moved(self, assignment: Assignment) -> bool:
        """Return whether a job goes on as before but on other hosts, without need."""
        current = self.grants[assignment.job].view.current
        return (
            current is not None
            and bool(current.tasks)
            and current.configuration == assignment.configuration
            and set(current.tasks) != set(assignment.tasks)
        )

    # Tasks, one by one.

    def _give_bundles(self, grant: Grant, ladder: TaskLadder, count: int) -> Outcome:
        """Give a job more bundles, each on the host least loaded by then; all or nothing."""
        demand = ladder.bundle
        if not self.allows(grant.view, demand[0] * count):
            return Outcome.TOP
        if not self.give_tasks(grant, BUNDLE, demand, count):
            return Outcome.MISFIT
        self._add_held(grant.view, demand[0] * count)
        return Outcome.GRANTED

    def enter(self, grant: Grant, hosts: Sequence[int], roles: Sequence[str]) -> None:
        """Enter a task of each role on each of some hosts."""
        if self._watch is not None:
            for _ in hosts:
                for role in roles:
                    self._watch(grant.view.id, role)
        for role in roles:
            (grant.workers_on if role == WORKER else grant.servers_on).extend(hosts)

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
        before, pool = grant.configuration, self.pool
        if before is not None:
            pool.release(view.configurations[before], grant.tasks)
        current = view.current
        tasks: Tasks | None
        if (
            current is not None
            and current.configuration == c
            and current.tasks
            and pool.fits(configuration, current.tasks)
        ):
            tasks = current.tasks
            pool.take(configuration, tasks)
        else:
            fits = not self._too_large(configuration)
            required = view.placement.required
            tasks = pool.place(configuration, required=required) if fits else None
        if tasks is None:
            if before is not None:
                pool.take(view.configurations[before], grant.tasks)
            return False
        if self._hosts is not None:
            index = self.state.topology.host_index
            touched = {index[task.host] for task in (*grant.tasks, *tasks)}
            self._hosts.read(pool.free, touched)
        self._add_held(view, configuration.demand[0] - grant.demand[0])
        grant.configuration, grant.tasks = c, tasks
        return True

    def _too_large(self, configuration: Configuration) -> bool:
        """Return whether a configuration asks for more GPU than is free: a cheap look first."""
        free = self._pool.free[:, 0]
        return not self._pool.open_gpus and configuration.demand[0] > int(np.add.reduce(free))

    # Quotas.

    def allows(self, view: JobView, gpu_milli: int) -> bool:
        """Return whether the quota of a job's tenant allows that much more GPU.

        Parameters
        ----------
        gpu_milli
            GPU beyond what the tenant holds in this round, milli-GPU, 0 or more.
        """
        tenant = view.tenant
        if tenant is None or tenant not in self.state.quotas:
            return True
        return self._held.get(tenant, 0) + gpu_milli <= self.state.quotas[tenant]

    def _add_held(self, view: JobView, gpu_milli: int) -> None:
        if view.tenant in self.state.quotas and view.tenant is not None:
            self._held[view.tenant] = self._held.get(view.tenant, 0) + gpu_milli
