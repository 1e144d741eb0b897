"""The checker of plans: every limit and every claim, recomputed without a solver."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from alloc.objectives import Measure, Value
from alloc.problems.right_sizing.accounting import Moment, PlanAccount, account
from alloc.problems.right_sizing.bands import Bands, bands_of
from alloc.problems.right_sizing.headroom import headroom, reference_gpus
from alloc.problems.right_sizing.plan import Order, Plan, Rental, Share, Unserved
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.units import format_number
from alloc.verification.violation import Violation

_BOUND_TOLERANCE = 1e-5
"""How far, relatively, rounding may push a bound past a cost: HiGHS keeps rows to 1e-7 of their
size, and a plan's cost is made of thousands of them."""
PLAN_TOLERANCE = 1e-6
"""Relative excess that rounding explains: solvers work in floating point."""
_TIMES_A_BUDGET = 1e3
"""Times a budget, of all spending, of which rounding is a part: so no budget is broken by more than
a thousandth of itself."""
_LEAST_OF_SPENDING = 1e-3
"""Part of all spending, of which rounding is a part however small a budget is: a billionth of it in
all, ten times what a row may be off in HiGHS, where all spending is about a thousand units."""


def objective(name: str) -> Measure:
    """Return the objective of a plan: its expected discounted cost."""
    return Value(
        name,
        "min",
        lambda problem, plan: account(problem, plan).costs.total,
        tolerance=_BOUND_TOLERANCE,
    )


def verify_plan(problem: PlanningProblem, plan: Plan) -> list[Violation]:
    """Check a plan against every limit of its problem.

    Parameters
    ----------
    problem
        What can be had, what must be served, and within which limits.
    plan
        Orders, rentals and shares of classes.

    Returns
    -------
    list of Violation
        Empty when the plan is feasible.
    """
    bands = bands_of(problem)
    unknown = list(_check_names(problem, plan, bands))
    if unknown:
        return unknown
    totals = account(problem, plan, bands)
    scale = min(1.0, _largest_demand(problem))
    return [
        *_check_orders(problem, plan),
        *_check_rentals(problem, plan, scale),
        *_check_sites(problem, totals),
        *_check_shares(problem, plan),
        *_check_demand(problem, plan, bands),
        *_check_waived(problem, plan),
        *_check_room(totals, scale),
        *_check_carbon(problem, totals),
        *_check_budgets(problem, totals),
    ]


def _exceeds(value: float, limit: float, scale: float = 1.0) -> bool:
    return not value <= limit + PLAN_TOLERANCE * max(abs(limit), scale)


def _check_names(problem: PlanningProblem, plan: Plan, bands: Bands) -> Iterator[Violation]:
    known = {
        "offer": problem.offer_index,
        "site": problem.site_index,
        "job class": problem.class_index,
        "scenario": problem.scenario_index,
    }
    asked: list[tuple[str, str]] = [("scenario", name) for name in plan.waived]
    parts: tuple[Order | Rental | Share, ...] = (*plan.orders, *plan.rentals, *plan.shares)
    for part in parts:
        asked.append(("site", part.site))
        if not isinstance(part, Share):
            asked.append(("offer", part.offer))
    moments: tuple[Rental | Share | Unserved, ...]
    moments = (*plan.rentals, *plan.shares, *plan.unserved)
    for moment in moments:
        asked.append(("scenario", moment.scenario))
        if not 0 <= (moment.band or 0) < bands.count or moment.quarter < 0:
            yield _unknown("moment", f"band {moment.band} of quarter {moment.quarter}")
    asked += [("job class", share.job_class) for share in plan.shares]
    asked += [("job class", part.job_class) for part in plan.unserved]
    for kind, name in dict.fromkeys(asked):
        if name not in known[kind]:
            yield _unknown(kind, f'{kind} "{name}"')
    for order in plan.orders:
        if not 0 <= order.quarter < problem.num_quarters:
            yield _unknown("quarter", f"quarter {order.quarter}")
    for moment in moments:
        if moment.quarter >= problem.num_quarters:
            yield _unknown("quarter", f"quarter {moment.quarter}")
    for share in plan.shares:
        at = problem.class_index.get(share.job_class)
        if at is not None and not 0 <= share.option < len(problem.classes[at].options):
            yield _unknown("option", f'option {share.option} of job class "{share.job_class}"')


