"""Rebalance, defragment and admit on the placement sets, beside the best that is listed for them.

Run it with ``python -m benchmarks.placement``. It needs the sets: their folder is looked for where
the environment variable ``ALLOC_PLACEMENT`` says, or in ``../shared/data/placement`` beside the
repository. The listed results are those of the sets' own table: a C++ local search, its MIP, and
CP-SAT on an aggregated model, all on two cores.

A task of A or B is solved twice: in a tenth of the time that the listed result took (A), and in the
time promised for the gap. Each solve is a process of its own, so that its peak memory is its own;
the solvers' libraries are loaded before the clock starts, and the set is read.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import alloc
from alloc.certificate import OPTIMALITY_GAP
from alloc.instances.readers.rebalancing import read_rebalancing
from alloc.result import Limits
from alloc.units import MILLI
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""It needs the sets, and a quarter of an hour."""

BYTES_PER_GB = 1e9
_SEARCH_SHARE = 0.9
_QUICK_SHARE = 0.75
"""Of the time that is promised; the rest is for the end of a step and the checker."""


@dataclass(frozen=True)
class Task:
    """A goal on a set, and what is promised.

    Parameters
    ----------
    name
        Model and size, for example ``"A-50"``.
    file
        Name of the set.
    goal
        The goal.
    listed, listed_s
        Best value listed, and the wall time it took, seconds.
    quick_s
        Time in which the listed value is to be reached, or None.
    limit_s
        Time in which the listed value is to be beaten, and the gap proved.
    gap
        Relative gap to be proved, or None.
    gigabytes
        Most resident memory, GB, or None.
    """

    name: str
    file: str
    goal: str
    listed: float
    listed_s: float
    quick_s: float | None
    limit_s: float
    gap: float | None
    gigabytes: float | None = None

    @property
    def sign(self) -> float:
        """1 if the goal is minimised, -1 if it is maximised."""
        return -1.0 if self.goal == "gpus_placed" else 1.0


_A, _B, _C = "balance + 0.05 moves", "gpu_hosts_used + 0.05 moves", "gpus_placed"
_SMALL, _MIDDLE, _LARGE = "gpu_50h_200p_s1", "gpu_500h_4000p_s1", "gpu_2000h_16000p_s1"

TASKS = (
    Task("A-50", _SMALL, _A, 9.501, 2.7, 0.27, 60.0, 0.03),
    Task("A-500", _MIDDLE, _A, 104.64, 120.0, 12.0, 120.0, 0.05),
    Task("A-2000", _LARGE, _A, 520.71, 300.0, 30.0, 300.0, 0.10, 4.0),
    Task("B-50", _SMALL, _B, 41.10, 60.0, None, 60.0, 0.02),
    Task("B-500", _MIDDLE, _B, 433.80, 240.0, None, 60.0, 0.02),
    Task("B-2000", _LARGE, _B, 1804.95, 300.0, None, 300.0, None),
    Task("C-50", f"{_SMALL}_C", _C, 79.0, 4.6, None, 60.0, OPTIMALITY_GAP),
    Task("C-500", f"{_MIDDLE}_C", _C, 268.0, 123.0, None, 60.0, OPTIMALITY_GAP),
)
"""The tasks, smallest first."""


@dataclass(frozen=True)
class Answer:
    """What a solve gave; None where there is nothing.

    Parameters
    ----------
    value, bound
        As the list counts them.
    gap
        Relative gap of the certificate.
    verified
        Whether the checker checked the placement.
    seconds, cpu_s
        Wall and CPU time from the call to the checked answer.
    gigabytes
        Peak resident memory of the process, GB.
    """

    value: float | None
    bound: float
    gap: float | None
    verified: bool
    seconds: float
    cpu_s: float
    gigabytes: float


def sets_folder() -> Path:
    """Return the folder of the sets.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    """
    folder = data_folder("placement")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"the placement sets are not in {folder}; point ALLOC_PLACEMENT to their folder."
        )
    return folder


def solve(task: Task, folder: Path, limit_s: float, seed: int) -> Answer:
    """Solve a task in this process."""
    instance = read_rebalancing(folder / f"{task.file}.json.gz")
    _load_libraries()
    began, began_cpu = time.perf_counter(), time.process_time()
    share = _QUICK_SHARE if limit_s == task.quick_s else _SEARCH_SHARE
    limits = Limits(seconds=share * limit_s, seed=seed)
    certificate = alloc.solve(instance, "placement", objective=task.goal, limits=limits).certificate
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    # Linux counts in KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / BYTES_PER_GB
    value = certificate.objective
    constant = running_gpus(instance) if task.goal == _C else 0.0
    return Answer(
        None if value is None else value - constant,
        certificate.bound - constant,
        certificate.gap,
        certificate.verified,
        seconds,
        cpu_s,
        peak,
    )


