"""The workloads of `benchmarks.before_after`, each a few lines that work in an older tree too.

Names have moved between the trees: what is at home elsewhere is looked up by `_first`, which takes
the first place that exists. Nothing else of this package is at hand that the older tree lacks.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import inspect
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

_LIMIT_S = 100.0
"""Of a solve, seconds; none of the workloads comes near it."""
_GAP = 1e-4
"""Relative gap of the solves that take one: the default of both trees."""


@dataclass(frozen=True)
class Workload:
    """A piece of work: its input is prepared off the clock, then the work is timed.

    Parameters
    ----------
    prepare
        Makes the input of `work` from `case` or `warm`.
    work
        What is timed; returns what it answered, which both trees should agree on, or the seconds
        that it took where a process of its own has measured them.
    case
        What is timed.
    warm
        What is run first, off the clock, so that neither imports nor compiling count.
    times
        Runs of which the mean is taken, each with an input of its own (cached values are work).
    """

    prepare: Callable[[Any], Any]
    work: Callable[[Any], str | float]
    case: Any
    warm: Any
    times: int = 1


def _first(*places: str) -> Any:
    """Return the first of ``module:name`` that exists."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(places)} is there.")


def _stored(name: str) -> Any:
    return _first("alloc.instances.stored:load")(name)


def _told(certificate: Any) -> str:
    """Return status and objective, to as many figures as a proved optimum has."""
    value = certificate.objective
    return f"{certificate.status} {'none' if value is None else format(value, '.5g')}"


def _limits() -> Any:
    """Return the limits of a solve in the words of the tree."""
    if importlib.util.find_spec("alloc.result") is None:
        return _first("alloc.solving.outcome:Settings")(_LIMIT_S)
    return _first("alloc.result:Limits")(seconds=_LIMIT_S, gap=_GAP)


def _solve(old: str, problem: Any, family: str | None = None, **options: Any) -> str:
    """Solve a problem through the front door, or by what the older tree has for it."""
    solve = _first("alloc:solve")
    if "limits" in inspect.signature(solve).parameters:
        return _told(solve(problem, family, limits=_limits(), **options).certificate)
    if old == "alloc:solve":
        return _told(solve(problem, family, time_limit_s=_LIMIT_S, **options).certificate)
    method = _first(old)
    if "settings" in inspect.signature(method).parameters:
        return _told(method(problem, _limits(), **options).certificate)
    return _told(method(problem, time_limit_s=_LIMIT_S, gap=_GAP, **options).certificate)


_of_instance = partial(_solve, "alloc:solve")


def _share(case: Any) -> str:
    return _of_instance(case.instance, family="sharing", objective=case.goal)


