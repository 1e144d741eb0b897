"""The checks that catch confused units, at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from alloc import units
from alloc.errors import InstanceError, nearest

Check = Callable[..., None]
CENTURY_S = 100 * 365 * 86400

ACCEPTED: list[tuple[Check, Any]] = [
    (units.require_finite, -1e308),
    (units.require_non_negative, 0),
    (units.require_positive, 5e-324),
    (units.require_time, 0.0),
    (units.require_time, CENTURY_S),
    (units.require_slot_length, 0.001),
    (units.require_count, 0),
    (units.require_count, 1_000_000),
    (units.require_share, 0),
    (units.require_share, 10),
    (units.require_share, 10**9),
    (units.require_memory, 0),
    (units.require_memory, 64 * 2**20),
]
REFUSED: list[tuple[Check, Any, str]] = [
    (units.require_finite, math.nan, "here: gpu_x is nan; give a finite number"),
    (units.require_finite, math.inf, "here: gpu_x is inf; give a finite number"),
    (units.require_finite, 10**400, "here: gpu_x is 10+; give a finite number"),
    (units.require_non_negative, -1e-9, "here: gpu_x is -1e-09; it must be 0 or more"),
    (units.require_non_negative, math.nan, "give a finite number"),
    (units.require_positive, 0, "here: gpu_x is 0; it must be more than 0"),
    (units.require_positive, -3, "here: gpu_x is -3; it must be more than 0"),
    (units.require_positive, math.inf, "give a finite number"),
    (units.require_time, -0.5, "it must be 0 or more"),
    (units.require_time, CENTURY_S + 1, "more than a century; .* subtract Unix epochs first"),
    (units.require_slot_length, 0, "it must be more than 0"),
    (units.require_slot_length, 0.0009, "less than a millisecond; slots are given in seconds"),
    (units.require_slot_length, 1e11, "more than a century"),
    (units.require_count, -1, "here: gpu_x is -1; it must be 0 or more"),
    (units.require_count, 1_000_001, "1000001, more than a million; counts are whole things"),
    (units.require_count, 10**30, r"1e\+30, more than a million"),
    (units.require_share, 9, "9, less than 1 % of a GPU; .* write 9000 for 9 GPU"),
    (units.require_share, -1, "it must be 0 or more"),
    (units.require_share, 10**9 + 1, "more than a million GPUs; the unit is a thousandth of one"),
    (units.require_memory, 64 * 2**20 + 1, "more than 64 TiB; .* divide bytes by 1,048,576"),
    (units.require_memory, -1, "it must be 0 or more"),
]


@pytest.mark.parametrize(("check", "value"), ACCEPTED)
def test_believable_values_pass(check: Check, value: Any) -> None:
    """The edge itself belongs to the range."""
    assert check(value, "here", "gpu_x") is None


@pytest.mark.parametrize(("check", "value", "sentence"), REFUSED)
def test_confused_values_are_explained(check: Check, value: Any, sentence: str) -> None:
    """Where, which field, what came, and how to convert it."""
    with pytest.raises(InstanceError, match=sentence):
        check(value, "here", "gpu_x")


def test_cores_and_gpus_are_told_apart() -> None:
    """The cure names the unit of the field."""
    with pytest.raises(InstanceError, match=r"1 % of a core; .* write 4000 for 4 core"):
        units.require_share(4, "here", "cpu_milli")
    with pytest.raises(InstanceError, match="more than a million cores"):
        units.require_share(10**10, "here", "cpu_milli")


def test_a_count_may_have_to_be_one_or_more() -> None:
    """A task group of no tasks is no task group."""
    with pytest.raises(InstanceError, match="count is 0; it must be 1 or more"):
        units.require_count(0, "here", "count", least=1)


@pytest.mark.parametrize(
    ("name", "known", "guess"),
    [
        ("arival", ["arrival", "work"], '; did you mean "arrival"?'),
        ("colour", ["arrival", "work"], "."),
        ("x" * 101, ["x" * 101, "x" * 99], "."),
        ("x" * 100, ["x" * 101, "x" * 99], f'; did you mean "{"x" * 99}"?'),
        ("a", [], "."),
    ],
)
def test_nearest_name(name: str, known: list[str], guess: str) -> None:
    """A slip gets its cure; long names are not compared, which would take for ever."""
    assert nearest(name, known, ".") == guess


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (219_500.4, {}, "219,500"),
        (1_000_003.0, {}, "1,000,003"),
        (2.018, {}, "2.018"),
        (15.0, {}, "15"),
        (0.00005, {}, "0.00005"),
        (0.0, {}, "0"),
        (-1234.5, {}, "-1,234.5"),
        (42.521, {"digits": 4, "up": True}, "42.53"),
        (220_523.2, {"digits": 4, "up": True}, "220,524"),
        (15.0000000001, {"digits": 4, "up": True}, "15"),
        # Two missing of a billion are missing.
        (2_345_678_901.0, {"digits": 4, "up": True}, "2,345,678,901"),
        (2_345_678_901.2, {"digits": 4, "up": True}, "2,345,678,902"),
        (-42.521, {"digits": 4, "up": True}, "-42.52"),
    ],
)
def test_numbers_in_sentences_are_in_full(value: float, options: dict[str, Any], text: str) -> None:
    """Nobody reads 2.195e+05 as money; and what is said to be enough must be."""
    assert units.format_number(value, **options) == text
