"""Comparisons whose gap is one of value: jobs with deadlines that may be refused."""

from __future__ import annotations

import dataclasses

import pytest

from alloc.comparison import Comparison, compare
from alloc.comparison.bounds import with_schedule
from alloc.comparison.rows import best_outcomes, gap_to
from alloc.comparison.tables import certificate_sentence, gap_tables, to_markdown
from alloc.errors import CertificateError, InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.report import write_report
from alloc.schedulers.state import ClusterState, Decision
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

LIMIT_S = 20.0


@pytest.fixture(scope="module")
def evening() -> Instance:
    """One GPU and two slots of 10 s: "whole" fills both for 10, or the others each one for 9."""
    gang = (rigid_gang(1),)
    jobs = tuple(
        Job(name, 0.0, work, gang, weight=weight, deadline_s=20.0, refusable=True)
        for name, work, weight in (("first", 10.0, 5.0), ("whole", 20.0, 10.0), ("second", 10.0, 4))
    )
    cluster = flat_cluster("one GPU", HostType("host", 1, "a100", 8000, 1024), 1)
    return Instance("evening-01", cluster, jobs, slot_s=10.0)


class Served:
    """Serves jobs in a given order and refuses nobody: who is served last is late."""

    needs = "none"
    information = "a list"

    def __init__(self, name: str, order: tuple[str, ...]) -> None:
        self.name, self.order = name, order

    def reset(self) -> None:
        """Nothing to forget."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the first job of the list, on the one host."""
        view = min(state.jobs, key=lambda view: self.order.index(view.id))
        tasks = state.pool.place(view.configurations[0])
        assert tasks is not None
        return Decision((Assignment(view.id, 0, tuple(tasks)),))


GREEDY = Served("greedy", ("first", "second", "whole"))
WORTHY = Served("worthy", ("whole", "first", "second"))


@pytest.fixture(scope="module")
def comparison(evening: Instance) -> Comparison:
    """Both orders and the policies that refuse, against the bound of "admission"."""
    return compare(
        [evening],
        [GREEDY, WORTHY, "edf", "elasticflow"],
        objective="value",
        time_limit_s=LIMIT_S,
    )


def test_the_bound_is_that_of_admission_and_gaps_are_lost_value(comparison: Comparison):
    certificate = comparison.bound("evening-01").certificate
    assert certificate is not None
    assert certificate.formulation == "admission"
    assert certificate.status == "optimal"
    assert certificate.bound == pytest.approx(10.0)
    gaps = {row.scheduler: row.gap for row in comparison.rows}
    assert gaps["optimum"] == gaps["worthy"] == pytest.approx(0.0)
    assert gaps["greedy"] == pytest.approx(0.1)


def test_no_row_is_better_than_the_best_found(comparison: Comparison, evening: Instance):
    best = next(row for row in comparison.rows if row.scheduler == "optimum")
    assert all(row.objective <= best.objective for row in comparison.rows)
    schedule = comparison.schedule("evening-01", "optimum")
    assert verify(evening, schedule) == []


def test_a_schedule_with_late_jobs_becomes_the_best_found_without_them(
    comparison: Comparison, evening: Instance
):
    """The solve found nothing; the simulated schedule of "worthy" has two late jobs."""
    bound = comparison.bound("evening-01")
    poor = dataclasses.replace(
        bound.result,
        certificate=bound.certificate.replace(objective=4.0, status="feasible", bound=12.0),
    )
    weak = type(bound)(bound.instance, bound.fingerprint, poor)
    late = comparison.schedule("evening-01", "worthy")
    assert {run.job for run in late.runs} == {"whole", "first", "second"}
    found = with_schedule(weak, evening, late, "worthy, seed 0")
    assert found.schedule is not None
    assert {run.job for run in found.schedule.runs} == {"whole"}
    assert set(found.schedule.unplaced) == {"first", "second"}
    assert verify(evening, found.schedule) == []
    assert found.certificate.objective == 10.0
    assert found.certificate.bound == 12.0
    assert "at most 16.7 % below the optimum" in certificate_sentence(found)


def test_a_value_above_the_bound_is_refused(comparison: Comparison):
    false = dict(comparison.bounds)
    for fingerprint, bound in comparison.bounds.items():
        certificate = bound.certificate.replace(bound=8.0, objective=8.0)
        false[fingerprint] = type(bound)(
            bound.instance, fingerprint, dataclasses.replace(bound.result, certificate=certificate)
        )
    wrong = Comparison(comparison.experiment, comparison.instances, false, comparison.outcomes)
    with pytest.raises(CertificateError, match=r"9\.0, above the bound 8\.0"):
        assert wrong.rows


def test_promised_jobs_that_are_late_leave_no_gap(evening: Instance):
    """What a promised job would have needed is worth something to the others."""
    promised = evening.replace(
        name="evening-02",
        jobs=tuple(job.replace(refusable=job.id != "second") for job in evening.jobs),
    )
    table = compare([promised], [GREEDY, WORTHY], objective="value", time_limit_s=LIMIT_S)
    found = {row.scheduler: row for row in table.rows}
    assert found["optimum"].objective == 9.0
    assert found["greedy"].gap == pytest.approx(0.0)
    assert found["worthy"].objective == 10.0
    assert found["worthy"].gap is None
    assert "miss a hard deadline" in to_markdown(gap_tables(table)[0])


def test_the_largest_value_is_the_best(comparison: Comparison):
    best = best_outcomes(comparison.experiment.cells, comparison.outcomes, "max")
    assert [outcome.objective for _, _, outcome in best.values()] == [10.0]


@pytest.mark.parametrize(
    ("bound", "value", "gap"),
    [(10.0, 9.0, 0.1), (10.0, 0.0, 1.0), (0.0, 0.0, 0.0), (8.0, 10, -0.25)],
)
def test_a_gap_of_value_is_the_part_that_is_lost(bound: float, value: float, gap: float):
    assert gap_to(bound, value, sense="max") == pytest.approx(gap)


@pytest.mark.long
def test_tables_and_report_speak_of_value(comparison: Comparison, tmp_path):
    text = to_markdown(gap_tables(comparison)[0])
    assert "No schedule of evening-01 has a value above 10;" in text
    assert "part of the proved value that is lost" in text
    page = tmp_path / "value.html"
    write_report(comparison, page)
    assert "loses" in page.read_text()


@pytest.mark.parametrize("name", ["gpu_time", "value + best_effort_jct"])
def test_other_objectives_of_admission_are_refused(evening: Instance, name: str):
    with pytest.raises(InstanceError, match="not a cost of schedules"):
        compare([evening], ["edf"], objective=name)
