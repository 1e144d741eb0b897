"""Saturn's program: gangs on one host each, and the makespan over every order, way and place."""

from __future__ import annotations

from random import Random

from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.units import MILLI
from alloc.verification.moldable import verify_moldable
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.tiny.cluster import accepted, random_topology
from benchmarks.tiny.family import SCALES, Answer, Family, of_result
from benchmarks.tiny.moldable import Problem, truth


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return gangs of GPUs on one host each, in continuous time."""
    instance = None
    while instance is None:
        topology = random_topology(rng, 4 if large else rng.choice((1, 2, 2)), cpu=False)
        rate = rng.choice(SCALES) if scaled else 1.0
        unit_s = rng.choice((1e-3, 1.0, 1e6)) if scaled else rng.choice((1.0, 60.0))
        bare = rng.random() < 0.5
        jobs = []
        for j in range(rng.randint(5, 8) if large else rng.choice((1, 2, 3, 3, 4))):
            table = tuple(
                Configuration(
                    (TaskGroup("a", rng.choice((1, 1, 2, 3)), MILLI),),
                    rate * rng.randint(2, 9) / 4,
                    rng.choice((None, None, "a")),
                    "host",
                )
                for _ in range(rng.randint(1, 2))
            )
            arrival = 0.0 if bare else unit_s * rng.choice((0.0, 1.0, 4.0))
            late = not bare and rng.random() < 0.15
            jobs.append(
                Job(
                    f"j{j}",
                    arrival,
                    rate * unit_s * rng.randint(1, 30) / rng.choice((1, 4, 7)),
                    table,
                    deadline_s=arrival + unit_s * rng.randint(3, 40) if late else None,
                    elasticity="moldable" if len(table) > 1 else "rigid",
                    preemptible=False,
                )
            )
        instance = accepted(topology, jobs)
    return instance, "makespan"


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Solve Saturn's program with a backend."""
    instance, goal = problem
    result = solve_instance(
        instance, "saturn-spase", way, objective=goal, limits=Limits(seconds=seconds)
    )
    broken = [] if result.solution is None else verify_moldable(instance, result.solution)
    return of_result(result, broken)


SPASE = Family("saturn-spase", make, ("pyomo",), truth, solve)
