"""Tiny jobs with stages: every order in which stages are put in, every configuration and place.

Each stage is put in as early as those before it, its job and the hosts let it. Objectives never
gain by a later completion, so some order of putting in has an optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

from alloc.objectives import SCHEDULE_OBJECTIVES
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, TaskPlacement
from alloc.problems.allocation.stages import ends_of_jobs, graph_of
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, Stage, TaskGroup
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Asked = tuple[Instance, str]
Placed = tuple[float, float, tuple[int, ...]]
"""Start and end of a stage, and its GPUs on each host."""
_OBJECTIVES = ("makespan", "weighted_jct", "mean_jct", "tardiness")
_UNITS = tuple(scale for scale in SCALES if 1e-3 <= scale <= 1e6)
"""Of times: alloc takes none above a century, and the checker forgives a microsecond."""


def make(rng: Random, scaled: bool, large: bool) -> Asked:
    """Return a few jobs of a few stages, on one host or two."""
    unit = rng.choice(_UNITS) if scaled else 1.0
    weight = rng.choice(SCALES) if scaled else 1.0
    rate = rng.choice(SCALES) if scaled else 1.0
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 4 if large else 2))]
    types = tuple(HostType(f"box{n}", n, "generic") for n in sorted(set(sizes)))
    hosts = tuple(Host(f"h{k}", f"box{n}") for k, n in enumerate(sizes))
    whole = rng.random() < 0.5

    def stage(k: int) -> Stage:
        most = rng.randint(1, min(2, sum(sizes)))
        ways = tuple(
            Configuration((TaskGroup("w", n, 1000),), rate * n ** rng.choice((0.5, 0.8, 1.0)))
            for n in range(1, most + 1)
        )
        length = rng.randint(1, 9) if whole else rng.uniform(0.5, 9.0)
        before = tuple(str(p) for p in range(k) if rng.random() < 0.5)
        return Stage(str(k), unit * rate * length, ways, before)

    jobs = []
    for j in range(rng.randint(4, 8) if large else rng.randint(1, 3)):
        arrival = unit * rng.choice((0, 0, rng.randint(1, 12)))
        due = None if j and rng.random() < 0.3 else arrival + unit * rng.randint(0, 20)
        about: dict[str, Any] = {"weight": weight * rng.choice((1.0, 2.5)), "due_date_s": due}
        about |= {"elasticity": "moldable", "preemptible": False}
        if j and rng.random() < 0.3:
            alone = stage(0)
            jobs.append(Job(f"j{j}", arrival, alone.work, alone.configurations, **about))
        else:
            count = rng.randint(4, 9) if large else rng.randint(1, 3 - len(jobs))
            stages = tuple(stage(k) for k in range(count))
            jobs.append(Job(f"j{j}", arrival, stages=stages, **about))
    objective = rng.choice(_OBJECTIVES)
    move_s = unit * rng.choice((0.0, 0.0, 0.5, 3.0))
    topology = Topology("tiny", types, hosts)
    return Instance("stages", topology, tuple(jobs), move_s=move_s), objective


class _Enumeration:
    def __init__(self, instance: Instance, objective: str) -> None:
        self.instance = instance
        self.objective = next(o for o in SCHEDULE_OBJECTIVES if o.name == objective)
        self.parts, self.before = instance.unfolded.jobs, graph_of(instance).before
        self.room = [int(row[0]) // 1000 for row in instance.topology.capacity]
        self.best = math.inf

    def value(self, placed: dict[int, Placed]) -> float:
        """Return the value of what is put in, as if the rest took no time at all."""
        ends = {
            part.id: placed[k][1] if k in placed else part.arrival_s
            for k, part in enumerate(self.parts)
        }
        jobs = ends_of_jobs(self.instance, ends)
        return self.objective.of_completions(
            self.instance.jobs, [math.inf if end is None else end for end in jobs.values()]
        )

    def places(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield every way to put so many tasks on hosts."""
        for held in itertools.product(*(range(min(count, room) + 1) for room in self.room)):
            if sum(held) == count:
                yield held

    def start(self, placed: dict[int, Placed], ready: float, length: float, held: tuple[int, ...]):
        """Return the first start at which hosts have room throughout."""
        for start in sorted({ready, *(end for _, end, _ in placed.values() if end > ready)}):
            moments = [start, *(s for s, _, _ in placed.values() if start < s < start + length)]
            if all(
                own + sum(other[h] for s, e, other in placed.values() if s <= moment < e) <= room
                for moment in moments
                for h, (own, room) in enumerate(zip(held, self.room, strict=True))
            ):
                return start
        raise AssertionError("at the last end all hosts are free")

    def search(self, placed: dict[int, Placed]) -> None:
        """Put every stage that can come next in, in every way, and go on."""
        value = self.value(placed)
        if value >= self.best:
            return
        if len(placed) == len(self.parts):
            self.best = value
            return
        for k, part in enumerate(self.parts):
            if k in placed or not all(p in placed for p in self.before[k]):
                continue
            ready = max([part.arrival_s, *(placed[p][1] for p in self.before[k])])
            for way in part.configurations:
                length = part.work / way.rate
                for held in self.places(way.tasks[0].count):
                    start = self.start(placed, ready, length, held)
                    self.search({**placed, k: (start, start + length, held)})


Gpu = tuple[int | None, float, float]
"""The job that a GPU served last, None at first, and since when and until when it is busy."""


