"""What-ifs of a cluster as it stands: each answer holds by the checker, and moves the right way."""

from __future__ import annotations

import random
import time
from itertools import combinations

import pytest

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving.gang import decide_for
from alloc.solving.placing.change_text import parse_placing_change as parse
from alloc.solving.placing.ending import jobs_to_end
from alloc.solving.placing.explain import explain
from alloc.solving.placing.what_if import PlacementWhatIf, what_if
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Spread, TaskGroup

LIMITS = Limits(seconds=20.0)


def gang(name: str, count: int, gpus: int, **more: object) -> Job:
    configuration = Configuration((TaskGroup("worker", count, 1000 * gpus, 1000 * gpus),), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), elasticity="rigid", **more)  # type: ignore[arg-type]


def on(job: str, **hosts: int) -> Assignment:
    return Assignment(job, 0, tuple(TaskPlacement(h, "worker", n) for h, n in hosts.items()))


def racks(num_racks: int = 2, num_hosts: int = 2) -> Topology:
    """Return racks of hosts h0, h1, ... with four GPUs each."""
    domains = tuple(Domain(f"r{k}", "rack") for k in range(num_racks))
    hosts = tuple(
        Host(f"h{k}", "server", f"r{k // num_hosts}") for k in range(num_racks * num_hosts)
    )
    kind = HostType("server", 4, "h100", 8_000, 1_000)
    return Topology("racks", (kind,), hosts, ("rack",), domains)


def crowded(**more: object) -> Instance:
    """`big` wants a whole rack, `small` one GPU; `a` is in its way in one rack, `b` in the other.

    `c` wants more than the quota of its team.
    """
    jobs = (
        gang("a", 1, 1),
        gang("b", 2, 2, preemptible=False),
        gang("big", 2, 4, placement=PlacementRules(required="rack")),
        gang("small", 1, 1),
        gang("c", 1, 2, tenant="team"),
    )
    running = (on("a", h0=1), on("b", h2=1, h3=1))
    tenants = (Tenant("team", 1000),)
    return Instance("crowded", racks(), jobs, running=running, tenants=tenants, **more)  # type: ignore[arg-type]


