"""The earliest completion of one job in the capacity that is left, without a dynamic program.

Where capacity has no price, a job that may pause and change its configuration had best run in the
fastest one that fits in every slot: one sweep over the slots finds that, exactly. Jobs that keep
one configuration try each; jobs that may not pause look for enough slots in a row in one of them,
which is feasible but need not be the earliest.
"""

from __future__ import annotations

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import IDLE, Profile

_FIT = 1e-9
"""Relative slack of work against a slot's work and of ends against limits, as in the profiles."""


def is_exact(data: SlotData, job: int) -> bool:
    """Return whether `earliest_profile` is the earliest there is.

    Parameters
    ----------
    data
        The instance on its slots.
    job
        Position of the job.
    """
    return data.instance.jobs[job].preemptible


def earliest_profile(data: SlotData, job: int, room: Array) -> Profile | None:
    """Return a profile of a job that fits the room and its limit, or None if the sweep finds none.

    Parameters
    ----------
    data
        The instance on its slots.
    job
        Position of the job.
    room
        Capacity left, shape (slots, R).
    """
    first = int(data.release[job])
    if first >= len(room):
        return None
    table = data.table(job)
    fits = np.ones((len(room) - first, len(table.rate)), dtype=bool)
    for r in np.flatnonzero(table.use.any(axis=0)):
        fits &= room[first:, r, None] >= table.use[:, r] - 1e-6
    work, rate = float(data.work[job]), table.rate
    own = data.instance.jobs[job]
    found: list[Profile] = []
    if not own.preemptible:
        at_once = bool(data.started[job])
        for c in range(len(rate)):
            run = _in_a_row(fits[:, c], work, float(rate[c]), at_once)
            if run is not None:
                found.append(_profile(first + run, np.full(len(room), c), work, rate))
    elif own.elasticity == "malleable":
        fastest = np.where(fits, rate, 0.0)
        choice = np.where(fits.any(axis=1), fastest.argmax(axis=1), IDLE)
        found = _until_done(first, choice, work, rate)
    else:
        for c in range(len(rate)):
            found += _until_done(first, np.where(fits[:, c], c, IDLE), work, rate)
    limit = float(data.limit[job])
    found = [profile for profile in found if profile.completion <= limit + _FIT]
    return min(found, key=lambda profile: profile.completion, default=None)


def _until_done(first: int, choice: np.ndarray, work: float, rate: Array) -> list[Profile]:
    """Return the profile that follows choices from a slot on until the work is done, if it is."""
    done = np.cumsum(np.where(choice == IDLE, 0.0, rate[choice]))
    if not len(done) or done[-1] < work * (1 - _FIT):
        return []
    begin = int(np.argmax(choice != IDLE))
    return [_profile(first + begin, choice[begin:], work, rate)]


def _in_a_row(fits: np.ndarray, work: float, rate: float, at_once: bool) -> int | None:
    """Return the first slot from which enough slots in a row fit; None if there is none."""
    need = max(int(np.ceil(work / rate * (1 - _FIT))), 1)
    if len(fits) < need:
        return None
    misses = np.concatenate([[0], np.cumsum(~fits)])
    begins = np.flatnonzero(misses[need:] == misses[:-need])
    if not len(begins) or (at_once and begins[0] > 0):
        return None
    return int(begins[0])


def _profile(start: int, choice: np.ndarray, work: float, rate: Array) -> Profile:
    """Return the profile of choices from `start` on, cut where the work is done."""
    left = work
    taken: list[int] = []
    for c in choice.tolist():
        taken.append(c)
        if c == IDLE:
            continue
        if left <= rate[c] * (1 + _FIT):
            break
        left -= float(rate[c])
    completion = start + len(taken) - 1 + min(left / float(rate[taken[-1]]), 1.0)
    return Profile(start, tuple(taken), completion)
