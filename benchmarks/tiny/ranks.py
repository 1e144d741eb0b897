"""Rank mapping: every permutation of the ranks over the GPUs, on trees and on graphs."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np

from alloc.problems.rank_mapping import RankMappingProblem, step_time, transfer_time
from alloc.result import Limits
from alloc.solving.rank_mapping.method import map_ranks
from alloc.topology.communication import CommunicationGraph, CommunicationTree, Fabric
from alloc.verification.rank_mapping import check_mapping
from alloc.workload.parallelism import Parallelism
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

_SHAPES = (
    (2, 2, 1, 1),
    (2, 1, 2, 1),
    (1, 2, 2, 2),
    (1, 3, 1, 1),
    (3, 1, 1, 1),
    (1, 1, 4, 2),
    (4, 1, 1, 1),
    (1, 4, 1, 1),
    (1, 2, 2, 1),
)
_LARGE = ((2, 4, 4, 2), (4, 2, 3, 1), (8, 2, 2, 1), (1, 6, 4, 2))


def make(rng: Random, scaled: bool, large: bool) -> RankMappingProblem:
    """Return a job of up to four ranks on a tree with domains of any sizes, or on a graph."""
    unit = rng.choice(SCALES) if scaled else 1.0
    job = Parallelism(
        *rng.choice(_LARGE if large else _SHAPES),
        tensor_bytes=unit * 1e6 * rng.random(),
        tensor_operations=rng.randint(0, 4),
        data_bytes=unit * 1e7 * rng.random(),
        expert_bytes=unit * 1e6 * rng.random(),
        expert_operations=rng.randint(0, 4),
        pipeline_bytes=unit * 1e6 * rng.random(),
        micro_batches=rng.randint(1, 3),
    )
    gpus = job.num_ranks + rng.randint(0, 1)
    names = tuple(f"g{g}" for g in range(gpus))
    if rng.random() < 0.4:
        width = np.array([[rng.choice((10.0, 25.0, 50.0)) for _ in names] for _ in names])
        graph = CommunicationGraph(names, np.maximum(width, width.T), np.array(1e-6))
        return RankMappingProblem(graph, job)
    depth = rng.randint(1, 3)
    domains = np.zeros((gpus, depth), dtype=int)
    for level in range(1, depth):
        inner = [rng.randrange(rng.choice((2, 3))) for _ in names]
        domains[:, level] = domains[:, level - 1] * 4 + inner
    tree = CommunicationTree(
        names,
        ("top", "rack", "host")[:depth],
        domains,
        np.array(sorted(rng.choice((1, 2, 5, 10, 50, 100)) for _ in range(depth)), dtype=float),
        np.array(sorted((rng.choice((0, 1e-6, 5e-6)) for _ in range(depth)), reverse=True)),
    )
    return RankMappingProblem(tree, job)


def _value(fabric: Fabric, job: Parallelism, places: tuple[int, ...]) -> float:
    where = np.array(places)
    if isinstance(fabric, CommunicationTree):
        return step_time(job, fabric, where).step_s
    return transfer_time(job, fabric, where)


def truth(problem: RankMappingProblem) -> Truth:
    """Try every permutation."""
    fabric, job = problem.fabric, problem.parallelism
    ways = itertools.permutations(range(fabric.num_gpus), job.num_ranks)
    return Truth((min(_value(fabric, job, places) for places in ways),))


def solve(problem: RankMappingProblem, way: str, seconds: float) -> Answer:
    """Map the ranks."""
    fabric, job = problem.fabric, problem.parallelism
    answer = map_ranks(fabric, job, limits=Limits(seconds=seconds))
    return of_result(answer, check_mapping(job, fabric, answer.require_solution()))


RANKS = Family("ranks", make, ("auto",), truth, solve)
