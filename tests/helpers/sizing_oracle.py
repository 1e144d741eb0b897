"""The cheapest plan of a right-sizing problem of one class by trying all orders.

For problems of the shape of `test_right_sizing.simple_problems`: hosts to buy, rented and spot
ones, one class, and the same prices in all bands of hours, so that in each of them work goes where
it is cheapest, in order of price.
"""

from __future__ import annotations

import itertools
import math

from alloc.problems.right_sizing import PlanningProblem
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.headroom import headroom, reference_gpus


def brute_force(problem: PlanningProblem, money: float = 1.0) -> float:
    """Try all orders, all scenarios to waive, and in each quarter all places to send jobs to.

    `money` is what all prices are multiplied by.
    """
    buy = problem.offers[0]
    best = math.inf
    assert buy.most_hosts is not None
    counts = range(buy.most_hosts + 1)
    waivable = [set()] if problem.epsilon < 0.5 else [set(), {"low"}, {"high"}]
    for orders in itertools.product(counts, repeat=problem.num_quarters):
        hosts = [
            sum(
                n
                for q, n in enumerate(orders)
                if q + buy.lead_time_quarters
                <= t
                < q + buy.lead_time_quarters + buy.service_quarters
            )
            for t in range(problem.num_quarters)
        ]
        if max(hosts) > (problem.sites[0].rack_units or math.inf):
            continue
        if any(
            n and q + buy.lead_time_quarters >= problem.num_quarters for q, n in enumerate(orders)
        ):
            continue
        fixed = 0.0
        for t, n in enumerate(hosts):
            idle = n * 0.1 * 1.2 * money * 0.2 * problem.quarter_hours
            spent = orders[t] * buy.price + n * money * 0.25 + idle
            fixed += problem.discount(t) * spent
            end = t + buy.lead_time_quarters + buy.service_quarters
            share = min(max(end - problem.num_quarters, 0) / buy.service_quarters, 1.0)
            worth = orders[t] * buy.price * buy.residual_fraction * share
            fixed -= problem.discount(problem.num_quarters) * worth
        for waived in waivable:
            running = sum(
                problem.discount(t)
                * min(
                    sum(
                        0.5 * serve(problem, s, t, band, n, s.name in waived, sent, money)
                        for s in problem.scenarios
                        for band in range(bands_of(problem).count)
                    )
                    for sent in itertools.product((False, True), repeat=3)
                )
                for t, n in enumerate(hosts)
            )
            best = min(best, fixed + running)
    return best


def serve(
    problem: PlanningProblem,
    scenario,
    quarter: int,
    band: int,
    hosts: int,
    waived: bool,
    sent,
    money: float = 1.0,
) -> float:
    """Return the money for a band of a quarter: sources in order of their price per job.

    `sent` says whether jobs are sent to own hosts, to rented ones, to spot hosts: each keeps its
    part of its margin in a quarter in which they are, also in a band in which none come.
    """
    job_class, gpus = problem.classes[0], reference_gpus(problem)
    hours = float(bands_of(problem).hours[band])
    rate = scenario.arrivals["work"][quarter] * float(bands_of(problem).arrivals[0, band])
    left = rate

    def room(option, spot=False):
        return headroom(problem, job_class, option, gpus, spot)

    usable = max(hosts - problem.failures, 0) * problem.offers[0].gpus
    busy_kwh = 0.3 / problem.offers[0].gpus * 1.2 * money * 0.2
    own, rented, spot = (
        part.margin * (part.bands[band] if part.bands else 1.0)
        if part.quarter in (None, quarter)
        else 0.0
        for part in problem.tightening
    )
    sources, total = [], 0.0
    if sent[0]:
        if usable < own:
            return math.inf
        sources.append((2.0 * busy_kwh, (usable - own) / room(0) / 2.0))
    if sent[1]:
        total += rented / 2 * money * 0.1 * hours
        sources.append((room(1) / 2 * money * 0.1, math.inf))
    if sent[2] and job_class.interruptible:
        total += spot * money * 0.01 * hours
        sources.append((3.0 * room(0, True) * money * 0.01, (2.0 - spot) / room(0, True) / 3.0))
    if waived:
        sources.append((job_class.loss_per_job, math.inf))
    for price, most in sorted(sources):
        served = min(left, most)
        total += served * price * hours
        left -= served
    rounding = 1e-12 * rate
    return total if left <= rounding else math.inf
