"""The elastic program: the extensive form in which limits of some kinds may give way, at a price.

Everything else is as in the problem itself, so what its optimum gives way is the least that is
needed: every limit has one column, shared by all rows that state it. Amounts are compared in hosts:
a rack unit counts as what share of a host it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.errors import SolverError
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.arrays import extensive
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.repairs import SITE_LIMITS
from alloc.solving.right_sizing.state import linear_relaxation, money_unit

LIMITS = ("budget", *SITE_LIMITS, "carbon")
"""Kinds of limits that can be raised."""
MIN_HOSTS = 1e-6
"""Hosts below which nothing gives way: less is the solver's tolerance."""
_BUSY_OVER_IDLE = 3.0
"""About how much more carbon a busy host stands for than an idle one: it only weighs carbon against
hosts in what is eased, so a rough number does."""
_GAP = 1e-4
"""Relative gap to which the least amount is found: amounts are said to four digits."""
_ROWS = {"rack_units": "C2", "ports": "C3", "power_kw": "C4"}
_LEAST_PRICE = 1e-9
"""Stands for the price or size of a host where all are 0."""


class What(NamedTuple):
    """What gives way: its kind, and the name, scenario and quarter of a `Repair`."""

    kind: str
    name: str
    scenario: str | None
    quarter: int | None


@dataclass(frozen=True, eq=False)
class Missing:
    """The least that must give way.

    Parameters
    ----------
    amounts
        What gives way, in the unit of the limit, or jobs per hour.
    hosts
        All of it, in hosts.
    proved
        Whether less is proved not to be enough, to a relative gap of 1e-4.
    """

    amounts: dict[What, float]
    hosts: float
    proved: bool


@dataclass(frozen=True, eq=False)
class _Slack:
    """One column: what it is, the rows that it eases, and what it counts.

    Parameters
    ----------
    rows, values
        Rows of the model, and the column's entries in them.
    hosts
        Hosts that a unit counts.
    amount
        What a unit is, in the unit of the limit.
    upper
        A unit number beyond which more is of no use.
    """

    what: What
    rows: Ints
    values: Array
    hosts: float
    amount: float
    upper: float


