"""The checker of co-location: every job somewhere once, and no GPU with what cannot share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from alloc.objectives import Measure, Value
from alloc.problems.colocation import ColocationProblem, Packing
from alloc.verification.violation import Violation


def objective(name: str) -> Measure:
    """Return the objective: the weighted sum of the speeds, each as a share of that alone."""
    return Value(name, "max", lambda problem, packing: packing.value(problem))


def verify_packing(problem: ColocationProblem, packing: Packing) -> list[Violation]:
    """Return what is wrong with a packing; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The jobs, and which of them may share a GPU.
    packing
        The jobs on each GPU.
    """
    return [*_check_jobs(problem, packing), *_check_gpus(problem, packing)]


def _check_jobs(problem: ColocationProblem, packing: Packing) -> Iterator[Violation]:
    times = Counter([*packing.left_out, *(j for gpu in packing.gpus for j in gpu)])
    for j in sorted(times.keys() | set(range(len(problem.kinds)))):
        if j not in range(len(problem.kinds)):
            yield Violation("unknown_job", (str(j),), 1, "", f"there is no job {j}.")
        elif times[j] != 1:
            sentence = f"job {j} is named {times[j]} times; it is on one GPU or left out."
            yield Violation("job_count", (str(j),), abs(times[j] - 1), "", sentence)


def _check_gpus(problem: ColocationProblem, packing: Packing) -> Iterator[Violation]:
    excess = len(packing.gpus) - problem.num_gpus
    if excess > 0:
        sentence = f"{len(packing.gpus)} GPUs are in use of {problem.num_gpus}."
        yield Violation("capacity", (), excess, "GPUs", sentence)
    for g, jobs in enumerate(packing.gpus):
        if len(jobs) > problem.max_per_gpu:
            sentence = f"GPU {g} has {len(jobs)} jobs, more than {problem.max_per_gpu}."
            yield Violation("max_per_gpu", (str(g),), len(jobs) - problem.max_per_gpu, "", sentence)
        known = [j for j in jobs if j in range(len(problem.kinds))]
        if problem.table.speeds([problem.kinds[j] for j in known]) is None:
            sentence = f"GPU {g} has jobs that cannot share it."
            yield Violation("interference", (str(g),), 1, "", sentence)
