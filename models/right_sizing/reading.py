"""From the values of the variables to a plan."""

from __future__ import annotations

import numpy as np

from alloc.capacity.plan import Order, Plan, Rental, Share, Unserved
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import FirstStage

_LEAST = 1e-9
"""GPUs below which a value is the rounding of 0."""


def read_plan(
    data: SizingData, first: FirstStage, blocks: Blocks, values: Array, running: Array
) -> Plan:
    """Return the plan of some values.

    Parameters
    ----------
    data, first, blocks
        The problem and its two stages.
    values
        Of the first stage, integers up to rounding, shape (columns,).
    running
        Of the blocks, shape (scenarios, quarters, columns).
    """
    problem = data.problem
    orders = [
        Order(
            data.offer(stand).name,
            problem.sites[stand.site].name,
            t,
            round(float(values[first.order[k, t]])),
        )
        for k, stand in enumerate(data.stands)
        for t in range(data.num_quarters)
        if first.order[k, t] >= 0 and round(float(values[first.order[k, t]])) > 0
    ]
    waived = [
        scenario.name
        for w, scenario in enumerate(problem.scenarios)
        if len(first.waive) and values[first.waive[w]] > 0.5
    ]
    rentals, shares, unserved = [], [], []
    names = [scenario.name for scenario in problem.scenarios]
    for h, hire in enumerate(data.hires):
        offer, site = problem.offers[hire.offer].name, problem.sites[hire.site].name
        found = running[:, :, blocks.columns.hire[h]]
        for w, t, b in np.argwhere(found * hire.gpus > _LEAST).tolist():
            rentals.append(Rental(names[w], t, b, offer, site, float(found[w, t, b])))
    for k, way in enumerate(data.ways):
        found = running[:, :, blocks.columns.way[k]]
        job_class = problem.classes[way.job_class]
        per_job = way.gpus_per_unit * float(data.base[way.job_class])
        site = problem.sites[data.pools[way.pool].site].name
        for w, t, b in np.argwhere(found > _LEAST).tolist():
            rate = float(found[w, t, b]) / per_job
            shares.append(Share(names[w], t, b, job_class.name, way.option, site, way.spot, rate))
    for c, b in np.argwhere(blocks.columns.short >= 0).tolist():
        found = running[:, :, blocks.columns.short[c, b]]
        job_class = problem.classes[c]
        band = None if job_class.deferrable else b
        for w, t in np.argwhere(found > _LEAST).tolist():
            rate = float(found[w, t]) / float(data.base[c])
            unserved.append(Unserved(names[w], t, band, job_class.name, rate))
    return Plan(
        tuple(orders),
        tuple(waived),
        tuple(sorted(rentals, key=lambda r: (r.scenario, r.quarter, r.band))),
        tuple(sorted(shares, key=lambda r: (r.scenario, r.quarter, r.band))),
        tuple(sorted(unserved, key=lambda r: (r.scenario, r.quarter))),
    )
