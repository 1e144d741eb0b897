"""Worlds to train and checker learned schedulers on: families of elastic instances.

A world is a recipe: cluster, jobs, load, arrivals, speed tables, and the error of the forecast that
goes with it. Every family changes one thing of the `BASE` world, so that a table over families says
what a policy generalises to. All speeds are this project's fits to DL2's measurements
(`alloc.instances.dl2`); every type of every instance is drawn with its own compute scale, so no two
instances share their job types.

`TRAINING` are the worlds that policies are trained on, `FAMILIES` those they are judged on. The
seeds of the two are apart (`TRAINING_SEEDS`, `HELD_OUT_SEEDS`), and two models, the compute scales
above `TRAINED_COMPUTE` and the larger clusters occur in `FAMILIES` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.instances.arrivals import draw_arrival_slots
from alloc.instances.dl2 import JOB_TYPES, SERVER, SLOT_S, JobType, SpeedFit
from alloc.instances.generators import WEIGHT_CLASSES
from alloc.instances.speed_tables import configurations, speed_table
from alloc.problems.allocation.instance import Instance
from alloc.topology import flat_cluster
from alloc.units import require_positive
from alloc.workload import Configuration, Job

HELD_OUT_MODELS = ("vgg-16", "dssm")
"""Models that no training world has: one with GPUs and hungry for PSs, one without GPUs."""
TRAINED_MODELS = tuple(model for model in JOB_TYPES if model not in HELD_OUT_MODELS)
"""The models of the training worlds."""
TRAINED_COMPUTE = (1.0, 8.0)
"""Range of the compute scale in training worlds, see `SpeedFit.with_compute`."""
TRAINING_SEEDS = range(100_000)
"""Seeds of instances to train on."""
VALIDATION_SEEDS = range(100_000, 200_000)
"""Seeds of instances to choose between checkpoints."""
HELD_OUT_SEEDS = range(200_000, 300_000)
"""Seeds of instances to report on."""
HUNGER = 4.0
"""How much heavier a PS-hungry type loads its parameter servers (`SpeedFit.c`)."""


@dataclass(frozen=True)
class World:
    """A recipe of instances and of the forecast that a policy gets.

    Parameters
    ----------
    name, summary
        Name, and in one sentence what the world is for.
    num_jobs, num_hosts
        Size. A host is DL2's server: four tasks, two of them with a GPU.
    load
        Offered load: the work that arrives in a slot over the work that the cluster does in a slot
        with every job in its cheapest configuration, 0 or more. Jobs that are given more than that
        run faster but cost more for their work, so the cluster is busy well below 1.
    arrivals
        Arrival pattern of `alloc.instances.arrivals`.
    slots_per_day
        Period of the ``diurnal`` pattern, slots.
    models
        Models to draw from.
    cpu_share
        Share of jobs whose model takes no GPU, 0 to 1, or None to draw models evenly.
    hungry_share
        Share of types that load their parameter servers `HUNGER` times as heavily, 0 to 1.
    compute
        Range of the compute scale of a type, drawn log-uniformly for each instance.
    max_tasks
        Largest number of workers, and of parameter servers, of a job.
    table
        Shape of the speed tables, one of `alloc.instances.speed_tables.SHAPES`.
    run_slots
        Range of a job's run time at its best speed, slots, log-uniform.
    weights
        ``unit`` or ``classes``, as in `alloc.instances.generate_elastic`.
    work_error
        Largest relative error of the work that a policy is told, 0 to below 1.
    """

    name: str
    summary: str
    num_jobs: int = 60
    num_hosts: int = 16
    load: float = 0.6
    arrivals: str = "poisson"
    slots_per_day: float = 24.0
    models: tuple[str, ...] = TRAINED_MODELS
    cpu_share: float | None = None
    hungry_share: float = 0.0
    compute: tuple[float, float] = TRAINED_COMPUTE
    max_tasks: int = 16
    table: str = "fit"
    run_slots: tuple[float, float] = (1.0, 20.0)
    weights: str = "unit"
    work_error: float = 0.0

    def __post_init__(self) -> None:
        where = f'world "{self.name}"'
        for field in ("num_jobs", "num_hosts", "load", "max_tasks"):
            require_positive(getattr(self, field), where, field)
        for model in self.models:
            if model not in JOB_TYPES:
                raise InstanceError(
                    f'{where}: unknown model "{model}"{nearest(model, JOB_TYPES)} '
                    f"Known: {', '.join(JOB_TYPES)}."
                )
        if not self.models:
            raise InstanceError(f"{where}: models is empty; name at least one.")
        for field in ("compute", "run_slots"):
            least, most = getattr(self, field)
            if not 0 < least <= most:
                raise InstanceError(
                    f"{where}: {field} is {(least, most)}; give the least and the most, both more "
                    "than 0, in this order."
                )
        for field, top in (("cpu_share", 1.0), ("hungry_share", 1.0), ("work_error", 0.99)):
            value = getattr(self, field)
            if value is not None and not 0 <= value <= top:
                raise InstanceError(f"{where}: {field} is {value:g}; it must be 0 to {top:g}.")

    @property
    def knowledge(self) -> str:
        """What policies are told of work in this world: ``exact`` or ``estimate``."""
        return "estimate" if self.work_error else "exact"

    def times(self, jobs: float, hosts: float | None = None) -> World:
        """Return the world with so many times the jobs, on so many times the hosts.

        The load stays: with more hosts more jobs arrive in a slot.

        Parameters
        ----------
        jobs
            Factor of the number of jobs.
        hosts
            Factor of the number of hosts, by default that of the jobs.
        """
        hosts = jobs if hosts is None else hosts
        return replace(
            self,
            name=f"{self.name} x{jobs:g}",
            num_jobs=max(1, round(self.num_jobs * jobs)),
            num_hosts=max(1, round(self.num_hosts * hosts)),
        )

    def make(self, seed: int) -> Instance:
        """Return the instance of a seed.

        Parameters
        ----------
        seed
            Seed of the one random generator: equal seeds give equal instances on every platform.
        """
        rng = np.random.default_rng(seed)
        types = _draw_types(self, rng)
        ways = {
            job_type: configurations(
                job_type,
                speed_table(job_type.fit, self.max_tasks, self.max_tasks, self.table, rng),
            )
            for job_type in types
        }
        per_slot = self.load * self.num_hosts / _host_slots_of_a_job(self, ways)
        slots = draw_arrival_slots(
            self.arrivals, self.num_jobs, per_slot, rng, slots_per_day=self.slots_per_day
        )
        width = len(str(self.num_jobs - 1))
        jobs = []
        for j, slot in enumerate(slots):
            job_type = _draw_type(self, types, rng)
            least, most = self.run_slots
            run_slots = least * (most / least) ** rng.random()
            work = run_slots * SLOT_S * max(way.rate for way in ways[job_type])
            weight = 1.0
            if self.weights == "classes":
                weight = WEIGHT_CLASSES[int(rng.random() * len(WEIGHT_CLASSES))]
            jobs.append(
                Job(
                    id=f"{job_type.model}-{j:0{width}d}",
                    arrival_s=slot * SLOT_S,
                    work=float(f"{work:.4g}"),
                    configurations=ways[job_type],
                    weight=weight,
                    model=job_type.model,
                )
            )
        return Instance(
            name=f"{self.name} / {seed}",
            topology=flat_cluster(f"{self.num_hosts} DL2 servers", SERVER, self.num_hosts),
            jobs=tuple(jobs),
            slot_s=SLOT_S,
            description={"generator": "learning_worlds", "world": self.name, "seed": str(seed)},
        )


def _draw_types(world: World, rng: np.random.Generator) -> tuple[JobType, ...]:
    """Return the job types of an instance: the world's models, each with its own speeds."""
    least, most = world.compute
    types = []
    for model in world.models:
        scale = least * (most / least) ** rng.random()
        fit = JOB_TYPES[model].fit.with_compute(scale)
        if rng.random() < world.hungry_share:
            fit = _hungrier(fit)
        types.append(replace(JOB_TYPES[model], fit=fit))
    return tuple(types)


