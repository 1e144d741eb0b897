"""Fronts as tables of text.

Those of plans and what-ifs are in `alloc.problems.right_sizing.plan_tables`.
"""

from __future__ import annotations

import math

from alloc.planning.fronts import Front
from alloc.problems.right_sizing.plan_tables import TextTable, money


def front_table(front: Front, currency: str) -> TextTable:
    """Return a Pareto front.

    Parameters
    ----------
    front
        Plans of which none is better in both goals.
    currency
        Its name, for the head of the table.
    """
    rows = []
    for point in front.points:
        certificate = point.result.certificate
        gap = certificate.gap
        rows.append(
            (
                _level(point.limit, "none"),
                _level(point.value, ""),
                money(point.cost) if math.isfinite(point.cost) else certificate.status,
                f"{100 * gap:.2f} %" if gap is not None and math.isfinite(gap) else "",
                "yes" if point.efficient else "no",
            )
        )
    return TextTable(
        f"Cost against {front.axis}",
        (f"at most, {front.unit}", "reached", f"cost, {currency}", "gap", "efficient"),
        tuple(rows),
        frozenset({0, 1, 2, 3}),
    )


def _level(value: float, otherwise: str) -> str:
    """Return a factor, or a number of kWh or kg, in full."""
    if not math.isfinite(value):
        return otherwise
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
