"""The kind job-set/1: all jobs of a round decided at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from set_policies import ByHand

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.instances.learning_worlds import BASE, FAMILIES, TINY
from alloc.objectives import round_utility
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.job_set import JobSetDecider
from alloc.schedulers.learned.kinds import kind_names, policy_kind
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.simulation import SimulationResult, simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("two", HostType("h", 4, "generic", 8000, 0), 2)


def slots(*jobs: Job, **changes: object) -> Instance:
    return Instance("slots", HOSTS, jobs, slot_s=10.0).replace(**changes)


def run(instance: Instance, network: Any = None, **options: Any) -> SimulationResult:
    return simulate(instance, JobSetDecider(network or ByHand(), "set"), **options)


def mean_slots(instance: Instance, result: SimulationResult) -> float:
    assert instance.slot_s is not None
    ends = result.completion_s
    return float(
        np.mean([(ends[j.id] or np.inf) - j.arrival_s for j in instance.jobs]) / instance.slot_s
    )


class FirstUtility:
    """Notes the utility of a scheduler's first decision."""

    needs: Knowledge = "exact"
    information = "what its inner policy uses"

    def __init__(self, inner: Any) -> None:
        self.inner, self.name = inner, "first"
        self.features = getattr(inner, "features", ())
        self.assign: tuple[Assignment, ...] = ()

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, state: ClusterState) -> Decision:
        decision: Decision = self.inner.decide(state)
        self.assign = self.assign or decision.assign
        return decision


def first_progress(instance: Instance, scheduler: Any) -> float:
    """Progress that the first decision of a scheduler makes, jobs."""
    assert instance.slot_s is not None
    noted = FirstUtility(scheduler)
    simulate(instance, noted, max_time_s=instance.slot_s)
    utility = round_utility("progress")
    return sum(
        float(
            utility.of_rates(
                instance.job(a.job),
                np.array([instance.job(a.job).configurations[a.configuration].rate]),
                instance.slot_s,
            )[0]
        )
        for a in noted.assign
    )


