"""Rules: the checker's rules, held against each decision as it is taken.

Parameters
----------
now_s
    Time of a decision, seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NoReturn

from alloc.errors import SimulationError, nearest
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run
from alloc.schedulers.state import Decision
from alloc.simulation.live import LiveJob
from alloc.topology import Topology
from alloc.verification.capacity import check_capacity
from alloc.verification.outages import check_outages
from alloc.verification.placement import check_assignment, plain_assignments

_FEW = 8
"""Assignments whose tasks are looked at one by one."""


class Referee:
    """Holds the ledger of what is taken and refuses decisions that break a rule.

    It is incremental: only what a decision changes is looked at. When something is wrong, the
    checker (`alloc.verification`) words it.

    Parameters
    ----------
    instance
        The problem.
    scheduler
        Name of the policy, for messages.
    active
        The jobs in the system, by id; the simulator keeps it up to date.
    """

    def __init__(self, instance: Instance, scheduler: str, active: Mapping[str, LiveJob]) -> None:
        self.ledger = HostPool(instance.topology)
        self._instance = instance
        self._is_plain = plain_assignments(instance)
        self._scheduler = scheduler
        self._active = active
        self.quotas = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}
        self.held = dict.fromkeys(self.quotas, 0)
        self._most = {t.name: t.gpu_quota_milli + t.borrowing_milli for t in instance.tenants}
        self._cohort = {t.name: t.cohort for t in instance.tenants if t.cohort is not None}

    def check_jobs(self, decision: Decision, now_s: float) -> None:
        """Refuse a decision about jobs that are unknown, named twice, or bound otherwise.

        Parameters
        ----------
        decision
            What the scheduler answered.
        """
        seen: set[str] = set()
        for assignment in decision.assign:
            live = self._live(assignment.job, now_s)
            if assignment.job in seen:
                self.refuse(assignment.job, now_s, "it is assigned twice in one decision.")
            seen.add(assignment.job)
            if live.keeps(assignment):
                continue  # looked at when it began
            if not self._is_plain(assignment):
                for violation in check_assignment(
                    self._instance, assignment.job, assignment.configuration, assignment.tasks
                ):
                    self.refuse(assignment.job, now_s, violation.sentence)
            if self._instance.outages:
                self._check_hosts(assignment, now_s)
            last = live.view.last
            if (
                live.job.elasticity != "malleable"
                and last is not None
                and last.configuration != assignment.configuration
            ):
                self.refuse(
                    assignment.job,
                    now_s,
                    f'job "{assignment.job}" is {live.job.elasticity} and began in configuration '
                    f"{last.configuration}, but is given configuration "
                    f"{assignment.configuration}.",
                )
        for job_id in decision.release:
            live = self._live(job_id, now_s)
            if job_id in seen:
                self.refuse(job_id, now_s, "it is both assigned and released in one decision.")
            if live.view.current is None:
                self.refuse(job_id, now_s, "it is released but does not run.")
            self.check_pause(live, now_s)

        for job_id in decision.refuse:
            live = self._live(job_id, now_s)
            if job_id in seen or not live.job.refusable or live.view.last is not None:
                self.refuse(
                    job_id,
                    now_s,
                    f'job "{job_id}" is refused, and only a job that may be refused, has never run '
                    "and is not assigned can be.",
                )
            seen.add(job_id)

    def _check_hosts(self, assignment: Assignment, now_s: float) -> None:
        """Refuse hosts that are down now; which go down later nobody can know."""
        job, soon_s = assignment.job, math.nextafter(now_s, math.inf)
        run = Run(job, assignment.configuration, now_s, soon_s, assignment.tasks)
        for violation in check_outages(self._instance, (run,)):
            self.refuse(job, now_s, violation.sentence)

    def check_pause(self, live: LiveJob, now_s: float) -> None:
        """Refuse the pause of a job that must not be paused.

        Parameters
        ----------
        live
            The job that is to be paused.
        """
        if not live.job.preemptible:
            self.refuse(
                live.job.id, now_s, f'job "{live.job.id}" is not preemptible but is paused.'
            )

    def move_to(self, topology: Topology) -> None:
        """Enter what runs in the ledger of the cluster as it stands."""
        self.ledger = HostPool(topology)
        for live in self._active.values():
            if live.assignment is not None:
                configuration = live.job.configurations[live.assignment.configuration]
                self.ledger.take(configuration, live.assignment.tasks)

    def take(self, assignment: Assignment) -> None:
        """Enter an assignment in the ledger; `check_room` tells whether there was room."""
        job = self._active[assignment.job].job
        configuration = job.configurations[assignment.configuration]
        self.ledger.take(configuration, assignment.tasks)
        if job.tenant in self.held:
            self.held[job.tenant] += configuration.demand[0]

    def give_back(self, assignment: Assignment) -> None:
        """Take an assignment out of the ledger."""
        job = self._active[assignment.job].job
        configuration = job.configurations[assignment.configuration]
        self.ledger.release(configuration, assignment.tasks)
        if job.tenant in self.held:
            self.held[job.tenant] -= configuration.demand[0]

    def check_room(self, taken: Iterable[Assignment], now_s: float) -> None:
        """Refuse assignments, already taken, that put a host, GPU or tenant over its limit.

        Parameters
        ----------
        taken
            Assignments that are in the ledger.
        """
        index = self.ledger.topology.host_index
        free, open_gpus = self.ledger.free, self.ledger.open_gpus
        taken = tuple(taken)
        # One look at all hosts is cheaper than one for each of many tasks.
        looked = len(taken) > _FEW and not open_gpus and bool(free.min() >= 0)
        for assignment in taken:
            for task in () if looked else assignment.tasks:
                h = index[task.host]
                # A row of a few numbers is looked through faster as a list.
                if min(free[h].tolist()) < 0 or (
                    h in open_gpus and min(open_gpus[h].values(), default=0) < 0
                ):
                    self._refuse_capacity(assignment.job, now_s)
            tenant = self._active[assignment.job].job.tenant
            if tenant in self.held and self._over_quota(tenant):
                self._refuse_capacity(assignment.job, now_s)

    def _over_quota(self, tenant: str) -> bool:
        """Return whether a tenant holds more than it may, or its cohort more than its quotas."""
        if self.held[tenant] > self._most[tenant]:
            return True
        cohort = self._cohort.get(tenant)
        if cohort is None:
            return False
        own = [name for name, its in self._cohort.items() if its == cohort]
        return sum(self.held[n] for n in own) > sum(self.quotas[n] for n in own)

    def _refuse_capacity(self, job_id: str, now_s: float) -> NoReturn:
        """Let the checker say which host or tenant is over, from all that now runs."""
        runs = [
            Run(job.job.id, a.configuration, now_s, now_s + 1.0, a.tasks)
            for job in self._active.values()
            if (a := job.assignment) is not None
        ]
        for violation in check_capacity(self._instance, runs):
            self.refuse(job_id, now_s, violation.sentence)
        raise AssertionError("the ledger is over capacity but the checker finds nothing")

    def reset(self) -> None:
        """Empty the cluster."""
        self.ledger.reset()
        self.held.update(dict.fromkeys(self.quotas, 0))

    def refuse(self, job_id: str, now_s: float, sentence: str) -> NoReturn:
        """Raise the error of a broken rule.

        Parameters
        ----------
        job_id
            The job that breaks the rule.
        sentence
            What is wrong.
        """
        raise SimulationError(
            f'scheduler {self._scheduler}, job "{job_id}", at {now_s:g} s: {sentence}'
        )

    def _live(self, job_id: str, now_s: float) -> LiveJob:
        live = self._active.get(job_id)
        if live is None:
            index = self._instance.job_index
            reason = (
                "it has not arrived yet or is complete."
                if job_id in index
                else f"it is not in the instance{nearest(job_id, index)}"
            )
            self.refuse(job_id, now_s, reason)
        return live
