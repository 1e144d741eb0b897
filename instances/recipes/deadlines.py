"""Jobs with deadlines, any of which may be refused: which ones to accept?

The question is ElasticFlow's. Tables have steps and peaks, where no size is a mix of its
neighbours, or are linear; values are whole numbers.
"""

from __future__ import annotations

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below, between
from alloc.instances.recipes.elastic import size_of_cluster
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

_SLOT_S = 3600.0
"""An hour: deadlines of training jobs are hours to days."""
_STEPS = (0.95, 1.2, 1.5, 2.0, 2.6)
"""How many times as fast on twice the GPUs: a small gain is often followed by a large one."""
_LINEAR = (4, 8, 16)
"""Most GPUs of a job with a linear table."""


def _table(rng: np.random.Generator, linear: bool, num_gpus: int) -> dict[int, float]:
    if linear:
        most = min(_LINEAR[below(rng, len(_LINEAR))], num_gpus)
        return {gpus: float(gpus) for gpus in range(1, most + 1)}
    rates, rate = {}, 1.0
    for gpus in (1, 2, 4, 8, 16):
        if gpus <= num_gpus:
            rates[gpus] = round(rate, 3)
        rate *= _STEPS[below(rng, len(_STEPS))]
    return rates


def queue(
    name: str,
    *,
    num_jobs: int,
    num_slots: int,
    num_hosts: int,
    seed: int,
    gpus_per_host: int = 8,
    linear: bool = False,
) -> Instance:
    """Return malleable jobs with deadlines on slots of an hour, each of which may be refused.

    A job arrives in the first two thirds of the slots, and is due 2 to 12 slots later. Its work is
    a fifth to seven tenths of what its best configuration does until then; it is worth 1 to 9.

    Parameters
    ----------
    name
        Name of the instance.
    num_jobs
        Jobs.
    num_slots
        Slots, 2 or more; no deadline is later than their end.
    num_hosts, gpus_per_host
        Hosts of one type, and GPUs of each.
    seed
        Seed of the draws.
    linear
        Whether a job is twice as fast on twice the GPUs, up to 4, 8 or 16 of them; otherwise twice
        the GPUs, up to 16, are 0.95 to 2.6 times as fast.
    """
    rng = np.random.default_rng(seed)
    jobs = []
    for j in range(num_jobs):
        rates = _table(rng, linear, num_hosts * gpus_per_host)
        begin = below(rng, num_slots * 2 // 3)
        end = min(begin + 2 + below(rng, 11), num_slots)
        full = max(rates.values()) * (end - begin) * _SLOT_S
        ways = tuple(
            Configuration((TaskGroup("worker", gpus, MILLI),), rate) for gpus, rate in rates.items()
        )
        jobs.append(
            Job(
                f"job-{j}",
                begin * _SLOT_S,
                float(round(between(rng, 0.2, 0.7) * full)),
                ways,
                weight=float(1 + below(rng, 9)),
                deadline_s=end * _SLOT_S,
                refusable=True,
            )
        )
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_s))
    cluster = flat_cluster(name, HostType("a100", gpus_per_host, "a100"), num_hosts)
    return Instance(name, cluster, ordered, slot_s=_SLOT_S)


def size(instance: Instance) -> dict[str, int]:
    """Return the size of an instance, with the slots until the last deadline.

    Parameters
    ----------
    instance
        The instance; every job has a deadline.
    """
    last = max(job.deadline_s or 0.0 for job in instance.jobs)
    return {**size_of_cluster(instance), "slots": round(last / _SLOT_S)}


FAMILIES = (
    RecipeFamily(
        "deadlines-refusable",
        "6 to 500 jobs with deadlines, any of which may be refused",
        "admission",
        "value",
        queue,
        size,
        [
            {"num_jobs": 6, "num_slots": 6, "num_hosts": 1, "gpus_per_host": 4, "seed": 1},
            {"num_jobs": 10, "num_slots": 12, "num_hosts": 1, "seed": 2},
            {"num_jobs": 15, "num_slots": 24, "num_hosts": 2, "seed": 7},
            {"num_jobs": 20, "num_slots": 24, "num_hosts": 2, "seed": 4},
            {"num_jobs": 100, "num_slots": 100, "num_hosts": 4, "linear": True, "seed": 5},
            {"num_jobs": 500, "num_slots": 250, "num_hosts": 8, "linear": True, "seed": 6},
        ],
        {},
        (
            "question: Gu et al., ElasticFlow, ASPLOS 2023",
            "tables, deadlines, work and values: ours",
        ),
    ),
)