def drawn(seed: int) -> Instance:
    """Return a small crowded cluster, gangs wherever there is room for them."""
    rng = random.Random(seed)
    topology = racks(2, rng.choice((2, 3)))
    instance = Instance("drawn", topology, (gang("first", 1, 1),))
    jobs: list[Job] = []
    running: list[Assignment] = []
    for k in range(6):
        level = rng.choice((None, None, "rack", "host"))
        rules = PlacementRules(required=level)
        tenant = rng.choice((None, "team"))
        try:
            job = gang(
                f"j{k}", rng.randint(1, 3), rng.randint(1, 4), placement=rules, tenant=tenant
            )
            now = Instance("now", topology, (*jobs, job), running=tuple(running))
        except InstanceError:
            continue  # larger than the cluster
        found = decide_for(now, job.id).assignment
        if found is not None and rng.random() < 0.7:
            running.append(found)
        jobs.append(job)
    quota = (Tenant("team", 1000 * rng.randint(4, 12)),)
    pair = tuple(job.id for job in jobs[-2:])
    apart = (Affinity("apart", "host", pair),) if rng.random() < 0.3 and len(pair) == 2 else ()
    return instance.replace(
        jobs=tuple(jobs), running=tuple(running), tenants=quota, affinities=apart
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_jobs_that_have_to_end_are_a_smallest_set_in_itself(seed: int) -> None:
    """By enumeration: the job starts after their end, and after that of no part of them."""
    instance = drawn(seed)

    def starts(gone: frozenset[str]) -> bool:
        left = tuple(a for a in instance.running if a.job not in gone)
        return decide_for(instance.replace(running=left), job.id).assignment is not None

    running = {a.job for a in instance.running}
    for job in instance.jobs:
        if job.id in running:
            continue
        found = jobs_to_end(instance, job.id, time.perf_counter() + 60.0)
        if found is None:
            assert not any(
                starts(frozenset(gone))
                for n in range(len(running) + 1)
                for gone in combinations(sorted(running), n)
            )
            continue
        assert starts(frozenset(found))
        assert not any(starts(frozenset(found) - {name}) for name in found)


@pytest.mark.parametrize("seed", range(8))
def test_more_jobs_that_end_never_hurt(seed: int) -> None:
    """By enumeration, with affinities, spreads, broken rules, and quotas with borrowing."""
    rng = random.Random(seed)
    drawn_ = drawn(seed)
    tenants = (Tenant("team", 2000, "all", 3000), Tenant("other", 4000, "all"))
    jobs = tuple(
        job.replace(
            tenant=rng.choice((None, "team", "other")),
            placement=PlacementRules(
                required=job.placement.required,
                spread=(Spread("host", rng.randint(1, 3)),) if rng.random() < 0.5 else (),
            ),
        )
        for job in drawn_.jobs
    )
    names = [job.id for job in jobs]
    rules = tuple(
        Affinity(kind, "rack", tuple(rng.sample(names, 2))) for kind in ("together", "apart")
    )
    instance = drawn_.replace(jobs=jobs, tenants=tenants, affinities=rules)
    running = {a.job for a in instance.running}
    for waiting in [job.id for job in instance.jobs if job.id not in running]:
        able = set()
        for n in range(len(running) + 1):
            for gone in map(frozenset, combinations(sorted(running), n)):
                left = tuple(a for a in instance.running if a.job not in gone)
                if decide_for(instance.replace(running=left), waiting).assignment is not None:
                    able.add(gone)
                else:
                    assert not any(gone - {one} in able for one in gone)


@pytest.mark.parametrize(
    "seed",
    [
        2,
        pytest.param(4, marks=pytest.mark.long),
        *(pytest.param(k, marks=pytest.mark.slow) for k in (5, 6)),
    ],
)
def test_every_answer_keeps_every_rule_and_less_is_never_more(seed: int) -> None:
    instance = drawn(seed)
    hosts = [host.id for host in instance.topology.hosts]
    running = {a.job for a in instance.running}
    for text, sign in (
        (f"cordon:{hosts[0]}", -1),
        ("cordon:r1", -1),
        (f"lose:{hosts[-1]}", -1),
        ("quota:team=+2", 1),
        ("quota:team=-1", -1),
        ("hosts:server@r0=+1", 1),
        ("submit:new=1x2", 1),
        *((f"end:{name}", 0) for name in sorted(running)[:1]),
    ):
        found = what_if(instance, [parse(text)], limits=LIMITS)
        for queue in (found.before, found.after):
            assert queue is not None
            assert queue.allocation is not None
            accept = queue.placement.broken
            assert verify(queue.instance, queue.allocation, accept=accept) == []
        assert found.difference is not None
        low, high = found.difference
        assert low == high, "small enough to be proved"
        if not text.startswith("lose"):  # what it stops may have stood in the way of more
            assert low * sign >= 0, text
        assert found.sentence.endswith("proved.")


def test_nothing_starts_on_cordoned_hosts_and_what_runs_there_stays() -> None:
    found = what_if(crowded(), [parse("cordon:r0")], limits=LIMITS)
    assert found.after is not None
    assert found.after.allocation is not None
    stands = {a.job: {task.host for task in a.tasks} for a in found.after.allocation.assignments}
    assert stands.pop("a") == {"h0"}
    assert not {"h0", "h1"} & set().union(*stands.values())
    assert "big" not in stands


@pytest.mark.parametrize(
    "texts", [("cordon:h0", "end:a"), ("end:a", "cordon:h0"), ("cordon:h0", "lose:h1", "end:a")]
)
def test_what_ends_on_a_cordoned_host_leaves_no_room(texts: tuple[str, ...]) -> None:
    found = what_if(crowded(), [*map(parse, texts), parse("submit:new=2x4")], limits=LIMITS)
    assert found.after is not None
    assert found.after.allocation is not None
    stands = {t.host for a in found.after.allocation.assignments for t in a.tasks}
    assert "h0" not in stands


def test_no_cure_counts_on_room_that_a_cordoned_host_does_not_give() -> None:
    """Were h0 open, the end of `x` would do, and so would its move to the other two hosts."""
    jobs = (gang("x", 2, 2), *(gang(name, 1, 2, preemptible=False) for name in "yz"))
    running = (on("x", h0=2), on("y", h1=1), on("z", h2=1))
    hosts = tuple(Host(f"h{k}", "server") for k in range(3))
    flat = Topology("flat", (HostType("server", 4, "h100", 8_000, 1_000),), hosts)
    instance = Instance("cordoned", flat, jobs, running=running)

    def cures(*texts: str) -> list[str]:
        (waits,) = what_if(instance, [*map(parse, texts)], limits=LIMITS).submissions
        assert waits.explanation is not None
        return [cure.sentence for cure in waits.explanation.relaxations]

    assert "moving job x frees it, 2 tasks" in cures("submit:new=1x4")
    ends = [c for c in cures("cordon:h0", "submit:new=1x4") if "job" in c]
    assert ends == ["it can start once job y ends"]
    ends = [c for c in cures("cordon:h0", "submit:new=2x4") if "job" in c]
    assert ends == ["it can start once jobs z, y end"]


def test_what_moves_off_a_drained_host_leaves_cordoned_ones_alone() -> None:
    found = what_if(crowded(), [parse("cordon:h1"), parse("drain:h0")], limits=LIMITS)
    assert found.after is not None
    (a,) = (a for a in found.after.instance.running if a.job == "a")
    assert {task.host for task in a.tasks} <= {"h2", "h3"}
    ended = [parse("end:b"), parse("submit:wide=2x3")]
    running = (on("wide", h0=1, h2=1),)
    jobs = (gang("wide", 2, 3), gang("small", 1, 1))
    wide = Instance("wide", racks(), jobs, running=running)
    with pytest.raises(InstanceError, match="drain first, and cordon then"):
        what_if(wide, [parse("cordon:r1"), parse("drain:h0"), *ended], limits=LIMITS)
    together = what_if(wide, [parse("cordon:h0"), parse("drain:h0")], limits=LIMITS)
    assert together.after is not None


def test_full_hosts_of_jobs_that_stay_may_be_closed_and_the_cure_says_so() -> None:
    """Of a snapshot nobody can tell them from draining nodes."""
    kind = HostType("server", 4, "h100")
    hosts = (Host("h0", "server"), Host("h1", "server"))
    jobs = (gang0("x", preemptible=False), gang0("y"), gang0("new"))
    running = (on("x", h0=1), on("y", h1=1))
    full = Instance("full", Topology("two", (kind,), hosts), jobs, running=running)

    def cures(instance: Instance) -> list[str]:
        explanation = explain(instance, "new")
        assert explanation is not None
        return [cure.sentence for cure in explanation.relaxations]

    assert cures(full) == ["it can start once job y ends"]
    stays = full.replace(jobs=(jobs[0], gang0("y", preemptible=False), jobs[2]))
    assert cures(stays) == ["it can start once job x ends, if h0 takes new jobs then"]


def gang0(name: str, **more: object) -> Job:
    """Return a job that asks for four GPUs and nothing else."""
    configuration = Configuration((TaskGroup("worker", 1, 4000),), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), elasticity="rigid", **more)  # type: ignore[arg-type]


