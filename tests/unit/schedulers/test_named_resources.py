"""Every scheduler gives out what hosts and the cluster offer by name, and lets jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler, scheduler_names
from alloc.schedulers.learned import kind_names, policy_kind
from alloc.schedulers.learned.kinds import feature_spec, parameters_of
from alloc.simulation import simulate
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

WITH_DISK = HostType("disk", 4, "v100", 32 * MILLI, 65536, resources={"nvme_gib": 10})
WITHOUT = HostType("bare", 4, "v100", 32 * MILLI, 65536)
CLUSTER = Topology(
    "named",
    (WITH_DISK, WITHOUT),
    (Host("h0", "bare"), Host("h1", "disk"), Host("h2", "bare")),
    resources={"licence": 2, "power_w": 1000},
)


def gang(workers: int, servers: int = 0, **resources: int) -> Configuration:
    """Return workers of one GPU that ask for named resources, and parameter servers."""
    groups = [TaskGroup("worker", workers, MILLI, MILLI, 1024, resources=resources)]
    if servers:
        groups.append(TaskGroup("ps", servers, 0, MILLI))
    return Configuration(tuple(groups), float(workers))


LICENSED, ON_DISK = gang(1, licence=1), gang(1, nvme_gib=6)


def jobs(*, with_servers: bool) -> tuple[Job, ...]:
    """Return more jobs than the licences, the disk or the power let run at once."""
    kinds = {
        "licensed": (LICENSED, gang(2, licence=1)),
        "disk": (ON_DISK,),
        "power": (gang(1, power_w=600),),
        "both": (gang(1, licence=2, nvme_gib=4),),
        "plain": tuple(gang(n, n if with_servers else 0) for n in (1, 2)),
    }
    return tuple(
        Job(f"{name}-{k}", 5.0 * k, 40.0, configurations, elasticity="moldable")
        for name, configurations in kinds.items()
        for k in range(3)
    )


TASK_BY_TASK = ("dl2", "dl2-rl-only", "window-policy")
"""They give out workers and parameter servers one by one, by GPU, CPU and memory, in slots."""


def outcome(scheduler: Any, slot_s: float | None, waiting: tuple[Job, ...]) -> str:
    """Let a scheduler run jobs; return what is wrong, or that it does not take them."""
    instance = Instance("named", CLUSTER, waiting, slot_s=slot_s)
    try:
        result = simulate(instance, scheduler)
    except UnsupportedFeatureError:
        return "refused"
    broken = verify(instance, result.schedule)
    done = {run.job for run in result.schedule.runs}
    return "; ".join(map(str, broken)) or ("" if len(done) == len(waiting) else "not all ran")


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in scheduler_names() if n not in TASK_BY_TASK])
def test_jobs_wait_for_licences_disks_and_power(name: str) -> None:
    """With slots or without, whichever the scheduler takes: all jobs end, no limit is broken."""
    scheduler = make_scheduler(name)
    found = {outcome(scheduler, slot, jobs(with_servers=slot is not None)) for slot in (None, 10.0)}
    assert "" in found
    assert found <= {"", "refused"}


@pytest.mark.parametrize("name", TASK_BY_TASK)
def test_schedulers_that_give_out_single_tasks_refuse_what_they_do_not_count(name: str) -> None:
    everything = jobs(with_servers=True)
    plain = tuple(
        job.replace(elasticity="malleable") for job in everything if job.id.startswith("plain")
    )
    assert outcome(make_scheduler(name), 10.0, everything) == "refused"
    assert outcome(make_scheduler(name), 10.0, plain) == ""


PARAMETERS: dict[str, dict[str, Any]] = {
    "host-choice/1": {"classes": ("a", "b")},
    "dl2-window/1": {"window": 6},
    "gang-domain/1": {"level": "host", "domains": 3},
}


def at_random(kind: str, seed: int) -> Any:
    """Return a policy of a kind whose network answers anything, as one that never saw a licence."""
    spec, rng = feature_spec(kind, **PARAMETERS.get(kind, {})), np.random.default_rng(seed)

    def network(given: Mapping[str, Any]) -> dict[str, Any]:
        lengths: dict[Any, Any] = {n: n for t in spec.outputs for n in t.shape}
        for tensor in spec.inputs:
            lengths |= dict(zip(tensor.shape, given[tensor.name].shape, strict=True))
        return {
            tensor.name: rng.normal(size=[lengths[a] for a in tensor.shape]).astype("f4")
            for tensor in spec.outputs
        }

    own = policy_kind(kind)
    decider = own.make_decider(network, parameters_of(spec), name="random")
    return SimpleNamespace(
        name="random",
        information="chance",
        needs=own.needs,
        features=own.features,
        decide=decider.decide,
        reset=decider.reset,
    )


@pytest.mark.parametrize("kind", kind_names())
@pytest.mark.parametrize("seed", range(5))
def test_a_policy_that_sees_no_names_keeps_their_limits_or_takes_none(kind: str, seed: int) -> None:
    """Whatever its network answers, on jobs that ask for several resources it is not shown."""
    single = tuple(
        job.replace(configurations=job.configurations[:1], elasticity="rigid")
        for job in jobs(with_servers=False)
    )
    found = {
        outcome(at_random(kind, seed), slot, waiting)
        for slot in (None, 10.0)
        for waiting in (single, jobs(with_servers=slot is not None))
    }
    assert found <= {"", "not all ran", "refused"}
    assert kind == "dl2-window/1" or found != {"refused"}
