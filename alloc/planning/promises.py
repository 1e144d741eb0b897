"""Promises of a forecast: what classes of jobs counted in a history are promised.

A history says how many jobs came and how long they ran, not what they were promised. Classes that a
problem knows already keep what it says of them; the others get the goals that are given, or a
default that is measured from the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from alloc.errors import InstanceError
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.goals import ServiceGoal

DEFAULT_FRACTION = 0.95
"""Of the jobs of a class, those that keep the default goal."""
Wanted = tuple[str, ServiceGoal | None]
"""A name of classes, or a pattern with ``*`` and ``?``; and the goal, or None for none."""


def kept_promises(counted: Sequence[JobClass], known: Iterable[JobClass]) -> tuple[JobClass, ...]:
    """Return counted classes with all that a problem says of classes of the same names.

    The ways to run and how many jobs come are the history's; goal, sites, tenant, what may be
    interrupted, deferred or left out are the problem's, and so is a profile of hours that is not
    flat.

    Parameters
    ----------
    counted
        Classes of a history.
    known
        Classes of a problem.
    """
    by_name = {job_class.name: job_class for job_class in known}
    found = []
    for job_class in counted:
        before = by_name.get(job_class.name)
        if before is not None:
            flat = len(set(before.hourly_profile)) == 1
            profile = job_class.hourly_profile if flat else before.hourly_profile
            job_class = replace(before, options=job_class.options, hourly_profile=profile)
        found.append(job_class)
    return tuple(found)


def with_goals(
    classes: Sequence[JobClass], wanted: Sequence[Wanted]
) -> tuple[tuple[JobClass, ...], tuple[str, ...]]:
    """Return classes with goals: those wanted, else their own, else a default.

    By default 95 % of the jobs of a class wait no longer than its mean run time in the history, on
    the slowest GPUs that it may run on: no job that is as long as the mean takes more than twice as
    long as it runs.

    Parameters
    ----------
    classes
        The classes.
    wanted
        Names or patterns with goals; of several that fit a class the last counts.

    Returns
    -------
    tuple
        The classes, and the names of those that got the default.

    Raises
    ------
    InstanceError
        If a name or pattern fits no class.
    """
    for pattern, _ in wanted:
        require_match(pattern, classes, "goal")
    found, defaults = [], []
    for job_class in classes:
        own = [goal for pattern, goal in wanted if fnmatchcase(job_class.name, pattern)]
        if own:
            job_class = replace(job_class, goal=own[-1])
        elif job_class.goal is None:
            job_class = replace(job_class, goal=_default(job_class))
            defaults.append(job_class.name)
        found.append(job_class)
    return tuple(found), tuple(defaults)


def _default(job_class: JobClass) -> ServiceGoal:
    hours = max(option.hours for option in job_class.options)
    # Two digits: it is a promise to people.
    return ServiceGoal("wait", float(f"{hours:.2g}"), DEFAULT_FRACTION)


def require_match(pattern: str, classes: Sequence[JobClass], what: str) -> None:
    """Refuse a name or pattern that fits no class.

    Parameters
    ----------
    pattern
        A name, or a pattern with ``*`` and ``?``.
    classes
        Classes of a history.
    what
        What the pattern was given for, for the message.

    Raises
    ------
    InstanceError
        With the names of the classes.
    """
    names = [job_class.name for job_class in classes]
    if not any(fnmatchcase(name, pattern) for name in names):
        raise InstanceError(
            f'{what} "{pattern}": fits no class of the history; its classes are '
            f'{", ".join(names)}. Name one, or a pattern such as "8-gpu*" or "*".'
        )
