"""F9, pipelines: closed forms, timetables held against their rules, the cuts' own faults."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

import alloc
import alloc.models.pipeline
import alloc.solving.pipeline
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances.pipelines import transformer_pipeline
from alloc.problems.pipeline.passes import Pass
from alloc.problems.pipeline.problem import Device, Layer, PipelinePlan, PipelineProblem
from alloc.problems.pipeline.timetable import timetable
from alloc.solving.outcome import Settings
from alloc.solving.pipeline import cut_layers, pipeline_configurations
from benchmarks.tiny.family import disagreement
from benchmarks.tiny.pipeline import PIPELINE

ROWS = [
    (order, chunks, devices, batches)
    for order, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3))
    for devices, batches in ((1, 3), (2, 2), (3, 12), (8, 32))
    if order != "interleaved" or batches % devices == 0
]


LAYER, DEVICE = Layer(1.0, 2.0, 10, 3), Device()


def even(order="1f1b", chunks=1, devices=4, batches=8, layer=LAYER):
    """Return a row of equal devices, a layer for each stage."""
    return PipelineProblem(
        "even", (layer,) * (devices * chunks), (Device(),) * devices, batches, order, chunks
    )


def only_plan(problem):
    return PipelinePlan(tuple(range(problem.num_stages)))


@pytest.mark.parametrize(("order", "chunks", "devices", "batches"), ROWS)
def test_equal_stages_wait_as_the_closed_form_says(order, chunks, devices, batches):
    """(p - 1) / (v m + p - 1): Narayanan et al. (2021), section 2.2, as a share of the step."""
    problem = even(order, chunks, devices, batches)
    step = timetable(problem, only_plan(problem))
    waits = (devices - 1) / (chunks * batches + devices - 1)
    assert step.bubble_fraction == pytest.approx(waits, abs=1e-12)
    assert step.step_s == pytest.approx(3.0 * (chunks * batches + devices - 1), rel=1e-12)


@pytest.mark.parametrize("devices", [1, 2, 5])
@pytest.mark.parametrize("batches", [1, 3, 9])
def test_a_device_holds_the_activations_that_the_papers_say(devices, batches):
    """GPipe: of all micro-batches; 1F1B: of one for each device from there to the end."""
    gpipe, one = even("gpipe", 1, devices, batches), even("1f1b", 1, devices, batches)
    assert only_plan(gpipe).peak_mib(gpipe) == [10 + 3 * batches] * devices
    assert only_plan(one).peak_mib(one) == [
        10 + 3 * min(batches, devices - k) for k in range(devices)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_timetable_keeps_every_rule_of_a_step(seed):
    """Each pass once, after its input and its transfer, one at a time on devices and links."""
    problem = PIPELINE.problem(seed)
    cuts = sorted(Random(seed).sample(range(1, len(problem.layers)), problem.num_stages - 1))
    plan = PipelinePlan((0, *cuts))
    step = timetable(problem, plan)
    start = {timed.step: timed.start_s for timed in step.passes}
    end = {timed.step: timed.end_s for timed in step.passes}
    assert len(start) == len(step.passes) == 2 * problem.num_stages * problem.num_micro_batches
    transfers, close = plan.transfers_s(problem), 1e-9 * step.step_s
    for device in range(step.num_devices):
        passes = [timed for timed in step.passes if timed.device == device]
        assert [timed.step for timed in passes] == problem.passes(device)
        assert all(a.end_s <= b.start_s + close for a, b in pairwise(passes))
    for s, b, _ in (p for p in start if p.is_forward and p.stage):
        there, back = Pass(s - 1, b, True), Pass(s, b, False)
        assert end[there] + transfers[s - 1] <= start[Pass(s, b, True)] + close
        assert end[back] + transfers[s - 1] <= start[Pass(s - 1, b, False)] + close
        assert end[Pass(s, b, True)] <= start[back] + close
    # No step is faster than its busiest device or link.
    busy = [0.0] * step.num_devices
    for s, times in enumerate(plan.pass_s(problem)):
        busy[s % step.num_devices] += problem.num_micro_batches * sum(times)
    assert step.step_s >= max(*busy, problem.num_micro_batches * max(transfers)) - close
    if problem.chunks == 1:
        assert step.step_s >= problem.num_micro_batches * plan.bottleneck_s(problem) - close


@pytest.mark.parametrize("seed", range(30))
def test_more_of_anything_never_makes_the_bottleneck_longer(seed):
    problem = PIPELINE.problem(seed)
    best = alloc.solve(problem)
    if best.solution is None:
        return
    roomy = tuple(replace(device, memory_mib=None) for device in problem.devices)
    fast = tuple(replace(device, speed=2 * device.speed) for device in problem.devices)
    linked = tuple(replace(device, link_gb_per_s=None) for device in problem.devices)
    for devices in (roomy, fast, linked):
        better = alloc.solve(problem.replace(devices=devices))
        assert better.objective <= best.objective * (1 + 1e-9)


def shared_memory():
    """Each stage fits alone, and the fastest two of a device do not fit together."""
    sizes = ((1.0, 60), (1.0, 10), (4.0, 10), (1.0, 60), (2.0, 10), (1.0, 40))
    layers = tuple(Layer(pass_s, pass_s, mib) for pass_s, mib in sizes)
    return PipelineProblem(
        "shared", layers, (Device(memory_mib=100),) * 2, 2, "interleaved", chunks=2
    )


def test_the_relaxation_of_shared_memory_is_not_taken_for_the_plan():
    problem = shared_memory()
    lines: list[str] = []
    outcome = cut_layers(problem, "bottleneck", Settings(), None, lines.append)
    assert "the integer program decides" in lines[0]
    assert alloc.verify(problem, outcome.solution) == []
    assert outcome.bound == pytest.approx(outcome.solution.bottleneck_s(problem))
    free = problem.replace(devices=(Device(),) * 2)
    assert alloc.solve(free).objective < outcome.bound


@pytest.mark.parametrize("share", [1.01, 1.3, 2.0])
def test_longer_arcs_are_taken_in_where_the_short_ones_do_not_do(monkeypatch, share):
    best = alloc.solve(shared_memory())
    monkeypatch.setattr(alloc.solving.pipeline, "MAX_RANGE", share)
    result = alloc.solve(shared_memory())
    assert (result.status, result.objective) == ("optimal", best.objective)


def wide(seed):
    """Return a tiny pipeline whose layers and devices are of any size, the least together."""
    rng = Random(seed)
    problem, size = PIPELINE.problem(seed), 10.0 ** rng.randint(4, 16)
    work = sorted(problem.layers, key=lambda layer: layer.forward_s + layer.backward_s)
    row = sorted(problem.devices, key=lambda device: device.speed)
    shares = (np.arange(len(work)) + 0.5) / len(work), (np.arange(len(row)) + 0.5) / len(row)
    layers = tuple(
        replace(layer, forward_s=layer.forward_s * size**k, backward_s=layer.backward_s * size**k)
        for layer, k in zip(work, shares[0].tolist(), strict=True)
    )
    devices = tuple(
        replace(device, speed=device.speed * size**k, link_gb_per_s=None)
        for device, k in zip(row, shares[1].tolist(), strict=True)
    )
    return problem.replace(layers=layers, devices=devices)


@pytest.mark.parametrize("way", ["auto", "highs", "pyomo"])
def test_no_short_time_is_lost_beside_a_long_one(way):
    """Devices a million times as fast as others made general solvers call all infeasible."""
    refused = []
    for problem in map(wide, range(60)):
        truth = PIPELINE.truth(problem)
        try:
            answer = PIPELINE.solve(problem, way, 10.0)
        except UnsupportedFeatureError as error:
            refused.append(str(error))
            continue
        assert disagreement(truth, answer) is None
    assert bool(refused) == (way != "auto")
    assert all('use the method "auto"' in line for line in refused)
    assert len(refused) < 40


def test_where_the_integer_program_is_too_large_the_start_and_the_bound_are_kept(monkeypatch):
    problem = shared_memory()
    best = alloc.solve(problem).require_solution()
    monkeypatch.setattr(alloc.models.pipeline, "_MAX_ARCS", 0)
    result = alloc.solve(problem, warm_start=best)
    assert (result.status, result.solution) == ("feasible", best)
    assert 0 < result.certificate.bound < result.objective


def test_200_layers_go_onto_64_devices_that_are_not_alike():
    rng = np.random.default_rng(5)
    layers = tuple(Layer(float(f), float(2 * f)) for f in rng.random(200) + 0.1)
    devices = tuple(Device(float(speed)) for speed in rng.choice([0.5, 1.0], 64))
    result = alloc.solve(PipelineProblem("large", layers, devices, 64))
    assert result.status == "optimal"
    assert result.certificate.bound_proof == "recomputed"
    with pytest.raises(UnsupportedFeatureError, match='use the method "auto"'):
        alloc.solve(PipelineProblem("larger", layers * 2, devices, 64), backend="highs")


def test_out_of_time_nothing_is_claimed():
    problem = transformer_pipeline("gpt-1b", 4, 8, tensor=1)
    outcome = cut_layers(problem, "bottleneck", Settings(time_limit_s=0.0), None, print)
    assert (outcome.limit, outcome.solution, outcome.bound) == ("time", None, 0.0)


def test_memory_that_no_cut_keeps_to_is_infeasible_with_every_way():
    problem = PipelineProblem(
        "full", (Layer(1.0, 1.0, 60),) * 4, (Device(memory_mib=100),) * 2, 2, "1f1b"
    )
    for way in ("auto", "highs", "pyomo"):
        result = alloc.solve(problem, backend=way)
        assert result.status == "infeasible"
        assert "memory" in result.conflict


def test_configurations_say_what_a_step_takes():
    rows = [even(devices=p, batches=6, layer=Layer(1.0, 2.0)) for p in (1, 2, 4)]
    ways = pipeline_configurations(rows, "h100")
    assert [way.tasks[0].count for way in ways] == [1, 2, 4]
    assert [1 / way.rate for way in ways] == pytest.approx([18.0, 21.0, 27.0])


def test_the_parallel_dimensions_are_those_of_the_plan():
    problem = transformer_pipeline("gpt-1b", 4, 8, tensor=2)
    found = alloc.solve(problem).require_solution().parallelism(problem, tensor=2, data=3)
    assert (found.pipeline, found.num_ranks, found.micro_batches) == (4, 24, 8)
    # Hidden states of 2,048 tokens of 2,048 numbers of two bytes, half of them a tensor rank.
    assert found.pipeline_bytes == 2048 * 2048


@pytest.mark.parametrize(
    ("firsts", "codes"),
    [
        ((0, 2, 4), set()),
        ((0, 2), {"num_stages"}),
        ((1, 2, 4), {"begin"}),
        ((0, 4, 2), {"order"}),
        ((0, 2, 9), {"unknown_layer"}),
        ((0, 1, 2), {"memory"}),
    ],
)
def test_the_checker_names_what_is_wrong(firsts, codes):
    devices = (Device(memory_mib=33),) * 3
    problem = PipelineProblem("p", (Layer(1.0, 1.0, 10, 2),) * 6, devices, 2)
    found = alloc.verify(problem, PipelinePlan(firsts))
    assert {violation.code for violation in found} == codes


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: PipelineProblem("p", (), (DEVICE,), 1), "no layers"),
        (lambda: PipelineProblem("p", (LAYER,), (), 1), "no devices"),
        (lambda: PipelineProblem("p", (LAYER,) * 5001, (DEVICE,), 1), "blocks"),
        (lambda: PipelineProblem("p", (LAYER,), (DEVICE,), 0), "num_micro_batches is 0"),
        (lambda: PipelineProblem("p", (LAYER,), (DEVICE,) * 2, 1), "more than 1 layers"),
        (lambda: PipelineProblem("p", (LAYER,), (DEVICE,), 1, "gpip"), "mean .gpipe"),  # type: ignore[arg-type]
        (lambda: PipelineProblem("p", (LAYER,) * 2, (DEVICE,), 1, chunks=2), "use the order"),
        (lambda: PipelineProblem("p", (LAYER,) * 2, (DEVICE,) * 2, 3, "interleaved"), "multiple"),
        (lambda: PipelineProblem("p", (Layer(0.0, 0.0),), (DEVICE,), 1), "both 0"),
        (lambda: PipelineProblem("p", (Layer(-1.0, 2.0),), (DEVICE,), 1), "forward_s is -1"),
        (lambda: PipelineProblem("p", (Layer(math.nan, 2.0),), (DEVICE,), 1), "forward_s is nan"),
        (lambda: PipelineProblem("p", (LAYER,), (Device(0.0),), 1), "speed is 0"),
        (lambda: PipelineProblem("p", (LAYER,), (Device(link_gb_per_s=0.0),), 1), "link_gb_per_s"),
        (lambda: PipelineProblem("p", (LAYER,), (DEVICE,), 10**6 * 4), "more than a million"),
        (lambda: PipelineProblem("p", (LAYER,) * 9, (DEVICE,) * 9, 10**6), "passes"),
        (lambda: PipelineProblem("p", (Layer(1e308, 1e308),), (DEVICE,), 9), "beyond all"),
        (
            lambda: PipelineProblem("p", (Layer(1.0, 1.0, 9, 3),), (Device(memory_mib=11),), 1),
            "takes 12 MiB.*largest device has 11",
        ),
        (lambda: PipelinePlan((0, 2.0)), "first_layers has 2.0"),  # type: ignore[arg-type]
        (lambda: transformer_pipeline("gpt-5"), "unknown model"),
        (lambda: transformer_pipeline("gpt-1b", 4, slow_devices=5), "slow_devices is 5"),
    ],
)
def test_what_makes_no_sense_is_refused(build, part):
    with pytest.raises(InstanceError, match=part):
        build()


@pytest.mark.long
def test_a_side_constraint_of_one_s_own_is_kept():
    import pyomo.environ as pyo

    problem = transformer_pipeline("gpt-1b", 4, 8, tensor=1)
    model = alloc.model(problem)
    model.pyomo.alone = pyo.Constraint(expr=model.pyomo.x[3, 25, 26] == 1)
    result = model.solve("appsi_highs")
    assert result.solution.first_layers[-1] == 25
    assert result.objective > alloc.solve(problem).objective


def test_short_layers_behind_a_very_long_one_count() -> None:
    layers = (Layer(1e17, 0.0), *[Layer(3.3, 0.0)] * 6)
    devices = (Device(1e17), Device(), Device())
    row = PipelineProblem("long", layers, devices, 2)
    result = alloc.solve(row)
    assert result.certificate.status == "optimal"
    assert result.require_solution().bottleneck_s(row) == 3.3
