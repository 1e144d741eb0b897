"""Generators: instances from a few parameters and a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Real

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.instances.arrivals import DAY_S, ArrivalProcess, draw_arrival_slots
from alloc.instances.dl2 import JOB_TYPES, SERVER, SLOT_S, TASK_CPU_MILLI, JobType
from alloc.instances.speed_tables import DRAWLESS, Demand, configurations, speed_table
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.units import require_positive
from alloc.workload import Configuration, Elasticity, Job, rigid_gang

WEIGHT_CLASSES = (1.0, 2.0, 4.0)
"""Weights drawn with ``weights="classes"``, each as likely as the others."""


def generate_elastic(
    name: str,
    *,
    num_jobs: int,
    num_hosts: int,
    slot_s: float = SLOT_S,
    max_workers: int = 16,
    max_ps: int = 16,
    gpus_per_worker: int = 1,
    task_cpu_milli: int = TASK_CPU_MILLI,
    compute_scale: float = 1.0,
    arrivals: str | ArrivalProcess = "poisson",
    arrivals_per_slot: float = 3.0,
    slots_per_day: float | None = None,
    run_slots: Sequence[float] = (1.0, 20.0),
    max_epochs: int | None = None,
    table: str = "fit",
    weights: str = "unit",
    models: Sequence[str] = tuple(JOB_TYPES),
    elasticity: Elasticity = "malleable",
    restart_cost_s: float = 0.0,
    seed: int = 0,
) -> Instance:
    """Return an instance of elastic training jobs with workers and parameter servers, DL2's world.

    Parameters
    ----------
    name
        Name of the instance.
    num_jobs, num_hosts
        Size. A host is DL2's server: it holds four tasks, two of them GPU workers.
    slot_s
        Length of a slot, seconds: 1,200 in DL2's simulations, 300 in its testbed.
    max_workers, max_ps
        Each job has one configuration for every 1..max_workers workers and 1..max_ps servers.
    gpus_per_worker
        GPUs of a worker of the models that use GPUs. 1 in DL2's evaluation; its paper allows 2.
    task_cpu_milli
        CPU of every task, milli-cores. 2,000 in DL2's evaluation; its paper allows 1,000 to 4,000.
    compute_scale
        Compute per sample relative to DL2's models, see `SpeedFit.with_compute`. Its models are
        small: one worker with one server runs at about half of the best speed, so even all jobs at
        once hardly compete for DL2's cluster. Heavier models scale further, and compete.
    arrivals, arrivals_per_slot
        Arrival pattern or process, and mean rate, see
        `alloc.instances.arrivals.draw_arrival_slots`.
    slots_per_day
        Period of the ``diurnal`` pattern in slots; None for 86,400 s.
    run_slots
        Range of a job's run time at its best speed, in slots, drawn log-uniformly. The default has
        a mean of 6.3 slots and a median of 4.5: DL2 reports a mean of 147 minutes (7.4 slots) in
        its trace, and more than half above an hour (3 slots).
    max_epochs
        If given, lengths follow DL2's rule instead: ``int(length_fraction * max_epochs)`` epochs
        of the job's type, times 0.90, 0.91, ... or 1.09. The types then differ a hundredfold.
    table
        Shape of the speed tables, one of `alloc.instances.speed_tables.SHAPES`. Jobs of one type
        share one table.
    weights
        ``unit``, or ``classes`` for a draw from `WEIGHT_CLASSES`.
    models
        Models to draw the jobs from, uniformly.
    elasticity, restart_cost_s
        As in `Job`. In DL2's world jobs are malleable and restarts are free.
    seed
        Seed of the one random generator.

    Returns
    -------
    Instance
        Work is in samples. The horizon is open.

    Raises
    ------
    InstanceError
        If a parameter is out of range or a name is unknown.

    Examples
    --------
    >>> instance = generate_elastic("demo", num_jobs=3, num_hosts=2, max_workers=2, max_ps=2)
    >>> len(instance.jobs), instance.topology.num_gpus
    (3, 4)
    """
    where = f'instance "{name}"'
    for field, value in (
        ("num_jobs", num_jobs),
        ("num_hosts", num_hosts),
        ("slot_s", slot_s),
        ("gpus_per_worker", gpus_per_worker),
        ("task_cpu_milli", task_cpu_milli),
        ("compute_scale", compute_scale),
    ):
        require_positive(value, where, field)
    if elasticity == "rigid":
        raise InstanceError(
            f"{where}: elasticity is rigid, but a table has many configurations; "
            "use malleable or moldable."
        )
    job_types = _job_types(where, models)
    draw_weight = _weight_rule(where, weights)
    draw_work = _work_rule(where, run_slots, max_epochs, slot_s)
    ask = Demand(gpus_per_worker, task_cpu_milli)
    rng = np.random.default_rng(seed)
    # One tuple a type: it is stored once, and models recognise equal jobs by it.
    ways = {}
    for job_type in job_types:
        if table in DRAWLESS:
            ways[job_type.model] = _same_ways(
                job_type, compute_scale, max_ps, max_workers, table, ask
            )
        else:
            fit = job_type.fit.with_compute(compute_scale)
            speeds = speed_table(fit, max_ps, max_workers, table, rng)
            ways[job_type.model] = configurations(job_type, speeds, ask)
    slots = draw_arrival_slots(
        arrivals,
        num_jobs,
        arrivals_per_slot,
        rng,
        slots_per_day=DAY_S / slot_s if slots_per_day is None else slots_per_day,
    )
    fastest = {model: max(way.rate for way in its) for model, its in ways.items()}
    width = len(str(num_jobs - 1))
    jobs = []
    for j, slot in enumerate(slots):
        job_type = job_types[int(rng.random() * len(job_types))]
        configuration = ways[job_type.model]
        jobs.append(
            Job(
                id=f"{job_type.model}-{j:0{width}d}",
                arrival_s=slot * slot_s,
                work=draw_work(job_type, fastest[job_type.model], rng),
                configurations=configuration,
                weight=draw_weight(rng),
                elasticity=elasticity,
                restart_cost_s=restart_cost_s,
                model=job_type.model,
            )
        )
    return Instance(
        name=name,
        topology=flat_cluster(f"{num_hosts} DL2 servers", SERVER, num_hosts),
        jobs=tuple(jobs),
        slot_s=slot_s,
        description={
            "generator": "generate_elastic",
            "seed": str(seed),
            "source": "job types, demands and slot: DL2 (Peng et al., IEEE TPDS 2021); "
            "speeds: this project's fit to its measurements",
        },
    )


PHILLY_GPUS: Mapping[int, float] = {1: 93.2, 2: 2.2, 4: 2.3, 8: 2.0, 16: 0.24, 32: 0.08}
"""GPUs of a gang to its share of all jobs, per cent: counted over the 82,247 jobs of Philly's table
(Jeon et al., USENIX ATC 2019) as ElasticFlow published it; sizes below 0.03 % are left out."""

PHILLY_RUN_S: Sequence[tuple[float, float]] = (
    (0.05, 48.0),
    (0.25, 115.0),
    (0.5, 1144.0),
    (0.75, 2932.0),
    (0.9, 11266.0),
    (0.95, 43648.0),
    (0.99, 254884.0),
)
"""Quantiles of the durations in the same table, seconds."""


def generate_gangs(
    name: str,
    *,
    num_jobs: int,
    num_hosts: int,
    gpus_per_host: int = 8,
    gpu_type: str = "h100",
    gpus: Mapping[int, float] = PHILLY_GPUS,
    run_s: Sequence[tuple[float, float]] = PHILLY_RUN_S,
    arrivals: str | ArrivalProcess = "poisson",
    arrivals_per_slot: float = 0.5,
    arrival_slot_s: float = 60.0,
    weights: str = "unit",
    preemptible: bool = True,
    seed: int = 0,
) -> Instance:
    """Return an instance of rigid gangs in continuous time, with sizes and durations of your mix.

    A size and a duration are drawn apart from each other, as tables of quantiles leave them; in
    traces large gangs run longer.

    Parameters
    ----------
    name
        Name of the instance.
    num_jobs, num_hosts
        Size.
    gpus_per_host, gpu_type
        What a host has.
    gpus
        GPUs of a gang to its share of the jobs; shares are more than 0 and need not add up to 1.
        Sizes that the cluster does not have are refused.
    run_s
        Quantiles of the duration: (fraction of the jobs, seconds), both rising, at least two.
        Between them the logarithm is linear; beyond the first and the last it is theirs.
    arrivals, arrivals_per_slot, arrival_slot_s
        Arrival pattern or process, mean rate, and the length of its slots in seconds, see
        `alloc.instances.arrivals.draw_arrival_slots`. By default one job in two minutes, about
        Philly's mean of 31.5 jobs an hour.
    weights
        As in `generate_elastic`.
    preemptible
        As in `Job`.
    seed
        Seed of the one random generator.

    Returns
    -------
    Instance
        Work is in seconds of the whole gang. The horizon is open.

    Raises
    ------
    InstanceError
        If a parameter is out of range or a name is unknown.

    Examples
    --------
    >>> instance = generate_gangs("demo", num_jobs=3, num_hosts=2, gpus={4: 1, 8: 3})
    >>> len(instance.jobs), instance.topology.num_gpus
    (3, 16)
    """
    where = f'instance "{name}"'
    for field, value in (
        ("num_jobs", num_jobs),
        ("num_hosts", num_hosts),
        ("gpus_per_host", gpus_per_host),
        ("arrival_slot_s", arrival_slot_s),
    ):
        require_positive(value, where, field)
    sizes, upto = _shares(where, gpus, num_hosts * gpus_per_host)
    draw_run_s = _quantile_rule(where, run_s)
    draw_weight = _weight_rule(where, weights)
    rng = np.random.default_rng(seed)
    slots = draw_arrival_slots(
        arrivals, num_jobs, arrivals_per_slot, rng, slots_per_day=DAY_S / arrival_slot_s
    )
    width = len(str(num_jobs - 1))
    # One gang of a size: models recognise equal jobs by it.
    ways = {size: (rigid_gang(size),) for size in sizes}
    jobs = []
    for j, slot in enumerate(slots):
        size = sizes[int(np.searchsorted(upto, rng.random() * upto[-1], side="right"))]
        jobs.append(
            Job(
                id=f"gang-{j:0{width}d}",
                arrival_s=slot * arrival_slot_s,
                work=draw_run_s(rng),
                configurations=ways[size],
                weight=draw_weight(rng),
                elasticity="rigid",
                preemptible=preemptible,
            )
        )
    host = HostType(f"{gpus_per_host} x {gpu_type}", num_gpus=gpus_per_host, gpu_type=gpu_type)
    return Instance(
        name=name,
        topology=flat_cluster(f"{num_hosts} hosts of {host.name}", host, num_hosts),
        jobs=tuple(jobs),
        description={
            "generator": "generate_gangs",
            "seed": str(seed),
            **(
                {"source": "sizes and durations: Philly's job table (Jeon et al., ATC 2019)"}
                if gpus is PHILLY_GPUS and run_s is PHILLY_RUN_S
                else {}
            ),
        },
    )


GENERATORS: dict[str, Callable[..., Instance]] = {
    "generate_elastic": generate_elastic,
    "generate_gangs": generate_gangs,
}
"""The generators that stored instances name."""

WorkRule = Callable[[JobType, float, np.random.Generator], float]
"""Draws the work of a job from its type and its highest rate."""


@lru_cache(maxsize=32)
def _same_ways(
    job_type: JobType, compute_scale: float, max_ps: int, max_workers: int, table: str, ask: Demand
) -> tuple[Configuration, ...]:
    """Return the configurations of a table that draws nothing: made once, for all instances.

    Training draws an instance an episode, and would spend most of its time here.
    """
    fit = job_type.fit.with_compute(compute_scale)
    nothing = np.random.default_rng()
    speeds = speed_table(fit, max_ps, max_workers, table, nothing)
    return configurations(job_type, speeds, ask)


def _shares(
    where: str, gpus: Mapping[int, float], cluster: int
) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Return the sizes of gangs, and the cumulated shares of the jobs."""
    if not isinstance(gpus, Mapping) or not gpus:
        raise InstanceError(
            f"{where}: gpus is {gpus!r}; give each size its share of the jobs, as in {{8: 1}}."
        )
    # The keys of a JSON object are text.
    by_size = {
        int(size) if isinstance(size, str) and size.isdecimal() else size: share
        for size, share in gpus.items()
    }
    for size, share in by_size.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= cluster:
            raise InstanceError(
                f"{where}: a gang has {size!r} GPUs, and the cluster has {cluster}; give whole "
                "numbers from 1 to that."
            )
        if isinstance(share, bool) or not isinstance(share, Real):
            raise InstanceError(
                f"{where}: share of gangs of {size} GPUs is {share!r}; give a number more than 0."
            )
        require_positive(share, where, f"share of gangs of {size} GPUs")
    largest = max(by_size.values())
    # Of the largest, so that no sum overflows and none is too small to be divided.
    return list(by_size), np.cumsum([float(share / largest) for share in by_size.values()])


