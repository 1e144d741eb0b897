"""Between profiles and schedules: runs on hosts, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.packing import HostPool, Steps, Undecided, place_alone, place_jointly, place_together
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.progress import follow
from alloc.workload import Job

Held = tuple[int, tuple[TaskPlacement, ...]]
"""What a job runs in a slot: a configuration, and its tasks on hosts."""
Placed = tuple[int, int, tuple[TaskPlacement, ...]]
"""A slot, and what a job runs in it."""


def place_plan(data: SlotData, plan: Mapping[int, Profile], steps: Steps | None = None) -> Schedule:
    """Put the profiles of all jobs on hosts, slot by slot.

    A job that goes on in its configuration keeps its hosts as far as all others still fit. Where
    the greedy rules find no hosts for a gang, the job skips the slot and makes up for it after its
    profile, with what is free then; the checker measures what that costs.

    It ends: after the last profile the first of the jobs behind has the empty cluster, on which
    each of its configurations stands (`alloc.models.malleable.data.slot_data` refuses others), and
    it keeps its hosts until it completes.

    Parameters
    ----------
    data
        The instance on its slots.
    plan
        Profile of each job, by position.
    steps
        The steps that an exact search may take where the greedy rules find no hosts; None for none.
    """
    jobs = data.instance.jobs
    wanted: dict[int, dict[int, int]] = {}
    last_choice: dict[int, int] = {}
    ending: dict[int, set[int]] = {}
    for j, profile in plan.items():
        original = data.table(j).configuration
        for offset, c in enumerate(profile.choice):
            if c != IDLE:
                wanted.setdefault(profile.start + offset, {})[j] = int(original[c])
                last_choice[j] = int(original[c])
        ending.setdefault(profile.start + len(profile.choice) - 1, set()).add(j)
    held: dict[int, Held] = {
        data.instance.job_index[a.job]: (a.configuration, a.tasks) for a in data.instance.running
    }
    grid: dict[int, list[Placed]] = {j: [] for j in plan}
    behind: set[int] = set()
    end = max(wanted, default=-1) + 1
    t = 0
    while t < end or behind:
        now = wanted.get(t, {})
        placed = _place_slot(data, now, held, steps)
        late = sorted(behind - now.keys())
        if late:
            _catch_up(data, late, last_choice, placed)
        for j, (c, tasks) in placed.items():
            grid[j].append((t, c, tasks))
        held = placed
        # A restart may leave work over where the profile, which knows none, ends.
        behind |= (now.keys() - placed.keys()) | ending.get(t, set())
        behind -= {j for j in behind & placed.keys() if _complete(data, jobs[j], grid[j])}
        t += 1
    return Schedule(tuple(run for j in plan for run in runs_of(data, jobs[j], grid[j])))


def _catch_up(
    data: SlotData, late: Sequence[int], last_choice: Mapping[int, int], placed: dict[int, Held]
) -> None:
    """Add the jobs that are behind and fit beside the placed ones."""
    jobs = data.instance.jobs
    pool = HostPool(data.instance.topology)
    for j, (c, tasks) in placed.items():
        pool.take(jobs[j].configurations[c], tasks)
    for j in late:
        choice = last_choice[j]
        if not _within_rows(data, j, choice, placed):
            continue
        found = pool.place(jobs[j].configurations[choice])
        if found is None and not placed:
            # The greedy rule is not exact; on the empty cluster this is, so there is progress.
            found = place_alone(data.instance.topology, jobs[j].configurations[choice])
            pool.take(jobs[j].configurations[choice], found or ())
        if found is not None:
            placed[j] = (choice, found)


def _place_slot(
    data: SlotData, now: Mapping[int, int], held: Mapping[int, Held], steps: Steps | None
) -> dict[int, Held]:
    """Place the gangs of one slot, keeping hosts where possible."""
    jobs = data.instance.jobs
    requests = []
    for j, c in now.items():
        before = held.get(j)
        keep = before[1] if before is not None and before[0] == c else None
        requests.append((jobs[j].configurations[c], keep))
    topology = data.instance.topology
    tasks = place_jointly(topology, requests)
    if any(t is None for t in tasks):
        fresh = place_jointly(topology, [(configuration, None) for configuration, _ in requests])
        if sum(t is None for t in fresh) < sum(t is None for t in tasks):
            tasks = fresh
    if steps is not None and None in tasks:
        with suppress(Undecided):
            gangs = [configuration for configuration, _ in requests]
            tasks = list(place_together(topology, gangs, steps) or tasks)
    return {j: (c, t) for (j, c), t in zip(now.items(), tasks, strict=True) if t is not None}


def _within_rows(data: SlotData, j: int, c: int, placed: Mapping[int, Held]) -> bool:
    """Return whether a job may run besides the placed ones within all capacity rows."""
    left = data.rows.capacity.copy()
    jobs = data.instance.jobs
    for other, (choice, _) in (*placed.items(), (j, (c, ()))):
        job = jobs[other]
        left -= data.rows.use([job.configurations[choice]], job.tenant)[0]
    return bool((left >= -1e-6).all())


def runs_of(data: SlotData, job: Job, slots: Sequence[Placed]) -> list[Run]:
    """Merge the slots of a job into runs.

    Parameters
    ----------
    data
        The instance on its slots.
    job
        The job.
    slots
        Slot, configuration and tasks of each slot in which it runs, in order.
    """
    runs: list[Run] = []
    for t, c, tasks in slots:
        start, end = t * data.slot_s, (t + 1) * data.slot_s
        if runs:
            last = runs[-1]
            same = last.configuration == c and set(last.tasks) == set(tasks)
            if same and last.end_s == start:
                runs[-1] = Run(job.id, c, last.start_s, end, last.tasks)
                continue
        runs.append(Run(job.id, c, start, end, tasks))
    return runs


def _complete(data: SlotData, job: Job, slots: Sequence[Placed]) -> bool:
    running = {a.job: a for a in data.instance.running}.get(job.id)
    return follow(job, runs_of(data, job, slots), running).completion_s is not None


def plan_of(data: SlotData, schedule: Schedule) -> dict[int, Profile] | None:
    """Return the profiles of a schedule, or None if it is not one of whole slots for all jobs.

    Parameters
    ----------
    data
        The instance on its slots.
    schedule
        Its runs may begin and end at slots only.
    """
    plan: dict[int, Profile] = {}
    for j, job in enumerate(data.instance.jobs):
        column_of = data.table(j).column_of
        choice: dict[int, int] = {}
        for run in schedule.runs_of.get(job.id, ()):
            column = column_of.get(run.configuration)
            first, last = run.start_s / data.slot_s, run.end_s / data.slot_s
            if column is None or abs(first - round(first)) + abs(last - round(last)) > 1e-6:
                return None
            for t in range(round(first), round(last)):
                choice[t] = column
        profile = profile_of_choices(data, j, choice)
        if profile is None:
            return None
        plan[j] = profile
    return plan


def profile_of_choices(data: SlotData, j: int, choice: Mapping[int, int]) -> Profile | None:
    """Return the profile of slot choices, cut where the job completes; None if it does not.

    Parameters
    ----------
    data
        The instance on its slots.
    j
        Position of the job.
    choice
        The column of the job's table by slot; it pauses in slots that are left out.
    """
    if data.instance.jobs[j].restart_cost_s > 0:
        return _profile_with_restarts(data, j, choice)
    left = float(data.work[j])
    rate = data.table(j).rate
    taken: list[int] = []
    start = min(choice, default=0)
    for t in range(start, max(choice, default=-1) + 1):
        c = choice.get(t, IDLE)
        taken.append(c)
        if c == IDLE:
            continue
        if left <= rate[c] * (1 + 1e-9):
            return Profile(start, tuple(taken), t + min(left / float(rate[c]), 1.0))
        left -= float(rate[c])
    return None


def _profile_with_restarts(data: SlotData, j: int, choice: Mapping[int, int]) -> Profile | None:
    """Return the profile of a job that pays for restarts: its completion is what `follow` says."""
    job = data.instance.jobs[j]
    original = data.table(j).configuration
    slots = [(t, int(original[c]), ()) for t, c in sorted(choice.items())]
    # Hosts that are not said are no host of the slots, which have none yet.
    unsaid = (TaskPlacement("", "", 0),)
    before = {
        a.job: Assignment(a.job, a.configuration, () if a.tasks else unsaid)
        for a in data.instance.running
    }
    end = follow(job, runs_of(data, job, slots), before.get(job.id)).completion_s
    if end is None:
        return None
    completion = end / data.slot_s
    start = min(choice)
    span = range(start, math.ceil(completion - 1e-9))
    return Profile(start, tuple(choice.get(t, IDLE) for t in span), completion)