@pytest.mark.parametrize(("hosts", "loss"), [(4, 0.05), (16, 0.015), (60, 0.003)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_the_utility_of_the_exact_round_the_choice_is_nearly_exact(
    hosts: int, loss: float, seed: int
) -> None:
    """From any first price, prices and filling lose about the room of one job, no more."""
    crowd = replace(BASE, num_jobs=60, num_hosts=hosts, load=1000.0).make(seed)
    best = first_progress(crowd, make_scheduler("exact-progress"))
    for prices in (0.0, 0.5, 100.0):
        network = ByHand(beta=0.0, progress=True, prices=prices)
        found = first_progress(crowd, JobSetDecider(network, "set"))
        assert (1 - loss) * best <= found <= best * (1 + 1e-6)


@pytest.mark.long
def test_a_rule_by_hand_beats_the_exact_round_where_queues_build_up() -> None:
    """What a round is worth to mean JCT is not its progress: short jobs first counts for more."""
    instance = replace(FAMILIES["heavy"], num_jobs=16, num_hosts=4, max_tasks=6).make(4)
    ours = mean_slots(instance, run(instance))
    for name in ("exact-progress", "exact-remaining-time", "optimus"):
        assert ours < mean_slots(instance, simulate(instance, make_scheduler(name)))


def test_the_order_of_jobs_changes_nothing_but_the_order_of_rows() -> None:
    """Permuting the instance permutes what the network is shown."""
    instance = TINY.make(3).replace(name="same")
    jobs = tuple(job.replace(arrival_s=0.0) for job in instance.jobs)
    networks = [ByHand(), ByHand()]
    for network, order in zip(networks, (jobs, jobs[::-1]), strict=True):
        run(instance.replace(jobs=order), network, max_time_s=1.0)
    shown, reversed_ = (network.seen[0] for network in networks)
    assert np.allclose(shown["jobs"], reversed_["jobs"][::-1])
    assert np.allclose(shown["resources"], reversed_["resources"], atol=1e-5)


def test_features_do_not_grow_with_cluster_and_queue() -> None:
    """Twice the jobs on twice the hosts look alike to the network, so it can generalise."""
    job = TINY.make(0).jobs[0]
    seen = []
    for times in (1, 2, 8):
        hosts = flat_cluster("some", HOSTS.host_types[0], 4 * times)
        jobs = tuple(job.replace(id=f"{k}", arrival_s=0.0) for k in range(6 * times))
        network = ByHand()
        run(Instance("n", hosts, jobs, slot_s=1200.0), network, max_time_s=1.0)
        seen.append(network.seen[0])
    for other in seen[1:]:
        assert np.allclose(seen[0]["jobs"][0], other["jobs"][0], atol=1e-5)
        assert np.allclose(seen[0]["resources"], other["resources"], atol=1e-5)


def test_jobs_that_must_not_pause_keep_their_hosts() -> None:
    """The others share what is left, within the quota that is left."""
    steady = Job("steady", 0.0, 25.0, (rigid_gang(6),), preemptible=False, tenant="red")
    short = Job("short", 10.0, 1.0, (rigid_gang(2),), tenant="red")
    late = Job("late", 10.0, 1.0, (rigid_gang(2),), tenant="red")
    result = run(slots(steady, short, late, tenants=(Tenant("red", 8000),)))
    assert result.start_s == {"steady": 0.0, "short": 10.0, "late": 20.0}
    assert len(result.schedule.runs_of["steady"]) == 1


def test_a_quota_holds_though_capacity_would_not_bind() -> None:
    """Prices know nothing of quotas; seating does."""
    jobs = [Job(f"j{k}", 0.0, 10.0, (rigid_gang(2),), tenant="red") for k in range(4)]
    result = run(slots(*jobs, tenants=(Tenant("red", 4000),)))
    assert sorted(result.start_s.values()) == [0.0, 0.0, 10.0, 10.0]


def test_a_job_that_began_moldable_keeps_its_configuration() -> None:
    """Even where another would be better by then."""
    ways = (rigid_gang(2, rate=1.0), rigid_gang(8, rate=3.0))
    first = Job("first", 0.0, 60.0, ways, elasticity="moldable")
    other = Job("other", 0.0, 5.0, (rigid_gang(4),))
    result = run(slots(first, other))
    assert {run.configuration for run in result.schedule.runs_of["first"]} == {0}


def test_restarts_that_cost_are_weighed_and_unchanged_jobs_stay_put() -> None:
    """With a long restart cost a job is not moved back and forth, and one ever resumes."""
    ways = tuple(rigid_gang(k, rate=float(k) ** 0.9) for k in (1, 2, 3, 4))
    jobs = [
        Job(f"j{k}", 10.0 * k, 60.0 + 5 * k, ways, restart_cost_s=cost)
        for k, cost in enumerate((30.0, 30.0, 8.0, 8.0, 8.0))
    ]
    result = run(slots(*jobs))
    assert result.unfinished == ()
    assert result.migrations <= result.restarts <= len(jobs)


def test_gpu_types_shared_gpus_and_levels_go_one_by_one() -> None:
    """What cannot be dealt out is placed by the pool, and the checker is content."""
    typed = Configuration((TaskGroup("worker", 1, 1000),), 1.0, gpu_type="generic")
    tied = Configuration((TaskGroup("worker", 4, 1000),), 3.0, within="host")
    half = Configuration((TaskGroup("worker", 3, 500),), 1.0)
    result = run(
        slots(
            Job("typed", 0.0, 10.0, (typed,)),
            Job("tied", 0.0, 10.0, (tied,)),
            Job("half", 0.0, 10.0, (half,)),
        )
    )
    assert result.verified
    assert result.start_s == {"typed": 0.0, "tied": 0.0, "half": 0.0}


def test_a_gang_that_finds_no_whole_host_takes_a_smaller_configuration() -> None:
    """Summed over hosts there is room for three GPUs on one host; there is not."""
    ways = (
        Configuration((TaskGroup("worker", 1, 3000),), 3.0),
        Configuration((TaskGroup("worker", 1, 1000),), 1.0),
    )
    jobs = [Job(f"j{k}", 0.0, 100.0, ways) for k in range(3)]
    result = run(slots(*jobs), max_time_s=10.0)
    first = {run.job: run.configuration for run in result.schedule.runs if run.start_s == 0.0}
    assert sorted(first.values()) == [0, 0, 1]
    assert result.notes.get("unplaced", 0.0) == 0.0


def test_a_job_that_can_never_run_does_not_stop_the_others() -> None:
    """A table that does not fit the cluster at all has an empty ladder."""
    giant = Job("giant", 0.0, 10.0, (rigid_gang(9),))
    small = Job("small", 0.0, 10.0, (rigid_gang(1),))
    hosts = flat_cluster("four", HOSTS.host_types[0], 4)
    instance = Instance("slots", hosts, (giant, small), slot_s=10.0)
    shrunk = instance.replace(topology=HOSTS, jobs=(small,))
    assert run(shrunk).start_s == {"small": 0.0}
    assert run(instance).start_s == {"giant": 0.0, "small": 0.0}


def test_continuous_time_is_refused() -> None:
    """There are no rounds to decide."""
    with pytest.raises(UnsupportedFeatureError, match=r"policy set allocates in rounds.*slot_s"):
        run(slots(Job("a", 0.0, 1.0, (rigid_gang(1),)), slot_s=None))


def test_rates_seen_with_an_error_do_not_pile_up() -> None:
    """Tables are new at each decision then; the book of ladders stays small."""
    decider = JobSetDecider(ByHand(), "set")
    result = simulate(
        TINY.make(1), decider, knowledge="estimate", work_error=0.3, speed_error=0.2, rng=3
    )
    assert result.unfinished == ()
    assert decider._usher is not None
    assert len(decider._usher.book.ladders) <= 2 * len(TINY.make(1).jobs) + 256 + 8


def test_work_that_is_not_known_is_refused_by_what_the_kind_needs() -> None:
    """The kind needs estimates of work."""
    with pytest.raises(UnsupportedFeatureError, match="needs knowledge"):
        run(TINY.make(1), knowledge="none")


def test_the_kind_is_registered_with_its_tensors() -> None:
    """A policy file can name it."""
    assert "job-set/1" in kind_names()
    kind = policy_kind("job-set/1")
    parameters = kind.parameters()
    assert [t.text for t in kind.inputs(parameters)] == [
        "float32 [jobs, 17]",
        "float32 [3, 7]",
    ]
    assert [t.text for t in kind.outputs(parameters)] == ["float32 [jobs, 3]", "float32 [3]"]


def test_dealing_fills_every_host_where_tasks_pack_without_loss() -> None:
    """DL2's hosts: all that capacity allows is placed, also when it just fits."""
    pair = Configuration((TaskGroup("worker", 1, 1000, 2000), TaskGroup("ps", 1, 0, 2000)), 1.0)
    jobs = [Job(f"j{k}", 0.0, 10.0, (pair,)) for k in range(4)]
    hosts = flat_cluster("dl2", HostType("s", 2, "generic", 8000, 0), 2)
    result = run(Instance("full", hosts, tuple(jobs), slot_s=10.0))
    assert set(result.start_s.values()) == {0.0}
    placed = {
        (task.host, task.role): task.count
        for r in result.schedule.runs
        for task in r.tasks
        if isinstance(task, TaskPlacement)
    }
    assert {host for host, _ in placed} == {host.id for host in hosts.hosts}


def test_a_network_that_wants_nothing_stalls_with_a_sentence() -> None:
    """Worth 0 for all jobs: nothing is worth running, and the simulator says so."""

    def nothing(tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        jobs = len(tensors["jobs"])
        return {"worth": np.zeros((jobs, 3)), "prices": np.zeros(3)}

    with pytest.raises(SimulationError, match="stalls"):
        run(slots(Job("a", 0.0, 1.0, (rigid_gang(1),))), nothing)


def test_the_rule_without_learning_is_a_scheduler_by_name() -> None:
    """What a learned policy must beat stands in the same table; its options are checked."""
    instance = replace(FAMILIES["heavy"], num_jobs=16, num_hosts=4, max_tasks=6).make(2)
    rule = mean_slots(instance, simulate(instance, make_scheduler("set-rule")))
    same = mean_slots(instance, run(instance, ByHand(0.7, 0.5)))
    assert rule == pytest.approx(same, rel=1e-6)
    assert rule < mean_slots(instance, simulate(instance, make_scheduler("optimus")))
    with pytest.raises(InstanceError, match=r"power is 2; it must be 0 to 1"):
        make_scheduler("set-rule", power=2.0)
    with pytest.raises(InstanceError, match=r"early is -1; it must be 0 or more"):
        make_scheduler("set-rule", early=-1.0)
