"""The fleet of a plan: how many hosts are in service, where and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from alloc.capacity.plan import Order
from alloc.capacity.problem import PlanningProblem


def hosts_in_service(
    problem: PlanningProblem, orders: Iterable[Order]
) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """Return the hosts in service by offer and site, one number for each quarter.

    Ordered hosts serve from the order plus the lead time for as many quarters as the offer says;
    owned hosts serve until they retire.
    """
    quarters = problem.num_quarters
    fleet: dict[tuple[str, str], list[int]] = {}

    def add(offer: str, site: str, first: int, until: int, count: int) -> None:
        counts = fleet.setdefault((offer, site), [0] * quarters)
        for quarter in range(first, min(until, quarters)):
            counts[quarter] += count

    for hosts in problem.owned:
        add(hosts.offer, hosts.site, 0, hosts.quarters_left, hosts.count)
    for order in orders:
        offer = problem.offers[problem.offer_index[order.offer]]
        first = order.quarter + offer.lead_time_quarters
        add(order.offer, order.site, first, first + offer.service_quarters, order.count)
    return {key: tuple(counts) for key, counts in sorted(fleet.items())}
