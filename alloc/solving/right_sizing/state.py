"""What the methods of right-sizing have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import SizingData

Watch = Callable[[str], None]
"""Takes a line of progress."""
BACKEND = "alloc right-sizing + HiGHS"


def linear_relaxation(model: ArrayModel) -> ArrayModel:
    """Return a model without its demand for whole numbers."""
    return replace(model, integer=np.zeros(len(model.cost), dtype=bool))


def money_unit(data: SizingData) -> float:
    """Return a unit of money in which costs are neither huge nor tiny for a solver.

    The expected demand, each GPU-hour at the geometric mean of the prices of a GPU-hour, is a
    thousand units: a currency of other size, or much less demand, gives the solver the same
    numbers.
    """
    prices = []
    for offer in data.problem.offers:
        hours = 1.0 if offer.is_hourly else data.problem.quarter_hours
        if offer.terms == "purchase":
            hours *= min(offer.service_quarters, data.num_quarters)
        prices.append(offer.price / offer.gpus / hours)
    known = [price for price in prices if price > 0]
    if not known:
        return 1.0
    gpus = float(np.tensordot(data.probability, data.demand, axes=1).sum()) * data.gpu_unit
    price = float(np.exp(np.mean(np.log(known))))
    return gpus * data.problem.quarter_hours * price / 1000.0 if gpus > 0 else 1.0
