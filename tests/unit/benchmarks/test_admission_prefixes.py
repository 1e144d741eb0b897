"""The prefixes of a trace on which one policy has accepted less value than another."""

from __future__ import annotations

import pytest

from alloc.problems.allocation.solution import Run, Schedule
from benchmarks.admission import first_prefix_with_less, queue_of_tables

MADE = queue_of_tables(0, 4, at_once=False)
ORDER = sorted(MADE.jobs, key=lambda job: job.arrival_s)


def accepting(*positions: int) -> Schedule:
    """Return a schedule of some jobs, by their place in order of arrival."""
    return Schedule(tuple(Run(ORDER[k].id, 0, 0.0, 1.0) for k in positions))


@pytest.mark.parametrize(
    ("less", "more", "first"),
    [((0, 1), (0, 1), None), ((0, 1, 2, 3), (), None), ((1,), (0,), 1), ((0, 1), (0, 1, 3), 4)],
)
def test_the_first_prefix_with_less(
    less: tuple[int, ...], more: tuple[int, ...], first: int | None
) -> None:
    """Counted in jobs that have arrived."""
    assert first_prefix_with_less(MADE, accepting(*less), accepting(*more)) == first


def test_a_lead_is_used_up_by_value() -> None:
    """The same numbers of jobs, and other weights."""
    heavy = max(range(4), key=lambda k: ORDER[k].weight)
    light = min(range(4), key=lambda k: ORDER[k].weight)
    found = first_prefix_with_less(MADE, accepting(light), accepting(heavy))
    assert found == heavy + 1


def test_jobs_of_one_slot_are_one_step() -> None:
    """The first of a slot may be passed over for the second, which is worth more."""
    assert MADE.slot_s is not None
    first, second = ORDER[:2]
    # Both half a slot after a boundary: they are decided on at the next.
    together = tuple(job.replace(arrival_s=0.5 * MADE.slot_s) for job in (first, second))
    made = MADE.replace(jobs=together)
    light, heavy = sorted(together, key=lambda job: job.weight)
    of_light, of_heavy = (Schedule((Run(job.id, 0, 0.0, 1.0),)) for job in (light, heavy))
    assert light.weight < heavy.weight
    assert first_prefix_with_less(made, of_heavy, of_light) is None
    assert first_prefix_with_less(made, of_light, of_heavy) == 2
