"""Random clusters of a few hosts, and every placement on them.

The oracle knows capacity, GPU types, racks, pinned and staying jobs and the budget of moves, and
computes objectives by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from alloc.objectives.goals import WeightedSum
from alloc.problems.allocation.instance import Instance, Moves, misfit
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import GB_PER_MIB, MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

MOVES = (None, Moves(), Moves(evict=True), Moves(budget=1), Moves(budget=0))


def random_instance(
    rng: np.random.Generator, moves: tuple[Moves | None, ...] = MOVES, max_jobs: int = 4
) -> Instance:
    """Return a cluster of two to four hosts in two racks with some jobs, some of them running."""
    types = (HostType("big", 4, "a", 16000, 64), HostType("small", 2, "b", 9000, 33))
    hosts = tuple(
        Host(f"h{h}", types[int(rng.random() < 0.3)].name, f"r{int(rng.integers(2))}")
        for h in range(int(rng.integers(2, 5)))
    )
    topology = Topology(
        "tiny", types, hosts, ("rack",), (Domain("r0", "rack"), Domain("r1", "rack"))
    )
    free = topology.capacity.copy()
    jobs, running = [], []
    for j in range(int(rng.integers(2, max_jobs + 1))):
        job = random_job(rng, j)
        at = random_start(rng, topology, job, free)
        if at is not None:
            running.append(at)
        elif not fits_somewhere(topology, job):
            continue
        jobs.append(job)
    if not jobs:
        return random_instance(rng, moves, max_jobs)
    return Instance(
        "tiny",
        topology,
        tuple(jobs),
        running=tuple(running),
        moves=moves[int(rng.integers(len(moves)))],
    )


def random_job(rng: np.random.Generator, j: int) -> Job:
    """Return a job of one or two configurations with one or two groups of tasks."""

    def group(role: str) -> TaskGroup:
        gpus = int(rng.integers(0, 4))
        return TaskGroup(
            role,
            int(rng.integers(1, 4)),
            gpus * MILLI,
            int(rng.integers(1, 9)) * 1000,
            int(rng.integers(1, 25)),
        )

    def configuration() -> Configuration:
        groups = (group("w"), group("p")) if rng.random() < 0.3 else (group("w"),)
        kind = None if rng.random() < 0.8 else "ab"[int(rng.integers(2))]
        return Configuration(groups, 1.0, gpu_type=kind)

    ways = tuple(configuration() for _ in range(1 + int(rng.random() < 0.25)))
    rules = PlacementRules(required="rack") if rng.random() < 0.5 else PlacementRules()
    return Job(
        f"j{j}",
        0.0,
        1.0,
        ways,
        weight=float(rng.integers(1, 4)),
        preemptible=bool(rng.random() < 0.8),
        placement=rules,
    )


def fits_somewhere(topology: Topology, job: Job) -> bool:
    """Return whether an instance takes the job."""
    return any(misfit(topology, way) is None for way in job.configurations)


def random_start(
    rng: np.random.Generator, topology: Topology, job: Job, free: np.ndarray
) -> Assignment | None:
    """Put a job on the free capacity, in a rack, by first fit; or leave it waiting."""
    if rng.random() < 0.3 or not fits_somewhere(topology, job):
        return None
    way = job.configurations[0]
    order = rng.permutation(topology.num_hosts)
    for rack in rng.permutation(2):
        trial, placed = free.copy(), []
        for group in way.tasks:
            for _ in range(group.count):
                at = next(
                    (
                        h
                        for h in order
                        if topology.domain_of_host["rack"][h] == rack
                        and (trial[h] >= group.demand).all()
                        and way.gpu_type in (None, topology.gpu_types[h])
                    ),
                    None,
                )
                if at is None:
                    break
                trial[at] -= group.demand
                placed.append((topology.hosts[at].id, group.role))
        if len(placed) == sum(group.count for group in way.tasks):
            free[:] = trial
            tasks = tuple(
                TaskPlacement(h, r, placed.count((h, r))) for h, r in dict.fromkeys(placed)
            )
            return Assignment(job.id, 0, tasks)
    return None


class Oracle:
    """Every placement of a small instance, and the best value among them."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.moves = Moves(budget=0) if instance.moves is None else instance.moves
        self.topology = instance.topology
        self.before = {a.job: a for a in instance.running}
        kinds = [self.topology.host_type(host) for host in self.topology.hosts]
        self.disks = sorted({name for kind in self.topology.host_types for name in kind.resources})
        # Whatever no host offers is the cluster's, if only none of it.
        groups = (g for job in instance.jobs for c in job.configurations for g in c.tasks)
        asked = {name for group in groups for name in group.resources}
        self.seats = sorted({*self.topology.resources, *asked}.difference(self.disks))
        self.capacity = np.array(
            [
                (
                    1000 * kind.num_gpus,
                    kind.cpu_milli,
                    kind.memory_mib,
                    *(kind.resources.get(name, 0) for name in self.disks),
                )
                for kind in kinds
            ]
        )
        most = np.array([self.topology.resources.get(name, 0) for name in self.seats])
        self.load = np.zeros((1, *self.capacity.shape), dtype=np.int64)
        # Moves, moved GB, GPUs, weight, and what is held of the cluster's own resources.
        self.figures = np.zeros((1, 4 + len(most)))
        for job in instance.jobs:
            loads, figures = self.choices(job)
            self.load = (self.load[:, None] + loads[None]).reshape(-1, *loads.shape[1:])
            self.figures = (self.figures[:, None] + figures[None]).reshape(-1, 4 + len(most))
            fits = (self.load <= self.capacity).all(axis=(1, 2))
            fits &= (self.figures[:, 4:] <= most).all(axis=1)
            if self.moves.budget is not None:
                fits &= self.figures[:, 0] <= self.moves.budget
            self.load, self.figures = self.load[fits], self.figures[fits]

    def choices(self, job: Job) -> tuple[np.ndarray, np.ndarray]:
        """Return what each way of placing a job uses on each host, and its figures."""
        before = self.before.get(job.id)
        pinned = before is not None and not job.preemptible
        must = before is not None and not self.moves.evict
        had: dict[tuple[int, str], int] = {}
        memory = {}
        if before is not None:
            memory = {g.role: g.memory_mib for g in job.configurations[0].tasks}
            had = {(self.topology.host_index[t.host], t.role): t.count for t in before.tasks}
        loads, figures = [], []
        for way in (None, *job.configurations):
            for counts in self.spreads(job, way):
                if pinned and any(counts.get(key, 0) < n for key, n in had.items()):
                    continue  # its tasks stay; another configuration may add some
                if must and way is None:
                    continue
                load = np.zeros_like(self.capacity)
                groups = {} if way is None else {g.role: g for g in way.tasks}
                for (h, role), n in counts.items():
                    load[h] += n * self.demand(groups[role])
                held = [
                    sum(g.count * g.resources.get(name, 0) for g in groups.values())
                    for name in self.seats
                ]
                left = {key: max(0, n - counts.get(key, 0)) for key, n in had.items()}
                loads.append(load)
                figures.append(
                    (
                        sum(left.values()),
                        sum(n * memory[role] for (_, role), n in left.items()) * GB_PER_MIB,
                        0.0 if way is None else way.demand[0] / MILLI,
                        0.0 if way is None else job.weight,
                        *held,
                    )
                )
        return np.array(loads).reshape(-1, *self.capacity.shape), np.array(figures)

    def demand(self, group: TaskGroup) -> np.ndarray:
        """Return what one task takes of its host."""
        own = (group.resources.get(name, 0) for name in self.disks)
        return np.array((group.gpu_milli, group.cpu_milli, group.memory_mib, *own))

    def spreads(self, job: Job, way: Configuration | None) -> list[dict[tuple[int, str], int]]:
        """Return every way to put the tasks of a configuration on hosts, its rack kept."""
        if way is None:
            return [{}]
        racks = self.topology.domain_of_host["rack"]
        found = []
        hosts = [
            h
            for h in range(self.topology.num_hosts)
            if way.gpu_type in (None, self.topology.gpu_types[h])
        ]
        per_group = [
            list(itertools.combinations_with_replacement(hosts, group.count)) for group in way.tasks
        ]
        for places in itertools.product(*per_group):
            used = {int(racks[h]) for own in places for h in own}
            if job.placement.required == "rack" and len(used) > 1:
                continue
            found.append(
                {
                    (h, group.role): own.count(h)
                    for group, own in zip(way.tasks, places, strict=True)
                    for h in own
                }
            )
        return found

    def values(self, level: WeightedSum) -> np.ndarray:
        """Return the value of a level in every feasible placement."""
        has = self.capacity > 0
        share = np.where(has, self.load / np.maximum(self.capacity, 1), 0.0)
        # A host without a resource is no part of its mean.
        mean = share.sum(axis=1, keepdims=True) / np.maximum(has.sum(axis=0), 1)
        used = self.load[:, :, 0] > 0
        stands = self.load.any(axis=2)
        terms = {
            "balance": np.where(has, np.maximum(share - mean, 0.0), 0.0).sum(axis=(1, 2)),
            "gpu_hosts_used": used.sum(axis=1),
            "hosts_used": stands.sum(axis=1),
            "whole_hosts_free": (~stands).sum(axis=1),
            "moves": self.figures[:, 0],
            "moved_gb": self.figures[:, 1],
            "gpus_placed": self.figures[:, 2],
            "weight_placed": self.figures[:, 3],
            "fragmentation": np.zeros(len(self.load)),
        }
        return sum(
            weight * (1.0 if term.sense == level.sense else -1.0) * terms[term.name]
            for weight, term in level.terms
        )

    def best(self, level: WeightedSum) -> float | None:
        """Return the best value of a level, or None if no placement is feasible."""
        best = self.best_levels((level,))
        return None if best is None else best[0]

    def best_levels(self, levels: Sequence[WeightedSum]) -> tuple[float, ...] | None:
        """Return the best values of levels, one after the other; None if nothing is feasible."""
        left = np.full(len(self.load), True)
        if not left.any():
            return None
        found = []
        for level in levels:
            values = np.asarray(self.values(level), dtype=float)
            best = values[left].max() if level.sense == "max" else values[left].min()
            # Values that differ by rounding alone are equal.
            left &= np.abs(values - best) <= 1e-9 * max(abs(best), 1e-300) + 1e-12 * abs(values)
            found.append(float(best))
        return tuple(found)