class Elastic:
    """The elastic program of a problem."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem, self.data = problem, SizingData(problem)
        self.unit = money_unit(self.data)
        self.form = extensive(self.data, unit=self.unit)
        self.gpus = float(np.mean([offer.gpus for offer in problem.offers]))
        firm = [offer.price for offer in problem.offers if not offer.is_hourly]
        hourly = [offer.price * problem.quarter_hours for offer in problem.offers]
        self.host_price = _typical(firm) or _typical(hourly) or _LEAST_PRICE

    def least(self, kinds: Sequence[str], seconds: Callable[[], float]) -> Missing | None:
        """Return the least that kinds of limits must give way together; None if that is not a cure.

        Parameters
        ----------
        kinds
            ``demand`` or members of `LIMITS`.
        seconds
            Gives the wall time that the next solve may take, seconds.
        """
        slacks = [slack for kind in kinds for slack in self._slacks(kind)]
        if not slacks:
            return None
        model = _widened(self.form.model, slacks)
        relaxed = highs.solve(linear_relaxation(model), SolverOptions(seconds()))
        if relaxed.values is None:
            return None
        try:
            whole = highs.solve(model, SolverOptions(seconds(), gap=_GAP))
        except SolverError:  # of numbers far apart; what is known of the problem is not lost for it
            whole = replace(relaxed, values=None, status="no_solution")
        if whole.status == "infeasible":
            return None
        # Fractions of hosts need less: the caller tries what comes out, and asks for more.
        found = relaxed if whole.values is None else whole
        assert found.values is not None
        values = found.values[-len(slacks) :]
        amounts = {
            slack.what: float(value) * slack.amount
            for slack, value in zip(slacks, values, strict=True)
            if float(value) * slack.hosts > MIN_HOSTS
        }
        return Missing(amounts, float(model.cost @ found.values), whole.status == "optimal")

    def _slacks(self, kind: str) -> Iterator[_Slack]:
        if kind == "demand":
            yield from self._demand()
        elif kind == "budget":
            yield from self._budgets()
        elif kind == "carbon":
            yield from self._carbon()
        else:
            yield from self._sites(kind)

    def _demand(self) -> Iterator[_Slack]:
        """Yield the share of each class's jobs of a scenario and quarter to leave out, 0 to 1."""
        blocks, data = self.form.blocks, self.data
        begin = self.form.model.rows["blocks"].start
        right = blocks.right_hand_sides()
        of_class = np.array([c for c, _ in blocks.demand_rows], dtype=np.int64)
        for w, scenario in enumerate(self.problem.scenarios):
            for t in range(data.num_quarters):
                at = begin + (w * data.num_quarters + t) * blocks.num_rows
                for c in np.flatnonzero(data.demand[w, t]).tolist():
                    rows = blocks.family["demand"].start + np.flatnonzero(of_class == c)
                    name = self.problem.classes[c].name
                    yield _Slack(
                        What("demand", name, scenario.name, t),
                        at + rows,
                        right[w, t, rows],
                        float(data.demand[w, t, c]) * data.gpu_unit / self.gpus,
                        scenario.arrivals[name][t],
                        1.0,
                    )

    def _budgets(self) -> Iterator[_Slack]:
        problem = self.problem
        whens = [*range(len(problem.quarter_budgets))]
        rows = range(*self.form.model.rows["C16"].indices(10**9))
        for row, when in zip(
            rows, [*whens, *([None] if problem.budget is not None else [])], strict=True
        ):
            hosts = self.unit / self.host_price
            yield self._raised(What("budget", "", None, when), np.array([row]), hosts, self.unit)

    def _sites(self, kind: str) -> Iterator[_Slack]:
        sites = [site.name for site in self.problem.sites if getattr(site, kind) is not None]
        rows = np.arange(*self.form.model.rows[_ROWS[kind]].indices(10**9))
        of_site = rows.reshape(len(sites), self.data.num_quarters)
        field = "busy_kw" if kind == "power_kw" else kind
        each = _typical([getattr(offer, field) for offer in self.problem.offers])
        for name, own in zip(sites, of_site, strict=True):
            yield self._raised(What(kind, name, None, None), own, 1 / max(each, _LEAST_PRICE))

    def _carbon(self) -> Iterator[_Slack]:
        blocks, quarters = self.form.blocks, self.data.num_quarters
        if not self.problem.carbon_caps_kg:
            return
        first = self.form.model.rows["blocks"].start + blocks.family["carbon"].start
        rows = first + np.arange(len(self.problem.scenarios) * quarters) * blocks.num_rows
        each = _typical((self.data.idle_carbon / self.data.host_unit).tolist()) * _BUSY_OVER_IDLE
        for t, own in enumerate(rows.reshape(-1, quarters).T):
            hosts = 1 / max(each, _LEAST_PRICE) / quarters
            yield self._raised(What("carbon", "", None, t), own, hosts, sign=1.0)

    def _raised(
        self, what: What, rows: Ints, hosts: float, amount: float = 1.0, sign: float = -1.0
    ) -> _Slack:
        """Return the column of a limit: rows at most their limit (sign -1), or at least it (1)."""
        model = self.form.model
        each = sign * model.matrix[rows].toarray()
        least = np.where(each > 0, model.lower, model.upper)
        # The limit that no solution passes: no more of it is ever needed.
        reached = -(each * np.where(each == 0, 0.0, least)).sum(axis=1)
        limit = model.row_upper[rows] if sign < 0 else -model.row_lower[rows]
        upper = float(max((reached - limit).max(initial=0.0), 0.0))
        return _Slack(what, rows, np.full(len(rows), sign), hosts, amount, upper)


def _widened(model: ArrayModel, slacks: Sequence[_Slack]) -> ArrayModel:
    """Return the model with a column for each slack, which alone costs something."""
    count = len(slacks)
    columns = np.repeat(np.arange(count), [len(slack.rows) for slack in slacks])
    entries = np.concatenate([slack.values for slack in slacks])
    at = (np.concatenate([slack.rows for slack in slacks]), columns)
    extra = sparse.coo_array((entries, at), shape=(model.matrix.shape[0], count))
    return replace(
        model,
        cost=np.append(np.zeros(len(model.cost)), [slack.hosts for slack in slacks]),
        matrix=sparse.hstack([model.matrix, extra.tocsr()], format="csr"),
        lower=np.append(model.lower, np.zeros(count)),
        upper=np.append(model.upper, [slack.upper for slack in slacks]),
        integer=np.append(model.integer, np.zeros(count, dtype=bool)),
    )


def _typical(values: list[float]) -> float:
    known = [value for value in values if value > 0]
    return float(np.exp(np.mean(np.log(known)))) if known else 0.0
