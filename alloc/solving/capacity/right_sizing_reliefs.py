"""Reliefs: what to give way when there is no plan, and by how much.

One kind of limit at a time is made elastic, and the least amount is found by which it must give way
when all others stay: less demand served, goals given up, more budget, space, ports, power or
carbon. Amounts are compared in hosts: a rack unit counts as what share of a host it holds. The
kind that gives way least is the cheapest relief.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.capacity.plan import Relief
from alloc.capacity.problem import PlanningProblem
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.arrays import Extensive, extensive
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.solving.capacity.right_sizing_state import linear_relaxation, money_unit
from alloc.solving.outcome import Settings
from alloc.units import in_full

_MOST_COLUMNS = 60_000
_BUSY_OVER_IDLE = 3.0
"""About how much more carbon a busy host stands for than an idle one."""
_NOTHING = 1e-6
"""Hosts below which nothing gives way."""
LIMITS = ("budget", "rack_units", "ports", "power_kw", "carbon")
KINDS = ("demand", "goal", *LIMITS)


@dataclass(frozen=True, eq=False)
class _Slack:
    """Rows that may give way, what a unit counts in hosts, and which way is out."""

    rows: Ints
    hosts: Array
    sign: float


def find_reliefs(
    problem: PlanningProblem, settings: Settings
) -> tuple[str | None, tuple[Relief, ...]]:
    """Return what is missing, in a sentence, and the reliefs of the kind that gives way least.

    With many scenarios only those with the most work are looked at.
    """
    elastic = _Elastic(_fewer_scenarios(problem), settings)
    found: dict[str, tuple[float, tuple[Relief, ...]]] = {}
    for kind in KINDS:
        answer = elastic.relieve(kind)
        if answer is not None:
            found[kind] = answer
    if not set(found) - {"demand", "goal"}:
        answer = elastic.relieve("limits")
        if answer is not None:
            found["limits"] = answer
    if not found:
        return (
            "no plan serves the forecast, and no single kind of limit can give way enough to "
            "change that; relax several, or wait for hosts with long lead times.",
            (),
        )
    kinds = sorted(found, key=lambda kind: found[kind][0])
    order = [kind for kind in kinds if kind != "demand"]
    cheapest = order[0] if order else "demand"
    reliefs = tuple(
        dataclasses.replace(relief, way=way)
        for way, kind in enumerate(kinds)
        for relief in found[kind][1]
    )
    sentence = "no plan serves the forecast"
    if "demand" in found and found["demand"][1]:
        sentence += f": {found['demand'][1][0].sentence}"
    if cheapest != "demand" and found[cheapest][1]:
        sentence += f"; the cheapest relief: {found[cheapest][1][0].sentence}"
        if len(found[cheapest][1]) > 1:
            sentence += f", and {len(found[cheapest][1]) - 1} more with it"
    return f"{sentence}.", reliefs


def _fewer_scenarios(problem: PlanningProblem) -> PlanningProblem:
    data = SizingData(problem)
    size = len(data.ways) * data.bands.count * data.num_quarters
    most = max(_MOST_COLUMNS // max(size, 1), 1)
    if len(problem.scenarios) <= most:
        return problem
    load = data.demand.sum(axis=(1, 2))
    chosen = sorted(np.argsort(-load, kind="stable")[:most].tolist())
    total = math.fsum(problem.scenarios[w].probability for w in chosen)
    return problem.replace(
        scenarios=tuple(
            type(s)(s.name, s.probability / total, s.arrivals, s.spot_availability)
            for s in (problem.scenarios[w] for w in chosen)
        )
    )


class _Elastic:
    """The extensive form with limits that give way at a price in hosts."""

    def __init__(self, problem: PlanningProblem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.data = SizingData(problem)
        self.unit = money_unit(self.data)
        every = [True] * len(problem.classes)
        self.form: Extensive = extensive(self.data, blocks=Blocks(self.data, every), unit=self.unit)
        self.scenarios, self.quarters = self.data.demand.shape[:2]
        firm = [offer for offer in problem.offers if not offer.is_hourly]
        self.gpus = float(np.mean([offer.gpus for offer in problem.offers]))
        self.host_price = _typical([o.price for o in firm]) or _typical(
            [o.price * problem.quarter_hours for o in problem.offers]
        )

    def relieve(self, kind: str) -> tuple[float, tuple[Relief, ...]] | None:
        """Return the hosts by which a kind gives way, and where; None if that is no cure.

        The kind ``limits`` is all limits but demand and goals together.
        """
        if kind == "goal":
            return self._relieve_goals()
        if kind == "demand":
            return self._relieve_demand()
        return self._relieve_limits(LIMITS if kind == "limits" else (kind,))

    def _relieve_goals(self) -> tuple[float, tuple[Relief, ...]] | None:
        model, count = self._with_goals(self._rigid("goal"))
        values = self._solve(model)
        if values is None:
            return None
        begin = len(self.form.model.cost)
        return float(model.cost @ values), tuple(self._goal_reliefs(values[begin : begin + count]))

    def _relieve_demand(self) -> tuple[float, tuple[Relief, ...]] | None:
        model = self._rigid("demand")
        values = self._solve(model)
        if values is None:
            return None
        return float(model.cost @ values), tuple(self._demand_reliefs(values))

    def _relieve_limits(self, kinds: Sequence[str]) -> tuple[float, tuple[Relief, ...]] | None:
        model = self._rigid("limits")
        begin = len(model.cost)
        slacks = [(name, slack) for name in kinds if len((slack := self._slack(name)).rows)]
        if not slacks:
            return None
        for _, slack in slacks:
            count = len(slack.rows)
            place = (np.full(count, slack.sign), (slack.rows, np.arange(count)))
            extra = sparse.coo_array(place, shape=(model.matrix.shape[0], count))
            model = _widen(model, extra.tocsr(), slack.hosts)
        values = self._solve(model)
        if values is None:
            return None
        found: list[Relief] = []
        for name, slack in slacks:
            end = begin + len(slack.rows)
            found += self._limit_reliefs(name, values[begin:end])
            begin = end
        return float(model.cost @ values), tuple(found)

    def _rigid(self, kind: str) -> ArrayModel:
        """Return the form with no cost but that of demand left unserved, if that is the kind."""
        form, model = self.form, self.form.model
        cost = np.zeros(len(model.cost))
        lower = model.row_lower.copy()
        rows = form.blocks.num_rows
        begin = model.rows["blocks"].start
        waived = form.blocks.waived()
        if kind == "demand":
            family = form.blocks.family["short"]
            for w in range(self.scenarios):
                for t in range(self.quarters):
                    at = begin + (w * self.quarters + t) * rows
                    lower[at + family.start : at + family.stop] -= waived[w, t, family]
            short = form.blocks.columns.short
            share = self.data.bands.hours / self.data.bands.hours.sum()
            own = np.zeros(form.shape[2])
            for c, b in np.argwhere(short >= 0).tolist():
                deferrable = self.problem.classes[c].deferrable
                own[short[c, b]] = (1.0 if deferrable else float(share[b])) / self.gpus
            cost[len(form.first.cost) :] = np.tile(own, self.scenarios * self.quarters)
        return replace(model, cost=cost, row_lower=lower)

    def _slack(self, kind: str) -> _Slack:
        model = self.form.model
        if kind == "budget":
            rows = np.arange(*model.rows["C16"].indices(10**9))
            return _Slack(rows, np.full(len(rows), self.unit / max(self.host_price, 1e-9)), -1.0)
        if kind in ("rack_units", "ports", "power_kw"):
            name = {"rack_units": "C2", "ports": "C3", "power_kw": "C4"}[kind]
            rows = np.arange(*model.rows[name].indices(10**9))
            field = "busy_kw" if kind == "power_kw" else kind
            each = _typical([getattr(offer, field) for offer in self.problem.offers])
            return _Slack(rows, np.full(len(rows), 1 / max(each, 1e-9) / self.quarters), -1.0)
        family = self.form.blocks.family["carbon"]
        blocks = np.arange(self.scenarios * self.quarters if family.stop > family.start else 0)
        rows = model.rows["blocks"].start + blocks * self.form.blocks.num_rows + family.start
        each = _typical(self.data.idle_carbon.tolist()) * _BUSY_OVER_IDLE
        return _Slack(rows, np.full(len(rows), 1 / max(each * len(rows), 1e-9)), 1.0)

    def _with_goals(self, model: ArrayModel) -> tuple[ArrayModel, int]:
        """Let pools have less room than goals need, down to what jobs without goals need."""
        form, blocks = self.form, self.form.blocks
        floor = 1 / self.problem.utilisation
        rows = self._goal_rows()
        room = blocks.matrix[rows].tocoo()
        ways = set(blocks.columns.way.ravel().tolist())
        beyond = [
            (r, c, -v - floor)
            for r, c, v in zip(room.row, room.col, room.data, strict=True)
            if c in ways and -v > floor
        ]
        blocks_count, width = self.scenarios * self.quarters, form.shape[2]
        per = len(rows)
        begin = model.rows["blocks"].start
        into = (begin + np.arange(blocks_count)[:, None] * blocks.num_rows + rows).ravel()
        extra = sparse.coo_array(
            (np.ones(len(into)), (into, np.arange(len(into)))),
            shape=(model.matrix.shape[0], len(into)),
        )
        hosts = np.full(len(into), 1 / self.gpus / self.data.bands.count)
        wide = _widen(model, extra.tocsr(), hosts)
        at = np.array([(r, c) for r, c, _ in beyond], dtype=np.int64).reshape(-1, 2)
        each = sparse.coo_array(
            (-np.array([v for _, _, v in beyond]), (at[:, 0], at[:, 1])), shape=(per, width)
        )
        body = sparse.hstack(
            [
                sparse.csr_array((per * blocks_count, len(form.first.cost))),
                sparse.block_diag([each] * blocks_count),
                sparse.eye_array(per * blocks_count),
            ],
            format="csr",
        )
        return (
            replace(
                wide,
                matrix=sparse.vstack([wide.matrix, body], format="csr"),
                row_lower=np.append(wide.row_lower, np.full(len(into), -np.inf)),
                row_upper=np.append(wide.row_upper, np.zeros(len(into))),
            ),
            len(into),
        )

    def _solve(self, model: ArrayModel) -> Array | None:
        """Return the values, with whole hosts if there is time, else of the relaxation."""
        seconds = max(self.settings.seconds_left() / 4, 2.0)
        raw = highs.solve(linear_relaxation(model), SolverOptions(seconds, self.settings.seed))
        if raw.values is None:
            return None
        whole = highs.solve(model, SolverOptions(seconds, self.settings.seed, gap=0.02))
        if whole.status == "infeasible":
            return None
        return raw.values if whole.values is None else whole.values

    # In words ---------------------------------------------------------------------------------

    def _demand_reliefs(self, values: Array) -> list[Relief]:
        _, running = self.form.split(values)
        short = self.form.blocks.columns.short
        share = self.data.bands.hours / self.data.bands.hours.sum()
        found = []
        for c, job_class in enumerate(self.problem.classes):
            bands = short[c] >= 0
            if not bands.any():
                continue
            weights = np.ones(1) if job_class.deferrable else share[bands]
            missing = running[:, :, short[c, bands]] @ weights / float(self.data.base[c])
            w, t = np.unravel_index(int(missing.argmax()), missing.shape)
            amount = float(missing[w, t])
            least = _NOTHING * self.gpus / float(self.data.base[c])
            if amount <= least:
                continue
            cases = int((missing > least).sum())
            scenario = self.problem.scenarios[int(w)]
            rate = scenario.arrivals[job_class.name][int(t)]
            goal = "" if job_class.goal is None else f" ({job_class.goal.sentence})"
            sentence = (
                f'job class "{job_class.name}"{goal} cannot be served in full: '
                f"{in_full(amount, 4)} of {in_full(rate, 4)} jobs per hour are left over in "
                f'scenario "{scenario.name}", quarter {t}'
                f"{f', the worst of {cases} cases' if cases > 1 else ''}"
            )
            found.append(
                Relief("demand", job_class.name, scenario.name, int(t), amount, "jobs/h", sentence)
            )
        found.sort(
            key=lambda r: -r.amount * float(self.data.base[self.problem.class_index[r.name]])
        )
        return found

    def _goal_reliefs(self, slack: Array) -> list[Relief]:
        data = self.data
        missing = slack.reshape(self.scenarios, self.quarters, -1)
        pools = self._pools_of_goal_rows()
        found = []
        for p in dict.fromkeys(pools):
            mine = np.array([q == p for q in pools])
            worst = missing[:, :, mine].max(axis=2)
            w, t = np.unravel_index(int(worst.argmax()), worst.shape)
            amount = float(worst[w, t])
            if amount <= _NOTHING * self.gpus:
                continue
            pool, site = data.pools[p], self.problem.sites[data.pools[p].site].name
            classes = {
                self.problem.classes[way.job_class].name
                for way in data.ways
                if way.pool == p and self.problem.classes[way.job_class].goal is not None
            }
            names = ", ".join(f'"{name}"' for name in sorted(classes)[:4])
            scenario = self.problem.scenarios[int(w)].name
            sentence = (
                f'goals of {names} on "{pool.gpu_type}" at "{site}" are given up: '
                f"{in_full(amount, 4, up=True)} GPUs are missing for them in "
                f'scenario "{scenario}", quarter {t}'
            )
            found.append(Relief("goal", pool.gpu_type, scenario, int(t), amount, "GPUs", sentence))
        return sorted(found, key=lambda relief: -relief.amount)

    def _goal_rows(self) -> Ints:
        """Return the rows of a block that say how much room goals need."""
        families = [self.form.blocks.family[name] for name in ("firm room", "spot room")]
        return np.concatenate([np.arange(f.start, f.stop) for f in families])

    def _pools_of_goal_rows(self) -> list[int]:
        """Return the pool that each of these rows is about."""
        blocks, data = self.form.blocks, self.data
        where = {}
        for w, way in enumerate(data.ways):
            for b in range(data.bands.count):
                where[int(blocks.columns.way[w, b])] = way.pool
        found = []
        for row in self._goal_rows().tolist():
            columns = blocks.matrix[[row]].tocoo().col.tolist()
            found.append(next(where[c] for c in columns if c in where))
        return found

    def _limit_reliefs(self, kind: str, slack: Array) -> list[Relief]:
        problem, quarters = self.problem, self.quarters
        if kind == "budget":
            names = [*range(len(problem.quarter_budgets))]
            whens: list[int | None] = [*names, *([None] if problem.budget is not None else [])]
            return [
                _relief(kind, "", when, float(amount) * self.unit, problem.currency)
                for when, amount in zip(whens, slack, strict=True)
                if float(amount) * self.unit > 1e-9 * self.host_price
            ]
        if kind == "carbon":
            worst = slack.reshape(self.scenarios, quarters).max(axis=0)
            return [
                _relief(kind, "", t, float(worst[t]), "kg")
                for t in range(quarters)
                if worst[t] > 1e-6
            ]
        unit = {"rack_units": "rack units", "ports": "ports", "power_kw": "kW"}[kind]
        sites = [site.name for site in problem.sites if getattr(site, kind) is not None]
        most = slack.reshape(len(sites), quarters)
        return [
            _relief(kind, site, int(row.argmax()), float(row.max()), unit)
            for site, row in zip(sites, most, strict=True)
            if row.max() > 1e-6
        ]


def _relief(kind: str, name: str, quarter: int | None, amount: float, unit: str) -> Relief:
    who = f'site "{name}"' if name else "the plan"
    what = {"budget": f"more {unit} of budget", "carbon": f"more {unit} under the carbon cap"}
    when = "" if quarter is None else f" in quarter {quarter}"
    sentence = f"{who} needs {in_full(amount, 4, up=True)} {what.get(kind, f'more {unit}')}{when}"
    return Relief(kind, name, None, quarter, amount, unit, sentence)


def _typical(values: list[float]) -> float:
    known = [value for value in values if value > 0]
    return float(np.exp(np.mean(np.log(known)))) if known else 0.0


def _widen(model: ArrayModel, extra: sparse.csr_array, cost: Array) -> ArrayModel:
    """Return the model with more columns, 0 or more and without upper bound."""
    count = extra.shape[1]
    return replace(
        model,
        cost=np.append(model.cost, cost),
        matrix=sparse.hstack([model.matrix, extra], format="csr"),
        lower=np.append(model.lower, np.zeros(count)),
        upper=np.append(model.upper, np.full(count, np.inf)),
        integer=np.append(model.integer, np.zeros(count, dtype=bool)),
    )
