"""Bounds on placements, for every instance and every level of a goal.

The bound is the Lagrangian of `alloc.solving.placement.patterns` at the best prices found,
evaluated in plain numpy for all hosts: nothing a linear programming solver says is believed, it
only suggests prices. Branching on gangs (`alloc.solving.placement.branching`) sharpens it, and so
do two roundings.

Values lie on a lattice: if the goal counts GPUs, hosts and moves only, every value is a multiple of
the greatest common divisor of the weights, and so may the bound be.

Hosts are whole: let v(s) be the bound with the weight W of gpu_hosts_used multiplied by s. A
placement that uses n hosts costs at least v(s) + (1 - s) W n, for every s. The least over the
whole numbers n of the best over s is a bound; the linear relaxation uses a fraction of a host.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np

from alloc.certificate import BoundProof
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum
from alloc.solving.placement.branching import OnLeaving, branch_on_gangs, leaving
from alloc.solving.placement.clock import Clock, timer
from alloc.solving.placement.pattern_master import Generated, generate, undecided_holds
from alloc.solving.placement.patterns import Patterns, lagrangian
from alloc.solving.placement.pricing import Pricing
from alloc.solving.placement.relaxation import Relaxation, Weights, relax
from alloc.solving.placement.sampling import choose_sample, restrict, sampled_prices

_COUNTING = {"gpus_placed", "moves", "gpu_hosts_used", "hosts_used", "whole_hosts_free"}
"""Objectives whose values are whole numbers."""
MAX_WORK = 2.5e9
"""Cells of tables filled in one evaluation of prices, some ten seconds, up to which patterns are
priced. It does not depend on the time left: else a longer limit would do other things first."""
QUICK_WORK = 5e8
"""Cells filled for a bound that is to be there at once, half a second or a whole one."""
_MAX_UNDECIDED = 100
"""Gangs that stay in part up to which branching moves the bound: it takes a node for each."""
_MAX_COUNTED = 200
"""Hosts up to which counting whole ones is worth while: it gains less than one."""
_ROUGH_SAMPLE = 40
"""Hosts on which rates of prices are tried: prices hardly depend on their number, the time does."""
_ROUGH_STEPS = (1.0, 0.5, 0.25)
"""By what rates of prices change, in what a full host costs: each round halves the step."""
_LINKED_WIDTH = 0.05
"""First width of the box of prices when gangs are held together host by host: it starts close."""
_LINKED_ROUNDS = 12
"""Rounds of pricing for that: later ones gain little."""
_LATTICE_TOLERANCE = 1e-7
"""Part of a bound, and of a step, that counts as rounding: a bound by so little above a value of
the lattice is not rounded up to the next one."""
_FACTORS = 12
"""Most weights of hosts that are tried: each takes a column generation of its own."""
_PATIENCE = 3
"""Weights in a row that gain little, after which no other is tried: one or two may be chosen
badly."""
_WORTHWHILE = 1e-4
"""Share of the bound below which a gain counts as little."""


def placement_bound(
    data: PlacementData,
    level: WeightedSum,
    seconds: float,
    report: Callable[[str], None],
    *,
    max_work: float = math.inf,
    max_rounds: float = math.inf,
    max_steps: int | None = None,
) -> tuple[float, BoundProof]:
    """Return a bound that no placement of an instance passes.

    Parameters
    ----------
    data
        The numbers of the instance.
    level
        A level of the goal, by itself: levels before it are relaxed.
    seconds
        Wall time, seconds. It may be passed by the table that is being filled.
    report
        Takes a line of progress.
    max_work
        Cells of tables filled in one evaluation of prices up to which patterns are priced.
    max_rounds
        Most rounds of pricing on all hosts.
    max_steps
        Most steps that make the bound of the prices sharper; None: until there is none left.

    Returns
    -------
    bound
        A lower bound when the level is minimised, an upper bound when it is maximised; infinite
        where a term (a bandwidth) has none.
    proof
        ``"recomputed"``, or ``"none"`` for an infinite bound.
    """
    weights = Weights.read(level, data.instance)
    least = -math.inf
    if math.isfinite(weights.constant):
        relaxation, clock = relax(data, weights), timer(seconds)
        least = _least_cost(
            relaxation,
            weights,
            clock,
            report,
            max_work=max_work,
            max_rounds=max_rounds,
            max_steps=max_steps,
        )
        if not any(term.sense == "max" for _, term in level.terms):
            least = max(least, 0.0)
        least = round_up_to_grain(least, level, data)
    if not math.isfinite(least):
        return (math.inf if level.sense == "max" else -math.inf), "none"
    return (-least if level.sense == "max" else least), "recomputed"


def pattern_prices(
    patterns: Patterns,
    clock: Clock,
    report: Callable[[str], None],
    on_round: Callable[[float], None] | None = None,
    max_work: float = math.inf,
    max_rounds: float = math.inf,
) -> Generated | None:
    """Return the patterns and prices of a whole cluster, or None if an evaluation takes too long.

    Parameters
    ----------
    patterns
        The program.
    clock
        Tells the seconds left.
    report
        Takes a line of progress.
    on_round
        Called after each round with the best bound so far.
    max_work, max_rounds
        As of `placement_bound`.

    Raises
    ------
    OutOfTime
        If time is up before there is a bound.
    """
    if Pricing(patterns, clock).work > min(max_work, MAX_WORK):
        report("the hosts are too many or too different to price patterns")
        return None
    prices, width = sampled_prices(patterns, clock, report)
    return generate(
        patterns, prices, clock, report, width=width, on_round=on_round, max_rounds=max_rounds
    )


def _least_cost(
    relaxation: Relaxation,
    weights: Weights,
    clock: Clock,
    report: Callable[[str], None],
    *,
    max_work: float,
    max_rounds: float,
    max_steps: int | None,
) -> float:
    """Return a lower bound on the level in minimisation."""
    patterns = relaxation.patterns
    least = trivial_bound(patterns)
    with suppress(OutOfTime):
        found = pattern_prices(patterns, clock, report, max_work=max_work, max_rounds=max_rounds)
        if found is None:
            return least
        least = max(least, found.bound)
        report(f"patterns: bound {least:.4f}{', converged' if found.converged else ''}")
        for bound in islice(sharper_bounds(patterns, found, weights, clock, report), max_steps):
            least = max(least, bound)
    return least


def sharper_bounds(
    patterns: Patterns,
    found: Generated,
    weights: Weights,
    clock: Clock,
    report: Callable[[str], None],
    *,
    target: Callable[[], float] = lambda: math.inf,
    on_leaving: OnLeaving = lambda _: None,
) -> Iterator[float]:
    """Yield bounds above that of the prices: by whole gangs, whole hosts, branching on gangs.

    The first holds gangs together host by host, (P6).

    Parameters
    ----------
    patterns
        The program.
    found
        Its prices and patterns.
    weights
        The goal.
    clock
        Tells the seconds left.
    report
        Takes a line of progress.
    target
        Tells the value of the best placement, in minimisation: no bound above it is looked for.
    on_leaving
        Takes the gangs that leave, at least in part, where the bound is reached.

    Raises
    ------
    OutOfTime
        If time is up.
    """
    if not found.converged:
        return
    linked = replace(patterns, holds=undecided_holds(patterns, found))
    again = generate(
        linked,
        found.prices,
        clock,
        report,
        width=_LINKED_WIDTH,
        tolerance=1e-3,
        known=found.columns,
        max_rounds=_LINKED_ROUNDS,
    )
    on_leaving(leaving(linked, again))
    yield again.bound
    if again.stopped:
        raise OutOfTime
    few = patterns.num_hosts <= _MAX_COUNTED
    if (
        few
        and weights.of["gpu_hosts_used"] > 0
        and not any(weights.of[name] for name in ("balance", "hosts_used", "whole_hosts_free"))
    ):
        yield from _whole_hosts_bounds(
            patterns, found, weights, clock, report, target=target, on_leaving=on_leaving
        )
        return
    undecided = int(((again.stays > 1e-4) & (again.stays < 1.0 - 1e-4)).sum())
    if undecided <= _MAX_UNDECIDED:
        yield from branch_on_gangs(
            linked, again, clock, report, target=target, on_leaving=on_leaving
        )


def trivial_bound(patterns: Patterns) -> float:
    """Return the bound without prices and tables: pinned tasks cost, everything else pays."""
    pays = float((np.minimum(patterns.charge, 0.0) * patterns.most).sum())
    pays += sum(
        float((np.minimum(patterns.charge[stay.items], 0.0) * stay.counts).sum())
        for stay in patterns.stays
    )
    stands = 0.0
    for k, kind in enumerate(patterns.kinds):
        mine = patterns.base[patterns.kind_of == k]
        stands += float(kind.cost[tuple(mine.T)].sum())
    return patterns.constant + pays + stands - 1e-12 * (abs(pays) + abs(stands))


def rough_bounds(patterns: Patterns, clock: Clock, max_work: float = math.inf) -> Iterator[float]:
    """Yield bounds of prices in proportion to a task's share of a host in each resource.

    They are had in a few evaluations on a sample of the hosts and one on all, but may reach only
    half of what a price for each item does.

    Parameters
    ----------
    patterns
        The program.
    clock
        Tells the seconds left.
    max_work
        Cells of tables filled up to which it is done at all.

    Raises
    ------
    OutOfTime
        If time is up.
    """
    sample = patterns
    if patterns.num_hosts > _ROUGH_SAMPLE:
        sample = restrict(patterns, choose_sample(patterns, _ROUGH_SAMPLE))
    pricing, whole = Pricing(sample, clock), Pricing(patterns, clock)
    num_rates = patterns.demand.shape[1]
    tries = list(itertools.product(_ROUGH_STEPS, range(num_rates), (1.0, -1.0)))
    if len(tries) * pricing.work + whole.work > max_work:
        return
    largest = np.max([kind.cost.shape for kind in patterns.kinds], axis=0) - 1
    share = patterns.demand / np.maximum(largest, 1)
    # A price of all that a full host holds is at most what that costs, about.
    full = max(float(kind.cost.max()) for kind in patterns.kinds)

    def at(program: Patterns, pricing: Pricing, rates: Array) -> float:
        prices = share @ rates
        return lagrangian(program, prices, 0.0, pricing.solve(prices).value)

    rates = np.zeros(num_rates)
    best = at(sample, pricing, rates)
    for step, r, sign in tries:
        there = rates.copy()
        there[r] += sign * step * full
        if there[r] >= 0 and (value := at(sample, pricing, there)) > best:
            best, rates = value, there
    yield best if sample is patterns else at(patterns, whole, rates)


def _whole_hosts_bounds(
    patterns: Patterns,
    found: Generated,
    weights: Weights,
    clock: Clock,
    report: Callable[[str], None],
    *,
    target: Callable[[], float] = lambda: math.inf,
    on_leaving: OnLeaving = lambda _: None,
) -> Iterator[float]:
    """Yield better and better bounds that know that a whole number of hosts is used.

    When no other weight of hosts helps, branching on gangs raises the bound at the number of hosts
    where it is least, at the weight that is best there.

    Parameters
    ----------
    patterns
        A program whose f is the weight of gpu_hosts_used on each host that holds a GPU.
    found
        Its prices and patterns.
    weights
        The goal.
    clock
        Tells the seconds left.
    report
        Takes a line of progress.
    target
        Tells the value of the best placement, in minimisation: no bound above it is looked for.
    on_leaving
        As of `sharper_bounds`.
    """
    weight = weights.of["gpu_hosts_used"]
    numbers = np.arange(patterns.num_hosts + 1)
    best = np.full(len(numbers), found.bound)
    tried = {1.0: _hosts_used(patterns, found)}
    at_weight, best_weight = {1.0: found}, np.ones(len(numbers))
    prices, idle = found.prices, 0  # at weight 1
    for _ in range(_FACTORS):
        n = int(best.argmin())
        factor = _next_factor(tried, n)
        if factor is None or idle == _PATIENCE:
            break
        before = best.min()
        # Prices are mostly shares of a host, and grow with what it costs.
        again = generate(patterns.scaled(factor), factor * prices, clock, report, width=0.05)
        if again.stopped:
            raise OutOfTime
        if again.converged:
            prices = again.prices / factor
        tried[factor] = _hosts_used(patterns, again)
        at_weight[factor] = again
        reached = again.bound + (1.0 - factor) * weight * numbers
        best_weight = np.where(reached > best, factor, best_weight)
        best = np.maximum(best, reached)
        idle = idle + 1 if best.min() < before + _WORTHWHILE * abs(before) else 0
        report(f"hosts weighed {factor:.3g}: bound {best.min():.4f} at {int(best.argmin())} hosts")
        yield float(best.min())
    trees: dict[float, Iterator[float]] = {}
    while best.min() < target():
        factor = float(best_weight[best.argmin()])
        if factor not in trees:
            scaled, again = patterns.scaled(factor), at_weight[factor]
            trees[factor] = branch_on_gangs(
                scaled, again, clock, lambda _: None, on_leaving=on_leaving
            )
        bound = next(trees[factor], None)
        if bound is None:
            return
        best = np.maximum(best, bound + (1.0 - factor) * weight * numbers)
        yield float(best.min())


def _hosts_used(patterns: Patterns, found: Generated) -> float:
    """Return how many hosts the linear relaxation uses."""
    columns = found.columns
    demand = patterns.demand[:, 0]
    used = (columns.counts @ demand + patterns.base[columns.host, 0]) > 0
    return float(found.share @ used)


def _next_factor(tried: dict[float, float], n: int) -> float | None:
    """Return the weight of hosts next to try for a bound on placements with n hosts.

    The bound is concave in the weight: at each one tried it rises towards larger weights if the
    relaxation uses more than n hosts, and towards smaller ones if it uses fewer.
    """
    above = [factor for factor, used in tried.items() if used > n + 1e-6]
    below = [factor for factor, used in tried.items() if used < n - 1e-6]
    if len(above) + len(below) < len(tried):
        return None  # the best weight for n is among those tried
    if not below:
        return 2.0 * max(above) if max(above) < 1e3 else None
    if not above:
        return 0.5 * min(below) if min(below) > 1e-3 else None
    low, high = max(above), min(below)
    return None if high < 1.05 * low else math.sqrt(low * high)


def round_up_to_grain(least: float, level: WeightedSum, data: PlacementData) -> float:
    """Return the least value of a level, in minimisation, that a bound allows.

    Parameters
    ----------
    least
        A bound on the level, in minimisation; it may be infinite.
    level
        The level of the goal, whose weights make the lattice.
    data
        The instance, whose job weights do too.
    """
    steps = []
    for weight, term in level.terms:
        if term.name in _COUNTING:
            steps.append(Fraction(repr(float(weight))))
        elif term.name == "weight_placed":
            job_weights = {Fraction(repr(float(job.weight))) for job in data.instance.jobs}
            steps += [Fraction(repr(float(weight))) * w for w in job_weights if w]
        else:
            return least
    if not steps or not math.isfinite(least):
        return least
    denominator = math.lcm(*(step.denominator for step in steps))
    step = math.gcd(*(int(step * denominator) for step in steps)) / denominator
    if step < 1e-5 * max(1.0, abs(least)):
        return least  # too fine to tell from rounding
    return max(least, step * math.ceil(least / step - _LATTICE_TOLERANCE * max(1.0, abs(least))))