def _unknown(kind: str, name: str) -> Violation:
    return Violation("unknown", (name,), 1, kind, f"the plan names {name}, which does not exist.")


def _check_orders(problem: PlanningProblem, plan: Plan) -> Iterator[Violation]:
    ordered: dict[tuple[str, str, int], int] = defaultdict(int)
    for order in plan.orders:
        offer = problem.offers[problem.offer_index[order.offer]]
        where = f'order of "{order.offer}" for "{order.site}" in quarter {order.quarter}'
        if order.count < 1 or order.count != int(order.count):
            yield Violation(
                "count", (order.offer,), 1, "hosts", f"{where}: {order.count} is not a count"
            )
        if offer.is_hourly or not offer.at(order.site):
            yield Violation(
                "not_offered", (order.offer, order.site), 1, "", f"{where}: not offered there."
            )
        ordered[order.offer, order.site, order.quarter] += order.count
    for (name, site, quarter), count in ordered.items():
        most = problem.offers[problem.offer_index[name]].most_hosts
        if most is not None and count > most:
            yield Violation(
                "most_hosts",
                (name, site),
                count - most,
                "hosts",
                f'{count} hosts of "{name}" are ordered for "{site}" in quarter {quarter}; '
                f"{most} can be had.",
            )


def _check_rentals(problem: PlanningProblem, plan: Plan, scale: float) -> Iterator[Violation]:
    """`scale`: as for room; of a host less may be asked for than a millionth."""
    rented: dict[tuple[str, str, Moment], float] = defaultdict(float)
    for rental in plan.rentals:
        offer = problem.offers[problem.offer_index[rental.offer]]
        if not offer.is_hourly or not offer.at(rental.site):
            sentence = f'"{rental.offer}" is not rented by the hour at "{rental.site}".'
            yield Violation("not_offered", (rental.offer, rental.site), 1, "", sentence)
        if not rental.hosts >= 0:
            sentence = f'{rental.hosts} hosts of "{rental.offer}" are rented; give 0 or more.'
            yield Violation("count", (rental.offer,), 1, "hosts", sentence)
        moment = rental.scenario, rental.quarter, rental.band
        rented[rental.offer, rental.site, moment] += rental.hosts
    for (name, site, moment), hosts in rented.items():
        offer = problem.offers[problem.offer_index[name]]
        if offer.most_hosts is None:
            continue
        scenario = problem.scenarios[problem.scenario_index[moment[0]]]
        share = 1.0
        if offer.terms == "spot" and scenario.spot_availability:
            share = scenario.spot_availability[moment[1]]
        if _exceeds(hosts, offer.most_hosts * share, scale / offer.gpus):
            yield Violation(
                "most_hosts",
                (name, site),
                hosts - offer.most_hosts * share,
                "hosts",
                f'{format_number(hosts)} hosts of "{name}" are rented at "{site}" in '
                f"{_when(moment)}; "
                f"{format_number(offer.most_hosts * share)} can be had.",
            )


def _when(moment: Moment) -> str:
    return f'scenario "{moment[0]}", quarter {moment[1]}, band {moment[2]}'


