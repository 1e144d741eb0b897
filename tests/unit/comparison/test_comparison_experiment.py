"""Comparisons: right numbers, the same for any number of processes, and nothing lost."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alloc import parallel, solving
from alloc.comparison import Comparison, Entry, compare, experiment
from alloc.comparison.bounds import solve_bound, stronger
from alloc.comparison.rows import gap_to
from alloc.comparison.settings import OPTIMUM, Settings
from alloc.comparison.tables import certificate_sentence, gap_tables
from alloc.errors import CertificateError, InstanceError, SolverError, UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.result import Result
from alloc.schedulers import make_scheduler
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import simulate

LIMIT_S = 20.0


def without_times(comparison: Comparison) -> list[dict]:
    """Rows without wall times, which are the machine's and not the experiment's."""
    rows = []
    for row in comparison.rows:
        document = row.to_dict()
        del document["seconds"]
        document["metrics"] = {
            name: value for name, value in row.metrics.items() if "decision" not in name
        }
        rows.append(document)
    return rows


def test_gap_and_mean_bound_against_hand_numbers(queue: Instance):
    """FIFO: 30 + 40 = 70 s; shortest first: 10 + 40 = 50 s, the optimum. The gap is 40 %."""
    comparison = compare([queue], ["fifo"], time_limit_s=LIMIT_S)
    optimum, fifo = comparison.rows
    assert (optimum.scheduler, optimum.seed, optimum.knowledge) == (OPTIMUM, None, "clairvoyant")
    assert optimum.objective == pytest.approx(50.0)
    assert optimum.metrics["mean_jct_s"] == pytest.approx(25.0)
    assert comparison.bound("queue-01").certificate.status == "optimal"
    assert fifo.objective == pytest.approx(70.0)
    assert fifo.gap == pytest.approx(0.4, abs=1e-6)
    assert fifo.metrics["makespan_s"] == pytest.approx(40.0)
    assert fifo.metrics["median_decision_s"] > 0
    assert comparison.mean_jct_bound("queue-01") == pytest.approx(25.0, rel=1e-6)


def test_nobody_late_is_no_gap_and_somebody_late_has_no_ratio_to_it(queue: Instance):
    """The short job first is in time, so the bound is 0; FIFO makes it 20 s late."""
    due = (40.0, 20.0)
    jobs = tuple(job.replace(due_date_s=d) for job, d in zip(queue.jobs, due, strict=True))
    comparison = compare(
        [queue.replace(jobs=jobs)], ["fifo"], objective="tardiness", time_limit_s=LIMIT_S
    )
    optimum, fifo = comparison.rows
    assert (optimum.objective, optimum.bound, optimum.gap) == (0.0, 0.0, 0.0)
    assert fifo.objective == pytest.approx(20.0)
    assert (fifo.bound, fifo.gap) == (0.0, None)
    assert "has a tardiness below 0 s" in certificate_sentence(comparison.bound("queue-01"))


def test_what_rounding_leaves_of_a_bound_of_0_refuses_no_schedule():
    """A tardiness of 1e-13 s is none; one of 1 s below a bound of 2 s has a false bound."""
    assert gap_to(1e-13, 0.0, rounding=1e-12) == 0.0
    assert gap_to(0.0, 0.0) == 0.0
    assert gap_to(0.0, 5.0) is None
    assert gap_to(2.0, 1.0, rounding=1e-12) == pytest.approx(-0.5)


def test_mean_bound_only_for_equal_weights(queue: Instance):
    """With weights 1 and 2, the bound on the weighted sum bounds no mean; with 3 and 3 it does."""
    mixed = queue.replace(jobs=(queue.jobs[0], queue.jobs[1].replace(weight=2.0)))
    heavy = queue.replace(name="heavy", jobs=tuple(job.replace(weight=3.0) for job in queue.jobs))
    comparison = compare([mixed, heavy], ["fifo"], time_limit_s=LIMIT_S)
    assert comparison.mean_jct_bound(mixed.fingerprint) is None
    assert comparison.mean_jct_bound("heavy") == pytest.approx(25.0, rel=1e-6)


class RefusesTheLong(Fifo):
    """Refuses a job of more than 20 s."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        long = tuple(view.id for view in state.jobs if view.work_left > 20.0)
        kept = [view for view in state.jobs if view.id not in long]
        decided = super().decide(dataclasses.replace(state, jobs=tuple(kept)))
        return dataclasses.replace(decided, refuse=long)


