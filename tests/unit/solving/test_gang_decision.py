"""One gang: the decision against enumeration, and the words for a gang that cannot start."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.gang import GangFeasibility, decide, decide_for
from alloc.solving.gang.choosing import fewest
from alloc.solving.gang.question import REQUIREMENTS
from alloc.solving.gang.room import Tree
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

LEVELS = ("pod", "rack")


def cluster(racks: tuple[int, ...] = (2, 2, 1), num_gpus: int = 4) -> Topology:
    """Racks of so many hosts, two racks a pod."""
    kind = HostType("server", num_gpus, "h100", 32_000, 65_536)
    pods = [Domain(f"p{k}", "pod") for k in range((len(racks) + 1) // 2)]
    made = [Domain(f"r{k}", "rack", f"p{k // 2}") for k in range(len(racks))]
    hosts = [Host(f"h{r}{k}", "server", f"r{r}") for r, n in enumerate(racks) for k in range(n)]
    return Topology("small", (kind,), tuple(hosts), LEVELS, (*pods, *made))


def gang(count: int, gpus: int = 1, *, memory_mib: int = 0, **rules: Any) -> Job:
    """A rigid gang of equal tasks."""
    group = TaskGroup("worker", count, 1000 * gpus, 0, memory_mib)
    configuration = Configuration((group,), 1.0)
    placement = PlacementRules(**rules)
    return Job("b", 0.0, 1.0, (configuration,), elasticity="rigid", placement=placement)


def pool_with(topology: Topology, used: list[int]) -> HostPool:
    """A pool in which hosts have so many GPUs in use."""
    pool = HostPool(topology)
    pool.free[:, 0] -= 1000 * np.array(used)
    return pool


def allowed(job: Job, topology: Topology, counts: tuple[int, ...]) -> bool:
    """Whether counts per host keep every rule of a job: the rules once more, host by host."""
    used = [h for h, n in enumerate(counts) if n]

    def per_domain(level: str) -> dict[int, int]:
        domain = range(topology.num_hosts) if level == "host" else topology.domain_of_host[level]
        total: dict[int, int] = {}
        for h in used:
            total[int(domain[h])] = total.get(int(domain[h]), 0) + counts[h]
        return total

    rules = job.placement
    return (
        (rules.required is None or len(per_domain(rules.required)) == 1)
        and all(n % cut.size == 0 for cut in rules.slices for n in per_domain(cut.level).values())
        and all(n <= s.most for s in rules.spread for n in per_domain(s.level).values())
    )


RULES = st.fixed_dictionaries(
    {
        "required": st.sampled_from([None, "host", "rack", "pod"]),
        "preferred": st.sampled_from([None, "rack"]),
        "slices": st.sampled_from(
            [(), (Slice("rack", 2),), (Slice("pod", 4), Slice("host", 2)), (Slice("host", 2),)]
        ),
        "spread": st.sampled_from(
            [(), (Spread("host", 2),), (Spread("rack", 3), Spread("pod", 4))]
        ),
    }
)


@settings(max_examples=150, deadline=None)
@given(st.data(), RULES, st.sampled_from([4, 8]), st.sampled_from([1, 2]))
def test_a_gang_starts_exactly_when_some_distribution_keeps_every_rule(
    data: st.DataObject, rules: dict[str, Any], count: int, gpus: int
) -> None:
    """The sums over the tree are exact: enumeration finds a place if and only if they do."""
    topology = cluster()
    used = data.draw(st.lists(st.integers(0, 4), min_size=5, max_size=5))
    pool, job = pool_with(topology, used), gang(count, gpus, **rules)
    room = [(4 - n) // gpus for n in used]
    exists = any(
        sum(counts) == count and allowed(job, topology, counts)
        for counts in product(*(range(r + 1) for r in room))
    )
    decision = decide(pool, job)
    assert (decision.assignment is not None) == exists
    if decision.assignment is not None:
        where = {task.host: task.count for task in decision.assignment.tasks}
        counts = tuple(where.get(host.id, 0) for host in topology.hosts)
        assert sum(counts) == count
        assert all(n <= r for n, r in zip(counts, room, strict=True))
        assert allowed(job, topology, counts)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(1, 20))
def test_the_fewest_parts_hold_the_whole(room: list[int], count: int) -> None:
    """No smaller set of parts has room, and the last part is the tightest that takes the rest."""
    if sum(room) < count:
        return
    shares = fewest(np.array(room), count)
    assert sum(share for _, share in shares) == count
    assert all(0 < share <= room[k] for k, share in shares)
    smaller = combinations(room, len(shares) - 1)
    assert all(sum(parts) < count for parts in smaller)


@settings(max_examples=60, deadline=None)
@given(st.data(), RULES)
def test_a_conflict_is_minimal(data: st.DataObject, rules: dict[str, Any]) -> None:
    """Every requirement of a conflict is needed for it, and all the others are not."""
    topology = cluster()
    used = data.draw(st.lists(st.integers(2, 4), min_size=5, max_size=5))
    pool, job = pool_with(topology, used), gang(4, **rules)
    decision = decide(pool, job)
    if decision.explanation is None:
        return
    conflict = frozenset(decision.explanation.conflict)
    admitted = np.full(5, True)
    question = GangFeasibility(Tree.of(topology), pool, job, job.configurations[0], admitted)
    others = frozenset(REQUIREMENTS) - conflict
    assert not question.fits(others)
    assert all(question.fits(others | {requirement}) for requirement in conflict)


def test_the_reason_names_the_best_rack_and_what_is_missing_there() -> None:
    """An engineer reads how near the nearest rack is, and what would do."""
    pool = pool_with(cluster(), [1, 2, 0, 2, 0])
    decision = decide(pool, gang(8, required="rack"))
    assert decision.explanation is not None
    assert decision.explanation.conflict == ("running jobs", "level")
    assert decision.explanation.sentence == (
        'job "b" needs 8 GPUs in one rack; best rack r1 has 6 free; it fits in one pod.'
    )
    assert [r.sentence for r in decision.explanation.relaxations] == [
        "it fits in one pod",
        "6 GPUs would start now",
    ]


def test_free_gpus_without_memory_beside_them_are_counted_as_lost() -> None:
    """Sixteen GPUs free are no help on hosts without memory: the sentence says how many."""
    pool = pool_with(cluster(), [0, 0, 0, 0, 0])
    pool.free[[0, 2, 4], 2] = 1000
    decision = decide(pool, gang(4, 2, memory_mib=16_384, required="rack"))
    assert decision.explanation is not None
    assert decision.explanation.conflict == ("running jobs", "level", "memory")
    assert decision.explanation.sentence == (
        'job "b" needs 8 GPUs (4 x 2) in one rack; best rack r0 has 8 free, 4 of them on hosts '
        "without memory for it; it fits in one pod."
    )
    by_requirement = {r.requirement: r for r in decision.explanation.relaxations}
    assert by_requirement["memory"].sentence == "with 500 MiB of memory a task it would start"
    assert by_requirement["memory"].cost == pytest.approx(8 * (1 - 500 / 16_384))


def test_gpus_in_pieces_are_no_gpus() -> None:
    """Two GPUs here and two there hold no task of four."""
    decision = decide(pool_with(cluster(), [2, 2, 2, 2, 2]), gang(1, 4))
    assert decision.explanation is not None
    assert decision.explanation.sentence == (
        'job "b" needs 4 GPUs; the cluster has 10 free, 10 of them in pieces smaller than 4; it '
        "fits once running jobs end."
    )


def test_a_quota_is_named_before_the_hosts() -> None:
    """Free hosts do not help a tenant at its quota; what it may borrow does."""
    topology = cluster()
    a, b = gang(4).replace(id="a", tenant="t"), gang(4).replace(tenant="t")
    running = (Assignment("a", 0, (TaskPlacement("h00", "worker", 4),)),)
    lender = Tenant("u", 8_000, "all")
    tight = Instance("i", topology, (a, b), tenants=(Tenant("t", 6_000), lender), running=running)
    explanation = decide_for(tight, "b").explanation
    assert explanation is not None
    assert explanation.conflict == ("quota",)
    assert explanation.sentence == (
        'job "b" needs 4 GPUs; its tenant "t" has 2 GPUs of quota left; 2 GPUs more quota let it '
        "start."
    )
    loose = tight.replace(tenants=(Tenant("t", 6_000, "all", 2_000), lender))
    assert decide_for(loose, "b").assignment is not None


def test_affinities_with_running_jobs_keep_hosts_from_a_gang() -> None:
    """Together means in the running job's rack, apart means in none of its."""
    topology = cluster()
    a, b = gang(2).replace(id="a"), gang(4)
    running = (Assignment("a", 0, (TaskPlacement("h20", "worker", 2),)),)
    instance = Instance("i", topology, (a, b), running=running)
    apart = instance.replace(affinities=(Affinity("apart", "rack", ("a", "b")),))
    decision = decide_for(apart, "b")
    assert decision.assignment is not None
    assert "h20" not in {task.host for task in decision.assignment.tasks}
    together = instance.replace(affinities=(Affinity("together", "rack", ("a", "b")),))
    explanation = decide_for(together, "b").explanation
    assert explanation is not None
    assert explanation.conflict == ("running jobs", "affinity")


