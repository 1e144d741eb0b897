"""Right-sizing: a first stage that the quarterly program proposes again, its cuts being dropped."""

from typing import Any

import numpy as np
import pytest

from alloc.backends import SolverOptions, highs
from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.problems.right_sizing import PlanningProblem
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.method import right_size


def waiving(drawn: int, num_host_types: int, num_sites: int, **shape: Any) -> PlanningProblem:
    """Return a plan with spare hosts in which scenarios may be waived."""
    return generate_planning(
        "waiving",
        num_host_types=num_host_types,
        num_sites=num_sites,
        carbon_price_per_kg=0.1,
        gpus=20.0,
        seed=drawn,
        **shape,
    )


TWO = {"failures": 2, "epsilon": 0.5}
SMALL = waiving(7, 3, 2, num_quarters=1, num_classes=2, num_scenarios=3, failures=1, epsilon=0.5)


def test_it_gets_its_cuts_back_once() -> None:
    search = Decomposition(SizingData(SMALL), Settings(60.0), 1e-4)
    assert search.run().solution is not None
    quarters, incumbent = search.relaxation.quarters, search.relaxation.incumbent
    assert incumbent is not None
    whole = np.flatnonzero(search.relaxation.first.integer)
    held = np.round(incumbent.values[whole])

    def promised() -> float:
        found = highs.solve(quarters.program((whole, held, held)), SolverOptions())
        assert found.objective is not None
        return found.objective

    quarters.rows.clear()
    quarters._idle.clear()
    assert promised() < 0.99 * incumbent.cost
    for _ in range(2):
        assert not search.candidates.try_candidate(incumbent.values, "integers")
        assert promised() == pytest.approx(incumbent.cost, rel=1e-6)
        assert len(quarters.rows) == SMALL.num_quarters


@pytest.mark.parametrize(
    ("problem", "seed"),
    [
        (waiving(85, 3, 2, num_quarters=2, num_classes=2, num_scenarios=4, bands=2, **TWO), 1),
        (waiving(102, 3, 3, num_quarters=1, num_classes=4, num_scenarios=4, bands=3, **TWO), 0),
    ],
)
def test_a_search_does_not_end_with_what_it_has_tried(problem: PlanningProblem, seed: int) -> None:
    """It ended with a gap of 0.3 to 0.6 %, thirty turns after it last tried anything new."""
    limits = Limits(seconds=60, gap=1e-6, seed=seed)
    result = right_size(problem, limits=limits, method="decomposition")
    assert result.certificate.status == "optimal"
