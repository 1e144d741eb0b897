"""Re-placing running jobs on purpose: to let a gang in, to empty hosts, to use fewer of them.

Each question is a placement problem (family F4) whose answer is turned into steps that can be
carried out. What the steps cost is the number of tasks that change hosts; running jobs keep their
configurations, since another one is a restart and no move.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alloc.errors import AllocError, CertificateError, InstanceError, nearest
from alloc.families import AUTO
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.migration import Migration
from alloc.problems.allocation.solution import Allocation, Assignment, Solution
from alloc.result import Limits, Result
from alloc.solving.placing.migration import order_moves
from alloc.solving.placing.standing import (
    jobs_concerned,
    keeping_size,
    leave_broken,
    misfit_of,
    only,
    quota_within,
)
from alloc.solving.solver import solve
from alloc.topology import hosts_in
from alloc.verification import Violation, initial_violations, verify
from alloc.verification.migration import verify_migration

Progress = Callable[[str], None]

_OVER_FULL = "host_capacity"
"""Code of the violation of a host that holds more than it has."""
_LEAST_S = 0.01
"""Seconds for a solve when the time is up: what stands is checked and certified in any case."""


class _Search:
    """What solves, for how long: what is prepared for it counts in its limit."""

    def __init__(self, backend: str, limits: Limits, progress: Progress | None) -> None:
        self.backend = backend
        self.limits = limits
        self.progress = progress
        self._ends = time.perf_counter() + limits.seconds

    def solve(self, problem: Instance, goal: str) -> Result[Solution]:
        """Return the best placement for a goal."""
        left = max(self._ends - time.perf_counter(), _LEAST_S)
        return solve(
            problem,
            "placement",
            self.backend,
            objective=goal,
            limits=self.limits.replace(seconds=left),
            progress=self.progress,
        )


@dataclass(frozen=True)
class Defragmentation:
    """A new placement of what runs, and the way there.

    Parameters
    ----------
    result
        The placement with its certificate; its objective counts moves, hosts or both.
    migration
        The steps that lead there, checked independently of the solver, or None without a placement
        or where tasks block each other.
    emptied
        Hosts on which something ran before and nothing runs after, in the order of the topology.
    blocked
        Why there are no steps although there is a placement, or None.
    """

    result: Result[Solution]
    migration: Migration | None
    emptied: tuple[str, ...] = ()
    blocked: str | None = None

    @property
    def num_moved(self) -> int:
        """Number of tasks that change hosts on the way, 0 without steps."""
        return 0 if self.migration is None else self.migration.num_moves


def make_room(
    instance: Instance,
    job_id: str,
    *,
    move_budget: int | None = None,
    backend: str = AUTO,
    limits: Limits = Limits(),
    progress: Progress | None = None,
) -> Defragmentation:
    """Move as few running tasks as it takes for a waiting job to start, however small.

    Running jobs keep their configurations; what breaks a rule from the start stays where it is.

    Parameters
    ----------
    instance
        What runs and what waits.
    job_id
        The job to let in; other waiting jobs stay out.
    move_budget
        Most tasks that may move, or None.
    backend, limits, progress
        As in `alloc.solve`.

    Raises
    ------
    InstanceError
        If there is no such job, or it runs already.
    """
    search = _Search(backend, limits, progress)
    running = {a.job for a in instance.running}
    if instance.job(job_id).id in running:
        raise InstanceError(f'job "{job_id}" runs already; name a job that waits.')
    known = only(instance, {*running, job_id}, Moves(move_budget))
    broken = initial_violations(known)
    standing = leave_broken(known, broken)
    # Whether the job starts is all that counts before the moves: not how large it starts, nor what
    # it does to the others, which go on in any case.
    problem = standing.replace(
        jobs=tuple(
            job.replace(weight=len(running) + 1.0)
            if job.id == job_id
            else keeping_size(job).replace(weight=1.0)
            for job in standing.jobs
        )
    )
    result = search.solve(problem, "weight_placed then moves")
    stages = result.stages or (result.certificate,)
    if result.solution is None:
        return Defragmentation(result, None)
    assert isinstance(result.solution, Allocation)
    if job_id not in result.solution.configuration_of:
        within = "whatever moves" if move_budget is None else f"within {move_budget} moves"
        reason = (
            f'job "{job_id}" cannot start {within}{_while(known, broken)}.'
            if stages[0].status == "optimal"
            else f'no way to start job "{job_id}" {within} was found in {limits.seconds:g} s.'
        )
        blocked = dataclasses.replace(result, certificate=stages[0], stages=())
        return Defragmentation(blocked, None, blocked=reason)
    if verify(known, result.solution, accept=broken):
        raise CertificateError("the new placement breaks a rule that was kept before.")
    moves = stages[-1].replace(fingerprint=instance.fingerprint)
    return _with_steps(problem, dataclasses.replace(result, certificate=moves, stages=()))


def _while(instance: Instance, broken: Sequence[Violation]) -> str:
    """Return under which conditions no move lets a job in."""
    kept = []
    if any(instance.job(a.job).elasticity == "malleable" for a in instance.running):
        kept.append("running jobs keep their sizes")
    if concerned := sorted(jobs_concerned(instance, broken)):
        kept.append(f"{', '.join(concerned)} stay as they are, against a rule")
    return f" while {' and '.join(kept)}" if kept else ""


def drain(
    instance: Instance,
    places: Sequence[str],
    *,
    move_budget: int | None = None,
    backend: str = AUTO,
    limits: Limits = Limits(),
    progress: Progress | None = None,
) -> Defragmentation:
    """Empty hosts or whole domains with as few moves as it takes.

    Parameters
    ----------
    instance
        What runs.
    places
        Ids of hosts or domains that are to hold nothing.
    move_budget, backend, limits, progress
        As in `make_room`; tasks that leave the places count.

    Raises
    ------
    InstanceError
        If no job runs, a place is unknown, nothing would be left, or a job on it may not move.
    """
    search = _Search(backend, limits, progress)
    leaving = hosts_of(instance, places)
    stranded = 0
    kept: list[Assignment] = []
    for a in instance.running:
        stay = tuple(task for task in a.tasks if task.host not in leaving)
        gone = sum(task.count for task in a.tasks) - sum(task.count for task in stay)
        if gone and not instance.job(a.job).preemptible:
            raise InstanceError(
                f'job "{a.job}": is not preemptible and runs on {", ".join(places)}; wait for its '
                "end or make it preemptible."
            )
        stranded += gone
        kept.append(dataclasses.replace(a, tasks=stay))
    if move_budget is not None and move_budget < stranded:
        raise InstanceError(
            f"{', '.join(places)}: {stranded} tasks run there, more than the {move_budget} that "
            "may move; raise the budget or drain less."
        )
    whole = _what_runs(instance, move_budget)
    rest = whole.topology.without_hosts(leaving)
    for job in whole.jobs:
        if (reason := misfit_of(rest, job.configurations)) is not None:
            raise InstanceError(
                f'{", ".join(places)}: job "{job.id}" has no place on what is left ({reason}); '
                "drain less, or wait for its end."
            )
    problem = whole.replace(
        topology=rest,
        running=tuple(kept),
        tenants=tuple(quota_within(tenant, rest) for tenant in whole.tenants),
        moves=Moves(None if move_budget is None else move_budget - stranded),
    )
    result = search.solve(problem, "moves")
    # The tasks that stood on the drained hosts move in any case.
    certificate = result.certificate
    value = certificate.objective
    certified = certificate.replace(
        objective=None if value is None else value + stranded,
        bound=certificate.bound + stranded,
        fingerprint=instance.fingerprint,
    )
    conflict = result.conflict
    if certificate.status == "infeasible":
        conflict = (
            f"{', '.join(places)}: what runs has no place without them, within capacity, the rules "
            "and the moves allowed; drain less, allow more moves or add hosts."
        )
    return _with_steps(whole, dataclasses.replace(result, certificate=certified, conflict=conflict))


def consolidate(
    instance: Instance,
    *,
    move_cost: float = 0.05,
    move_budget: int | None = None,
    backend: str = AUTO,
    limits: Limits = Limits(),
    progress: Progress | None = None,
) -> Defragmentation:
    """Free whole hosts: fewest hosts with GPUs in use, against the cost of the moves.

    Parameters
    ----------
    instance
        What runs.
    move_cost
        What the move of a task is worth, in hosts, more than 0.
    move_budget, backend, limits, progress
        As in `make_room`.

    Raises
    ------
    InstanceError
        If no job runs.
    """
    search = _Search(backend, limits, progress)
    problem = _what_runs(instance, move_budget)
    result = search.solve(problem, f"gpu_hosts_used + {move_cost!r} moves")
    return _with_steps(problem, result)


def _what_runs(instance: Instance, move_budget: int | None) -> Instance:
    """Return the problem of the running jobs alone, each in its present size.

    Raises
    ------
    InstanceError
        If no job runs.
    """
    if not instance.running:
        raise InstanceError(
            f'instance "{instance.name}": expected running jobs to move, but none of its '
            f"{len(instance.jobs)} jobs runs; say in running where they stand, or place them first."
        )
    problem = only(instance, {a.job for a in instance.running})
    jobs = tuple(map(keeping_size, problem.jobs))
    return problem.replace(jobs=jobs, moves=Moves(move_budget))


def _with_steps(problem: Instance, result: Result[Solution]) -> Defragmentation:
    """Check the placement on the whole problem, and order the moves."""
    if not isinstance(result.solution, Allocation):
        return Defragmentation(result, None)
    violations = verify(problem, result.solution)
    if violations:
        raise CertificateError(f"the new placement breaks a rule: {violations[0]}")
    emptied = _emptied(problem, result.solution)
    try:
        migration = order_moves(problem, result.solution)
    except AllocError as error:
        return Defragmentation(result, None, emptied, str(error))
    wrong = verify_migration(problem, migration)
    over = [found for found in initial_violations(problem) if found.code == _OVER_FULL]
    if wrong and over and all(found.code == _OVER_FULL for found in wrong):
        reason = f"{over[0]} No step is within capacity before a job there is stopped."
        return Defragmentation(result, None, emptied, reason)
    if wrong:
        raise CertificateError(f"the order of moves breaks a rule: {wrong[0]}")
    return Defragmentation(result, migration, emptied)


def _emptied(problem: Instance, allocation: Allocation) -> tuple[str, ...]:
    before = {task.host for a in problem.running for task in a.tasks}
    after = {task.host for a in allocation.assignments for task in a.tasks}
    return tuple(h.id for h in problem.topology.hosts if h.id in before - after)


def hosts_of(instance: Instance, places: Sequence[str]) -> set[str]:
    """Return the ids of the hosts that some hosts and domains stand for.

    Parameters
    ----------
    instance
        The cluster.
    places
        Ids of hosts and domains.

    Raises
    ------
    InstanceError
        If one is unknown, or they are all hosts.
    """
    topology = instance.topology
    domains = {domain.id for domain in topology.domains}
    leaving: set[str] = set()
    for place in places:
        if place in topology.host_index:
            leaving.add(place)
        elif place in domains:
            leaving |= {topology.hosts[h].id for h in hosts_in(topology, place)}
        else:
            known = (*topology.host_index, *domains)
            raise InstanceError(
                f'topology "{topology.name}" has no host or domain "{place}"'
                f"{nearest(place, known, '; name one that it has.')}"
            )
    if len(leaving) == topology.num_hosts:
        raise InstanceError(
            f"{', '.join(places)}: these are all hosts; leave some to move the jobs to."
        )
    return leaving
