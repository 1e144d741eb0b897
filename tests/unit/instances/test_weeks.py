"""Weeks of traces: which window, which cluster, which name."""

from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.weeks import WEEK_S, WEEKS, week_options

TABLE = Path("cluster01.csv.gz")


def test_weeks_follow_each_other_without_a_gap():
    starts = [float(week_options("itp", TABLE, k, {})["start_s"]) for k in (1, 2, 3)]
    assert starts == [0.0, WEEK_S, 2 * WEEK_S]
    dates = [week_options("philly", TABLE, k, {})["start"] for k in (1, 2, 16)]
    assert dates == ["2017-09-04", "2017-09-11", "2017-12-18"]


def test_the_name_says_which_week_of_which_part():
    assert week_options("itp", TABLE, 3, {})["name"] == "itp-cluster01-week-03"
    made = week_options("philly", Path("jobs.csv"), 12, {"vc": "103959"})
    assert made["name"] == "philly-jobs-103959-week-12"


@pytest.mark.parametrize("size", ["load", "cluster_gpus", "num_hosts", "topology", "vcs"])
def test_a_size_that_is_given_counts(size):
    assert float(week_options("itp", TABLE, 1, {})["load"]) == 0.9
    made = week_options("itp", TABLE, 1, {size: "7"})
    assert made[size] == "7"
    assert made.get("load") == ("7" if size == "load" else None)


@pytest.mark.parametrize(
    ("kind", "week", "given", "message"),
    [
        ("openb", 1, {}, "is for itp and philly"),
        ("itp", 0, {}, "the weeks 1 to 9"),
        ("philly", WEEKS["philly"] + 1, {}, "the weeks 1 to 16"),
        ("itp", 1, {"start_s": "5"}, "start_s is given as well"),
        ("itp", 1, {"length_s": "5"}, "length_s is given as well"),
        ("philly", 1, {"start": "2017-09-05"}, "start is given as well"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, week, given, message):
    with pytest.raises(InstanceError, match=message):
        week_options(kind, TABLE, week, given)