def test_several_task_groups_compete_for_the_same_hosts() -> None:
    """Workers and servers each fit alone, but not beside each other: proved by the program."""
    topology = cluster((1, 1))
    tasks = (TaskGroup("worker", 4, 1000, 8_000), TaskGroup("ps", 2, 0, 16_000))
    job = Job(
        "b",
        0.0,
        1.0,
        (Configuration(tasks, 1.0),),
        elasticity="rigid",
        placement=PlacementRules(required="rack"),
    )
    decision = decide(HostPool(topology), job)
    assert decision.explanation is not None
    assert set(decision.explanation.conflict) == {"level", "CPU"}
    wide = job.replace(placement=PlacementRules(required="pod"))
    placed = decide(HostPool(topology), wide).assignment
    assert placed is not None
    assert sum(task.count for task in placed.tasks) == 6


def test_what_presolve_alone_refuses_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS's presolve has refused programs that have a solution; a gang must not wait for that."""
    solve = scipy.optimize.milp

    def refusing(*arguments: Any, options: dict[str, Any], **given: Any) -> Any:
        if options["presolve"]:
            return scipy.optimize.OptimizeResult(status=2, x=None)
        return solve(*arguments, options=options, **given)

    monkeypatch.setattr(scipy.optimize, "milp", refusing)
    tasks = (TaskGroup("worker", 4, 1000, 8_000), TaskGroup("ps", 2, 0, 16_000))
    job = Job("b", 0.0, 1.0, (Configuration(tasks, 1.0),), elasticity="rigid")
    assert decide(HostPool(cluster((2,))), job).assignment is not None