def test_quotas_are_cut_to_the_cluster_only_while_it_is_small() -> None:
    large = crowded().replace(tenants=(Tenant("team", 16_000),))
    texts = ("lose:r1", "hosts:server@r0=+2")
    found = what_if(large, [*map(parse, texts)], limits=LIMITS)
    assert found.after is not None
    assert found.after.instance.tenants == large.tenants
    asked = [*map(parse, ("lose:r0", "lose:h2", "hosts:server@r1=+1"))]
    with pytest.raises(InstanceError, match='job "big" fits nowhere; name hosts before'):
        what_if(crowded(), asked, limits=LIMITS)


def test_a_job_that_ended_is_not_counted_though_a_rule_names_it() -> None:
    rule = Affinity("together", "rack", ("a", "small"))
    texts = ("end:a", "hosts:server@r0=+1")
    found = what_if(crowded().replace(affinities=(rule,)), [*map(parse, texts)], limits=LIMITS)
    assert found.after is not None
    assert found.after.waiting == {"big", "c", "small"}


def test_rules_that_a_size_does_not_say_are_named() -> None:
    """Quotas and marks of nodes in a snapshot are named resources."""
    more = {"quota:team:h100:gpu": 4}
    way = Configuration((TaskGroup("worker", 2, 1000, resources={"quota:team:h100:gpu": 2}),), 1.0)
    jobs = (Job("x", 0.0, 1.0, (way,), elasticity="rigid"),)
    base = Instance("marked", racks().replace(resources=more), jobs)
    (size,) = submitted("submit:new=1x1", base).submissions
    assert size.unsaid == ("quota:team:h100:gpu",)
    (like,) = submitted("submit:new=like:x", base).submissions
    assert like.unsaid == ()
    with pytest.raises(InstanceError, match="by its size, so of a job like it no size can be"):
        submitted("submit:new=4x1,like:x", base)


