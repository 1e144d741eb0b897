"""The registry: names, options, and what a policy must say about itself."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import get_args

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.schedulers import SCHEDULERS, Knowledge, make_scheduler, registry, scheduler_names


@pytest.mark.parametrize("name", SCHEDULERS)
def test_policy_describes_itself(name: str) -> None:
    """The comparison prints name, needs and information beside each policy."""
    policy = make_scheduler(name)
    assert policy.name == name
    assert policy.needs in get_args(Knowledge)
    assert policy.information
    policy.reset()


def test_misspelled_names_and_options_are_helped() -> None:
    """A typo gets the nearest name, not a traceback."""
    with pytest.raises(InstanceError, match=r'unknown scheduler "optimsu"; did you mean "optimus"'):
        make_scheduler("optimsu")
    with pytest.raises(InstanceError, match=r'drf has no option "skipp"; did you mean "skip"'):
        make_scheduler("drf", skipp=True)
    with pytest.raises(InstanceError, match=r'exact-goodput has no option "x"; it takes none'):
        make_scheduler("exact-goodput", x=1)
    with pytest.raises(InstanceError, match=r'unknown scheduler "zzzz"\. Known: fifo'):
        make_scheduler("zzzz")
    with pytest.raises(InstanceError, match=r'by is "zzzz"\. It must be'):
        make_scheduler("srtf", by="zzzz")
    with pytest.raises(InstanceError, match=r'by is "tiem"; did you mean "time"'):
        make_scheduler("srtf", by="tiem")
    with pytest.raises(InstanceError, match="threshold_gpu_s is 0; it must be more than 0"):
        make_scheduler("las", threshold_gpu_s=0.0)


def test_other_packages_can_announce_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a name, and cannot take one of ours."""
    points = [
        EntryPoint("theirs", "alloc.schedulers.fifo:Fifo", registry.ENTRY_POINTS),
        EntryPoint("drf", "nowhere:Nothing", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr("alloc.plugins._points", lambda group: tuple(points))
    assert scheduler_names() == (*SCHEDULERS, "theirs")
    assert make_scheduler("theirs").name == "fifo"
    assert make_scheduler("drf").name == "drf"


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("rollout", {"moves": "abc"}, 'moves is "abc"; it must be a whole number'),
        ("rollout", {"moves": 1.5}, "it must be a whole number"),
        ("rollout", {"moves": True}, "it must be a whole number"),
        ("rollout", {"gap": "x"}, "it must be a number"),
        ("rolling-horizon", {"max_jobs": "all"}, "it must be a whole number or null"),
        ("rolling-horizon", {"fallback": 3}, "it must be text"),
        ("srtf", {"by": 3}, "it must be text"),
    ],
)
def test_an_option_of_another_type_is_refused_in_words(
    name: str, options: dict[str, object], wanted: str
) -> None:
    """Options are typed by people; a TypeError of Python's is not an answer to a typo."""
    with pytest.raises(InstanceError, match=wanted):
        make_scheduler(name, **options)


def test_numbers_of_numpy_are_numbers() -> None:
    make_scheduler("rollout", moves=np.int64(3), gap=np.float64(0.01))
    make_scheduler("rolling-horizon", max_jobs=None, time_limit_s=1)