def test_no_mean_is_bounded_of_which_refused_jobs_are_left_out(queue: Instance):
    """The short job alone takes 10 s, less than 25 s, the least mean of schedules of both jobs."""
    jobs = tuple(job.replace(refusable=True, deadline_s=90.0) for job in queue.jobs)
    may = queue.replace(jobs=jobs)
    comparison = compare([may], [RefusesTheLong()], objective="weighted_jct", time_limit_s=LIMIT_S)
    assert comparison.rows[-1].metrics["mean_jct_s"] < 25.0
    assert comparison.mean_jct_bound("queue-01") is None
    remarks = gap_tables(comparison)[0].remarks
    assert "Times and fairness are of the jobs that ran to their end or had to." in remarks


def test_same_results_for_any_number_of_processes(queue: Instance, other: Instance):
    """Chance comes from the seed of the cell alone, never from who runs it and when."""
    runs = [
        compare(
            [queue, other],
            ["fifo", "drf"],
            seeds=(0, 1),
            knowledge="estimate",
            work_error=0.5,
            speed_error=0.2,
            time_limit_s=LIMIT_S,
            jobs=jobs,
            parallel=parallel,
        )
        for jobs, parallel in ((1, None), (2, "loky"), (2, "threading"))
    ]
    assert not runs[0].failures
    assert without_times(runs[0]) == without_times(runs[1]) == without_times(runs[2])


def test_a_backend_without_generators_works_too(queue: Instance, monkeypatch: pytest.MonkeyPatch):
    """A cluster backend may only return whole lists: cells go out in batches then."""
    from joblib._parallel_backends import ThreadingBackend

    monkeypatch.setattr(ThreadingBackend, "supports_return_generator", False)
    comparison = compare(
        [queue], ["fifo"], seeds=range(5), time_limit_s=LIMIT_S, jobs=2, parallel="threading"
    )
    assert [row.seed for row in comparison.rows] == [None, 0, 1, 2, 3, 4]


def test_seeds_share_errors_among_schedulers_but_not_instances(queue: Instance, other: Instance):
    """Two schedulers must face the same misjudged jobs; two instances need not."""
    from alloc.comparison.cells import generator_for

    assert generator_for(queue, 3).random() == generator_for(queue, 3).random()
    assert generator_for(queue, 3).random() != generator_for(other, 3).random()
    assert generator_for(queue, 3).random() != generator_for(queue, 4).random()


def test_a_second_run_computes_nothing(queue: Instance, tmp_path: Path):
    events: list[Any] = []
    arguments = ([queue], ["fifo"])
    options: dict[str, Any] = {
        "seeds": (0, 1),
        "time_limit_s": LIMIT_S,
        "store": tmp_path / "runs.db",
    }
    first = compare(*arguments, **options)
    second = compare(*arguments, **options, progress=events.append)
    assert [event.stored for event in events] == [True] * 3
    assert [(event.done, event.total) for event in events] == [(1, 3), (2, 3), (3, 3)]
    assert second.rows == first.rows
    events.clear()
    compare(*arguments, **options, progress=events.append, resume=False)
    assert [event.stored for event in events] == [False] * 3


