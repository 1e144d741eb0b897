"""From patterns and numbers of jobs to hosts: who stands where.

Inner domains are dealt first: what a rack holds for a gang of that rack, no wider gang may take.
"""

from __future__ import annotations

import numpy as np

from alloc.models.placement.data import PlacementData
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.placement.tables import Ints
from alloc.solving.placement.waiting import Option, Waiting


def deal(
    data: PlacementData,
    waiting: Waiting,
    followed: list[tuple[int, Ints, int]],
    placed: Ints,
) -> Allocation:
    """Return the allocation of an admission.

    Parameters
    ----------
    data
        The numbers of the instance.
    waiting
        The admission problem.
    followed
        Patterns: bay, tasks of each class, and how many of the bay's hosts follow it.
    placed
        Jobs placed by each option, shape (options,).
    """
    hosts, room, domains = _slots(waiting, followed)
    taken = [0] * len(waiting.kinds)
    assignments = list(data.running.values())
    order = sorted(np.flatnonzero(placed), key=lambda o: -waiting.options[o].domain)
    for o in order:
        option = waiting.options[o]
        inside = (domains == option.domain).any(axis=1)
        for _ in range(int(placed[o])):
            job = waiting.kinds[option.kind].jobs[taken[option.kind]]
            taken[option.kind] += 1
            assignments.append(_assignment(data, waiting, job, option, (hosts, room, inside)))
    return Allocation(tuple(assignments))


def _slots(waiting: Waiting, followed: list[tuple[int, Ints, int]]) -> tuple[list[int], Ints, Ints]:
    """Return the hosts that follow a pattern, their room for each class, and their domains."""
    next_host = [0] * len(waiting.bays)
    width = max((len(bay.domains) for bay in waiting.bays), default=0)
    hosts: list[int] = []
    room: list[Ints] = []
    domains: list[Ints] = []
    for b, counts, number in followed:
        bay = waiting.bays[b]
        for _ in range(number):
            hosts.append(int(bay.hosts[next_host[b]]))
            next_host[b] += 1
            room.append(counts.copy())
            padding = np.full(width - len(bay.domains), -1)
            domains.append(np.concatenate([bay.domains, padding]))
    if not hosts:
        return hosts, np.zeros((0, len(waiting.demand)), int), np.zeros((0, width), int)
    return hosts, np.array(room), np.array(domains)


def _assignment(
    data: PlacementData,
    waiting: Waiting,
    job: int,
    option: Option,
    slots: tuple[list[int], Ints, np.ndarray],
) -> Assignment:
    """Put the tasks of a job on slots within its domain, on few hosts, and take them."""
    hosts, room, inside = slots
    tasks: list[TaskPlacement] = []
    for k, group in enumerate(data.groups):
        if group.job != job or group.configuration != option.configuration:
            continue
        c, left = int(waiting.class_of[k]), group.tasks.count
        open_slots = np.flatnonzero(inside & (room[:, c] > 0))
        for s in open_slots[np.argsort(-room[open_slots, c], kind="stable")]:
            number = min(left, int(room[s, c]))
            if number:
                room[s, c] -= number
                left -= number
                host = data.instance.topology.hosts[hosts[s]].id
                tasks.append(TaskPlacement(host, group.tasks.role, number))
        assert left == 0, "(W2) holds for every domain, so there is room"
    return Assignment(data.instance.jobs[job].id, option.configuration, tuple(tasks))
