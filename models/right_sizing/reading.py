"""From the values of the variables to a plan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.problems.right_sizing.accounting import hosts_in_service, usable_gpus
from alloc.problems.right_sizing.plan import Order, Plan, Rental, Share, Unserved

_LEAST = 1e-9
"""Below which a value, in its unit, is the rounding of 0."""
_TOLERANCE = 2e-7
"""GPUs that may be missing in a row because of the solver's tolerance, 1e-7, and rounding."""
_NOTICED = 5e-7
"""Part of what is due from which on it matters: half of what the checker lets pass."""


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
        Of the blocks, in their units, shape (scenarios, quarters, columns).
    """
    problem = data.problem
    waived = [
        scenario.name
        for w, scenario in enumerate(problem.scenarios)
        if len(first.waive) and values[first.waive[w]] > 0.5
    ]
    orders = tuple(read_orders(data, first, values))
    rentals = _rentals(data, blocks, running)
    running = np.where(running > _LEAST, running * blocks.scale, 0.0)
    _leave_out_crumbs(data, blocks, running)
    _serve_all_but_waived(blocks, running, [s.name in waived for s in problem.scenarios])
    _serve_the_rest(data, blocks, running)
    if data.rounded_up:
        kept = data.margins_kept(values[first.sent])
        _fit_in_pools(data, blocks, _usable(data, Plan(orders)), kept, running)
    shares = _shares(data, blocks, running)
    unserved = _unserved(data, blocks, running)
    return Plan(
        orders,
        tuple(waived),
        tuple(sorted(rentals, key=lambda r: (r.scenario, r.quarter, r.band))),
        tuple(sorted(shares, key=lambda r: (r.scenario, r.quarter, r.band))),
        tuple(sorted(unserved, key=lambda r: (r.scenario, r.quarter))),
    )


def _leave_out_crumbs(data: SizingData, blocks: Blocks, running: Array) -> None:
    """Leave out what runs of a class in a mode if it is next to nothing of what is due then.

    Of a trillion GPUs the solver's tolerance is thousands: a few of them, in a pool that has no
    others, may have no room there, and the checker measures what is missing by what is due.
    """
    due = blocks.natural_demand()
    for row, (c, b) in enumerate(blocks.demand_rows):
        modes = [k for k, mode in enumerate(data.modes) if mode.job_class == c]
        deferrable = data.problem.classes[c].deferrable
        columns = (
            blocks.columns.mode[modes] if deferrable else blocks.columns.mode[modes, b][:, None]
        )
        per_unit = np.array([data.modes[k].gpus_per_unit for k in modes])
        most = due[:, :, row, None, None] * per_unit[:, None]
        found = running[:, :, columns]
        running[:, :, columns] = np.where((found > _LEAST * most) & (most > 0), found, 0.0)


def _serve_all_but_waived(blocks: Blocks, running: Array, waived: list[bool]) -> None:
    """Leave nothing unserved in other scenarios; a solver's tolerance leaves 1e-8 of a unit."""
    short = blocks.columns.short[blocks.columns.short >= 0]
    for w in np.flatnonzero(~np.array(waived)).tolist():
        running[w][:, short] = 0.0


def _serve_the_rest(data: SizingData, blocks: Blocks, running: Array) -> None:
    """Serve what is within the solver's tolerance of nothing in a quarter, but all that comes then.

    In the mode that most of the class runs in, in that quarter or, if none does then, in any.
    """
    share = data.bands.hours / data.bands.hours.sum()
    right = blocks.natural_demand()
    for row, (c, b) in enumerate(blocks.demand_rows):
        modes = [k for k, mode in enumerate(data.modes) if mode.job_class == c]
        columns = blocks.columns.mode[modes]
        per_unit = np.array([data.modes[k].gpus_per_unit for k in modes])
        if data.problem.classes[c].deferrable:
            served = np.einsum("wtkb,b,k->wt", running[:, :, columns], share, 1 / per_unit)
        else:
            served = running[:, :, columns[:, b]] @ (1 / per_unit)
        if blocks.columns.short[c, b] >= 0:
            served = served + running[:, :, blocks.columns.short[c, b]]
        missing = right[:, :, row] - served
        small = (missing > _NOTICED * right[:, :, row]) & (missing <= _TOLERANCE)
        for w, t in np.argwhere(small).tolist():
            used = running[:, t][:, columns].sum(axis=(0, 2))
            used = used if used.any() else running[:, :, columns].sum(axis=(0, 1, 3))
            k = int(np.argmax(used))
            at = columns[k] if data.problem.classes[c].deferrable else columns[k, [b]]
            running[w, t, at] += missing[w, t] * per_unit[k]