def _gangs(size: tuple[int, int]) -> Any:
    """Return jobs of 1 to 32 GPUs for half as much again as the hosts have."""
    alloc = importlib.import_module("alloc")
    topology = importlib.import_module("alloc.topology")
    hosts, seed = size
    rng = random.Random(seed)
    host = topology.HostType("server", 8, "a100", 96_000, 524_288)
    jobs: list[Any] = []
    asked = 0
    while asked < 12 * hosts:
        count, gpus = rng.choice(((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (2, 4), (8, 1)))
        group = alloc.TaskGroup("worker", count, 1000 * gpus, 9000 * gpus, 40_000 * gpus)
        table = (alloc.Configuration((group,), rate=1.0),)
        weight = float(rng.randint(1, 5))
        jobs.append(alloc.Job(f"job-{len(jobs)}", 0.0, 1.0, table, weight=weight))
        asked += count * gpus
    cluster = topology.flat_cluster(f"{hosts} hosts", host, hosts)
    return alloc.Instance("gangs", cluster, tuple(jobs))


def _slices(size: tuple[int, int]) -> Any:
    return _first("benchmarks.mig:cases")(*size)[1]


def _planning(name: str) -> Any:
    return _first("alloc.instances.stored_planning:load_stored_planning")(name)


def _inference(size: tuple[int, int]) -> Any:
    module = importlib.import_module("benchmarks.inference_sizing")
    return module.day_problem(module.made_up_options(), *size)


def _quotas(size: tuple[int, int]) -> Any:
    return _first("benchmarks.inference_sizing:quota_problem")(*size)


def _decision(size: tuple[int, int]) -> Any:
    nodes, jobs = size
    generate = _first("alloc.instances.operation:generate_operation")
    return generate(num_nodes=nodes, num_jobs=jobs, seed=1)


def _mapping(shape: tuple[int, int, int]) -> Any:
    """Return a fat tree of hosts of eight H100 and a job of as many ranks."""
    module = importlib.import_module("benchmarks.rank_mapping")
    pods, racks, hosts = (2, 1, 3) if shape == (8, 3, 2) else (4, 4, 4)
    return module.fat_tree(module.hgx_h100(), pods, racks, hosts, 4, 8), module.gpt3(*shape)


def _map(case: tuple[Any, Any]) -> str:
    map_ranks = _first(
        "alloc.solving.rank_mapping.method:map_ranks", "alloc.solving.rank_mapping:map_ranks"
    )
    answer = map_ranks(*case)
    return _told(getattr(answer, "certificate", answer))


def _simulate(scheduler: str, instance: Any) -> str:
    made = _first("alloc.schedulers:make_scheduler")(scheduler)
    return format(_first("alloc.simulation:simulate")(instance, made).end_s, ".6g")


def _simulated(name: str) -> tuple[Any, Any]:
    instance = _stored(name)
    made = _first("alloc.schedulers:make_scheduler")("fifo")
    return instance, _first("alloc.simulation:simulate")(instance, made).schedule


def _verify(case: tuple[Any, Any]) -> str:
    return str(len(_first("alloc.verification:verify")(*case)))


def _planned(name: str) -> tuple[Any, Any]:
    problem = _planning(name)
    size = _first(
        "alloc.solving.right_sizing.method:right_size",
        "alloc.solving.capacity.right_sizing:right_size",
    )
    options = (
        {"limits": _limits()} if "limits" in inspect.signature(size).parameters else {"gap": _GAP}
    )
    result = size(problem, **options)
    return problem, getattr(result, "solution", None) or result.plan


def _verify_plan(case: tuple[Any, Any]) -> str:
    verify = _first(
        "alloc.verification.right_sizing:verify_plan", "alloc.verification.plan:verify_plan"
    )
    return str(len(verify(*case)))


def _replay(case: tuple[Any, Any]) -> str:
    module = importlib.import_module("alloc.planning.replay")
    operations = _first("alloc.planning.pools:operations_of")(*case)
    settings = module.ReplaySettings(jobs=150, replications=2)
    found = module.replay_all(operations, settings)
    return format(sum(measured.value.mean for one in found for measured in one), ".5g")


def _large(num_jobs: int) -> Any:
    return _first("benchmarks.load_instance:build_instance")(num_jobs)


def _text(num_jobs: int) -> Any:
    return _large(num_jobs).to_json()


def _read(text: str) -> str:
    return str(len(_first("alloc:Instance").from_json(text).jobs))


def _write(instance: Any) -> str:
    return str(len(json.loads(instance.to_json())))


def _round_trip(problem: Any) -> str:
    return str(type(problem).from_json(problem.to_json()) == problem)


def _compare(name: str) -> str:
    """Compare the schedulers of the field on an instance, beside the proved optimum."""
    compare = _first("alloc.comparison:compare")
    return str(len(compare([_stored(name)], list(_CLASSIC), time_limit_s=_LIMIT_S).rows))


def _same(case: Any) -> Any:
    return case


def _import(name: str) -> float:
    """Import a package in a fresh process; return its CPU time without that of Python itself."""
    code = f"from time import process_time as t; b = t(); import {name}; print(t() - b)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return float(done.stdout)


def _command(command: tuple[str, ...]) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
    return str(done.returncode)


_CLASSIC = (
    "fifo",
    "easy-backfill",
    "srtf",
    "las",
    "drf",
    "tetris",
    "optimus",
    "random-ps",
)
_HELP = ("-m", "alloc", "--help")
_ROUND, _OVER_TIME, _PLACEMENT = (
    partial(_of_instance, family=family) for family in ("round", "malleable", "placement")
)
_SIZE, _OPERATE, _INFER, _QUOTAS = (
    partial(_solve, f"alloc.solving.capacity.{place}")
    for place in (
        "right_sizing:right_size",
        "operation:solve_operation",
        "inference:solve_inference",
        "quotas:solve_quotas",
    )
)
_TINY, _TINY_PLAN = "elastic-tiny/02", "planning-tiny/02"

WORKLOADS: dict[str, dict[str, Workload]] = {
    "start": {
        "import alloc": Workload(_same, _import, "alloc", "alloc", 10),
        "alloc --help": Workload(_same, _command, _HELP, _HELP, 2),
    },
    "documents": {
        "read 20,000 jobs": Workload(_text, _read, 20_000, 100, 2),
        "write 20,000 jobs": Workload(_large, _write, 20_000, 100, 2),
        "instance, there and back": Workload(_stored, _round_trip, "elastic-large/01", _TINY, 5),
        "planning, there and back": Workload(
            _planning, _round_trip, "planning-medium/01", _TINY_PLAN, 10
        ),
    },
    "simulation": {
        f"simulate {name}": Workload(
            _stored, partial(_simulate, name), "elastic-large/01", "elastic-tiny/01"
        )
        for name in _CLASSIC
    },
    "verification": {
        "verify a schedule": Workload(_simulated, _verify, "elastic-large/01", _TINY, 2),
        "verify a plan": Workload(_planned, _verify_plan, "planning-small/01", _TINY_PLAN, 5),
    },
    "round": {
        "F1 tiny": Workload(_stored, _ROUND, "elastic-tiny/01", _TINY, 50),
        "F1 small": Workload(_stored, _ROUND, "elastic-small/01", _TINY, 20),
        "F1 medium": Workload(_stored, _ROUND, "elastic-medium/07", _TINY, 10),
        "F1 large": Workload(_stored, _ROUND, "elastic-large/01", _TINY, 10),
    },
    "malleable": {
        "F2 small": Workload(_stored, _OVER_TIME, "elastic-small/01", _TINY),
        "F2 medium": Workload(_stored, _OVER_TIME, "elastic-medium/01", _TINY),
    },
    "placement": {
        "placement, 24 hosts": Workload(_gangs, _PLACEMENT, (24, 1), (4, 2), 10),
        "placement, 500 hosts": Workload(_gangs, _PLACEMENT, (500, 1), (4, 2), 2),
        "sharing": Workload(_slices, _share, (1000, 104), (100, 16), 2),
    },
    "right-sizing": {
        # The plan and its proof. What one unit more would save is not asked for: before, it was an
        # estimate by duals, and now it is solved again, when somebody looks at it.
        "right-sizing tiny": Workload(_planning, _SIZE, "planning-tiny/01", _TINY_PLAN, 20),
        "right-sizing small": Workload(_planning, _SIZE, "planning-small/01", _TINY_PLAN, 5),
        "right-sizing medium": Workload(_planning, _SIZE, "planning-medium/01", _TINY_PLAN),
    },
    "operation": {
        "operation": Workload(_decision, _OPERATE, (20, 100), (3, 6), 4),
        "inference": Workload(_inference, _INFER, (2, 6), (1, 2)),
        "quotas": Workload(_quotas, _QUOTAS, (8, 12), (3, 3)),
        "rank mapping": Workload(_mapping, _map, (4, 8, 16), (8, 3, 2), 10),
        "planning replay": Workload(_planned, _replay, "planning-small/01", _TINY_PLAN),
    },
    "comparison": {
        "compare, as the demo": Workload(_same, _compare, "elastic-small/01", "elastic-tiny/01"),
    },
}
"""What is timed, by name; each group in a process of its own."""


def cpu_s() -> float:
    """Return the CPU time of this process and of the children that have ended, seconds."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def run(workload: Workload) -> tuple[float, str]:
    """Return the CPU time of a workload, seconds, and what it answered."""
    workload.work(workload.prepare(workload.warm))
    seconds, answer = 0.0, ""
    for _ in range(workload.times):
        case = workload.prepare(workload.case)
        gc.collect()
        began = cpu_s()
        found = workload.work(case)
        if isinstance(found, float):
            seconds += found
        else:
            seconds, answer = seconds + cpu_s() - began, found
    return seconds / workload.times, answer


if __name__ == "__main__":
    # An editable install answers for every name of the package that its tree has: it would lend the
    # older tree the modules that came since.
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if "__editable__" not in str(finder.__module__)
    ]
    _found = importlib.util.find_spec("alloc")
    _home = Path(str(_found.origin)).resolve().parent if _found else None
    if _home is None or not _home.is_relative_to(Path.cwd().resolve()):
        sys.exit(f"alloc comes from {_home or 'nowhere'}, not from {Path.cwd()}.")
    print(json.dumps({name: run(workload) for name, workload in WORKLOADS[sys.argv[1]].items()}))
