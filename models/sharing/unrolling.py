"""From counts back to hosts, GPUs and starts: which task stands where."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from alloc.collector import collector_paused
from alloc.models.sharing.data import Array, GpuGroup, HostClass, Item, SharingData, Whole
from alloc.models.sharing.patterns import Counts, Pattern, layout_of
from alloc.problems.allocation.solution import (
    Allocation,
    Assignment,
    TaskPlacement,
    assignment_of_one,
)
from alloc.topology.mig import Layout

Slot = tuple[int, int, int]
"""Host, position of the GPU, and first memory slice (-1 for a share)."""


class Chosen(NamedTuple):
    """A job that runs, by position, and the option it runs in."""

    job: int
    option: int


@dataclass(eq=False)
class Task:
    """One task of a job that runs.

    Parameters
    ----------
    owner, role, item
        Position of the job among those chosen; role and kind of the task.
    home
        Where it runs now, if it does: host, GPU and start (-1 where there is none), or None.
    """

    owner: int
    role: str
    item: int
    home: Slot | None = None


@dataclass
class Unrolled:
    """What became of counts.

    Parameters
    ----------
    chosen
        The jobs that run.
    placed
        Tasks with their place; the GPU is -1 for whole GPUs and tasks without any.
    left
        Positions in `chosen` of jobs of which a task found no host.
    """

    chosen: list[Chosen]
    placed: list[tuple[Task, Slot]] = field(default_factory=list)
    left: set[int] = field(default_factory=set)


def allocation_of(
    data: SharingData, columns: Sequence[tuple[int, Pattern]], values: Array
) -> Allocation | None:
    """Return the allocation of integer values, or None when a task finds no host.

    Parameters
    ----------
    data
        The numbered problem.
    columns
        Group of GPUs and pattern of each column x.
    values
        Values of z, y and x, integers up to rounding.
    """
    unrolled = unroll(data, columns, values)
    return None if unrolled.left else to_allocation(data, unrolled)


@collector_paused()
def to_allocation(data: SharingData, unrolled: Unrolled) -> Allocation:
    """Return the allocation of the jobs all of whose tasks are placed.

    Parameters
    ----------
    data, unrolled
        The numbered problem, and its jobs that run with the places of their tasks.
    """
    of_job: dict[int, list[tuple[Task, Slot]]] = {}
    for pair in unrolled.placed:
        of_job.setdefault(pair[0].owner, []).append(pair)
    for owner in unrolled.left:
        of_job.pop(owner, None)
    jobs, ids = data.instance.jobs, [host.id for host in data.instance.topology.hosts]
    assignments = []
    for owner, pairs in of_job.items():
        j, option = unrolled.chosen[owner]
        configuration = data.options[option][1]
        if len(pairs) == 1:
            ((task, (h, g, start)),) = pairs
            gpus, starts = () if g < 0 else (g,), () if start < 0 else (start,)
            made = assignment_of_one(jobs[j].id, configuration, ids[h], task.role, gpus, starts)
            assignments.append((j, made))
            continue
        spots: dict[tuple[int, str], list[Slot]] = {}
        for task, slot in pairs:
            spots.setdefault((slot[0], task.role), []).append(slot)
        tasks = tuple(
            [
                TaskPlacement(
                    ids[h],
                    role,
                    len(slots),
                    tuple([g for _, g, _ in slots if g >= 0]),
                    tuple([start for _, _, start in slots if start >= 0]),
                )
                for (h, role), slots in sorted(spots.items())
            ]
        )
        assignments.append((j, Assignment(jobs[j].id, configuration, tasks)))
    assignments.sort(key=itemgetter(0))
    return Allocation(tuple([assignment for _, assignment in assignments]))


@collector_paused()
def unroll(data: SharingData, columns: Sequence[tuple[int, Pattern]], values: Array) -> Unrolled:
    """Deal counts out to hosts and GPUs.

    Parameters
    ----------
    data
        The problem.
    columns
        Group and pattern of each x.
    values
        Values of z, y and x, integer up to rounding.

    Returns
    -------
    Unrolled
        Where everything stands. On classes of several hosts whose CPU or memory is scarce a task
        may be left over.
    """
    counts = np.rint(values).astype(np.int64)
    z, y, x = np.split(counts, [len(data.options), len(data.options) + len(data.pairs)])
    unrolled = Unrolled(_choose_jobs(data, z))
    tasks = _split_tasks(data, unrolled.chosen, y)
    for h, hosts in enumerate(data.host_classes):
        mine = [
            (data.groups[g], pattern, int(n))
            for (g, pattern), n in zip(columns, x, strict=True)
            if n and data.groups[g].host_class == h
        ]
        here = tasks.get(h, [])
        if here:
            _Dealer(data, hosts, any(data.tight[h])).deal(here, mine, unrolled)
    return unrolled


def _choose_jobs(data: SharingData, z: Whole) -> list[Chosen]:
    """Choose which jobs of each class run, those that run already first, in their own option."""
    running = {data.instance.job_index[a.job]: a.configuration for a in data.instance.running}
    waiting = {k: list(job_class.members) for k, job_class in enumerate(data.classes)}
    chosen = []
    for o, (k, c) in enumerate(data.options):
        if running:
            waiting[k].sort(key=lambda j: (running.get(j, c) != c, j not in running, j))
        number = int(z[o])
        chosen += [Chosen(j, o) for j in waiting[k][:number]]
        del waiting[k][:number]
    return chosen


def _split_tasks(data: SharingData, chosen: Sequence[Chosen], y: Whole) -> dict[int, list[Task]]:
    """Return the tasks of each host class; those that run there now stay if they can."""
    by_item: defaultdict[int, list[Task]] = defaultdict(list)
    homes = _homes(data)
    for owner, job in enumerate(chosen):
        for role, item, count in data.roles[job.option]:
            if not homes:
                by_item[item] += [Task(owner, role, item) for _ in range(count)]
                continue
            home = homes.get((job.job, job.option, role), ())
            for n in range(count):
                by_item[item].append(Task(owner, role, item, home[n] if n < len(home) else None))
    class_of = {h: c for c, hosts in enumerate(data.host_classes) for h in hosts.hosts}
    left = {pair: int(n) for pair, n in zip(data.pairs, y, strict=True)}
    found: dict[int, list[Task]] = {}
    for item, tasks in by_item.items():
        others = []
        for task in tasks if homes else ():
            at = None if task.home is None else class_of[task.home[0]]
            if at is not None and left.get((item, at), 0):
                left[item, at] -= 1
                found.setdefault(at, []).append(task)
            else:
                others.append(task)
        rest = iter(others if homes else tasks)
        for (i, h), number in left.items():
            if i == item:
                found.setdefault(h, []).extend(islice(rest, number))
    return found


def _homes(data: SharingData) -> dict[tuple[int, int, str], list[Slot]]:
    """Return where the tasks of running jobs are, by job, option and role."""
    instance = data.instance
    option_of = (
        {(j, c): o for o, (k, c) in enumerate(data.options) for j in data.classes[k].members}
        if instance.running
        else {}
    )
    found: dict[tuple[int, int, str], list[Slot]] = {}
    for a in instance.running:
        j = instance.job_index[a.job]
        option = option_of.get((j, a.configuration))
        if option is None:
            continue
        for task in a.tasks:
            h = instance.topology.host_index[task.host]
            for n in range(task.count):
                g = task.gpus[n] if n < len(task.gpus) else -1
                start = task.starts[n] if n < len(task.starts) else -1
                found.setdefault((j, option, task.role), []).append((h, g, start))
    return found


@dataclass(eq=False)
class _Bundle:
    """Tasks that go onto a host together: those of one GPU, or one task with whole GPUs."""

    group: GpuGroup | None
    pattern: Pattern | None
    num_gpus: int
    slots: list[int]
    use: Array
    tasks: list[Task] = field(default_factory=list)
    host: int = -1
    gpu: int = -1


class _Dealer:
    """Deals the tasks of one host class out to its hosts."""

    def __init__(self, data: SharingData, hosts: HostClass, tight: bool) -> None:
        self.data, self.hosts, self.tight = data, hosts, tight
        number = len(hosts.hosts)
        self.capacity = np.array(hosts.beside, dtype=float)
        self.free = np.tile(self.capacity, (number, 1))
        self.gpus_left = np.full(number, hosts.num_gpus)
        self.index = {h: k for k, h in enumerate(hosts.hosts)}
        self.uses = [np.array(i.beside, dtype=float) for i in data.items]
        self.sizes = [item.size for item in data.items]
        self.slots: dict[tuple[Counts, Layout], list[tuple[int, int]]] = {}
        """Sizes and starts of the slots that a pattern offers on a GPU in a state."""
        # GPUs not yet given away, by host, in the groups' order; uncut ones last, so that `pop`
        # takes them first.
        self.open: list[dict[tuple[tuple[str, int], ...], list[int]]] = [{} for _ in hosts.hosts]
        self.num_open: dict[tuple[tuple[str, int], ...], Whole] = {}
        for group in data.groups:
            if data.host_classes[group.host_class] is hosts:
                for h, g in reversed(group.gpus):
                    self.open[self.index[h]].setdefault(group.state, []).append(g)
        for state in dict.fromkeys(state for spare in self.open for state in spare):
            self.num_open[state] = np.array([len(spare.get(state, ())) for spare in self.open])

    def deal(
        self,
        tasks: Sequence[Task],
        patterns: Sequence[tuple[GpuGroup, Pattern, int]],
        unrolled: Unrolled,
    ) -> None:
        """Place tasks by patterns, and note those that find no room."""
        items = self.data.items
        entire = {i for i, item in enumerate(items) if self._is_whole(item)}
        on_gpus = {i for i, item in enumerate(items) if item.size >= 0}
        whole = [t for t in tasks if t.item in entire]
        without = [t for t in tasks if t.item not in on_gpus]
        others = [t for t in tasks if t.item in on_gpus and t.item not in entire]
        large = [
            _Bundle(None, None, items[t.item].units, [], self.uses[t.item], [t]) for t in whole
        ]
        large.sort(key=lambda b: (-b.num_gpus, -b.use[0], -b.use[1]))
        nothing = np.zeros(len(self.capacity))
        bundles = [
            _Bundle(group, pattern, 1, list(pattern.counts), nothing)
            for group, pattern, number in patterns
            if not self._is_whole_pattern(pattern)
            for _ in range(number)
        ]
        if self.tight:
            others = self._fill_evenly(bundles, others)
            bundles = [b for b in bundles if b.tasks]
            bundles.sort(key=lambda b: -float((b.use / np.maximum(self.capacity, 1)).max()))
        several = [b for b in large if b.num_gpus > 1]
        single = [b for b in large if b.num_gpus == 1]
        self._seat(several, unrolled)
        together = sorted(
            [*single, *bundles] if self.tight else [*bundles, *single],
            key=lambda b: -float(b.use.sum()) if self.tight else 0.0,
        )
        self._seat(together, unrolled)
        if not self.tight:
            others = self._fill_at_home(bundles, others)
        for bundle in (*several, *single, *bundles):
            self._record(bundle, unrolled)
        for task in others:
            unrolled.left.add(task.owner)
        self._seat_without_gpu(without, unrolled)

    def _is_whole(self, item: Item) -> bool:
        return item.size >= 0 and self.data.sizes[item.size].is_whole

    def _is_whole_pattern(self, pattern: Pattern) -> bool:
        return any(
            n and size.is_whole for n, size in zip(pattern.counts, self.data.sizes, strict=True)
        )

    def _fill_evenly(self, bundles: Sequence[_Bundle], tasks: Iterable[Task]) -> list[Task]:
        """Fill the slots, the heaviest task first into the lightest bundle; return the rest."""
        scale = np.maximum(self.capacity, 1)
        weight = {i: float((use / scale).max()) for i, use in enumerate(self.uses)}
        heaps: dict[int, list[tuple[float, int]]] = {}
        load = [0.0] * len(bundles)
        for b, bundle in enumerate(bundles):
            for s, number in enumerate(bundle.slots):
                if number:
                    heaps.setdefault(s, []).append((0.0, b))
        rest = []
        for task in sorted(tasks, key=lambda t: -weight[t.item]):
            s = self.data.items[task.item].size
            heap = heaps.get(s, [])
            while heap:
                known, b = heapq.heappop(heap)
                if known < load[b]:  # it grew by a task of another size
                    heapq.heappush(heap, (load[b], b))
                    continue
                bundle = bundles[b]
                bundle.slots[s] -= 1
                bundle.tasks.append(task)
                bundle.use = bundle.use + self.uses[task.item]
                load[b] += weight[task.item]
                if bundle.slots[s]:
                    heapq.heappush(heap, (load[b], b))
                break
            else:
                rest.append(task)
        return rest

    def _seat(self, bundles: Iterable[_Bundle], unrolled: Unrolled) -> None:
        """Give each bundle a host and, if it shares or cuts one, a GPU."""
        k, state = None, None
        for bundle in bundles:
            group = bundle.group
            # The fullest host that has a GPU in this state stays so while bundles go there.
            if (
                self.tight
                or k is None
                or group is None
                or group.state != state
                or not self.gpus_left[k]
                or not self.num_open[state][k]
            ):
                k = self._host_for(bundle)
            state = None if group is None else group.state
            if k is None:
                unrolled.left.update(task.owner for task in bundle.tasks)
                bundle.tasks = []
                continue
            self.free[k] -= bundle.use
            self.gpus_left[k] -= bundle.num_gpus
            taken = [self._take(k, state or ()) for _ in range(bundle.num_gpus)]
            bundle.host = self.hosts.hosts[k]
            bundle.gpu = taken[0] if group is not None else -1

    def _take(self, k: int, state: tuple[tuple[str, int], ...]) -> int:
        """Take a GPU in a state, else an uncut one, else any."""
        spare = self.open[k]
        key = next(s for s in (state, (), *spare) if spare.get(s))
        self.num_open[key][k] -= 1
        return spare[key].pop()

    def _host_for(self, bundle: _Bundle) -> int | None:
        fits = self.gpus_left >= bundle.num_gpus
        if self.tight:
            fits &= (self.free >= bundle.use).all(axis=1)
        able = np.flatnonzero(fits)
        if not able.size:
            return None
        if bundle.num_gpus > 1:
            return int(able[np.argmin(self.gpus_left[able])])
        if bundle.group is not None:
            alike = able[self.num_open[bundle.group.state][able] > 0]
            able = alike if len(alike) else able
        if not self.tight:
            # The fullest host: whole hosts stay free.
            return int(able[np.argmin(self.gpus_left[able])])
        share = (self.free[able] / np.maximum(self.capacity, 1)).min(axis=1)
        return int(able[np.argmax(share)])

    def _fill_at_home(self, bundles: Sequence[_Bundle], tasks: Iterable[Task]) -> list[Task]:
        """Fill the seated bundles: tasks that run in a slot now first; return the rest."""
        at_home: dict[tuple[int, Slot], list[Task]] = {}
        waiting: defaultdict[int, deque[Task]] = defaultdict(deque)
        for task in tasks:
            if task.home is not None:
                at_home.setdefault((self.data.items[task.item].size, task.home), []).append(task)
        stays: set[int] = set()
        for bundle in bundles if at_home else ():
            for s, slot in self._slots_of(bundle):
                found = at_home.get((s, slot))
                if found and bundle.slots[s]:
                    task = found.pop()
                    stays.add(id(task))
                    bundle.tasks.append(task)
                    bundle.slots[s] -= 1
        for task in tasks:
            if not stays or id(task) not in stays:
                waiting[self.sizes[task.item]].append(task)
        for bundle in bundles:
            for s, number in enumerate(bundle.slots):
                if number and (queue := waiting.get(s)):
                    bundle.tasks += [queue.popleft() for _ in range(min(number, len(queue)))]
            bundle.slots = [0] * len(bundle.slots)
        return [task for rest in waiting.values() for task in rest]

    def _slots_of(self, bundle: _Bundle) -> list[tuple[int, Slot]]:
        """Return the slots that a seated bundle offers, with their size."""
        assert bundle.pattern is not None
        if bundle.host < 0:
            return []
        # The state of the GPU it got, which may not be the one it was meant for.
        state = self.data.state_of.get((bundle.host, bundle.gpu), ())
        key = bundle.pattern.counts, state
        if key not in self.slots:
            self.slots[key] = self._slots(*key)
        return [(s, (bundle.host, bundle.gpu, start)) for s, start in self.slots[key]]

    def _slots(self, counts: Counts, state: Layout) -> list[tuple[int, int]]:
        """Return the sizes and starts of the slots of a GPU in a state."""
        sizes = self.data.sizes
        found = [
            (s, -1)
            for s, number in enumerate(counts)
            if sizes[s].profile is None
            for _ in range(number)
        ]
        size_of = {size.profile: s for s, size in enumerate(sizes) if size.profile is not None}
        if any(counts[s] for s in size_of.values()):
            assert self.hosts.gpu_type is not None
            layout = layout_of(self.hosts.gpu_type, sizes, counts, state)
            found += [(size_of[profile], start) for profile, start in layout]
        return found

    def _record(self, bundle: _Bundle, unrolled: Unrolled) -> None:
        """Write down where the tasks of a bundle stand."""
        if bundle.pattern is None or not bundle.tasks:
            unrolled.placed += [(task, (bundle.host, -1, -1)) for task in bundle.tasks]
            return
        open_slots: defaultdict[int, list[Slot]] = defaultdict(list)
        for s, slot in self._slots_of(bundle):
            open_slots[s].append(slot)
        if not self.data.instance.running:
            left = {s: iter(slots) for s, slots in open_slots.items()}
            unrolled.placed += [(task, next(left[self.sizes[task.item]])) for task in bundle.tasks]
            return
        later = []
        for task in bundle.tasks:
            if task.home is not None and task.home in (mine := open_slots[self.sizes[task.item]]):
                mine.remove(task.home)
                unrolled.placed.append((task, task.home))
            else:
                later.append(task)
        for task in later:
            slot = open_slots[self.sizes[task.item]].pop(0)
            unrolled.placed.append((task, slot))

    def _seat_without_gpu(self, tasks: Sequence[Task], unrolled: Unrolled) -> None:
        """Put tasks without GPU where they fit most snugly, the largest first."""
        for task in sorted(tasks, key=lambda t: -float(self.uses[t.item].sum())):
            use = self.uses[task.item]
            able = np.flatnonzero((self.free >= use).all(axis=1))
            if not able.size:
                unrolled.left.add(task.owner)
                continue
            k = int(able[np.argmin(self.free[able].sum(axis=1))])
            self.free[k] -= use
            unrolled.placed.append((task, (self.hosts.hosts[k], -1, -1)))