def _check_sites(problem: PlanningProblem, totals: PlanAccount) -> Iterator[Violation]:
    for site in problem.sites:
        for field, unit in (("rack_units", "rack units"), ("ports", "ports"), ("power_kw", "kW")):
            limit = getattr(site, field)
            if limit is None:
                continue
            for quarter in range(problem.num_quarters):
                used = 0.0
                for (name, at), count in totals.hosts.items():
                    if at != site.name:
                        continue
                    offer = problem.offers[problem.offer_index[name]]
                    used += float(count[quarter]) * offer.takes_up(field, site.pue)
                if _exceeds(used, limit):
                    yield Violation(
                        field,
                        (site.name,),
                        used - limit,
                        unit,
                        f'site "{site.name}" needs {format_number(used)} {unit} in quarter '
                        f"{quarter} and has {format_number(limit)}.",
                    )


def _check_shares(problem: PlanningProblem, plan: Plan) -> Iterator[Violation]:
    pool_gpus = reference_gpus(problem)
    seen: set[tuple[str, int, str, bool]] = set()
    for share in plan.shares:
        if not share.jobs_per_hour >= 0:
            sentence = f'{share.jobs_per_hour} jobs per hour of "{share.job_class}" are no rate.'
            yield Violation("rate", (share.job_class,), 1, "jobs/h", sentence)
        kind = share.job_class, share.option, share.site, share.spot
        if kind in seen:
            continue
        seen.add(kind)
        job_class = problem.classes[problem.class_index[share.job_class]]
        where = f'job class "{share.job_class}"'
        if not job_class.at(share.site):
            sentence = f'{where} runs at "{share.site}", where its data may not lie.'
            yield Violation("residency", (share.job_class, share.site), 1, "", sentence)
        if share.spot and not job_class.interruptible:
            sentence = f"{where} runs on spot hosts and is not interruptible."
            yield Violation("interruptible", (share.job_class,), 1, "", sentence)
        if headroom(problem, job_class, share.option, pool_gpus, share.spot) is None:
            sentence = f"{where}: option {share.option} takes longer than its goal."
            yield Violation("goal", (share.job_class,), 1, "", sentence)


def _check_demand(problem: PlanningProblem, plan: Plan, bands: Bands) -> Iterator[Violation]:
    """Every job is served, or a waived scenario says that it is not."""
    share_of = bands.hours / bands.hours.sum()
    served: dict[tuple[str, int, int | None, str], float] = defaultdict(float)
    for share in plan.shares:
        job_class = problem.classes[problem.class_index[share.job_class]]
        band = None if job_class.deferrable else share.band
        rate = share.jobs_per_hour * (float(share_of[share.band]) if band is None else 1.0)
        served[share.scenario, share.quarter, band, share.job_class] += rate
    for part in plan.unserved:
        served[part.scenario, part.quarter, part.band, part.job_class] += part.jobs_per_hour
    for scenario in problem.scenarios:
        for c, job_class in enumerate(problem.classes):
            for quarter, rate in enumerate(scenario.arrivals[job_class.name]):
                for band in [None] if job_class.deferrable else range(bands.count):
                    due = rate if band is None else rate * float(bands.arrivals[c, band])
                    key = scenario.name, quarter, band, job_class.name
                    if _exceeds(due, served.get(key, 0.0), due):
                        when = "" if band is None else f", band {band}"
                        yield Violation(
                            "demand",
                            (job_class.name, scenario.name),
                            due - served.get(key, 0.0),
                            "jobs/h",
                            f'job class "{job_class.name}" has {format_number(due)} jobs per hour '
                            f'in scenario "{scenario.name}", quarter {quarter}{when}, and '
                            f"{format_number(served.get(key, 0.0))} are served.",
                        )


