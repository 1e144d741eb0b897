"""Random quota problems: ``from quota_strategies import quota_problems``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from quota_problems import GPU, a_quota_problem

from alloc.problems.quota_planning.problem import GpuAmount, QuotaProblem, QuotaTenant


@st.composite
def quota_problems(draw: st.DrawFn) -> QuotaProblem:
    """Draw problems of two or three tenants, some in a cohort, some with weights and floors."""
    number = draw(st.integers(2, 3))
    weights = draw(st.sampled_from([(1.0, 1.0, 1.0), (1.0, 2.0, 3.0)]))
    tenants = []
    for i in range(number):
        cohort = draw(st.sampled_from(["c", "c", None]))
        floor = draw(st.sampled_from([0, 0, 1]))
        tenants.append(
            QuotaTenant(
                f"t{i}",
                cohort,
                0 if cohort is None else draw(st.sampled_from([0, 1, 5])) * GPU,
                weights[i],
                (GpuAmount("a100", GPU),) if floor else (),
                draw(st.sampled_from([0.0, 0.4])),
            )
        )
    demands = draw(
        st.lists(st.lists(st.integers(0, 4), min_size=number, max_size=number),
                 min_size=1, max_size=3)
    )  # fmt: skip
    goal: Any = draw(
        st.sampled_from(["expected_shortfall", "fair_service", "fair_coverage", "least_quota"])
    )
    return a_quota_problem(tenants, demands, draw(st.integers(1, 6)), goal)