def test_a_run_with_nothing_left_starts_no_cluster(
    queue: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A complete grid is read from the store, wherever it once ran; an incomplete one is not."""
    opened: list[str | None] = []

    def workers(kind: str | None, count: int | None, shared: Any) -> Any:
        opened.append(kind)
        return parallel.workers(None if kind == "dask" else kind, count, shared)

    monkeypatch.setattr(experiment, "workers", workers)
    options: dict[str, Any] = {"time_limit_s": LIMIT_S, "store": tmp_path / "runs.db"}
    compare([queue], ["fifo"], **options, parallel="dask", jobs=1)
    compare([queue], ["fifo"], **options, parallel="dask", jobs=2)
    compare([queue], ["fifo", "srtf"], **options, parallel="dask", jobs=1)
    assert opened == ["dask", None, "dask"]


@pytest.mark.parametrize(
    "change",
    [
        {"knowledge": "none"},
        {"work_error": 0.1, "knowledge": "estimate"},
        {"speed_error": 0.1, "knowledge": "estimate"},
    ],
)
def test_other_terms_are_other_cells(queue: Instance, tmp_path: Path, change: dict):
    """A cell run with exact knowledge must never stand in for one with estimates."""
    events: list[Any] = []
    options: dict[str, Any] = {"time_limit_s": LIMIT_S, "store": tmp_path / "runs.db"}
    compare([queue], ["fifo"], **options)
    compare([queue], ["fifo"], **options, **change, progress=events.append)
    assert [event.stored for event in events if event.kind == "cell"] == [False]


def test_a_changed_policy_is_another_cell(queue: Instance, tmp_path: Path, policy):
    """A retrained policy under an old name must not show the old one's numbers."""
    options: dict[str, Any] = {"time_limit_s": LIMIT_S, "store": tmp_path / "runs.db"}
    events: list[Any] = []
    compare([queue], [policy], **options)
    compare([queue], [policy], **options, progress=events.append)
    policy.weights = [0.5]
    compare([queue], [policy], **options, progress=events.append)
    assert [event.stored for event in events if event.kind == "cell"] == [True, False]


def test_a_broken_scheduler_takes_nobody_down(queue: Instance, other: Instance, broken):
    """One failing cell is a line in the table; the eleven others are still worth having."""
    comparison = compare([queue, other], [broken, "fifo"], seeds=(0, 1), time_limit_s=LIMIT_S)
    assert len(comparison.rows) == 2 + 8
    assert [row.scheduler for row in comparison.failures] == ["broken"] * 4
    assert "KeyError: 'no such key' (conftest.py, line" in comparison.failures[0].error
    assert comparison.failures[0].gap is None
    with pytest.raises(InstanceError, match=r'"broken" left no schedule on instance "queue-01"'):
        comparison.schedule("queue-01", "broken")


def test_failures_are_tried_again(queue: Instance, tmp_path: Path, broken):
    """What failed for want of memory yesterday may work today."""
    events: list[Any] = []
    options: dict[str, Any] = {"time_limit_s": LIMIT_S, "store": tmp_path / "runs.db"}
    compare([queue], [broken], **options)
    compare([queue], [broken], **options, progress=events.append)
    assert [(event.kind, event.stored) for event in events] == [("cell", False), ("bound", True)]
    assert Comparison.from_store(tmp_path / "runs.db").failures[0].scheduler == "broken"


def test_a_false_bound_is_loud(queue: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A schedule better than a proved bound means that the proof is wrong: no table may hide it."""
    true_solve = solving.solve

    def lie(*args, **kwargs) -> Result:
        result = true_solve(*args, **kwargs)
        return dataclasses.replace(result, certificate=result.certificate.replace(bound=80.0))

    monkeypatch.setattr(solving, "solve", lie)
    path = tmp_path / "runs.db"
    with pytest.raises(CertificateError, match=r"fifo on queue-01.*70.* below the bound 80"):
        compare([queue], ["fifo"], time_limit_s=LIMIT_S, store=path)
    with pytest.raises(CertificateError, match=r"the bound is false"):
        _ = Comparison.from_store(path).rows
    with pytest.raises(CertificateError, match=r"the bound is false"):
        compare([queue], ["fifo"], time_limit_s=LIMIT_S, store=path)


def test_rounding_is_no_false_bound(queue: Instance, monkeypatch: pytest.MonkeyPatch):
    """The bound may exceed the schedule by less than 1e-6: solvers work in floating point."""
    true_solve = solving.solve

    def nudge(*args, **kwargs) -> Result:
        result = true_solve(*args, **kwargs)
        return dataclasses.replace(
            result, certificate=result.certificate.replace(bound=70.0 * (1 + 5e-7))
        )

    monkeypatch.setattr(solving, "solve", nudge)
    assert compare([queue], ["fifo"], time_limit_s=LIMIT_S).rows[1].gap == pytest.approx(
        0, abs=1e-6
    )


def test_without_a_bound_the_schedulers_still_show(
    queue: Instance, monkeypatch: pytest.MonkeyPatch
):
    """An instance that the method cannot model is compared all the same, without a gap."""

    def refuse(*args, **kwargs):
        raise UnsupportedFeatureError("this method models no gangs of three")

    monkeypatch.setattr(solving, "solve", refuse)
    comparison = compare([queue], ["fifo"], time_limit_s=LIMIT_S)
    optimum, fifo = comparison.rows
    assert optimum.error == "this method models no gangs of three"
    assert (fifo.bound, fifo.gap) == (None, None)
    assert fifo.objective == pytest.approx(70.0)
    with pytest.raises(InstanceError, match=r"no solved schedule: this method models no gangs"):
        comparison.schedule("queue-01", OPTIMUM)


def test_a_solver_that_contradicts_itself_stops_everything(
    queue: Instance, monkeypatch: pytest.MonkeyPatch
):
    """Other failures of a solve are a remark in the table; this one taints all of it."""

    def contradict(*args, **kwargs):
        raise CertificateError("claims 3 but has 5")

    monkeypatch.setattr(solving, "solve", contradict)
    with pytest.raises(CertificateError, match="claims 3 but has 5"):
        compare([queue], ["fifo"], time_limit_s=LIMIT_S)


def test_late_jobs_leave_no_gap(queue: Instance):
    """The bound holds for schedules that keep deadlines; one that does not may well be below it."""
    strict = queue.replace(jobs=(queue.jobs[0], queue.jobs[1].replace(deadline_s=20.0)))
    fifo = compare([strict], ["fifo"], time_limit_s=LIMIT_S).rows[1]
    assert fifo.metrics["num_late"] == 1
    assert fifo.gap is None


def test_json_has_all_numbers_and_no_infinities(
    queue: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    comparison = compare([queue], ["fifo"], seeds=(0, 1), time_limit_s=LIMIT_S)
    document = json.loads(comparison.to_json(tmp_path / "comparison.json"))
    assert json.loads((tmp_path / "comparison.json").read_text()) == document
    assert document["settings"]["knowledge"] == "exact"
    assert [row["scheduler"] for row in document["rows"]] == ["optimum", "fifo", "fifo"]
    assert document["rows"][1]["gap"] == pytest.approx(0.4, abs=1e-6)
    assert document["bounds"][0]["certificate"]["status"] == "optimal"
    assert document["per_instance"][1]["gap"]["count"] == 2
    monkeypatch.setattr(
        solving, "solve", lambda *a, **k: (_ for _ in ()).throw(UnsupportedFeatureError("no"))
    )
    unsolved = json.loads(compare([queue], ["fifo"], time_limit_s=LIMIT_S).to_json())
    assert unsolved["rows"][0]["objective"] is None


def test_families_take_one_value_an_instance(queue: Instance, other: Instance):
    """Gaps 40 % and 0 %, two seeds each: the sample is 2 instances, mean 20 %, not 4 runs."""
    comparison = compare([queue, other], ["fifo"], seeds=(0, 1), time_limit_s=LIMIT_S)
    optimum, fifo = comparison.per_family()
    assert (fifo.group, fifo.over, fifo.runs) == ("queue", "instances", 4)
    assert fifo.gap.count == 2
    assert fifo.gap.mean == pytest.approx(0.2, abs=1e-6)
    assert fifo.gap.high == pytest.approx(0.2 + 12.7062 * 0.2, rel=1e-4)
    assert math.isfinite(optimum.objective.mean)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"instances": []}, r"no instances; give at least one"),
        ({"schedulers": []}, r"no schedulers; give at least one"),
        ({"seeds": []}, r"no seeds; give at least one"),
        ({"seeds": [-1]}, r"seed -1 is negative"),
        ({"schedulers": ["fifo", "fifo"]}, r'scheduler "fifo" is given twice'),
        ({"schedulers": ["fiffo"]}, r'fiffo.*did you mean "fifo"'),
        ({"schedulers": [3]}, r"was given 3 as a scheduler"),
        ({"schedulers": [Entry("optimum")]}, r'may be called "optimum"'),
        ({"schedulers": [Entry("fifo", {"a": object()})]}, r"(cannot be written|option)"),
        ({"knowledge": "exacct"}, r'"exacct" is unknown; did you mean "exact"'),
        ({"work_error": -0.1}, r"work_error is -0.1; it must be 0 or more"),
        ({"speed_error": math.nan}, r"speed_error is nan"),
        ({"time_limit_s": 0}, r"time_limit_s is 0; it must be more than 0"),
        ({"objective": "goodput"}, r'"goodput" is not a cost of schedules'),
        ({"objective": "makespan then mean_jct"}, r"has 2 levels.* makespan, mean_jct"),
        ({"objective": "makespan + gpus_placed"}, r'"makespan \+ gpus_placed" is not a cost'),
        ({"work_error": 0.5}, r'work_error is 0.5 but knowledge is "exact".*"estimate"'),
        ({"speed_error": 0.5}, r'speed_error is 0.5 but knowledge is "exact".*"estimate"'),
        ({"work_error": 50, "knowledge": "estimate"}, r"work_error is 50; .* below 1"),
        ({"objective": "jct"}, r'unknown objective "jct"'),
        ({"jobs": 0}, r"jobs is 0; give 1 or more"),
        ({"jobs": 2, "parallel": "lokky"}, r'joblib has no backend "lokky"'),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(queue: Instance, change: dict, sentence: str):
    """And before anything is solved."""
    options: dict[str, Any] = {
        "instances": [queue],
        "schedulers": ["fifo"],
        "time_limit_s": LIMIT_S,
        **change,
    }
    instances, schedulers = options.pop("instances"), options.pop("schedulers")
    with pytest.raises(InstanceError, match=sentence):
        compare(instances, schedulers, **options)


@pytest.mark.parametrize("knowledge", ["exact", "estimate", "none"])
@pytest.mark.parametrize("work_error", [0.0, 0.5, 1.0, -0.5, math.nan])
@pytest.mark.parametrize("speed_error", [0.0, 0.5, 1.0, -0.5, math.nan])
def test_terms_that_no_simulation_takes_are_refused_before_any_solve(
    queue: Instance, knowledge: Any, work_error: float, speed_error: float
):
    """Found in the first simulation, each would be a row that failed, after minutes of solving."""
    terms = {"knowledge": knowledge, "work_error": work_error, "speed_error": speed_error}

    def refusal(ask: Callable[..., object], *arguments: object) -> str | None:
        try:
            ask(*arguments, **terms)
        except InstanceError as error:
            return str(error)
        return None

    assert refusal(Settings) == refusal(simulate, queue, make_scheduler("fifo"))


def test_an_instance_given_twice_is_refused(queue: Instance):
    with pytest.raises(InstanceError, match=r'instance "queue-01" is given twice'):
        compare([queue, queue], ["fifo"])


def test_asking_for_what_is_not_there(queue: Instance):
    comparison = compare([queue], ["fifo"], time_limit_s=LIMIT_S)
    with pytest.raises(InstanceError, match=r'no instance "queue-1"; did you mean "queue-01"'):
        comparison.instance("queue-1")
    with pytest.raises(InstanceError, match=r'no scheduler "fif"; did you mean "fifo"'):
        comparison.schedule("queue-01", "fif")
    with pytest.raises(InstanceError, match=r"with seed 5: it failed or has not run"):
        comparison.schedule("queue-01", "fifo", 5)


def test_a_scheduler_that_cannot_travel_is_explained(queue: Instance, policy):
    """Classes inside functions and open files cannot be sent to a process: say so, and the cure."""
    policy.rule = lambda job: job.arrival_s
    with pytest.raises(InstanceError, match=r'"test-policy" cannot be sent.*top of a module'):
        compare([queue], [policy])


def test_two_instances_of_one_name_are_refused(queue: Instance, other: Instance):
    """Tables go by name: two under one name would be averaged as if they were seeds."""
    with pytest.raises(InstanceError, match=r'two instances are called "queue-01".*rename one'):
        compare([queue, other.replace(name="queue-01")], ["fifo"])


@pytest.mark.long
def test_a_worker_that_dies_is_one_sentence(queue: Instance):
    """A solver may crash the process; that is an error of the cell, not a traceback of joblib."""

    class Deadly(Fifo):
        name = "deadly"

        def reset(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(SolverError, match=r"compare: a worker process died.*run it again"):
        compare(
            [queue],
            [Entry("deadly", scheduler=Deadly()), "fifo"],
            time_limit_s=LIMIT_S,
            jobs=2,
            parallel="loky",
        )


def test_an_earlier_bound_above_a_schedule_found_since_is_refused(queue: Instance):
    """Cut down to the schedule, the false bound would prove it optimal."""
    found = solve_bound(queue, Settings(time_limit_s=LIMIT_S))
    certificate = found.certificate.replace(bound=40.0, status="feasible")
    solved = dataclasses.replace(found, result=Result(found.schedule, certificate, ()))

    def earlier(bound: float):
        then = certificate.replace(objective=90.0, bound=bound)
        return dataclasses.replace(found, result=Result(found.schedule, then, ()))

    assert stronger(solved, earlier(45.0)).certificate.bound == 45.0
    assert stronger(solved, earlier(50.0 * (1 + 1e-9))).certificate.status == "optimal"
    with pytest.raises(CertificateError, match="better than the bound of 60 that"):
        stronger(solved, earlier(60.0))