def _check_waived(problem: PlanningProblem, plan: Plan) -> Iterator[Violation]:
    chance = math.fsum(
        problem.scenarios[problem.scenario_index[name]].probability for name in set(plan.waived)
    )
    if chance > problem.epsilon + PLAN_TOLERANCE:
        yield Violation(
            "epsilon",
            tuple(plan.waived),
            chance - problem.epsilon,
            "probability",
            f"the scenarios waived have probability {chance:g}; {problem.epsilon:g} is allowed.",
        )
    for part in plan.unserved:
        job_class = problem.classes[problem.class_index[part.job_class]]
        where = f'job class "{part.job_class}" is not served in scenario "{part.scenario}"'
        if not part.jobs_per_hour >= 0:
            yield Violation("rate", (part.job_class,), 1, "jobs/h", f"{where} at no valid rate.")
        if part.scenario not in plan.waived:
            sentence = f"{where}, which is not waived."
            yield Violation(
                "not_waived",
                (part.job_class, part.scenario),
                part.jobs_per_hour,
                "jobs/h",
                sentence,
            )
        elif job_class.critical:
            sentence = f"{where}, and it is critical."
            yield Violation(
                "critical", (part.job_class, part.scenario), part.jobs_per_hour, "jobs/h", sentence
            )
        if (part.band is None) != job_class.deferrable:
            sentence = f"{where} in band {part.band}; only deferrable classes name no band."
            yield Violation("band", (part.job_class,), 1, "", sentence)


def _largest_demand(problem: PlanningProblem) -> float:
    """Return the GPUs that all jobs keep busy in the scenario and quarter with most."""
    least = {c.name: min(o.gpu_hours for o in c.options) for c in problem.classes}
    return max(
        sum(s.arrivals[name][t] * least[name] for name in least)
        for s in problem.scenarios
        for t in range(problem.num_quarters)
    )


def _check_room(totals: PlanAccount, scale: float) -> Iterator[Violation]:
    """`scale`: GPUs to a millionth of which room is looked at, where less is asked for."""
    for key, need in totals.room.items():
        moment, gpu_type, site, spot = key
        have = totals.rented.get(key, 0.0)
        if not spot and (gpu_type, site) in totals.usable:
            have += float(totals.usable[gpu_type, site][moment[1]])
        if _exceeds(need, have, scale):
            what = "spot hosts" if spot else "firm hosts"
            yield Violation(
                "room",
                (gpu_type, site),
                need - have,
                "GPUs",
                f'{format_number(need)} GPUs "{gpu_type}" are needed on {what} at "{site}" in '
                f"{_when(moment)}, and {format_number(have)} can be counted on.",
            )


def _check_carbon(problem: PlanningProblem, totals: PlanAccount) -> Iterator[Violation]:
    # Of what rounding is a part: a cap of 0 has no size of its own.
    scale = float(abs(totals.carbon_kg).max(initial=0.0))
    for quarter, cap in enumerate(problem.carbon_caps_kg):
        for w, scenario in enumerate(problem.scenarios):
            mass = float(totals.carbon_kg[w, quarter])
            if _exceeds(mass, cap, scale):
                yield Violation(
                    "carbon",
                    (scenario.name,),
                    mass - cap,
                    "kg",
                    f'scenario "{scenario.name}" emits {format_number(mass)} kg in quarter '
                    f"{quarter}; the cap is {format_number(cap)} kg.",
                )


def _check_budgets(problem: PlanningProblem, totals: PlanAccount) -> Iterator[Violation]:
    # Of what rounding is a part: a budget of 0 has no size of its own.
    scale = float(abs(totals.spent).sum())
    limits = [
        (f"quarter {quarter}", float(totals.spent[quarter]), budget)
        for quarter, budget in enumerate(problem.quarter_budgets)
    ]
    if problem.budget is not None:
        limits.append(("all quarters", float(totals.spent.sum()), problem.budget))
    for when, spent, limit in limits:
        # Nor is a small one to be broken by a part of what other quarters spend.
        size = max(_TIMES_A_BUDGET * limit, _LEAST_OF_SPENDING * scale) if limit > 0 else scale
        if _exceeds(spent, limit, min(size, scale)):
            yield Violation(
                "budget",
                (),
                spent - limit,
                problem.currency,
                f"{format_number(spent)} {problem.currency} are spent in {when}; the budget is "
                f"{format_number(limit)}.",
            )