def test_drained_hosts_are_empty_and_all_that_ran_runs() -> None:
    """The steps are those that were checked; what cannot leave is refused."""
    found = what_if(crowded(), [parse("drain:h0")], limits=LIMITS)
    assert found.after is not None
    assert "h0" not in found.after.instance.topology.host_index
    assert {a.job for a in found.after.instance.running} == {"a", "b"}
    (moves,) = found.standing.drained
    assert moves.num_moved == 1
    with pytest.raises(InstanceError, match='job "b": is not preemptible'):
        what_if(crowded(), [parse("drain:r1")], limits=LIMITS)


def test_hosts_that_cannot_be_emptied_end_the_question() -> None:
    """Two gangs of whole hosts on two hosts of a rack, and no third host."""
    jobs = (gang("x", 1, 4), gang("y", 1, 4))
    full = Instance(
        "full", racks(1, 2), jobs, running=(on("x", h0=1), on("y", h1=1)), moves=Moves()
    )
    found = what_if(full, [parse("drain:h0"), parse("end:y")], limits=LIMITS)
    assert found.after is None
    assert found.sentence.startswith("The hosts cannot be emptied: h0: what runs has no place")


def test_what_a_failure_stops_waits_and_may_start_elsewhere() -> None:
    found = what_if(crowded(), [parse("lose:h0")], limits=LIMITS)
    assert found.standing.stopped == ("a",)
    assert found.after is not None
    assert "a" in found.after.waiting
    assert "a" in found.after.started


def test_what_fits_nowhere_any_more_is_named_with_the_reason() -> None:
    """On the one host that is left the two tasks of `big` never find room; `b` starts again."""
    asked = [parse("lose:r0"), parse("lose:h2")]
    found = what_if(crowded(), asked, limits=LIMITS)
    assert set(found.standing.impossible) == {"big"}
    assert "needs 8 GPU of 4" in found.standing.impossible["big"]
    assert found.after is not None
    assert "big" not in found.after.instance.job_index
    assert found.standing.stopped == ("a", "b")
    assert "b" in found.after.started


def submitted(text: str, instance: Instance | None = None) -> PlacementWhatIf:
    return what_if(instance or crowded(), [parse(text)], limits=LIMITS)


def test_a_job_that_is_not_submitted_yet_starts_or_is_told_why() -> None:
    (starts,) = submitted("submit:new=1x4").submissions
    assert starts.assignment is not None
    assert [task.host for task in starts.assignment.tasks] == ["h1"]
    (waits,) = submitted("submit:new=2x4,level=rack").submissions
    assert waits.explanation is not None
    sentences = [cure.sentence for cure in waits.explanation.relaxations]
    assert "moving job a frees it, 1 task" in sentences
    assert "it can start once job a ends" in sentences
    # Each of the two was tried; once more by hand.
    ended = crowded().replace(running=(on("b", h2=1, h3=1),))
    assert decide_for(ended, "big").assignment is not None