def test_a_gang_prefers_one_host_then_one_rack_then_few_racks() -> None:
    """Without rules the narrowest domain that holds the gang is taken, the tightest of those."""
    pool = pool_with(cluster((2, 2, 2)), [0, 2, 1, 1, 0, 0])
    one_host = decide(pool, gang(3)).assignment
    assert one_host is not None
    assert [(t.host, t.count) for t in one_host.tasks] == [("h10", 3)]
    one_rack = decide(pool, gang(5)).assignment
    assert one_rack is not None
    assert {t.host[:2] for t in one_rack.tasks} in ({"h0"}, {"h1"})


def test_a_running_job_is_no_question() -> None:
    """Asking why a running job does not start is a mistake of the caller."""
    running = (Assignment("b", 0, (TaskPlacement("h00", "worker", 4),)),)
    instance = Instance("i", cluster(), (gang(4),), running=running)
    with pytest.raises(InstanceError, match='job "b" runs already; ask about a job that waits'):
        decide_for(instance, "b")


def test_a_smaller_demand_of_cpu_is_looked_for_in_tenths_of_a_core() -> None:
    """A search by thousandths would meet demands that nobody can mean, and be refused."""
    pool = pool_with(cluster(), [0, 0, 0, 0, 0])
    pool.free[:, 1] = 1_950
    group = TaskGroup("worker", 1, 1000, 4_000)
    job = Job("b", 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid")
    explanation = decide(pool, job).explanation
    assert explanation is not None
    assert explanation.relaxations[0].sentence == "with 1.9 cores of CPU a task it would start"
    assert decide(pool, job, explained=False).explanation is None


class TestOutsideEveryDomain:
    """Hosts in no rack, beside a rack that is full."""

    def instance(self, **rules: Any) -> Instance:
        """Return a rack of one full host, a free host outside it, and a job that waits."""
        kind = HostType("server", 4, "h100")
        hosts = (Host("in", "server", "r"), Host("out", "server"))
        topology = Topology("t", (kind,), hosts, ("rack",), (Domain("r", "rack"),))
        running = (Assignment("a", 0, (TaskPlacement("in", "worker", 4),)),)
        return Instance("i", topology, (gang(4).replace(id="a"), gang(4, **rules)), running=running)

    def test_a_job_that_must_be_in_a_rack_waits(self) -> None:
        """The free host is in no rack, so the job cannot start there."""
        decision = decide_for(self.instance(required="rack"), "b")
        assert decision.assignment is None
        assert decision.explanation is not None
        assert decision.explanation.sentence == (
            'job "b" needs 4 GPUs in one rack; best rack r has 0 free; without its required level '
            "it would start."
        )

    def test_a_slice_per_rack_is_no_slice_outside(self) -> None:
        """It once passed as a candidate in one host, and ended in a crash."""
        decision = decide_for(self.instance(required="host", slices=(Slice("rack", 2),)), "b")
        assert decision.assignment is None
        free = decide_for(self.instance(required="host", slices=(Slice("host", 2),)), "b")
        assert free.assignment is not None

    def test_a_spread_over_pods_binds_no_rack_outside_them(self) -> None:
        """A rack that is in no pod once counted as a pod."""
        kind = HostType("server", 4, "h100")
        topology = Topology(
            "t", (kind,), (Host("h", "server", "r"),), ("pod", "rack"), (Domain("r", "rack"),)
        )
        job = gang(4, spread=(Spread("pod", 1),))
        assert decide(HostPool(topology), job).assignment is not None


def test_a_job_whose_partners_wait_keeps_together_by_itself() -> None:
    """Four tasks over two racks would break the rule as soon as they run."""
    topology = cluster((1, 1), num_gpus=2)
    jobs = (gang(4), gang(1).replace(id="c"))
    rule = (Affinity("together", "rack", ("b", "c")),)
    decision = decide_for(Instance("i", topology, jobs, affinities=rule), "b")
    assert decision.explanation is not None
    assert decision.explanation.sentence == (
        'job "b" needs 4 GPUs in one rack by its affinity; best rack r0 has 2 free; without its '
        "affinity it would start."
    )


def test_partners_that_stand_apart_let_nobody_join() -> None:
    """The rule is broken from the start; a third job would be part of that."""
    topology = cluster((1, 1))
    names = ("x", "y", "b")
    jobs = tuple(gang(1).replace(id=name) for name in names)
    running = tuple(
        Assignment(name, 0, (TaskPlacement(host, "worker", 1),))
        for name, host in (("x", "h00"), ("y", "h10"))
    )
    rule = (Affinity("together", "rack", names),)
    instance = Instance("i", topology, jobs, running=running, affinities=rule)
    explanation = decide_for(instance, "b").explanation
    assert explanation is not None
    assert [r.sentence for r in explanation.relaxations] == ["without its affinity it would start"]


def test_a_group_without_memory_beside_one_with_memory() -> None:
    """The share of memory given up is that of the whole gang: its main group may have none."""
    topology = cluster((1,))
    pool = HostPool(topology)
    pool.free[:, 2] = 500
    tasks = (TaskGroup("worker", 1, 1000), TaskGroup("ps", 1, 0, 1000, 800))
    job = Job("b", 0.0, 1.0, (Configuration(tasks, 1.0),), elasticity="rigid")
    explanation = decide(pool, job).explanation
    assert explanation is not None
    assert explanation.sentence == (
        'job "b" needs 1 GPU; the cluster has 4 free, but not beside its other tasks; with 500 MiB '
        "of memory a task it would start."
    )
    assert explanation.relaxations[0].cost == pytest.approx(1 - 500 / 800)


def test_fewer_gpus_are_counted_under_every_rule() -> None:
    """In one host, at most one task in its rack: one GPU would start, and not two."""
    decision = decide(
        HostPool(cluster((2,), 2)), gang(3, required="host", spread=(Spread("rack", 1),))
    )
    assert decision.explanation is not None
    assert [r.sentence for r in decision.explanation.relaxations] == [
        "1 GPU would start now",
        "one rack instead of one host and no spread let it start, but only together",
    ]


def test_an_elastic_job_is_asked_for_its_least_size() -> None:
    """A job that also runs on one GPU needs one, not the four of its fastest configuration."""
    ways = tuple(Configuration((TaskGroup("worker", n, 1000),), float(n)) for n in (1, 4))
    job = Job("b", 0.0, 1.0, ways)
    full = decide(pool_with(cluster((1,)), [4]), job)
    assert full.explanation is not None
    assert full.explanation.sentence == (
        'job "b" needs at least 1 GPU; the cluster has 0 free; it fits once running jobs end.'
    )
    some = decide(pool_with(cluster((1,)), [2]), job)
    assert some.assignment is not None
    assert some.assignment.configuration == 0


def test_tasks_without_gpus_are_counted_as_tasks() -> None:
    """How many more a host without limits would hold is not a number for people."""
    pool = HostPool(cluster((1,)))
    pool.free[:, 1] = 5_000
    group = TaskGroup("worker", 2, 0, 4_000)
    job = Job("b", 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid")
    explanation = decide(pool, job).explanation
    assert explanation is not None
    assert explanation.sentence == (
        'job "b" needs 2 worker tasks; the cluster has room for 1 of its tasks, limited by CPU; '
        "with 2.5 cores of CPU a task it would start."
    )
    assert {r.unit for r in explanation.relaxations} == {"tasks"}
    pool.free[:, 1] = 0
    nothing = decide(pool, job).explanation
    assert nothing is not None
    assert nothing.relaxations == ()
    assert nothing.sentence.endswith("limited by CPU; it fits once running jobs end.")


def test_a_job_that_fits_no_cluster_is_told_so() -> None:
    """Three GPUs a task leave one over on each host: no room for a third task of two anywhere."""
    tasks = (TaskGroup("worker", 2, 3000), TaskGroup("ps", 1, 2000))
    job = Job("b", 0.0, 1.0, (Configuration(tasks, 1.0),), elasticity="rigid")
    explanation = decide(HostPool(cluster((2,))), job).explanation
    assert explanation is not None
    assert explanation.sentence.endswith("; it does not fit even the empty cluster.")


def test_a_tenant_over_its_quota_still_runs_tasks_without_gpus() -> None:
    """They take nothing of the quota."""
    group = TaskGroup("worker", 1, 0, 1_000)
    job = Job("b", 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid", tenant="t")
    over = gang(4).replace(id="a", tenant="t")
    running = (Assignment("a", 0, (TaskPlacement("h00", "worker", 4),)),)
    tenants = (Tenant("t", 1_000),)
    instance = Instance("i", cluster(), (over, job), running=running, tenants=tenants)
    assert decide_for(instance, "b").assignment is not None