def _hungrier(fit: SpeedFit) -> SpeedFit:
    return replace(fit, c=fit.c * HUNGER)


def _draw_type(world: World, types: Sequence[JobType], rng: np.random.Generator) -> JobType:
    if world.cpu_share is not None:
        on_cpu = rng.random() < world.cpu_share
        types = [t for t in types if t.uses_gpu != on_cpu] or types
    return types[int(rng.random() * len(types))]


def _host_slots_of_a_job(world: World, ways: Mapping[JobType, tuple[Configuration, ...]]) -> float:
    """Return the mean over jobs of the host slots that a job takes at its cheapest."""
    least, most = world.run_slots
    mean_run = (most - least) / np.log(most / least) if most > least else least
    share = world.cpu_share
    if share is None or len({job_type.uses_gpu for job_type in ways}) == 1:
        chances = dict.fromkeys(ways, 1 / len(ways))
    else:
        on_cpu = sum(not job_type.uses_gpu for job_type in ways)
        chances = {
            job_type: (1 - share) / (len(ways) - on_cpu) if job_type.uses_gpu else share / on_cpu
            for job_type in ways
        }
    total = 0.0
    for job_type, table in ways.items():
        best = max(way.rate for way in table)
        cheapest = min(_hosts_for(way) / way.rate for way in table if way.rate > 0)
        total += chances[job_type] * mean_run * best * cheapest
    return total


