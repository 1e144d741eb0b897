"""The checker of pipeline plans: every layer in one stage, in order, within the devices' memory."""

from __future__ import annotations

from itertools import pairwise

from alloc.objectives import Measure, Value
from alloc.problems.pipeline.problem import PipelinePlan, PipelineProblem
from alloc.verification.violation import Violation


def objective(name: str) -> Measure:
    """Return the objective: the time of the slowest stage or link for a micro-batch, seconds."""
    return Value(name, "min", lambda problem, plan: plan.bottleneck_s(problem))


def verify_pipeline(problem: PipelineProblem, plan: PipelinePlan) -> list[Violation]:
    """Return what is wrong with a plan; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The layers, the devices and their memory.
    plan
        With which layer each stage begins.
    """
    firsts, n = plan.first_layers, len(problem.layers)
    broken = []
    if len(firsts) != problem.num_stages:
        broken.append(
            Violation(
                "num_stages",
                (),
                abs(len(firsts) - problem.num_stages),
                "stages",
                f"the plan has {len(firsts)} stages, and the pipeline {problem.num_stages}.",
            )
        )
    if firsts and firsts[0] != 0:
        broken.append(
            Violation("begin", (), 1, "", f"the first stage begins with layer {firsts[0]}, not 0.")
        )
    broken += [
        Violation("order", (str(k),), 1, "", f"layer {k} begins a stage after that of layer {i}.")
        for i, k in pairwise(firsts)
        if k <= i
    ]
    broken += [
        Violation("unknown_layer", (str(k),), 1, "", f"there is no layer {k} among 0 to {n - 1}.")
        for k in firsts
        if not 0 <= k < n
    ]
    if broken:
        return broken
    return [
        Violation(
            "memory",
            (str(k),),
            peak - device.memory_mib,
            "MiB",
            f"device {k} holds {peak} MiB at its fullest and has {device.memory_mib}.",
        )
        for k, (device, peak) in enumerate(
            zip(problem.devices, plan.peak_mib(problem), strict=True)
        )
        if device.memory_mib is not None and peak > device.memory_mib
    ]