def test_a_job_like_another_has_its_rules_and_quota() -> None:
    found = submitted("submit:new=like:big")
    assert found.after is not None
    new, big = found.after.instance.job("new"), found.after.instance.job("big")
    assert new.configurations == big.configurations
    assert new.placement == big.placement
    (other,) = submitted("submit:new=1x1,like:c,cpu=2,memory=0.5").submissions
    assert other.assignment is not None, "one GPU is within the quota of c's team"
    found = submitted("submit:new=1x1,like:c,cpu=2,memory=0.5")
    assert found.after is not None
    (task,) = found.after.instance.job("new").configurations[0].tasks
    assert (task.gpu_milli, task.cpu_milli, task.memory_mib) == (1000, 2000, 512)


def test_a_larger_quota_lets_a_job_start() -> None:
    found = submitted("quota:team=2")
    assert found.after is not None
    assert found.after.started - found.before.started == {"c"}
    assert found.difference == (2.0, 2.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cordn:r0", 'did you mean "cordon"'),
        ("cordon", "names nothing; write cordon:PLACE"),
        ("cordon:r0=1", "takes no value"),
        ("cordon:r7", 'has no host or domain "r7"; name one'),
        ("drain:h9", 'no host or domain "h9"'),
        ("lose:r0,r1", 'no host or domain "r0,r1"'),
        ("end:bigg", 'has no job "bigg"; did you mean "big"'),
        ("submit:new", "is no part of a job"),
        ("submit:new=", "is no part of a job"),
        ("submit:new=8", '"8" is no part of a job'),
        ("submit:new=0x8", "asks for nothing"),
        ("submit:new=2x0", "asks for nothing"),
        ("submit:new=2x0,cpu=0", "asks for nothing"),
        ("submit:new=2x8,levl=rack", 'did you mean "level"'),
        ("submit:new=2x8,level=rack,level=rack", "says level twice"),
        ("submit:new=level=rack", "says no size"),
        ("submit:new=2x1,cpu=many", '"many" is not a number from 0'),
        ("submit:new=2x1,memory=-1", '"-1" is not a number from 0'),
        ("submit:new=2x1,level=rak", 'level "rak" is not in the topology; did you mean "rack"'),
        (
            "submit:new=2x1,tenant=tam",
            'no quota and no job names tenant "tam"; did you mean "team"',
        ),
        ("submit:new=like:bgi", 'has no job "bgi"'),
        ("submit:a=1x1", 'there is a job "a"'),
        ("hosts:server@r0=-2", "lose:PLACE takes hosts away"),
        ("hosts:server@r0=2", "says not how many hosts come"),
        ("hosts:server@r0=+0", "says not how many hosts come"),
        ("hosts:sever@r0=+1", 'no host is of type "sever"; did you mean "server"'),
        ("hosts:server=+1", "no place for the hosts among the domains"),
        ("hosts:server@r9=+1", 'no "r9" among the domains of the innermost level'),
        ("quota:tem=4", 'no tenant "tem" has a quota; did you mean "team"'),
        ("quota:team=lots", '"lots" is not a number'),
        ("quota:team=-2", "would be -1 GPUs; give 0 or more"),
        ("quota:team=1e4", "is above the 16000 of the whole cluster"),
        ("quota:team=nan", '"nan" is not a number'),
    ],
)
def test_a_change_that_means_nothing_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InstanceError) as caught:
        what_if(crowded(), [parse(text)], limits=LIMITS)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_change_is_refused() -> None:
    with pytest.raises(InstanceError, match="nothing is changed"):
        what_if(crowded(), [])


def test_a_job_too_large_for_the_cluster_is_said_to_be() -> None:
    found = submitted("submit:new=9x4")
    assert set(found.standing.impossible) == {"new"}
    assert found.submissions == ()


def test_part_of_a_gpu_cannot_be_closed() -> None:
    share = Configuration((TaskGroup("worker", 1, 500),), 1.0)
    jobs = (Job("half", 0.0, 1.0, (share,), elasticity="rigid"), gang("w", 1, 1))
    held = Assignment("half", 0, (TaskPlacement("h0", "worker", 1, (0,)),))
    shared = Instance("shared", racks(), jobs, running=(held,))
    with pytest.raises(InstanceError, match="holds part of a GPU on h0"):
        what_if(shared, [parse("cordon:h0")], limits=LIMITS)
