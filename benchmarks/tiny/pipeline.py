"""Tiny pipelines: every cut of the layers into stages is tried."""

from __future__ import annotations

import itertools
from random import Random

from alloc.problems.pipeline.passes import PassOrder
from alloc.problems.pipeline.problem import Device, Layer, PipelinePlan, PipelineProblem
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from alloc.verification.pipeline import verify_pipeline
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

_ORDERS: tuple[tuple[PassOrder, int], ...] = (
    ("gpipe", 1),
    ("1f1b", 1),
    ("1f1b", 1),
    ("interleaved", 1),
    ("interleaved", 2),
)
_ROOM = 1.25
"""Memory of a device, in shares of what an even one of everything takes: some fit, some do not."""


def make(rng: Random, scaled: bool, large: bool) -> PipelineProblem:
    """Return a few layers on a few devices, alike or not, with memory that binds or none."""
    unit = rng.choice(SCALES) if scaled else 1.0
    order, chunks = rng.choice(_ORDERS)
    num_devices = rng.randint(8, 16) if large else rng.randint(1, 3)
    stages = num_devices * chunks
    batches = num_devices * rng.randint(1, 3) if order == "interleaved" else rng.randint(1, 6)
    layers = tuple(
        Layer(
            unit * rng.choice((0.0, 1.0, 2.0, rng.uniform(0.1, 3.0))),
            unit * rng.choice((1.0, 2.0, rng.uniform(0.1, 5.0))),
            rng.choice((0, 1, 4, 9)),
            rng.choice((0, 1, 3)),
            rng.choice((0.0, 10.0, 1000.0)),
        )
        for _ in range(stages + (rng.randint(100, 300) if large else rng.randint(0, 7)))
    )
    most = max(layer.weights_mib + layer.activations_mib for layer in layers)
    even = sum(layer.weights_mib + 2 * layer.activations_mib for layer in layers) / num_devices
    memory = max(most, round(_ROOM * even * rng.uniform(0.8, 1.6)))
    devices = tuple(
        Device(
            rng.choice((1.0, 1.0, 2.0, 0.3)),
            rng.choice((None, memory, memory, memory + 3)),
            rng.choice((None, 1.0 / unit, 0.1 / unit)),
        )
        for _ in range(num_devices)
    )
    return PipelineProblem("pipeline", layers, devices, batches, order, chunks)


def truth(problem: PipelineProblem) -> Truth:
    """Try every cut."""
    inner = range(1, len(problem.layers))
    plans = (
        PipelinePlan((0, *cuts)) for cuts in itertools.combinations(inner, problem.num_stages - 1)
    )
    values = [plan.bottleneck_s(problem) for plan in plans if not verify_pipeline(problem, plan)]
    return Truth((min(values),) if values else None)


def solve(problem: PipelineProblem, way: str, seconds: float) -> Answer:
    """Solve it."""
    result = solve_problem(problem, backend=way, limits=Limits(seconds=seconds))
    found = () if result.solution is None else verify_pipeline(problem, result.solution)
    return of_result(result, found)


PIPELINE = Family("pipeline", make, ("auto", "highs", "pyomo"), truth, solve)
