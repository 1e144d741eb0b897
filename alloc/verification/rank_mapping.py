"""The rules of a rank mapping: every rank a GPU of its own, and times that hold."""

from __future__ import annotations

from collections import Counter

import numpy as np

from alloc.objectives import Measure, Value
from alloc.problems.rank_mapping import (
    Algorithm,
    RankMapping,
    RankMappingProblem,
    value_mapping,
)
from alloc.topology.communication import Fabric
from alloc.verification.violation import Violation
from alloc.workload.parallelism import Parallelism

_TOLERANCE = 1e-9
"""Relative difference of two times that sums of the same terms in another order explain."""


def objective(name: str) -> Measure:
    """Return an objective: ``step``, seconds of a step, or ``transfer``, of all traffic."""
    if name == "step":
        return Value(name, "min", lambda problem, mapping: mapping.time.step_s)
    return Value(name, "min", lambda problem, mapping: mapping.transfer_s)


def verify_mapping(problem: RankMappingProblem, mapping: RankMapping) -> list[Violation]:
    """Return what is wrong with a mapping and its times; empty when all is right.

    Parameters
    ----------
    problem
        The ranks of a job, and how fast its GPUs reach each other.
    mapping
        The GPU of each rank, with the times that are claimed.
    """
    return check_mapping(problem.parallelism, problem.fabric, mapping, problem.algorithm)


def check_mapping(
    parallelism: Parallelism,
    fabric: Fabric,
    mapping: RankMapping,
    algorithm: Algorithm = "auto",
) -> list[Violation]:
    """Check a mapping, whoever made it, against its job and its GPUs.

    Parameters
    ----------
    parallelism, fabric
        The job and the GPUs of its placement.
    mapping
        What is claimed: the GPU of each rank, and the times.
    algorithm
        How all-reduces run.

    Returns
    -------
    list of Violation
        Empty when every rank has a GPU of its own and the times are those recomputed. Times are
        checked only if the ranks are.
    """
    found = _check_gpus(parallelism, fabric, mapping)
    if found:
        return found
    index = {gpu: g for g, gpu in enumerate(fabric.gpus)}
    places = np.array([index[gpu] for gpu in mapping.gpus])
    true = value_mapping(parallelism, fabric, places, algorithm)
    for name in ("tensor_s", "expert_s", "data_s", "pipeline_s"):
        found += _check_time(name, getattr(mapping.time, name), getattr(true.time, name))
    return found + _check_time("transfer_s", mapping.transfer_s, true.transfer_s)


def _check_gpus(parallelism: Parallelism, fabric: Fabric, mapping: RankMapping) -> list[Violation]:
    found = []
    missing = parallelism.num_ranks - len(mapping.gpus)
    if missing:
        found.append(
            Violation(
                "rank_count",
                (),
                float(abs(missing)),
                "ranks",
                f"the job has {parallelism.num_ranks} ranks and the mapping {len(mapping.gpus)}; "
                "it must name the GPU of each.",
            )
        )
    known = set(fabric.gpus)
    for gpu, count in Counter(mapping.gpus).items():
        if gpu not in known:
            sentence = f'GPU "{gpu}" is not in the placement.'
            found.append(Violation("unknown_gpu", (gpu,), float(count), "ranks", sentence))
        elif count > 1:
            sentence = f'GPU "{gpu}" runs {count} ranks; it can run one.'
            found.append(Violation("shared_gpu", (gpu,), float(count - 1), "ranks", sentence))
    return found


def _check_time(name: str, claimed: float, true: float) -> list[Violation]:
    off = abs(claimed - true)
    # Not "above": a claim that is no number is wrong as well.
    if off <= _TOLERANCE * max(abs(true), 1e-12):
        return []
    return [
        Violation(
            "predicted_time",
            (name,),
            off,
            "s",
            f"{name} is claimed to be {claimed:g} s and recomputes to {true:g} s.",
        )
    ]