def _usable(data: SizingData, plan: Plan) -> Array:
    """Return the firm GPUs of each pool that can be counted on, shape (pools, quarters)."""
    problem, none = data.problem, np.zeros(data.num_quarters)
    usable = usable_gpus(problem, hosts_in_service(problem, plan))
    found = [usable.get((p.gpu_type, problem.sites[p.site].name), none) for p in data.pools]
    return np.array(found).reshape(-1, data.num_quarters) / data.gpu_unit


def _fit_in_pools(
    data: SizingData, blocks: Blocks, usable: Array, margins: Array, running: Array
) -> None:
    """Leave out of firm pools what is within the solver's tolerance of the room there.

    Beside a trillion GPUs that is thousands: nothing of the demand, but not of a pool of a million.

    Parameters
    ----------
    usable
        GPUs of each pool that can be counted on, shape (pools, quarters).
    margins
        Margins that pools keep, shape (pools with one, quarters).
    running
        Of the blocks, shape (scenarios, quarters, columns); changed in place.
    """
    for p in range(len(data.pools)):
        modes = [k for k, mode in enumerate(data.modes) if mode.pool == p and not mode.spot]
        if not modes:
            continue
        columns = blocks.columns.mode[modes]
        room = np.array([data.modes[k].room for k in modes])
        need = np.einsum("wtkb,k->wtb", running[:, :, columns], room)
        have = np.broadcast_to(usable[p][:, None], need.shape).copy()
        for h, rental in enumerate(data.rental_options):
            if rental.pool == p and not rental.spot:
                have += rental.gpus * running[:, :, blocks.columns.rental[h]]
        if (p, False) in data.with_margin:
            at = data.margin_of(p, False)
            have -= margins[at][:, None] * np.array(data.margin_parts[at])
        is_over = (need > have) & (need <= have + _TOLERANCE) & (need > 0)
        part = np.maximum(have, 0.0) / np.where(is_over, need, 1.0)
        running[:, :, columns] *= np.where(is_over, part, 1.0)[:, :, None, :]


def read_orders(data: SizingData, first: FirstStage, values: Array) -> Iterator[Order]:
    """Return the orders of the values of a first stage, integers up to rounding.

    Parameters
    ----------
    data
        The numbered problem.
    first
        The columns of the first stage.
    values
        Their values, integers up to rounding.
    """
    problem = data.problem
    for k, group in enumerate(data.host_groups):
        offer, site = data.offer(group).name, problem.sites[group.site].name
        for t in range(data.num_quarters):
            column = first.order[k, t]
            count = round(float(values[column]) * data.host_unit) if column >= 0 else 0
            if count > 0:
                count += data.rounded_up
                yield Order(offer, site, t, count)


def _rentals(data: SizingData, blocks: Blocks, running: Array) -> Iterator[Rental]:
    problem = data.problem
    for h, rental in enumerate(data.rental_options):
        offer, site = problem.offers[rental.offer].name, problem.sites[rental.site].name
        found = running[:, :, blocks.columns.rental[h]]
        for w, t, b in np.argwhere(found * rental.gpus > _LEAST).tolist():
            hosts = float(found[w, t, b]) * data.gpu_unit
            yield Rental(problem.scenarios[w].name, t, b, offer, site, hosts)


def _shares(data: SizingData, blocks: Blocks, running: Array) -> Iterator[Share]:
    problem = data.problem
    for k, mode in enumerate(data.modes):
        found = running[:, :, blocks.columns.mode[k]]
        name = problem.classes[mode.job_class].name
        per_job = mode.gpus_per_unit * float(data.base[mode.job_class]) / data.gpu_unit
        site = problem.sites[data.pools[mode.pool].site].name
        for w, t, b in np.argwhere(found).tolist():
            rate = float(found[w, t, b]) / per_job
            scenario = problem.scenarios[w].name
            yield Share(scenario, t, b, name, mode.option, site, mode.spot, rate)


def _unserved(data: SizingData, blocks: Blocks, running: Array) -> Iterator[Unserved]:
    problem = data.problem
    for c, b in np.argwhere(blocks.columns.short >= 0).tolist():
        found = running[:, :, blocks.columns.short[c, b]]
        job_class = problem.classes[c]
        band = None if job_class.deferrable else b
        for w, t in np.argwhere(found).tolist():
            rate = float(found[w, t]) * data.gpu_unit / float(data.base[c])
            yield Unserved(problem.scenarios[w].name, t, band, job_class.name, rate)
