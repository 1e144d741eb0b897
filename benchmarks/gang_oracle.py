"""What may stand where, by plain enumeration: nothing of the engine, the models or the checker.

A placement of a job is its configuration and the number of its tasks of each role on each host. A
rule that the running jobs break from the start stays as it is; nobody may break it further, and
the jobs that break it stay where they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.workload import Configuration, Job, TaskGroup

Tasks = dict[tuple[str, int], int]
"""Tasks by role and position of the host."""
Standing = tuple[int, Tasks]
"""A configuration, and where its tasks stand."""
Broken = dict[tuple[object, ...], int]
"""What is broken, and by how much."""


def splits(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to split a number over some parts, at least one."""
    if parts == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in splits(count - first, parts - 1):
            yield (first, *rest)


def standing_of(instance: Instance, assignment: Assignment) -> Standing:
    """Return an assignment by host."""
    place = {host.id: h for h, host in enumerate(instance.topology.hosts)}
    tasks: Tasks = {}
    for task in assignment.tasks:
        key = (task.role, place[task.host])
        tasks[key] = tasks.get(key, 0) + task.count
    return assignment.configuration, tasks


def moved(before: Standing, after: Standing) -> int:
    """Return how many tasks leave their host."""
    return sum(max(0, n - after[1].get(key, 0)) for key, n in before[1].items())


