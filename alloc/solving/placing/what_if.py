"""`what_if` on a cluster as it stands: would a job start, what if a rack goes or a quota changes?

The queue is placed before and after the changes, each with a proof, so what differs is proved too.
A job that is not submitted yet is asked about by itself as well: where it starts now, or why it
cannot and what would let it.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alloc.errors import CertificateError, InstanceError
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.result import Limits
from alloc.solving.gang import Explanation, decide_for
from alloc.solving.gang.cures import amount
from alloc.solving.placing.changes import Change, Standing, Submit, made
from alloc.solving.placing.defragmentation import Defragmentation, drain
from alloc.solving.placing.explain import explain
from alloc.solving.placing.place import DEFAULT_GOAL, Placement, place
from alloc.units import MILLI
from alloc.verification import initial_violations, verify

_PARTS = 4
"""Parts of the time: the base, the changes (moves off hosts), the placement after them, reasons."""
_RULES = ("node:", "partition:", "quota:")
"""With what the names of resources begin by which a snapshot says rules of jobs."""


@dataclass(frozen=True)
class Queue:
    """A cluster and what starts on it of its queue.

    Parameters
    ----------
    instance
        What runs and waits.
    placement
        The best placement of the queue, running jobs where they are.
    gone
        Jobs of the instance that are not there any more: rules that name them keep them in it.
    """

    instance: Instance
    placement: Placement
    gone: frozenset[str] = frozenset()

    @property
    def allocation(self) -> Allocation | None:
        """The placement itself, or None if none was found."""
        found = self.placement.result.solution
        return found if isinstance(found, Allocation) else None

    @property
    def gpus(self) -> float:
        """GPUs that jobs hold then."""
        held = 0
        for a in () if self.allocation is None else self.allocation.assignments:
            held += self.instance.job(a.job).configurations[a.configuration].demand[0]
        return held / MILLI

    @property
    def waiting(self) -> frozenset[str]:
        """Jobs that do not run now."""
        running = {a.job for a in self.instance.running}
        return frozenset(self.instance.job_index) - running - self.gone

    @property
    def started(self) -> frozenset[str]:
        """Jobs of the queue that start."""
        if self.allocation is None:
            return frozenset()
        return self.waiting & {a.job for a in self.allocation.assignments}

    @property
    def bound(self) -> float:
        """GPUs that no placement exceeds; infinite where nothing is proved."""
        result = self.placement.result
        return (result.stages or (result.certificate,))[0].bound


@dataclass(frozen=True)
class Submission:
    """A job that is not submitted yet.

    Parameters
    ----------
    job
        Its id.
    assignment
        Where it starts now if it alone is started, checked; or None.
    explanation
        Otherwise why it cannot, and what would let it.
    unsaid
        Rules of a snapshot that other jobs have, by their named resources (partitions, rules about
        nodes, quotas), and that a job given by its size alone has not: none keeps it out.
    """

    job: str
    assignment: Assignment | None
    explanation: Explanation | None
    unsaid: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacementWhatIf:
    """What changes do to a cluster as it stands.

    Parameters
    ----------
    changes
        What was changed, in words.
    before, after
        The queue before and after; after is None where hosts cannot be emptied, or no time was
        left.
    standing
        The cluster after the changes.
    submissions
        Jobs that were submitted, by themselves.
    """

    changes: tuple[str, ...]
    before: Queue
    after: Queue | None
    standing: Standing
    submissions: tuple[Submission, ...] = ()

    @property
    def difference(self) -> tuple[float, float] | None:
        """The range in which the most GPUs in use after less the most before lies, proved."""
        if self.after is None or self.after.allocation is None or self.before.allocation is None:
            return None
        return self.after.gpus - self.before.bound, self.after.bound - self.before.gpus

    @property
    def sentence(self) -> str:
        """What is proved of the GPUs in use."""
        if self.after is None:
            blocked = next(f for f in self.standing.drained if f.migration is None)
            return f"The hosts cannot be emptied: {_why_not(blocked)}"
        if self.difference is None:
            return "No placement was found in time; give more."
        low, high = (round(end, 6) for end in self.difference)
        if low == high:
            return f"{_more(low)}, proved."
        if math.isinf(low) or math.isinf(high):
            found = self.after.gpus - self.before.gpus
            return f"{_more(round(found, 6))}, of which nothing is proved; give more time."
        return f"Between {low:+g} and {high:+g} GPUs in use, proved; give more time to know more."


def what_if(
    instance: Instance,
    changes: Sequence[Change],
    *,
    limits: Limits = Limits(),
    progress: Callable[[str], None] | None = None,
) -> PlacementWhatIf:
    """Place the queue of a cluster before and after some changes.

    Running jobs stay where they are, but for those on hosts that are drained.

    Parameters
    ----------
    instance
        What runs and what waits.
    changes
        The changes, made one after the other.
    limits, progress
        As in `alloc.solve`; the limit is for all solves together.

    Raises
    ------
    InstanceError
        If nothing is changed, or a change names what is not there.
    """
    if not changes:
        raise InstanceError(
            "what if: nothing is changed; name a change, for example cordon:PLACE or "
            "submit:JOB=4x8."
        )
    ends = time.perf_counter() + limits.seconds

    def share(parts: int) -> Limits:
        left = max(ends - time.perf_counter(), 0.01 * limits.seconds)
        return limits.replace(seconds=left / parts)

    def empty(known: Instance, places: Sequence[str]) -> Defragmentation:
        return drain(known, places, limits=share(_PARTS - 1), progress=progress)

    base = _pinned(instance)
    # Refused before work begins: all but the moves off hosts takes no time.
    standing = Standing(base, base.tenants)
    for change in changes:
        standing = made(change, standing, empty)
        if standing.blocked:
            break
    sentences = tuple(change.sentence for change in changes)
    before = Queue(base, place(base, DEFAULT_GOAL, limits=share(_PARTS - 1), progress=progress))
    if standing.blocked:
        return PlacementWhatIf(sentences, before, None, standing)
    now = _pinned(standing.instance)
    gone = frozenset({*standing.ended, *standing.impossible})
    after = Queue(now, place(now, DEFAULT_GOAL, limits=share(2), progress=progress), gone)
    asked = [job for job in standing.submitted if job in after.waiting]
    by_size = {c.job for c in changes if isinstance(c, Submit) and c.like is None}
    submissions = []
    for k, job in enumerate(asked):
        one = _submission(now, job, standing.closed, share(len(asked) - k))
        if job in by_size:
            one = dataclasses.replace(one, unsaid=_rules_of_snapshot(now))
        submissions.append(one)
    return PlacementWhatIf(sentences, before, after, standing, tuple(submissions))


def _submission(instance: Instance, job: str, closed: frozenset[str], limits: Limits) -> Submission:
    """Return where a job starts by itself, held against the checker, or why it cannot."""
    found = decide_for(instance, job).assignment
    if found is None:
        explanation = explain(instance, job, closed=closed, limits=limits)
        return Submission(job, None, explanation)
    alone = Allocation((*instance.running, found))
    wrong = verify(instance, alone, accept=initial_violations(instance))
    if wrong:
        raise CertificateError(f'the hosts for job "{job}" break a rule: {wrong[0]}')
    return Submission(job, found, None)


def _rules_of_snapshot(instance: Instance) -> tuple[str, ...]:
    """Return the named resources that stand for rules and that some job asks for, sorted."""
    groups = (group for job in instance.jobs for c in job.configurations for group in c.tasks)
    asked = {name for group in groups for name in group.resources}
    return tuple(sorted(name for name in asked if name.startswith(_RULES)))


def _pinned(instance: Instance) -> Instance:
    """Return an instance whose running jobs stay where they are."""
    return instance.replace(moves=Moves(budget=0)) if instance.running else instance


def _why_not(blocked: Defragmentation) -> str:
    reason = blocked.blocked or blocked.result.conflict
    return reason or "no way was found in time, and none is proved impossible; give more."


def _more(gpus: float) -> str:
    if not gpus:
        return "As many GPUs in use as before"
    return f"{amount(abs(gpus), 'more GPU' if gpus > 0 else 'fewer GPU')} in use"
