"""The Pyomo model of right-sizing: the extensive form in Pyomo, as the page of mathematics has it.

In jobs per hour, with energy by kind of host; only bands and headroom are those of the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.timed import TimedModel
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.headroom import (
    KEPT_OUT,
    headroom,
    margin_parts,
    margins,
    reference_gpus,
    tightening_factors,
)
from alloc.problems.right_sizing.offers import HostOffer
from alloc.problems.right_sizing.plan import Order, Plan, Rental, Share, Unserved
from alloc.problems.right_sizing.problem import PlanningProblem

_LEAST = 1e-9
"""GPUs, or jobs per hour, below which a value is the rounding of 0."""
_PROBABILITY = 1e-9
"""By how much probabilities written with few digits may miss epsilon."""


def pyomo_model(problem: PlanningProblem) -> Any:
    """Return the Pyomo ``ConcreteModel`` of a planning problem, to read, extend and solve.

    What is below the tolerance of a solver, 1e-6 in most, is 0 to it. Jobs count per hour here, so
    rare classes may go unserved and the checker refuses the plan; arrays have their own units.
    """
    return _Formulas(problem).build()


def build_pyomo(problem: PlanningProblem, objective: str = "cost") -> BuiltModel:
    """Return the extensive form in Pyomo, with the way back to a plan.

    Parameters
    ----------
    problem, objective
        The problem, whose goal says what is optimised; the only objective is `cost`.
    """
    formulas = _Formulas(problem)
    model = formulas.build()
    parts = (model.x, model.v, model.d, model.a, model.r)
    keys = [(part.local_name, index) for part in parts for index in part]
    variables = tuple(part[index] for part in parts for index in part)
    return BuiltModel(
        PyomoModel(model, variables, "min"),
        lambda values: formulas.plan(dict(zip(keys, values.tolist(), strict=True))),
    )


class _Formulas:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.bands = bands_of(problem)
        self.offers = {offer.name: offer for offer in problem.offers}
        self.sites = {site.name: site for site in problem.sites}
        self.classes = {c.name: c for c in problem.classes}
        self.scenarios = {s.name: s for s in problem.scenarios}
        self.quarters = range(problem.num_quarters)
        self.num_bands = range(self.bands.count)
        self.hours = [float(h) for h in self.bands.hours]
        owned = {(hosts.offer, hosts.site) for hosts in problem.owned}
        self.host_groups = [
            (o.name, s.name)
            for o in problem.offers
            for s in problem.sites
            if not o.is_hourly and (o.at(s.name) or (o.name, s.name) in owned)
        ]
        self.rental_options = [
            (o.name, s.name)
            for o in problem.offers
            for s in problem.sites
            if o.is_hourly and o.at(s.name)
        ]
        places = [*self.host_groups, *self.rental_options]
        self.pools = sorted({(self.offers[o].gpu_type, s) for o, s in places})
        self.rooms = self._rooms()
        self.margins = {
            (tuple(sorted(key.job_classes)), *key[1:]): gpus
            for key, gpus in margins(self.problem).items()
            if (key.gpu_type, key.site) in self.pools
        }
        self.parts = margin_parts(self.problem, self.bands.count)
        self.sent = sorted({(c, *pool) for classes, *pool in self.margins for c in classes})
        self.levels = sorted(
            {(self.offers[o].gpu_type, s, self.offers[o].gpus) for o, s in self.host_groups}
        )

    def _rooms(self) -> dict[tuple[str, int, str, bool], float]:
        """Return the headroom of every mode: class, option, site, spot."""
        factors, gpus = tightening_factors(self.problem), reference_gpus(self.problem)
        found = {}
        for c in self.problem.classes:
            for k, option in enumerate(c.options):
                for gpu_type, site in self.pools:
                    if gpu_type != option.gpu_type or not c.at(site):
                        continue
                    for spot in (False, True) if c.interruptible else (False,):
                        factor = factors.get((c.name, gpu_type, site, spot), 1.0)
                        room = headroom(self.problem, c, k, gpus, spot)
                        if room is not None and factor < KEPT_OUT:
                            found[c.name, k, site, spot] = room * factor
        return found

    def owned(self, offer: str, site: str, quarter: int) -> int:
        return sum(
            hosts.count
            for hosts in self.problem.owned
            if (hosts.offer, hosts.site) == (offer, site) and quarter < hosts.quarters_left
        )

    def serves(self, offer: HostOffer, ordered: int, quarter: int) -> bool:
        arrival = ordered + offer.lead_time_quarters
        return arrival <= quarter < arrival + offer.service_quarters

    def arrivals(self, scenario: str, quarter: int, job_class: str, band: int) -> float:
        rate = self.scenarios[scenario].arrivals[job_class][quarter]
        return float(rate * self.bands.arrivals[self.problem.class_index[job_class], band])

    def gpus(self, job_class: str, option: int, spot: bool) -> float:
        """Return the GPUs busy for a job per hour."""
        c = self.classes[job_class]
        return c.options[option].gpu_hours * (1 + (c.spot_overhead if spot else 0.0))

    def energy(self, site: str, band: int) -> float:
        s = self.problem.site_index[site]
        carbon = float(self.bands.carbon[s, band]) * self.problem.carbon_price_per_kg
        return (float(self.bands.energy_price[s, band]) + carbon) * self.sites[site].pue

    def max_hosts(self, gpu_type: str, site: str, gpus: int) -> float:
        """Return M of (C7): hosts that can ever be of use."""
        total = 0.0
        for c in self.problem.classes:
            rooms = [
                self.gpus(name, k, spot) * room
                for (name, k, at, spot), room in self.rooms.items()
                if name == c.name and at == site and not spot and c.options[k].gpu_type == gpu_type
            ]
            peak = max(max(s.arrivals[c.name]) for s in self.problem.scenarios)
            at_once = float(self.bands.arrivals[self.problem.class_index[c.name]].max())
            if c.deferrable:
                at_once = sum(self.hours) / min(self.hours)
            total += peak * at_once * max(rooms, default=0.0)
        total += max((max(gpus) for gpus in self.margins.values()), default=0.0)
        return total / gpus + 1 + self.problem.failures

    def build(self) -> Any:
        m = TimedModel(name=self.problem.name)
        self._variables(m)
        self._service(m)
        self._limits_of_sites(m)
        self._usable(m)
        self._chance(m)
        self._running(m)
        self._money(m)
        return m

    def plan(self, value: Mapping[tuple[str, Any], float]) -> Plan:
        """Return the plan that the values of x, v, d, a and r state."""
        of = {
            name: {key: x for (part, key), x in value.items() if part == name} for name in "xvdar"
        }
        waived = tuple(w for w, x in of["v"].items() if x > 0.5)
        orders = [(key, round(x)) for key, x in of["x"].items() if round(x) > 0]
        shares = [(key, x) for key, x in of["a"].items() if x > _LEAST]
        return Plan(
            tuple(Order(o, s, t, count) for (o, s, t), count in orders),
            waived,
            tuple(Rental(w, t, b, o, s, x) for (o, s, w, t, b), x in of["d"].items() if x > _LEAST),
            tuple(Share(w, t, b, c, k, s, spot, x) for (c, k, s, spot, w, t, b), x in shares),
            tuple(self._unserved(waived, of["r"])),
        )

    def _unserved(self, waived: tuple[str, ...], short: Mapping[Any, float]) -> Iterator[Unserved]:
        """Yield what waived scenarios leave unserved, deferrable classes over all hours."""
        part = [h / sum(self.hours) for h in self.hours]
        for c, job_class in self.classes.items():
            for w in waived:
                for t in self.quarters:
                    rates = [short[c, w, t, b] for b in self.num_bands]
                    if job_class.deferrable:
                        mean = sum(p * rate for p, rate in zip(part, rates, strict=True))
                        rates = [mean] if mean > _LEAST else []
                    for b, rate in enumerate(rates):
                        if rate > _LEAST:
                            band = None if job_class.deferrable else b
                            yield Unserved(w, t, band, c, rate)

    def _variables(self, m: Any) -> None:
        problem, moments = self.problem, (list(self.scenarios), self.quarters, self.num_bands)
        m.x = pyo.Var(self.host_groups, self.quarters, within=pyo.NonNegativeIntegers)
        m.n = pyo.Var(self.host_groups, self.quarters, within=pyo.NonNegativeReals)
        m.u = pyo.Var(self.pools, self.quarters, within=pyo.NonNegativeReals)
        m.m = pyo.Var(self.levels, self.quarters, within=pyo.NonNegativeReals)
        m.y = pyo.Var(self.levels, self.quarters, within=pyo.Binary)
        m.z = pyo.Var(self.sent, self.quarters, within=pyo.Binary)
        m.f = pyo.Var(self.pools, (False, True), self.quarters, within=pyo.NonNegativeReals)
        m.v = pyo.Var(list(self.scenarios), within=pyo.Binary)
        m.a = pyo.Var(list(self.rooms), *moments, within=pyo.NonNegativeReals)
        m.d = pyo.Var(self.rental_options, *moments, within=pyo.NonNegativeReals)
        m.e = pyo.Var(self.host_groups, *moments, within=pyo.NonNegativeReals)
        m.r = pyo.Var(list(self.classes), *moments, within=pyo.NonNegativeReals)
        for o, s in self.host_groups:
            offer = self.offers[o]
            for t in self.quarters:
                if not offer.at(s):
                    m.x[o, s, t].fix(0)
                elif offer.most_hosts is not None:
                    m.x[o, s, t].setub(offer.most_hosts)
        for o, s in self.rental_options:
            offer = self.offers[o]
            if offer.most_hosts is None:
                continue
            for w, scenario in self.scenarios.items():
                for t in self.quarters:
                    share = 1.0
                    if offer.terms == "spot" and scenario.spot_availability:
                        share = scenario.spot_availability[t]
                    for b in self.num_bands:
                        m.d[o, s, w, t, b].setub(offer.most_hosts * share)
        if not problem.epsilon:
            m.v.fix(0)

    def _service(self, m: Any) -> None:
        @m.Constraint(self.host_groups, self.quarters)
        def C1(m: Any, o: str, s: str, t: int) -> Any:
            offer = self.offers[o]
            arrived = sum(m.x[o, s, q] for q in self.quarters if self.serves(offer, q, t))
            return m.n[o, s, t] == self.owned(o, s, t) + arrived

    def _limits_of_sites(self, m: Any) -> None:
        def used(m: Any, s: str, t: int, field: str) -> Any:
            each = {
                o: self.offers[o].busy_kw * self.sites[s].pue
                if field == "power_kw"
                else getattr(self.offers[o], field)
                for o, at in self.host_groups
                if at == s
            }
            return sum(value * m.n[o, s, t] for o, value in each.items())

        def limited(field: str) -> list[str]:
            stood = dict.fromkeys(s for _, s in self.host_groups)
            return [s for s in stood if getattr(self.sites[s], field) is not None]

        @m.Constraint(limited("rack_units"), self.quarters)
        def C2(m: Any, s: str, t: int) -> Any:
            return used(m, s, t, "rack_units") <= self.sites[s].rack_units

        @m.Constraint(limited("ports"), self.quarters)
        def C3(m: Any, s: str, t: int) -> Any:
            return used(m, s, t, "ports") <= self.sites[s].ports

        @m.Constraint(limited("power_kw"), self.quarters)
        def C4(m: Any, s: str, t: int) -> Any:
            return used(m, s, t, "power_kw") <= self.sites[s].power_kw

    def _usable(self, m: Any) -> None:
        spares = self.problem.failures

        def standing(m: Any, g: str, s: str, size: int, t: int) -> Any:
            return sum(
                m.n[o, at, t]
                for o, at in self.host_groups
                if at == s and (self.offers[o].gpu_type, self.offers[o].gpus) == (g, size)
            )

        def sizes(g: str, s: str) -> list[int]:
            return sorted((size for kind, at, size in self.levels if (kind, at) == (g, s)))

        @m.Constraint(self.pools, self.quarters)
        def C5(m: Any, g: str, s: str, t: int) -> Any:
            here = sizes(g, s)
            steps = {size: size - below for size, below in zip(here, [0, *here], strict=False)}
            return m.u[g, s, t] <= sum(
                size * m.m[g, s, size, t] - spares * steps[size] * m.y[g, s, size, t]
                for size in here
            )

        @m.Constraint(self.levels, self.quarters)
        def C6(m: Any, g: str, s: str, size: int, t: int) -> Any:
            owned = sum(
                self.owned(o, at, t)
                for o, at in self.host_groups
                if at == s and (self.offers[o].gpu_type, self.offers[o].gpus) == (g, size)
            )
            closed = owned * (1 - m.y[g, s, size, t]) if spares else 0
            return m.m[g, s, size, t] <= standing(m, g, s, size, t) - closed

        @m.Constraint(self.levels, self.quarters)
        def C7(m: Any, g: str, s: str, size: int, t: int) -> Any:
            most = self.max_hosts(g, s, size)
            if not spares:
                return pyo.Constraint.Skip
            return m.m[g, s, size, t] <= most * m.y[g, s, size, t]

        @m.Constraint(self.levels, self.quarters)
        def C7_nested(m: Any, g: str, s: str, size: int, t: int) -> Any:
            smaller = [other for other in sizes(g, s) if other < size]
            if not smaller:
                return pyo.Constraint.Skip
            return m.y[g, s, size, t] <= m.y[g, s, smaller[-1], t]

    def _chance(self, m: Any) -> None:
        @m.Constraint()
        def C8(m: Any) -> Any:
            waived = sum(s.probability * m.v[w] for w, s in self.scenarios.items())
            return waived <= self.problem.epsilon + _PROBABILITY

    def _running(self, m: Any) -> None:
        names, share = list(self.scenarios), [h / sum(self.hours) for h in self.hours]

        def served(m: Any, c: str, w: str, t: int, b: int) -> Any:
            rates = (m.a[mode, w, t, b] for mode in self.rooms if mode[0] == c)
            return sum(rates) + m.r[c, w, t, b]

        @m.Constraint(list(self.classes), names, self.quarters, self.num_bands)
        def C9(m: Any, c: str, w: str, t: int, b: int) -> Any:
            if not self.classes[c].deferrable:
                return served(m, c, w, t, b) >= self.arrivals(w, t, c, b)
            if b:
                return pyo.Constraint.Skip
            mean = sum(share[at] * served(m, c, w, t, at) for at in self.num_bands)
            return mean >= self.scenarios[w].arrivals[c][t]

        def room(m: Any, g: str, s: str, w: str, t: int, b: int, spot: bool) -> Any:
            return sum(
                value * self.gpus(mode[0], mode[1], spot) * m.a[mode, w, t, b]
                for mode, value in self.rooms.items()
                if mode[2:] == (s, spot) and self.classes[mode[0]].options[mode[1]].gpu_type == g
            )

        def rented(m: Any, g: str, s: str, w: str, t: int, b: int, spot: bool) -> Any:
            terms = "spot" if spot else "on_demand"
            return sum(
                self.offers[o].gpus * m.d[o, at, w, t, b]
                for o, at in self.rental_options
                if at == s and (self.offers[o].gpu_type, self.offers[o].terms) == (g, terms)
            )

        def kept(m: Any, g: str, s: str, spot: bool, t: int, b: int) -> Any:
            parts = self.parts.get((g, s, spot))
            return m.f[g, s, spot, t] * (1.0 if parts is None else parts[b])

        @m.Constraint(self.pools, names, self.quarters, self.num_bands)
        def C10(m: Any, g: str, s: str, w: str, t: int, b: int) -> Any:
            have = m.u[g, s, t] + rented(m, g, s, w, t, b, False)
            return room(m, g, s, w, t, b, False) + kept(m, g, s, False, t, b) <= have

        @m.Constraint(self.pools, names, self.quarters, self.num_bands)
        def C11(m: Any, g: str, s: str, w: str, t: int, b: int) -> Any:
            need, have = room(m, g, s, w, t, b, True), rented(m, g, s, w, t, b, True)
            if isinstance(need, int):
                return pyo.Constraint.Skip
            return need + kept(m, g, s, True, t, b) <= have

        @m.Constraint(self.pools, names, self.quarters, self.num_bands)
        def C12(m: Any, g: str, s: str, w: str, t: int, b: int) -> Any:
            busy = sum(
                self.gpus(mode[0], mode[1], False) * m.a[mode, w, t, b]
                for mode in self.rooms
                if mode[2:] == (s, False) and self.classes[mode[0]].options[mode[1]].gpu_type == g
            )
            if isinstance(busy, int):
                return pyo.Constraint.Skip
            on_hosts = sum(
                m.e[o, at, w, t, b]
                for o, at in self.host_groups
                if at == s and self.offers[o].gpu_type == g
            )
            return busy <= on_hosts + rented(m, g, s, w, t, b, False)

        @m.Constraint(self.host_groups, names, self.quarters, self.num_bands)
        def C13(m: Any, o: str, s: str, w: str, t: int, b: int) -> Any:
            return m.e[o, s, w, t, b] <= self.offers[o].gpus * m.n[o, s, t]

        @m.Constraint(names, self.quarters)
        def C14(m: Any, w: str, t: int) -> Any:
            if not self.problem.carbon_caps_kg:
                return pyo.Constraint.Skip
            mass = sum(kg for kg in self._carbon(m, w, t))
            return (
                pyo.Constraint.Skip
                if isinstance(mass, int)
                else (mass <= self.problem.carbon_caps_kg[t])
            )

        @m.Constraint(list(self.classes), names, self.quarters, self.num_bands)
        def C15(m: Any, c: str, w: str, t: int, b: int) -> Any:
            job_class = self.classes[c]
            due = self.arrivals(w, t, c, b)
            if job_class.deferrable:
                due = self.scenarios[w].arrivals[c][t] / share[b]
            return m.r[c, w, t, b] <= (0 if job_class.critical else due) * m.v[w]

        @m.Constraint(range(len(self.margins)), self.quarters)
        def C17(m: Any, i: int, t: int) -> Any:
            (classes, g, s, spot), gpus = list(self.margins.items())[i]
            together = sum(m.z[c, g, s, spot, t] for c in classes) - (len(classes) - 1)
            return m.f[g, s, spot, t] >= gpus[t] * together

        @m.Constraint(self.sent, names, self.quarters, self.num_bands)
        def C18(m: Any, c: str, g: str, s: str, spot: bool, w: str, t: int, b: int) -> Any:
            sent = sum(
                m.a[mode, w, t, b]
                for mode in self.rooms
                if (mode[0], *mode[2:]) == (c, s, spot)
                and self.classes[c].options[mode[1]].gpu_type == g
            )
            if isinstance(sent, int):
                return pyo.Constraint.Skip
            # A deferrable class may send all its jobs of a quarter in one band.
            most = self.scenarios[w].arrivals[c][t] / share[b]
            if not self.classes[c].deferrable:
                most = self.arrivals(w, t, c, b)
            return sent <= most * m.z[c, g, s, spot, t]

    def _carbon(self, m: Any, w: str, t: int) -> Iterator[Any]:
        for o, s in self.host_groups:
            offer, pue = self.offers[o], self.sites[s].pue
            for b in self.num_bands:
                kg = float(self.bands.carbon[self.problem.site_index[s], b]) * self.hours[b] * pue
                more = (offer.busy_kw - offer.idle_kw) / offer.gpus
                yield kg * (offer.idle_kw * m.n[o, s, t] + more * m.e[o, s, w, t, b])

    def _money(self, m: Any) -> None:
        problem = self.problem

        @m.Expression(self.quarters)
        def committed(m: Any, t: int) -> Any:
            total = 0.0
            for o, s in self.host_groups:
                offer = self.offers[o]
                if offer.terms == "purchase":
                    total += (
                        offer.price * m.x[o, s, t] + offer.maintenance_per_quarter * m.n[o, s, t]
                    )
                else:
                    total += offer.price * m.n[o, s, t]
                idle = sum(self.hours[b] * self.energy(s, b) for b in self.num_bands)
                total += offer.idle_kw * idle * m.n[o, s, t]
            return total

        @m.Expression(list(self.scenarios), self.quarters)
        def running(m: Any, w: str, t: int) -> Any:
            total = 0.0
            for b in self.num_bands:
                for o, s in self.rental_options:
                    total += self.hours[b] * self.offers[o].price * m.d[o, s, w, t, b]
                for o, s in self.host_groups:
                    offer = self.offers[o]
                    more = (offer.busy_kw - offer.idle_kw) / offer.gpus
                    total += self.hours[b] * more * self.energy(s, b) * m.e[o, s, w, t, b]
                for c, job_class in self.classes.items():
                    total += self.hours[b] * job_class.loss_per_job * m.r[c, w, t, b]
            return total

        @m.Expression(self.quarters)
        def spent(m: Any, t: int) -> Any:
            mean = sum(s.probability * m.running[w, t] for w, s in self.scenarios.items())
            return m.committed[t] + mean

        @m.Expression()
        def worth(m: Any) -> Any:
            total = 0.0
            for o, s in self.host_groups:
                offer = self.offers[o]
                if offer.terms != "purchase":
                    continue
                for t in self.quarters:
                    end = t + offer.lead_time_quarters + offer.service_quarters
                    left = min(max(end - problem.num_quarters, 0), offer.service_quarters)
                    # What would arrive after the plan's end is no use to it.
                    if t + offer.lead_time_quarters >= problem.num_quarters:
                        m.x[o, s, t].fix(0)
                    value = offer.price * offer.residual_fraction * left / offer.service_quarters
                    total += value * m.x[o, s, t]
            return total

        m.C16 = pyo.ConstraintList()
        for t, budget in enumerate(problem.quarter_budgets):
            m.C16.add(m.spent[t] <= budget)
        if problem.budget is not None:
            m.C16.add(sum(m.spent[t] for t in self.quarters) <= problem.budget)

        @m.Objective(sense=pyo.minimize)
        def cost(m: Any) -> Any:
            discounted = sum(problem.discount(t) * m.spent[t] for t in self.quarters)
            return discounted - problem.discount(problem.num_quarters) * m.worth
