"""Forecasts keep the load, the growth and what goes together in the history they come from."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.instances.readers.jobs import TracedJob
from alloc.planning.forecasts import bootstrap_weeks, scenarios_from_rates
from alloc.planning.history import WEEK_S, History, history_of_jobs
from alloc.planning.reduction import reduce_scenarios
from alloc.problems.right_sizing import JobClass, JobOption, Scenario, ServiceGoal

CLASSES = (
    JobClass("small", (JobOption("a100", 1, 2.0),)),
    JobClass("large", (JobOption("a100", 8, 5.0),)),
)


def traced(times_s: Sequence[float], gpus: int, hours: float) -> list[TracedJob]:
    return [TracedJob(f"{gpus}-{t}", t, hours * 3600, gpus) for t in times_s]


def history() -> History:
    # Weeks in which both classes rise together.
    weeks = np.array([1.0, 2.0, 3.0, 4.0])
    return History(CLASSES, np.column_stack([weeks, 10 * weeks]))


def test_a_history_keeps_the_gpu_time_of_its_jobs() -> None:
    """A class stands for jobs of several sizes; the load to be planned for must stay theirs."""
    jobs = (
        traced([0.0, 1e5, 4e5], 3, 0.5)
        + traced([2e5], 4, 0.25)
        + traced([3e5, WEEK_S], 5, 100.0)
        + traced([2 * WEEK_S], 1, 1.0)
    )
    found = history_of_jobs(jobs, speeds={"a100": 1.0, "h100": 2.0})
    assert found.num_weeks == 2
    load = sum(
        found.jobs_per_hour[:, j].sum() * 168 * job_class.options[0].gpu_hours
        for j, job_class in enumerate(found.classes)
    )
    assert load == pytest.approx(3 * 3 * 0.5 + 4 * 0.25 + 2 * 5 * 100.0)
    assert [job_class.name for job_class in found.classes] == ["4-gpu 0-1h", "8-gpu 48h+"]
    slow, fast = found.classes[0].options
    assert (fast.gpu_type, fast.hours) == ("h100", slow.hours / 2)
    assert found.left_out == {"jobs of the last week, which is not whole": 1}


def test_what_a_history_leaves_out_is_counted() -> None:
    jobs = traced([0.0, WEEK_S], 1, 1.0) + traced([0.0], 9, 1.0)
    found = history_of_jobs(jobs, speeds={"a100": 1.0}, gpu_edges=(1, 8))
    assert found.left_out == {
        "jobs of more than 8 GPUs": 1,
        "jobs of the last week, which is not whole": 1,
    }


@pytest.mark.parametrize("every_h", [0.5, 1, 2, 24])
def test_a_history_of_exactly_four_weeks_has_four(every_h: float) -> None:
    """The last job arrives a little before the end of the last week, which is still whole."""
    times = [hour * 3600.0 for hour in np.arange(0, 4 * 168, every_h)]
    found = history_of_jobs(traced(times, 1, 1.0), speeds={"a100": 1.0})
    assert found.num_weeks == 4
    np.testing.assert_allclose(found.jobs_per_hour, 1 / every_h)
    assert not found.left_out


def test_a_week_that_breaks_off_does_not_count() -> None:
    """It would plan for fewer jobs than come: neither six hours nor a day may be missing."""
    for missing_h, every_h in ((6, 1), (30, 24)):
        times = [hour * 3600.0 for hour in np.arange(0, 4 * 168 - missing_h, every_h)]
        found = history_of_jobs(traced(times, 1, 1.0), speeds={"a100": 1.0})
        assert found.num_weeks == 3
        np.testing.assert_allclose(found.jobs_per_hour, 1 / every_h)


def test_jobs_that_ran_for_no_time_are_left_out() -> None:
    """Traces have jobs that failed at once: a class of them only was refused as "hours is 0"."""
    jobs = traced([0.0, 1.5 * WEEK_S], 1, 1.0) + traced([5.0], 8, 0.0)
    found = history_of_jobs(jobs, speeds={"a100": 1.0})
    assert [job_class.name for job_class in found.classes] == ["1-gpu 0-1h"]
    assert found.left_out["jobs that ran for no time"] == 1
    with pytest.raises(InstanceError, match="no job that runs for any time has at most 1024 GPUs"):
        history_of_jobs(traced([0.0, 1.5 * WEEK_S], 1, 0.0), speeds={"a100": 1.0})


@pytest.mark.parametrize("begin_s", [482563.6228829444, 406320.2664590093, 359338.33430188964])
def test_a_job_at_the_edge_of_a_week_is_in_one(begin_s: float) -> None:
    """Sums and differences round otherwise: the week of such a job was one that is not there."""
    edges = [begin_s + k * WEEK_S for k in range(1, 7)]
    for last, edge in enumerate(edges, start=1):
        times = [begin_s, *edges[: last - 1], float(np.nextafter(edge, 0)), edge]
        found = history_of_jobs(traced(times, 1, 1.0), speeds={"a100": 1.0})
        assert found.num_weeks == last
        assert found.jobs_per_hour.sum() * 168 + sum(found.left_out.values()) == pytest.approx(
            len(times)
        )


def test_classes_end_at_the_edges_given() -> None:
    jobs = traced([0.0, WEEK_S], 2, 1.0) + traced([5.0], 2, 3.0) + traced([6.0], 2, 7.0)
    found = history_of_jobs(jobs, speeds={"a100": 1.0}, gpu_edges=(4,), hour_edges=(0.5, 3.0))
    assert [job_class.name for job_class in found.classes] == ["4-gpu 0.5-3h", "4-gpu 3h+"]
    # On 4 GPUs for half as long: (1 + 3) h over two jobs, and 7 h of one.
    assert [job_class.options[0].hours for job_class in found.classes] == [1.0, 3.5]


def test_goals_reach_their_classes() -> None:
    jobs = traced([0.0, WEEK_S], 1, 1.0)
    goal = ServiceGoal("wait", 1.0)
    assert (
        history_of_jobs(jobs, speeds={"a100": 1.0}, goals={"1-gpu 0-1h": goal}).classes[0].goal
        == goal
    )
    by_size = history_of_jobs(
        jobs, speeds={"a100": 1.0}, goals=lambda gpus, hours: ServiceGoal("jct", gpus + hours)
    )
    assert by_size.classes[0].goal == ServiceGoal("jct", 2.0)
    with pytest.raises(InstanceError, match='class "2-gpu 0-1h", which no job is in'):
        history_of_jobs(jobs, speeds={"a100": 1.0}, goals={"2-gpu 0-1h": goal})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"speeds": {}}, "names no GPU type"),
        ({"speeds": {"a100": 0.0}}, 'speed of "a100"'),
        ({"gpu_edges": (4, 2)}, "increasing order"),
        ({"hour_edges": ()}, "increasing order"),
        ({"gpu_edges": (0,)}, "positive numbers"),
    ],
)
def test_wrong_ways_to_sort_jobs_are_refused(changes: dict[str, object], sentence: str) -> None:
    jobs = traced([0.0, WEEK_S], 1, 1.0)
    with pytest.raises(InstanceError, match=sentence):
        history_of_jobs(jobs, **{"speeds": {"a100": 1.0}, **changes})  # type: ignore[arg-type]


def test_less_than_a_week_is_no_history() -> None:
    with pytest.raises(InstanceError, match=r"within 1\.16 days; a history needs"):
        history_of_jobs(traced([0.0, 1e5], 1, 1.0), speeds={"a100": 1.0})


def test_bootstrapped_quarters_are_means_of_weeks_that_were() -> None:
    """Classes that rise together in the history do so in every scenario."""
    scenarios = bootstrap_weeks(history(), 6, num_scenarios=30, seed=3)
    assert sum(s.probability for s in scenarios) == pytest.approx(1)
    small = np.array([s.arrivals["small"] for s in scenarios])
    large = np.array([s.arrivals["large"] for s in scenarios])
    np.testing.assert_allclose(large, 10 * small)
    assert small.min() >= 1
    assert small.max() <= 4
    # 13 weeks of mean 2.5 and variance 1.25: the mean of 180 quarters is within four errors.
    assert abs(small.mean() - 2.5) < 4 * np.sqrt(1.25 / 13 / small.size)
    assert small.std() == pytest.approx(np.sqrt(1.25 / 13), rel=0.25)


def test_growth_is_by_class_and_compounds() -> None:
    flat = bootstrap_weeks(history(), 3, num_scenarios=2, seed=1)
    grown = bootstrap_weeks(history(), 3, num_scenarios=2, seed=1, growth={"large": 0.1})
    for a, b in zip(flat, grown, strict=True):
        assert a.arrivals["small"] == b.arrivals["small"]
        np.testing.assert_allclose(
            np.array(b.arrivals["large"]) / a.arrivals["large"], [1, 1.1, 1.21]
        )


def test_blocks_of_weeks_keep_what_lasts() -> None:
    """A block as long as the history leaves nothing to chance but the cut at 13 weeks."""
    scenarios = bootstrap_weeks(history(), 1, num_scenarios=5, block_weeks=4, seed=0)
    expected = (3 * 10 + 1) / 13
    assert [s.arrivals["small"][0] for s in scenarios] == pytest.approx([expected] * 5)


def test_rates_keep_their_mean_and_variation() -> None:
    scenarios = scenarios_from_rates(
        CLASSES, {"small": 2.0, "large": 1.0}, 4, num_scenarios=4000, variation=0.3, seed=5
    )
    small = np.array([s.arrivals["small"] for s in scenarios])
    large = np.array([s.arrivals["large"] for s in scenarios])
    assert small.mean() == pytest.approx(2.0, rel=0.02)
    assert small.std() / small.mean() == pytest.approx(0.3, rel=0.05)
    logs = np.corrcoef(np.log(small.ravel()), np.log(large.ravel()))
    assert logs[0, 1] == pytest.approx(0.5, abs=0.05)
    (certain,) = scenarios_from_rates(CLASSES, {"small": 2.0, "large": 1.0}, 2, num_scenarios=1)
    assert certain.arrivals == {"small": (2.0, 2.0), "large": (1.0, 1.0)}


@pytest.mark.parametrize(
    ("rates", "changes", "sentence"),
    [
        ({"small": 1.0}, {}, 'job class "large" has no rate'),
        ({"small": 1.0, "large": 1.0, "smal": 1.0}, {}, 'unknown class "smal"; did you mean'),
        ({"small": -1.0, "large": 1.0}, {}, "jobs_per_hour"),
        ({"small": 1.0, "large": 1.0}, {"variation": -0.1}, "variation"),
        ({"small": 1.0, "large": 1.0}, {"shared": 1.5}, "between 0 and 1"),
        ({"small": 1.0, "large": 1.0}, {"growth": -1.0}, "growth"),
        ({"small": 1.0, "large": 1.0}, {"growth": {"huge": 0.1}}, 'unknown class "huge"'),
        ({"small": 1.0, "large": 1.0}, {"num_scenarios": 0}, "num_scenarios"),
    ],
)
def test_wrong_rates_are_refused(
    rates: dict[str, float], changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InstanceError, match=sentence):
        scenarios_from_rates(CLASSES, rates, 2, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_busy_times_are_shared_as_far_as_asked_for(shared: float) -> None:
    """What all classes share is what makes a quarter dear: it must be neither lost nor doubled."""
    drawn = scenarios_from_rates(
        CLASSES,
        {"small": 2.0, "large": 1.0},
        1,
        num_scenarios=4000,
        variation=0.5,
        shared=shared,
    )
    logs = np.log([[s.arrivals[c.name][0] for c in CLASSES] for s in drawn])
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(shared, abs=0.05)


def test_weeks_held_out_are_the_last() -> None:
    train, test = history().split(1)
    assert train.num_weeks == 3
    np.testing.assert_array_equal(test.jobs_per_hour, [[4.0, 40.0]])
    with pytest.raises(InstanceError, match="hold out from 1 to 3"):
        history().split(4)
    with pytest.raises(InstanceError, match="gap or a negative"):
        History(CLASSES, np.array([[np.nan, 1.0]]))


def expected_distance(every: list[Scenario], kept: list[Scenario]) -> float:
    """The criterion by its definition, for one class and one quarter."""
    mean = float(np.mean([s.arrivals["small"][0] for s in every]))
    return sum(
        s.probability
        * min(abs(s.arrivals["small"][0] - k.arrivals["small"][0]) / mean for k in kept)
        for s in every
    )


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(st.floats(0.1, 100), min_size=1, max_size=8),
    keep=st.integers(1, 8),
    data=st.data(),
)
def test_reduction_keeps_probability_and_each_step_is_the_best(
    rates: list[float], keep: int, data: st.DataObject
) -> None:
    keep = min(keep, len(rates))
    weights = np.array(
        data.draw(st.lists(st.floats(0.1, 1), min_size=len(rates), max_size=len(rates)))
    )
    every = [
        Scenario(str(i), float(w), {"small": (rate,)})
        for i, (rate, w) in enumerate(zip(rates, weights / weights.sum(), strict=True))
    ]
    kept = reduce_scenarios(every, keep)
    assert sum(s.probability for s in kept) == pytest.approx(1)
    assert [s.name for s in kept] == sorted({s.name for s in kept}, key=int)
    if keep == 1:
        best = min(expected_distance(every, [one]) for one in every)
        assert expected_distance(every, list(kept)) == pytest.approx(best, abs=1e-12)
    if keep == len(rates):
        assert [s.probability for s in kept] == pytest.approx([s.probability for s in every])


def test_reduction_refuses_what_it_cannot_compare() -> None:
    one = Scenario("1", 0.5, {"small": (1.0,)})
    with pytest.raises(InstanceError, match="keep from 1 to 1"):
        reduce_scenarios([one], 2)
    with pytest.raises(InstanceError, match="other job classes"):
        reduce_scenarios([one, Scenario("2", 0.5, {"large": (1.0,)})], 1)
    with pytest.raises(InstanceError, match="different lengths"):
        reduce_scenarios([one, Scenario("2", 0.5, {"small": (1.0, 2.0)})], 1)


def test_reduction_takes_spot_hosts_that_are_not_said_as_all_there() -> None:
    """Without numbers a scenario has all spot hosts; it is as near to others as with ones."""
    spots: list[tuple[float, ...]] = [(), (1.0, 1.0), (0.2, 0.1)]
    every = [Scenario(str(k), 1 / 3, {"small": (1.0, 2.0)}, spot) for k, spot in enumerate(spots)]
    kept = reduce_scenarios(every, 2)
    assert [(s.name, s.spot_availability) for s in kept] == [("0", ()), ("2", (0.2, 0.1))]
    assert [s.probability for s in kept] == pytest.approx([2 / 3, 1 / 3])
    longer = Scenario("longer", 0.5, {"small": (1.0, 2.0, 3.0, 4.0)})
    with pytest.raises(InstanceError, match="different lengths"):
        reduce_scenarios([every[2], longer], 1)


def test_many_scenarios_are_reduced_in_little_memory() -> None:
    """All differences of a thousand scenarios of 50 classes at once would take gigabytes."""
    rng = np.random.default_rng(0)
    many = [
        Scenario(str(k), 1 / 200, {f"class {j}": tuple(rng.random(8)) for j in range(25)})
        for k in range(200)
    ]
    tracemalloc.start()
    kept = reduce_scenarios(many, 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert math.fsum(scenario.probability for scenario in kept) == pytest.approx(1)
    assert peak < 10e6