def running_gpus(instance: alloc.Instance) -> float:
    """Return the GPUs of running jobs: the list counts those of waiting jobs only."""
    return (
        sum(instance.job(a.job).configurations[a.configuration].demand[0] for a in instance.running)
        / MILLI
    )


def _load_libraries() -> None:
    import alloc.backends.highs
    import alloc.solving.placement.method  # noqa: F401


def solve_apart(task: Task, folder: Path, limit_s: float, seed: int) -> Answer:
    """Solve a task in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(solve, task, folder, limit_s, seed).result()


def judge_quick(task: Task, answer: Answer) -> Verdict:
    """Hold the answer of a tenth of the time against the listed value."""
    assert task.quick_s is not None
    return Verdict(
        f"{task.name} no worse than the listed {task.listed:g} in {task.quick_s:g} s",
        f"{_number(answer.value)} in {answer.seconds:.2f} s, {answer.cpu_s:.2f} s of CPU",
        answer.verified
        and answer.value is not None
        and task.sign * (answer.value - task.listed) <= 1e-9
        and answer.seconds <= task.quick_s,
    )


def judge_value(task: Task, answer: Answer) -> Verdict:
    """Hold the answer at the limit against the listed value."""
    # What is listed as proved optimal can only be reached.
    proved = task.name == "C-50"
    margin = 0.0 if proved else 1e-6
    return Verdict(
        f"{task.name} {'as good as' if proved else 'better than'} the listed {task.listed:g} "
        f"in {task.limit_s:g} s",
        f"{_number(answer.value)} in {answer.seconds:.1f} s",
        answer.verified
        and answer.value is not None
        and task.sign * (answer.value - task.listed) <= -margin
        and answer.seconds <= task.limit_s,
    )


def judge_gap(task: Task, answer: Answer) -> Verdict:
    """Hold the proved gap at the limit against the promise."""
    assert task.gap is not None
    wanted = "proved optimal" if task.gap <= OPTIMALITY_GAP else f"within {task.gap:.0%}"
    memory = "" if task.gigabytes is None else f" and {task.gigabytes:g} GB"
    return Verdict(
        f"{task.name} {wanted} in {task.limit_s:g} s{memory}",
        f"gap {'none' if answer.gap is None else f'{answer.gap:.3%}'}, {answer.seconds:.1f} s, "
        f"{answer.gigabytes:.2f} GB",
        answer.verified
        and answer.gap is not None
        and answer.gap <= task.gap
        and answer.seconds <= task.limit_s
        and (task.gigabytes is None or answer.gigabytes <= task.gigabytes),
    )


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.6g}"


def _row(task: Task, limit_s: float, answer: Answer) -> str:
    gap = "-" if answer.gap is None else f"{answer.gap:.3%}"
    return (
        f"{task.name:8s} {limit_s:8.2f} {answer.seconds:8.2f} {answer.cpu_s:8.2f} "
        f"{answer.gigabytes:6.2f} {_number(answer.value):>10s} {answer.bound:10.6g} {gap:>8s} "
        f"{task.listed:10.6g} {task.listed_s:8.1f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a solve a line, then the verdicts; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement")
    parser.add_argument(
        "--task", action="append", metavar="NAME", help="for example A-50; default: all"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print answers as JSON lines too")
    arguments = parser.parse_args(argv)
    known = {task.name: task for task in TASKS}
    for name in arguments.task or ():
        if name not in known:
            parser.error(f'unknown task "{name}"; known: {", ".join(known)}')
    try:
        folder = sets_folder()
    except FileNotFoundError as error:
        print(f"NOTHING IS MEASURED: {error}", file=sys.stderr)
        return 2
    print(
        f"{'task':8s} {'limit_s':>8s} {'wall_s':>8s} {'cpu_s':>8s} {'GB':>6s} {'ours':>10s} "
        f"{'bound':>10s} {'gap':>8s} {'listed':>10s} {'in_s':>8s}"
    )
    verdicts = []
    for task in [known[name] for name in arguments.task or known]:
        for limit_s in (task.quick_s, task.limit_s):
            if limit_s is None:
                continue
            answer = solve_apart(task, folder, limit_s, arguments.seed)
            print(_row(task, limit_s, answer), flush=True)
            if arguments.json:
                print(json.dumps({"task": task.name, "limit_s": limit_s} | asdict(answer)))
            if limit_s == task.quick_s:
                verdicts.append(judge_quick(task, answer))
            else:
                verdicts.append(judge_value(task, answer))
                if task.gap is not None:
                    verdicts.append(judge_gap(task, answer))
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