def _quantile_rule(
    where: str, run_s: Sequence[tuple[float, float]]
) -> Callable[[np.random.Generator], float]:
    """Return the rule that draws a duration, whole seconds and at least 1."""
    try:
        table = np.array(run_s, dtype=float)
    except (TypeError, ValueError):  # text in it, or rows of several lengths
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != 2 or len(table) < 2:
        raise InstanceError(
            f"{where}: run_s must be pairs of a fraction of the jobs and seconds, at least two."
        )
    fractions, seconds = table.T
    rising = (np.diff(table, axis=0) > 0).all()
    if not (
        rising
        and fractions[0] >= 0
        and fractions[-1] <= 1
        and seconds[0] >= 1
        and seconds[-1] < math.inf
    ):
        raise InstanceError(
            f"{where}: run_s must have rising fractions from 0 to 1, and rising seconds from 1."
        )
    logs = np.log(seconds)
    return lambda rng: float(round(math.exp(np.interp(rng.random(), fractions, logs))))


def _job_types(where: str, models: Sequence[str]) -> list[JobType]:
    if not models:
        raise InstanceError(f"{where}: models is empty; name at least one of {_known(JOB_TYPES)}.")
    for model in models:
        if model not in JOB_TYPES:
            raise InstanceError(
                f'{where}: unknown model "{model}"{nearest(model, JOB_TYPES)} '
                f"Known: {_known(JOB_TYPES)}."
            )
    return [JOB_TYPES[model] for model in models]