def _hosts_for(way: Configuration) -> float:
    """Return how much of a host the tasks fill, by the resource they fill most."""
    return max(need / have for need, have in zip(way.demand, SERVER.capacity, strict=True) if have)


BASE = World("base", "The world that the others change: Poisson arrivals at a medium load.")
"""The world that every family changes."""

FAMILIES: dict[str, World] = {
    world.name: world
    for world in (
        BASE,
        replace(BASE, name="light", summary="Little to compete for.", load=0.35),
        replace(BASE, name="heavy", summary="Queues build up.", load=0.9),
        replace(BASE, name="uniform", summary="Jobs at even intervals.", arrivals="uniform"),
        replace(BASE, name="bursty", summary="Most jobs come in bursts.", arrivals="bursty"),
        replace(BASE, name="diurnal", summary="A daily wave of arrivals.", arrivals="diurnal"),
        replace(BASE, name="small-cluster", summary="A quarter of the hosts.", num_hosts=4),
        BASE.times(4),
        replace(
            BASE, name="crowd", summary="Four times the jobs, same hosts.", num_jobs=240, load=1.2
        ),
        replace(BASE, name="cpu-jobs", summary="Most jobs take no GPU.", cpu_share=0.7),
        replace(BASE, name="ps-hungry", summary="Most types lack PSs.", hungry_share=0.7),
        replace(
            BASE,
            name="heavier-types",
            summary="Types that scale beyond those trained on.",
            compute=(8.0, 24.0),
        ),
        replace(
            BASE,
            name="unseen-types",
            summary="Only models that were never trained on.",
            models=HELD_OUT_MODELS,
        ),
        replace(BASE, name="few-tasks", summary="Jobs of up to 8 workers and 8 PSs.", max_tasks=8),
        replace(
            BASE, name="many-tasks", summary="Jobs of up to 24 workers and 24 PSs.", max_tasks=24
        ),
        replace(
            BASE,
            name="plateaus",
            summary="Even counts are as fast as the odd one below.",
            table="plateaus",
        ),
        replace(BASE, name="dips", summary="Tables with dips at random points.", table="dips"),
        replace(BASE, name="gaps", summary="Tables with points missing.", table="gaps"),
        replace(BASE, name="error-20", summary="Work known within 20 %.", work_error=0.2),
        replace(BASE, name="error-40", summary="Work known within 40 %.", work_error=0.4),
    )
}
"""The families that policies are judged on, by name."""

TRAINING: dict[str, World] = {
    **{
        name: FAMILIES[name]
        for name in (
            "base",
            "light",
            "heavy",
            "bursty",
            "small-cluster",
            "cpu-jobs",
            "ps-hungry",
            "dips",
            "error-20",
        )
    },
    "overload": replace(
        BASE, name="overload", summary="Jobs come far faster than they go.", num_hosts=8, load=2.0
    ),
}
"""The worlds that policies are trained on; never on more jobs or hosts than `BASE` has."""

TINY = replace(
    BASE,
    name="tiny",
    summary="For fast tests.",
    num_jobs=8,
    num_hosts=3,
    max_tasks=4,
    run_slots=(0.5, 4.0),
)
"""A small world for tests."""

AUDIT = replace(
    BASE,
    name="audit",
    summary="Small and crowded, so that rewards can be solved exactly.",
    num_jobs=6,
    num_hosts=2,
    max_tasks=3,
    load=1.2,
    run_slots=(0.5, 4.0),
)
"""The world on which rewards are audited (`alloc.learning.reward_audit`)."""


def world(name: str) -> World:
    """Return a world by name.

    Raises
    ------
    InstanceError
        If there is none of that name; the message suggests the nearest.
    """
    known = {**FAMILIES, TINY.name: TINY, AUDIT.name: AUDIT}
    if name not in known:
        raise InstanceError(
            f'unknown learning world "{name}"{nearest(name, known)} Known: {", ".join(known)}.'
        )
    return known[name]