class Oracle:
    """Every question about an instance of a few hosts and jobs.

    Parameters
    ----------
    instance
        The cluster, its jobs and what runs; whole GPUs only.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @cached_property
    def domains(self) -> list[dict[str, str]]:
        """For each host, the domain of each level that it lies in, and itself."""
        parent = {domain.id: domain for domain in self.instance.topology.domains}
        found = []
        for host in self.instance.topology.hosts:
            own, above = {"host": host.id}, host.domain
            while above is not None:
                own[parent[above].level] = above
                above = parent[above].parent
            found.append(own)
        return found

    @cached_property
    def capacity(self) -> list[tuple[int, int, int]]:
        """GPU, CPU and memory of each host."""
        types = {kind.name: kind for kind in self.instance.topology.host_types}
        kinds = [types[host.type] for host in self.instance.topology.hosts]
        return [(1000 * kind.num_gpus, kind.cpu_milli, kind.memory_mib) for kind in kinds]

    @cached_property
    def gpu_types(self) -> list[str | None]:
        """GPU type of each host."""
        types = {kind.name: kind.gpu_type for kind in self.instance.topology.host_types}
        return [types[host.type] for host in self.instance.topology.hosts]

    @cached_property
    def running(self) -> dict[str, Standing]:
        """Where every running job stands."""
        return {a.job: standing_of(self.instance, a) for a in self.instance.running}

    def own_rules_broken(self, job: Job, standing: Standing) -> Iterator[str]:
        """Yield the rules that a job breaks by itself."""
        configuration = job.configurations[standing[0]]
        hosts = {h for (_, h), n in standing[1].items() if n}
        gpu_type = configuration.gpu_type
        if gpu_type is not None and any(self.gpu_types[h] != gpu_type for h in hosts):
            yield "GPU type"
        for level in {job.placement.required, configuration.within}:
            if level is None:
                continue
            held = {self.domains[h].get(level) for h in hosts}
            if len(held) != 1 or None in held:
                yield f"in one {level}"
        with_gpus = [g.role for g in configuration.tasks if g.gpu_milli]
        ruled = with_gpus or [g.role for g in configuration.tasks]
        for cut in job.placement.slices:
            for role in ruled:
                tasks = self._by_domain(cut.level, standing[1], [role])
                if tasks.pop(None, 0) or any(n % cut.size for n in tasks.values()):
                    yield f"slices per {cut.level}"
        for limit in job.placement.spread:
            tasks = self._by_domain(limit.level, standing[1], ruled)
            tasks.pop(None, 0)
            if any(n > limit.most for n in tasks.values()):
                yield f"spread over {limit.level}"

    def _by_domain(self, level: str, tasks: Tasks, roles: Iterable[str]) -> dict[str | None, int]:
        found: dict[str | None, int] = {}
        for (role, h), n in tasks.items():
            if role in roles:
                name = self.domains[h].get(level)
                found[name] = found.get(name, 0) + n
        return found

    def placements(self, job: Job, c: int) -> list[Standing]:
        """Return every placement of a configuration that keeps the job's own rules."""
        hosts = range(len(self.domains))
        per_group = [
            [
                {(group.role, h): n for h, n in zip(hosts, split, strict=True) if n}
                for split in splits(group.count, len(hosts))
                if all(self._holds(group, h, n) for h, n in zip(hosts, split, strict=True))
            ]
            for group in job.configurations[c].tasks
        ]
        found = []
        for choice in itertools.product(*per_group):
            tasks = {key: n for part in choice for key, n in part.items()}
            if next(self.own_rules_broken(job, (c, tasks)), None) is None:
                found.append((c, tasks))
        return found

    def _holds(self, group: TaskGroup, h: int, n: int) -> bool:
        return all(n * d <= own for d, own in zip(group.demand, self.capacity[h], strict=True))

    def load(self, jobs: Mapping[str, Standing]) -> list[list[int]]:
        """Return what some jobs use of each host."""
        used = [[0, 0, 0] for _ in self.capacity]
        for name, (c, tasks) in jobs.items():
            demand = _demand(self.instance.job(name).configurations[c])
            for (role, h), n in tasks.items():
                for r in range(3):
                    used[h][r] += n * demand[role][r]
        return used

    def broken(self, jobs: Mapping[str, Standing], *, capacity: bool = True) -> Broken:
        """Return every rule that some jobs break where they stand."""
        found: Broken = {}
        if capacity:
            for h, own in enumerate(self.load(jobs)):
                for r in range(3):
                    if own[r] > self.capacity[h][r]:
                        found["host", h, r] = own[r] - self.capacity[h][r]
        for name, standing in jobs.items():
            for rule in self.own_rules_broken(self.instance.job(name), standing):
                found["own", name, rule] = 1
        found |= self._over_quota(jobs)
        for k, affinity in enumerate(self.instance.affinities):
            held = {
                name: {self.domains[h].get(affinity.level) for (_, h), n in tasks.items() if n}
                for name, (_, tasks) in jobs.items()
                if name in affinity.jobs
            }
            if affinity.kind == "together":
                everywhere = set().union(*held.values()) if held else set()
                if len(everywhere) > 1 or None in everywhere:
                    found["together", k, frozenset(held)] = len(everywhere)
            else:
                for a, b in itertools.combinations(sorted(held), 2):
                    if (held[a] & held[b]) - {None}:
                        found["apart", k, a, b] = 1
        return found

    def _over_quota(self, jobs: Mapping[str, Standing]) -> Broken:
        held = self.held(jobs)
        found: Broken = {}
        cohorts: dict[str, int] = {}
        for t in self.instance.tenants:
            over = held[t.name] - t.gpu_quota_milli - t.borrowing_milli
            if over > 0:
                found["tenant", t.name] = over
            if t.cohort is not None:
                cohorts[t.cohort] = cohorts.get(t.cohort, 0) + held[t.name] - t.gpu_quota_milli
        return found | {("cohort", name): over for name, over in cohorts.items() if over > 0}

    def held(self, jobs: Mapping[str, Standing]) -> dict[str, int]:
        """Return the milli-GPU that each tenant holds."""
        held = {t.name: 0 for t in self.instance.tenants}
        for name, (c, _) in jobs.items():
            job = self.instance.job(name)
            if job.tenant in held:
                held[job.tenant] += sum(g.count * g.gpu_milli for g in job.configurations[c].tasks)
        return held

    @cached_property
    def broken_before(self) -> Broken:
        """What the running jobs break from the start."""
        return self.broken(self.running)

    def allowed(self, jobs: Mapping[str, Standing], *, capacity: bool = True) -> bool:
        """Return whether some jobs break nothing that was not broken before."""
        return all(
            amount <= self.broken_before.get(key, 0)
            for key, amount in self.broken(jobs, capacity=capacity).items()
        )

    @cached_property
    def concerned(self) -> set[str]:
        """Running jobs that have a part in what is broken from the start: they stay."""
        found: set[str] = set()
        tenants: set[str | None] = set()
        for kind, *rest in self.broken_before:
            if kind == "own":
                found.add(str(rest[0]))
            elif kind == "apart":
                found |= {str(rest[1]), str(rest[2])}
            elif kind == "together":
                found |= {name for name in self.running if name in rest[1]}  # type: ignore[operator]
            elif kind == "tenant":
                tenants.add(str(rest[0]))
            elif kind == "cohort":
                tenants |= {t.name for t in self.instance.tenants if t.cohort == rest[0]}
        return found | {n for n in self.running if self.instance.job(n).tenant in tenants}

    def starts(self, name: str, *, capacity: bool = True) -> bool:
        """Return whether a waiting job can start beside what runs.

        With ``capacity=False`` the running jobs hold no capacity, and keep all else.
        """
        job = self.instance.job(name)
        for c in range(len(job.configurations)):
            for standing in self.placements(job, c):
                fits = capacity or not any(k[0] == "host" for k in self.broken({name: standing}))
                if fits and self.allowed({**self.running, name: standing}, capacity=capacity):
                    return True
        return False

    def best(
        self,
        waiting: Iterable[str],
        *,
        budget: int | None = None,
        resize: bool = False,
        must: bool = False,
        movers: Iterable[str] | None = None,
    ) -> tuple[int, int] | None:
        """Return the most milli-GPU of running and waiting jobs, and the fewest moves for that.

        Parameters
        ----------
        waiting
            Jobs that may start; all others that wait stay out.
        budget
            Most tasks that may move.
        resize
            Whether malleable running jobs may change their configuration.
        must
            Whether every job in `waiting` has to start; the most milli-GPU then counts nothing.
            None if that cannot be.
        movers
            The only running jobs that may move, or None for all.
        """
        choices: list[tuple[str, list[Standing | None]]] = []
        for name, now in self.running.items():
            stays = movers is not None and name not in movers
            choices.append((name, [*self._ways_on(name, now, stays, resize)]))
        for name in waiting:
            job = self.instance.job(name)
            its: list[Standing | None] = [] if must else [None]
            for c in range(len(job.configurations)):
                its += self.placements(job, c)
            choices.append((name, its))
        free = [list(row) for row in self.capacity]
        chosen: dict[str, Standing] = {}
        best: tuple[int, int] | None = None

        def search(k: int, gpus: int, moves: int) -> None:
            nonlocal best
            if budget is not None and moves > budget:
                return
            if k == len(choices):
                better = best is None or (gpus, -moves) > (best[0], -best[1])
                if better and self.allowed(chosen):
                    best = (gpus, moves)
                return
            name, own = choices[k]
            for standing in own:
                if standing is None:
                    search(k + 1, gpus, moves)
                    continue
                more = 0 if must else self._gpus(name, standing)
                cost = moved(self.running[name], standing) if name in self.running else 0
                used = self.load({name: standing})
                _add(free, used, -1)
                if all(amount >= 0 for own in free for amount in own):
                    chosen[name] = standing
                    search(k + 1, gpus + more, moves + cost)
                    del chosen[name]
                _add(free, used, +1)

        search(0, 0, 0)
        return best

    def _ways_on(self, name: str, now: Standing, stays: bool, resize: bool) -> Iterator[Standing]:
        """Yield how a running job may go on."""
        job = self.instance.job(name)
        if name in self.concerned:
            yield now
            return
        sizes = (
            range(len(job.configurations)) if resize and job.elasticity == "malleable" else [now[0]]
        )
        for c in sizes:
            for standing in self.placements(job, c):
                if (job.preemptible and not stays) or not moved(now, standing):
                    yield standing

    def _gpus(self, name: str, standing: Standing) -> int:
        tasks = self.instance.job(name).configurations[standing[0]].tasks
        return sum(group.count * group.gpu_milli for group in tasks)


def _add(free: list[list[int]], used: list[list[int]], sign: int) -> None:
    for own, amounts in zip(free, used, strict=True):
        for r, amount in enumerate(amounts):
            own[r] += sign * amount


def _demand(configuration: Configuration) -> dict[str, tuple[int, ...]]:
    return {group.role: group.demand for group in configuration.tasks}