def _weight_rule(where: str, weights: str) -> Callable[[np.random.Generator], float]:
    if weights == "unit":
        return lambda rng: 1.0
    if weights == "classes":
        return lambda rng: WEIGHT_CLASSES[int(rng.random() * len(WEIGHT_CLASSES))]
    known = ("unit", "classes")
    raise InstanceError(
        f'{where}: unknown weights "{weights}"{nearest(weights, known)} Known: {_known(known)}.'
    )


def _work_rule(
    where: str, run_slots: Sequence[float], max_epochs: int | None, slot_s: float
) -> WorkRule:
    """Return the rule that draws a job's work in samples, whole and at least 1."""
    if max_epochs is not None:
        require_positive(max_epochs, where, "max_epochs")

        def by_epochs(job_type: JobType, fastest: float, rng: np.random.Generator) -> float:
            percent = 90 + int(rng.random() * 20)
            epochs = int(job_type.length_fraction * max_epochs) * percent / 100
            return float(max(1, round(epochs * job_type.epoch_size)))

        return by_epochs
    if len(run_slots) != 2 or not 0 < run_slots[0] <= run_slots[1] < math.inf:
        raise InstanceError(
            f"{where}: run_slots is {tuple(run_slots)}; give the least and the most slots, "
            "both more than 0, in this order."
        )
    least, most = run_slots

    def by_run_time(job_type: JobType, fastest: float, rng: np.random.Generator) -> float:
        slots = least * (most / least) ** rng.random()
        work = slots * slot_s * fastest
        return float(max(1, float(f"{work:.4g}")))

    return by_run_time


def _known(names: Sequence[str] | dict[str, JobType]) -> str:
    return ", ".join(names)
