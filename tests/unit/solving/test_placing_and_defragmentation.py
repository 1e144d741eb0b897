"""Placing a queue, re-placing what runs, and the words for what cannot start."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.placing import explain as explaining
from alloc.solving.placing.defragmentation import Defragmentation, consolidate, drain, make_room
from alloc.solving.placing.explain import explain
from alloc.solving.placing.place import place
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.verification.migration import verify_migration
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

BACKEND = "highs"


def cluster() -> Topology:
    """Two racks of two hosts with eight GPUs."""
    kind = HostType("server", 8, "h100", 128_000, 1_048_576)
    racks = tuple(Domain(f"r{k}", "rack") for k in range(2))
    hosts = tuple(Host(f"h{k}", "server", f"r{k // 2}") for k in range(4))
    return Topology("two racks", (kind,), hosts, ("rack",), racks)


def gang(name: str, count: int, gpus: int, **more: object) -> Job:
    """A rigid gang."""
    group = TaskGroup("worker", count, 1000 * gpus, 12_000 * gpus)
    configuration = Configuration((group,), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), elasticity="rigid", **more)  # type: ignore[arg-type]


def on(name: str, **counts: int) -> Assignment:
    """The job with so many tasks on each host."""
    return Assignment(name, 0, tuple(TaskPlacement(h, "worker", n) for h, n in counts.items()))


RACKS = (Domain("r0", "rack"),)
IN_A_RACK = PlacementRules(required="rack")


def queue(**more: object) -> Instance:
    """Three small jobs in the way of one that wants a whole rack."""
    jobs = (gang("a", 1, 4), gang("b", 1, 4), gang("c", 1, 2))
    waiting = gang("train", 2, 8, placement=IN_A_RACK)
    running = (on("a", h0=1), on("b", h2=1), on("c", h3=1))
    return Instance("queue", cluster(), (*jobs, waiting), running=running, **more)  # type: ignore[arg-type]


def solution_of(found: object) -> Allocation:
    solution = found.result.solution  # type: ignore[attr-defined]
    assert isinstance(solution, Allocation)
    return solution


def test_one_move_lets_the_gang_in() -> None:
    """The fewest moves, proved, and steps that the checker accepts."""
    found = make_room(queue(), "train", backend=BACKEND)
    assert found.result.certificate.status == "optimal"
    assert found.num_moved == 1
    assert "train" in solution_of(found).configuration_of
    assert found.migration is not None
    assert verify_migration(queue(moves=Moves()), found.migration) == []


def test_within_a_budget_that_is_too_small_it_is_proved_impossible() -> None:
    """The answer is a sentence, not an exception; the placement is the old one."""
    found = make_room(queue(), "train", move_budget=0, backend=BACKEND)
    assert found.migration is None
    assert found.blocked == 'job "train" cannot start within 0 moves.'


def test_a_job_that_runs_needs_no_room() -> None:
    """Asking for room for a running job is a mistake."""
    with pytest.raises(InstanceError, match='job "a" runs already; name a job that waits'):
        make_room(queue(), "a", backend=BACKEND)


def test_a_rack_is_drained_with_as_many_moves_as_tasks_stand_on_it() -> None:
    """Objective and bound count the tasks that have to leave in any case."""
    found = drain(queue(), ["r1"], backend=BACKEND)
    certificate = found.result.certificate
    assert (certificate.status, certificate.objective, certificate.bound) == ("optimal", 2.0, 2.0)
    assert found.emptied == ("h2", "h3")
    assert certificate.fingerprint == queue().fingerprint
    hosts = {task.host for a in solution_of(found).assignments for task in a.tasks}
    assert hosts <= {"h0", "h1"}


def test_draining_moves_others_aside_where_that_is_needed() -> None:
    """A gang of a whole host leaves h2; a job on h0 or h1 makes way for it."""
    jobs = (gang("big", 1, 8), gang("x", 1, 4), gang("y", 1, 4))
    running = (on("big", h2=1), on("x", h0=1), on("y", h1=1))
    instance = Instance("aside", cluster(), jobs, running=running)
    found = drain(instance, ["r1"], backend=BACKEND)
    assert found.result.certificate.objective == 2.0
    assert found.migration is not None
    assert verify_migration(instance, found.migration) == []


@pytest.mark.parametrize(
    ("places", "budget", "sentence"),
    [
        (["r9"], None, 'topology "two racks" has no host or domain "r9"'),
        (["r0", "r1"], None, "these are all hosts; leave some to move the jobs to"),
        (["r1"], 1, "2 tasks run there, more than the 1 that may move"),
    ],
)
def test_what_cannot_be_drained_is_said(
    places: list[str], budget: int | None, sentence: str
) -> None:
    """Unknown places, all of them, and too small a budget."""
    with pytest.raises(InstanceError, match=sentence):
        drain(queue(), places, move_budget=budget, backend=BACKEND)


def test_a_pinned_job_cannot_be_drained() -> None:
    """A job that may not move is named."""
    instance = Instance(
        "pinned", cluster(), (gang("a", 1, 4, preemptible=False),), running=(on("a", h0=1),)
    )
    with pytest.raises(InstanceError, match='job "a": is not preemptible and runs on h0'):
        drain(instance, ["h0"], backend=BACKEND)


def test_consolidation_frees_hosts_while_a_move_is_worth_it() -> None:
    """One move joins two half hosts; at a price of two hosts a move nothing moves."""
    found = consolidate(queue(), backend=BACKEND)
    assert found.result.certificate.objective == pytest.approx(2.05)
    assert len(found.emptied) == 1
    dear = consolidate(queue(), move_cost=2.0, backend=BACKEND)
    assert dear.num_moved == 0
    assert dear.emptied == ()


def test_the_cheapest_cure_names_the_job_to_move() -> None:
    """Moving a frees rack r0: fewer GPUs than giving up half of the gang."""
    explanation = explain(queue(), "train", backend=BACKEND)
    assert explanation is not None
    assert explanation.sentence == (
        'job "train" needs 16 GPUs (2 x 8) in one rack; best rack r0 has 12 free, 4 of them in '
        "pieces smaller than 8; moving job a frees it, 1 task."
    )
    cures = [(r.requirement, r.sentence) for r in explanation.relaxations]
    assert cures == [
        ("running jobs", "moving job a frees it, 1 task"),
        ("running jobs", "it can start once job a ends"),
        ("GPUs", "8 GPUs would start now"),
    ]
    still = explain(queue(), "train", moves=False)
    assert still is not None
    assert [r.requirement for r in still.relaxations] == ["GPUs"]


def test_a_job_that_fits_has_nothing_to_explain() -> None:
    """None says that it can start."""
    assert explain(queue().replace(running=()), "train") is None


def test_a_placed_queue_gives_its_reasons() -> None:
    """Pinned jobs leave no rack; the sentence is that of `explain`."""
    placement = place(queue(moves=Moves(budget=0)), backend=BACKEND)
    reasons = solution_of(placement).unplaced
    assert list(reasons) == ["train"]
    assert reasons["train"].startswith('job "train" needs 16 GPUs (2 x 8) in one rack; best rack')
    free = place(queue(moves=Moves()), backend=BACKEND)
    assert free.result.certificate.objective == 1.0
    assert solution_of(free).unplaced == {}


@pytest.mark.parametrize("backend", [BACKEND, "pyomo", "cpsat", "auto", "partitioned"])
def test_running_jobs_are_kept_unless_the_instance_says_otherwise(backend: str) -> None:
    """A move would let the gang in, and stopping them would free hosts: neither is made."""
    limits = Limits(seconds=20.0)
    for goal in ("gpus_placed", "gpu_hosts_used", "balance"):
        result = solve(queue(), "placement", backend, objective=goal, limits=limits)
        assert isinstance(result.solution, Allocation)
        assert {*queue().running} <= {*result.solution.assignments}
        assert "train" not in result.solution.configuration_of
        assert result.certificate.fingerprint == queue().fingerprint
    told = solve(queue(moves=Moves()), "placement", backend, objective="gpus_placed", limits=limits)
    assert isinstance(told.solution, Allocation)
    assert "train" in told.solution.configuration_of or backend == "partitioned"


def test_a_running_job_that_has_nowhere_to_stay_is_said_in_one_sentence() -> None:
    """It runs, nobody says where, and no host is as large: it may not be stopped either."""
    wide = gang("wide", 5, 8)
    with pytest.raises(InstanceError, match='"wide"'):
        Instance("none", cluster(), (wide,), running=(Assignment("wide", 0),))
    two = (gang("x", 3, 8), gang("y", 2, 8))
    over = Instance("over", cluster(), two, running=(Assignment("x", 0), Assignment("y", 0)))
    result = place(over, backend=BACKEND).result
    assert result.certificate.status == "infeasible"
    assert result.conflict is not None
    assert "the jobs that must keep running" in result.conflict
    assert result.conflict.count(".") <= 1


def test_a_job_kept_out_by_the_goal_is_said_to_fit() -> None:
    """With fewest hosts first nothing new starts, though there is room: it gains nothing."""
    instance = queue().replace(jobs=(*queue().jobs, gang("wide", 4, 4)))
    goal = "gpu_hosts_used then moves"
    placement = place(instance.replace(moves=Moves(budget=0)), goal, backend=BACKEND)
    assert solution_of(placement).unplaced["wide"] == (
        "it would fit, but the goal gains nothing from it"
    )


class TestBrokenFromTheStart:
    """What running jobs break is reported and left, or repaired when that is asked for."""

    def split(self) -> Instance:
        """A gang that must be in one rack runs in two, on otherwise empty hosts."""
        job = gang("torn", 2, 4, placement=IN_A_RACK)
        return Instance(
            "torn",
            cluster(),
            (job, gang("new", 1, 8)),
            running=(on("torn", h0=1, h2=1),),
            moves=Moves(),
        )

    def test_a_split_gang_is_left_where_it_is(self) -> None:
        """The new job is placed around it; nothing is repaired in silence."""
        placement = place(self.split(), backend=BACKEND)
        assert [v.code for v in placement.broken] == ["required_level"]
        assert not placement.repaired
        where = {a.job: a for a in solution_of(placement).assignments}
        assert {task.host for task in where["torn"].tasks} == {"h0", "h2"}
        assert "new" in where
        assert verify(self.split(), solution_of(placement), accept=placement.broken) == []

    def test_a_split_gang_is_repaired_at_least_cost(self) -> None:
        """One of its two tasks moves."""
        placement = place(self.split(), "moves then gpus_placed", repair=True, backend=BACKEND)
        assert placement.repaired
        assert placement.result.stages[0].objective == 1.0
        assert verify(self.split(), solution_of(placement)) == []

    @pytest.mark.parametrize("moves", [None, Moves(budget=0)])
    def test_nothing_is_repaired_where_nothing_may_move(self, moves: Moves | None) -> None:
        """It was said to be repaired, beside the proof that it cannot be; the cure is said."""
        placement = place(self.split().replace(moves=moves), repair=True, backend=BACKEND)
        assert placement.result.certificate.status == "infeasible"
        assert not placement.repaired
        assert "allow moves or evictions" in str(placement.result.conflict)
        cured = place(self.split().replace(moves=Moves(budget=1)), repair=True, backend=BACKEND)
        assert cured.repaired

    def test_an_over_full_host_takes_nobody_in(self) -> None:
        """Twelve GPUs of eight are in use; they stay, and others go elsewhere."""
        jobs = (gang("a", 1, 8), gang("b", 1, 4), gang("new", 3, 8))
        full = Instance(
            "full", cluster(), jobs, running=(on("a", h0=1), on("b", h0=1)), moves=Moves()
        )
        placement = place(full, backend=BACKEND)
        assert {v.code for v in placement.broken} == {"host_capacity"}
        where = {a.job: {t.host for t in a.tasks} for a in solution_of(placement).assignments}
        assert where == {"a": {"h0"}, "b": {"h0"}, "new": {"h1", "h2", "h3"}}
        repaired = place(full, "moves", repair=True, backend=BACKEND)
        assert repaired.result.certificate.objective == 1.0

    def test_what_an_over_full_host_lacks_is_not_taken_from_what_is_free(self) -> None:
        """Twelve GPUs of eight are in use on one host; the other has two free, not less."""
        two = Topology("two", cluster().host_types, cluster().hosts[:2], ("rack",), RACKS)
        jobs = (gang("a", 1, 8), gang("b", 1, 4), gang("c", 1, 6), gang("new", 1, 4))
        running = (on("a", h0=1), on("b", h0=1), on("c", h1=1))
        full = Instance("full", two, jobs, running=running, moves=Moves(0))
        reason = solution_of(place(full, backend=BACKEND)).unplaced["new"]
        assert "has 2 free" in reason

    def test_quotas_and_affinities_broken_from_the_start_hold_nobody_else_up(self) -> None:
        """A tenant above its quota starts nothing more; jobs too close stay as they are."""
        jobs = (
            gang("a", 1, 8, tenant="t"),
            gang("b", 1, 8, tenant="u"),
            gang("more", 1, 1, tenant="t"),
            gang("other", 1, 8),
        )
        instance = Instance(
            "quota",
            cluster(),
            jobs,
            tenants=(Tenant("t", 4000), Tenant("u", 16_000)),
            running=(on("a", h0=1), on("b", h1=1)),
            affinities=(Affinity("apart", "rack", ("a", "b")),),
            moves=Moves(),
        )
        placement = place(instance, backend=BACKEND)
        assert {v.code for v in placement.broken} == {"quota", "apart"}
        running = solution_of(placement).configuration_of
        assert set(running) == {"a", "b", "other"}
        reason = solution_of(placement).unplaced["more"]
        assert 'its tenant "t" has 0 GPUs of quota left' in reason

    @pytest.mark.parametrize("kind", ["apart", "together"])
    def test_a_third_job_of_a_broken_affinity_makes_it_no_worse(self, kind: str) -> None:
        """It keeps away from both that are too close, and joins no group that is torn."""
        where = ("h0", "h0") if kind == "apart" else ("h0", "h2")
        full = {"h2": 1, "h3": 1} if kind == "apart" else {"h1": 1, "h3": 1}
        instance = Instance(
            "third",
            cluster(),
            (*(gang(name, 1, 1) for name in ("x", "y", "z")), gang("full", 2, 8)),
            running=(on("x", **{where[0]: 1}), on("y", **{where[1]: 1}), on("full", **full)),
            affinities=(Affinity(kind, "rack", ("x", "y", "z")),),  # type: ignore[arg-type]
            moves=Moves(0),
        )
        placement = place(instance, backend=BACKEND)
        solution = solution_of(placement)
        assert [v.code for v in placement.broken] == [kind]
        assert verify(instance, solution, accept=placement.broken) == []
        assert "without its affinity it would start" in solution.unplaced["z"]
        free = place(instance.replace(affinities=()), backend=BACKEND)
        assert "z" in solution_of(free).configuration_of

    def test_a_cohort_lends_no_more_than_it_has_beside_one_beyond_its_quota(self) -> None:
        """Tenant t holds 8 of its 4 GPUs; of the 12 of its cohort, 4 are left, and not 8."""
        jobs = (
            gang("a", 1, 8, tenant="t"),
            gang("b", 1, 8, tenant="u"),
            gang("c", 1, 4, tenant="u"),
        )
        instance = Instance(
            "lent",
            cluster(),
            jobs,
            tenants=(Tenant("t", 4000, "all"), Tenant("u", 8000, "all")),
            running=(on("a", h0=1),),
            moves=Moves(0),
        )
        placement = place(instance, backend=BACKEND)
        assert [v.code for v in placement.broken] == ["quota"]
        assert set(solution_of(placement).configuration_of) == {"a", "c"}

    def test_moves_let_a_job_in_beside_what_stays_broken(self) -> None:
        """The torn gang stays as it is; only the job in the way moves."""
        instance = self.split().replace(
            jobs=(*self.split().jobs, gang("small", 1, 2), gang("four", 4, 8)),
            running=(*self.split().running, on("small", h1=1)),
        )
        found = make_room(instance, "new", backend=BACKEND)
        assert found.num_moved == 0
        blocked = make_room(instance, "four", backend=BACKEND).blocked
        assert blocked == (
            'job "four" cannot start whatever moves while torn stay as they are, against a rule.'
        )

    def test_a_neighbour_of_jobs_too_close_may_move(self) -> None:
        """Two jobs break their rule on a host; a third there has no part in it."""
        jobs = (
            *(gang(name, 1, 1) for name in ("x", "y")),
            gang("third", 1, 2),
            gang("fixed", 3, 1, preemptible=False),
            gang("wide", 1, 6),
        )
        instance = Instance(
            "close",
            cluster(),
            jobs,
            running=(on("x", h0=1), on("y", h0=1), on("third", h0=1), on("fixed", h1=3)),
            affinities=(Affinity("apart", "host", ("x", "y")),),
        ).replace(topology=cluster().replace(hosts=cluster().hosts[:2]))
        found = make_room(instance, "wide", backend=BACKEND)
        assert found.num_moved == 1


class TestFewestMoves:
    """Only whether the job starts counts before the moves."""

    def two(self, jobs: tuple[Job, ...], running: tuple[Assignment, ...]) -> Instance:
        kind = HostType("server", 4, "h100", 8_000, 1_000)
        topology = Topology("two", (kind,), (Host("h0", "server"), Host("h1", "server")))
        return Instance("two", topology, jobs, running=running)

    def elastic(self, name: str, *sizes: int) -> Job:
        ways = tuple(Configuration((TaskGroup("worker", n, 1000),), float(n)) for n in sizes)
        return Job(name, 0.0, 1.0, ways, elasticity="malleable")

    def test_a_job_without_gpus_is_let_in(self) -> None:
        """No GPU is gained by it, and it starts all the same."""

        def cores(name: str, number: int) -> Job:
            group = TaskGroup("worker", 1, 0, 1000 * number)
            return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid")

        jobs = (cores("a", 3), cores("b", 3), cores("etl", 6))
        found = make_room(self.two(jobs, (on("a", h0=1), on("b", h1=1))), "etl", backend=BACKEND)
        assert found.num_moved == 1
        assert found.result.certificate.status == "optimal"
        assert found.result.certificate.objective_name == "moves"

    @pytest.mark.parametrize("larger", [4, 6, 7])
    def test_a_neighbour_that_could_grow_keeps_its_size(self, larger: int) -> None:
        """Growing would win more GPUs than the job; it is no move, and it is not asked."""
        jobs = (
            self.elastic("m", 2, larger),
            gang("big", 1, 4).replace(
                configurations=(Configuration((TaskGroup("worker", 1, 4000),), 1.0),)
            ),
        )
        found = make_room(self.two(jobs, (on("m", h0=1, h1=1),)), "big", backend=BACKEND)
        assert found.num_moved == 1
        explanation = explain(self.two(jobs, (on("m", h0=1, h1=1),)), "big", backend=BACKEND)
        assert explanation is not None
        assert explanation.sentence.endswith("; moving job m frees it, 1 task.")

    def test_of_several_configurations_the_one_with_fewest_moves_is_taken(self) -> None:
        """It starts with three GPUs where nothing has to move, and not with four."""
        ways = tuple(Configuration((TaskGroup("worker", 1, 1000 * n),), float(n)) for n in (3, 4))
        wanted = Job("b", 0.0, 1.0, ways, elasticity="moldable")
        jobs = (*(self.elastic(name, 1) for name in "xyz"), wanted)
        running = (on("x", h0=1), on("y", h1=1), on("z", h1=1))
        found = make_room(self.two(jobs, running), "b", backend=BACKEND)
        assert found.num_moved == 0

    def test_a_job_whose_partner_waits_is_not_torn_by_a_move(self) -> None:
        """One of its two tasks would make room enough, but both have to stay on one host."""
        large = Configuration((TaskGroup("worker", 1, 3000),), 1.0)
        jobs = (
            self.elastic("m", 2),
            self.elastic("n", 2).replace(preemptible=False),
            self.elastic("later", 1),
            self.elastic("b", 1).replace(configurations=(large,)),
        )
        free = self.two(jobs, (on("m", h0=2), on("n", h1=2)))
        assert make_room(free, "b", backend=BACKEND).num_moved == 1
        bound = free.replace(affinities=(Affinity("together", "host", ("m", "later")),))
        found = make_room(bound, "b", backend=BACKEND)
        assert found.num_moved == 2
        assert verify(bound.replace(moves=Moves()), solution_of(found)) == []


@pytest.mark.parametrize(
    ("decided_s", "asked"), [(0.0, [10.0]), (4.0, [6.0]), (10.0, []), (99.0, [])]
)
def test_the_limit_of_an_explanation_is_for_the_whole_of_it(
    monkeypatch: pytest.MonkeyPatch, decided_s: float, asked: list[float]
) -> None:
    """The search for moves began with the whole limit, however long the reason had taken."""
    clock = iter((0.0, decided_s))
    given = []

    def room(instance: Instance, job: str, *, backend: str, limits: Limits) -> Defragmentation:
        given.append(limits.seconds)
        return make_room(instance, job, backend=backend)

    monkeypatch.setattr(explaining, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(explaining, "make_room", room)
    found = explain(queue(moves=Moves()), "train", limits=Limits(seconds=10.0))
    assert given == asked
    assert found is not None
    assert found.sentence


@pytest.mark.parametrize("act", [consolidate, lambda instance: drain(instance, ["h0"])])
def test_where_nothing_runs_there_is_nothing_to_move(act: Callable[[Instance], object]) -> None:
    """The jobs are there, they only wait: the sentence says so."""
    waiting = queue().replace(running=())
    with pytest.raises(InstanceError, match="none of its 4 jobs runs; say in running where"):
        act(waiting)


def test_what_is_prepared_counts_in_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """On ten thousand hosts reading what runs takes seconds, which the search does not get."""
    now = [0.0]
    asked: list[float] = []

    def reading(instance: Instance) -> list[object]:
        now[0] += 4.0
        return []

    def solving(*_: object, limits: Limits, **__: object) -> object:
        asked.append(limits.seconds)
        return SimpleNamespace(solution=None, stages=(), certificate=None)

    module = "alloc.solving.placing.defragmentation"
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(f"{module}.initial_violations", reading)
    monkeypatch.setattr(f"{module}.solve", solving)
    for seconds in (10.0, 2.0):
        make_room(queue(), "train", limits=Limits(seconds=seconds))
    assert asked[0] == pytest.approx(6.0)
    assert 0 < asked[1] < 0.1