class Moving(_Enumeration):
    """All schedules where GPUs take time to move, one GPU by its name after the other.

    Whatever starts could start at its job's arrival or at the end of another stage, with the same
    GPUs: so at each such moment any stages start that may, in any way, or none.
    """

    def __init__(self, instance: Instance, objective: str) -> None:
        super().__init__(instance, objective)
        self.owner = graph_of(instance).owner
        self.runs: tuple[Run, ...] = ()
        """The runs of the best schedule."""

    def search(self, placed: dict[int, Placed]) -> None:
        """Try everything from the first moment on."""
        gpus = tuple(((None, 0.0, 0.0),) * room for room in self.room)
        self._from(min(part.arrival_s for part in self.parts), gpus, placed, ())

    def _from(
        self, now: float, gpus: tuple[tuple[Gpu, ...], ...], placed: dict[int, Placed], runs: Any
    ) -> None:
        if self.value(self._at_best(now, placed)) >= self.best:
            return
        if len(placed) == len(self.parts):
            self.best, self.runs = self.value(placed), runs
            return
        may = [
            k
            for k, part in enumerate(self.parts)
            if k not in placed
            and part.arrival_s <= now
            and all(p in placed and placed[p][1] <= now for p in self.before[k])
        ]
        free = [sum(until <= now for _, _, until in host) for host in gpus]
        for starts in self._choices(may, free):
            after, ends = self._start(now, gpus, starts)
            then = placed | {
                k: (now, end, held) for (k, _, held), end in zip(starts, ends, strict=True)
            }
            moments = [end for _, end, _ in then.values()] + [p.arrival_s for p in self.parts]
            coming = min((moment for moment in moments if moment > now), default=None)
            made = tuple(
                self._run(k, c, now, end, held)
                for (k, c, held), end in zip(starts, ends, strict=True)
            )
            if coming is not None:
                self._from(coming, after, then, (*runs, *made))

    def _at_best(self, now: float, placed: dict[int, Placed]) -> dict[int, Placed]:
        """Return what is placed, and the rest as if there were room for all from now on."""
        found = dict(placed)
        for k, part in enumerate(self.parts):  # those before it have lower positions
            if k not in placed:
                ready = max([now, part.arrival_s, *(found[p][1] for p in self.before[k])])
                found[k] = (ready, ready + part.min_run_s, ())
        return found

    def _choices(
        self, may: list[int], free: list[int]
    ) -> Iterator[list[tuple[int, int, tuple[int, ...]]]]:
        """Yield which stages start, in which configuration and where."""
        if not may:
            yield []
            return
        for c, way in enumerate(self.parts[may[0]].configurations):
            for held in self.places(way.tasks[0].count):
                left = [room - own for room, own in zip(free, held, strict=True)]
                if min(left) >= 0:
                    for others in self._choices(may[1:], left):
                        yield [(may[0], c, held), *others]
        yield from self._choices(may[1:], free)

    def _start(
        self,
        now: float,
        gpus: tuple[tuple[Gpu, ...], ...],
        starts: list[tuple[int, int, tuple[int, ...]]],
    ) -> tuple[tuple[tuple[Gpu, ...], ...], list[float]]:
        """Hand out GPUs: one's own, then new ones, then of others the longest idle."""
        left = [[gpu for gpu in host if gpu[2] <= now] for host in gpus]
        busy = [[gpu for gpu in host if gpu[2] > now] for host in gpus]
        needs = [list(held) for _, _, held in starts]
        moved = [False] * len(starts)
        for turn in ("own", "new", "others"):
            for at, (k, _, _) in enumerate(starts):
                for h, host in enumerate(left):
                    fit = sorted(
                        (
                            gpu
                            for gpu in host
                            if turn == "others"
                            or gpu[0] == (self.owner[k] if turn == "own" else None)
                        ),
                        key=lambda gpu: (gpu[2], -1 if gpu[0] is None else gpu[0]),
                    )[: needs[at][h]]
                    for gpu in fit:
                        host.remove(gpu)
                        needs[at][h] -= 1
                        moved[at] |= turn == "others"
        ends = []
        for at, (k, c, held) in enumerate(starts):
            part, wait = self.parts[k], self.instance.move_s if moved[at] else 0.0
            end = now + wait + part.work / part.configurations[c].rate
            ends.append(end)
            for h, count in enumerate(held):
                busy[h] += [(self.owner[k], now, end)] * count
        return tuple((*a, *b) for a, b in zip(left, busy, strict=True)), ends

    def _run(self, k: int, c: int, now: float, end: float, held: tuple[int, ...]) -> Run:
        hosts = self.instance.topology.hosts
        tasks = tuple(
            TaskPlacement(host.id, "w", count)
            for host, count in zip(hosts, held, strict=True)
            if count
        )
        return Run(self.parts[k].id, c, now, end, tasks)


def truth(asked: Asked) -> Truth:
    """Try everything."""
    instance, objective = asked
    found = (Moving if instance.move_s else _Enumeration)(instance, objective)
    found.search({})
    times = sum(part.work / part.min_rate for part in instance.unfolded.jobs)
    weight = max(job.weight for job in instance.jobs)
    return Truth((found.best,), size=times * (weight if objective in _OBJECTIVES[1::2] else 1.0))


def solve(asked: Asked, way: str, seconds: float) -> Answer:
    """Solve it."""
    instance, objective = asked
    result = solve_instance(
        instance, "stages", way, objective=objective, limits=Limits(seconds=seconds)
    )
    found = () if result.solution is None else verify(instance, result.solution)
    return of_result(result, found)


STAGES = Family("stages", make, ("auto",), truth, solve, open_ways=("auto",))
"""Hosts are put in by lists, which may miss the optimum of several hosts."""
