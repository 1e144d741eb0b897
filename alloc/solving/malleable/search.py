"""The search of F2 on a grid of slots: an incumbent and a bound, and what brings them together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.certificate import OPTIMALITY_GAP, BoundProof
from alloc.formulation import Array, ArrayModel, RawResult
from alloc.models.malleable.arrays import build_grid
from alloc.models.malleable.costs import Multipliers
from alloc.models.malleable.data import Index, SlotData
from alloc.models.malleable.grid import grid_of
from alloc.models.malleable.host_insertion import insert_on_hosts
from alloc.models.malleable.placing import place_plan, plan_of
from alloc.models.malleable.profiles import Profile, never
from alloc.objectives import is_kept
from alloc.objectives import objective as objective_of
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.solving.malleable.column_generation import Relaxation, generate_columns, grid_steps
from alloc.solving.malleable.companions import Companions
from alloc.solving.malleable.enumeration import enumerate_profiles
from alloc.solving.malleable.improvement import Improver, Plan, guided_plans
from alloc.solving.malleable.insertion import Builder, serial_horizon, serving_orders, value_of
from alloc.solving.malleable.master import Column, make_column, solve_integer_master
from alloc.solving.malleable.quick_insertion import is_exact
from alloc.solving.malleable.slot_rules import POWERS, applies, plan_by_rule
from alloc.solving.outcome import Progress, Settings
from alloc.verification import verify

_MAX_PROFILES = 20_000
"""Profiles that a proof lists at most: HiGHS takes minutes to choose among more."""
_FIRST_PROFILES, _MORE_PROFILES = 250, 4
"""Profiles that are chosen among first, some hundredths of a second, and how many times more are
next."""
_CHOICE_SHARE = 0.2
"""Share of the time left for a choice among some profiles, after which more of them come: one that
takes longer is no quick way to a better incumbent."""
_MAX_AIMS, _NEARER = 4, 4.0
"""How often a proof aims nearer to the bound, and how many times nearer."""
_FIRST_SHARE, _GUIDED_SHARE = 0.3, 0.3
"""Shares of the time left after which the first schedule, and those guided by prices, hurry."""
_MASTER_SHARE, _DIVES_SHARE = 0.3, 0.03
"""Shares of the time left for the integer master over all columns, the second where dives find
better schedules than it does."""
_MEANWHILE_SHARE = 0.1
"""Share of the time left for which other workers search while this one asks the integer master and
searches for the first time: about as long as that takes."""
_MAX_ASKED = 1_000_000
"""Choices (job, slot, configuration) up to which HiGHS is asked for a schedule: building the model
of more takes a minute and gigabytes."""
_WORTH = 1e-3
"""Share of its value by which the incumbent must fall for another turn: less hardly moves the
bound."""
_NOTHING = 1e-11
"""Difference between value and bound that rounding explains, where costs are about 1: a tardiness
of 0 has no relative gap."""


class Search:
    """The state of one solve: the incumbent and the bound are valid at every moment.

    Parameters
    ----------
    data
        The instance on its slots; the largest cost of a slot is about 1.
    objective
        One level of a goal.
    settings
        Limits.
    warm_start
        A schedule to start from, or None.
    report
        Takes a line of progress.
    unit
        What costs were multiplied by to be about 1.
    """

    def __init__(
        self,
        data: SlotData,
        objective: str,
        settings: Settings,
        warm_start: Solution | None,
        report: Progress,
        unit: float = 1.0,
    ) -> None:
        self.data = data
        self.objective = objective
        self.settings = settings
        self.warm_start = warm_start
        self.report = report
        self.unit = unit
        self.plan: Plan | None = None
        self.bound = data.no_contention / data.slot_s
        self.bound_proof: BoundProof = "recomputed"
        self.num_slots = 0
        self.infeasible = False
        self.prices: Array | None = None
        self.multipliers: Multipliers | None = None
        self._first_columns: list[Column] = []
        self._too_many = math.inf
        """Value below which there are too many profiles to list, by the prices of now."""
        self._placed: tuple[Plan, Schedule] | None = None
        self.companions = Companions(settings.workers, report)

    @property
    def value(self) -> float:
        """Objective of the incumbent, in slots; infinite without one."""
        return math.inf if self.plan is None else value_of(self.data, self.plan)

    @property
    def gap(self) -> float:
        """Relative gap between incumbent and bound."""
        if self.plan is None:
            return math.inf
        above = self.value - self.bound
        return above / max(self.value, 1e-9) if above > _NOTHING else 0.0

    def run(self) -> None:
        """Search until the incumbent is proved or time is up."""
        self.plan = self._first_plan()
        if self.plan is None:
            self._decide_feasibility()
            return
        self.report(f"first schedule: {self.value:.4f} weighted slots; alone {self.bound:.4f}")
        began = self.settings.seconds_left()
        self.schedule()
        placing_s = began - self.settings.seconds_left()
        self.settings = self.settings.within(self.settings.seconds_left() - placing_s)
        if self.gap <= OPTIMALITY_GAP or self.settings.time_is_up():
            return
        self.num_slots = self._num_slots()
        while True:
            before = self.value
            self._within_value()
            self._improve()
            # A better incumbent is an earlier deadline where the worst job counts.
            worth = bool(self.data.target.level.peaks) and self.value < (1 - _WORTH) * before
            if not worth or self.gap <= OPTIMALITY_GAP or self.settings.time_is_up():
                break

    def _within_value(self) -> None:
        """Let no job complete so late that a peak alone exceeds the incumbent's value.

        No better schedule has such a completion: what is proved of all others is proved up to that
        value, and the relaxation of peaks, which are means over profiles there, gets far tighter.
        """
        target, alone = self.data.target, self.data.no_contention / self.data.slot_s
        limit = self.data.limit
        for peak, floor in zip(target.level.peaks, target.floors, strict=False):
            most = self.value - (alone - floor)
            limit = np.minimum(limit, peak.latest(most * (1 + OPTIMALITY_GAP)))
        if target.level.peaks:
            self.data = replace(self.data, limit=limit)

    def _improve(self) -> None:
        """Bound and improve the incumbent once, by prices from its own profiles on."""
        assert self.plan is not None
        num_slots = self.num_slots
        relaxation = generate_columns(
            self.data,
            num_slots,
            [*self.plan.values(), *self._first_columns],
            self.settings,
            0.5 * self.settings.seconds_left(),
            self.report,
        )
        self.bound = max(self.bound, min(relaxation.bound, self.value))
        self.prices, self.multipliers = relaxation.prices, relaxation.multipliers
        self._too_many = math.inf
        builder = Builder(self.data, num_slots)
        improver = Improver(self.data, builder, relaxation, self.plan, self.settings)
        guided = self.settings.within(_GUIDED_SHARE * self.settings.seconds_left())
        for plan in guided_plans(self.data, builder, relaxation, guided):
            improver.adopt(plan)
            self._adopt(improver)
        self._adopt(improver)
        self.report(f"price-guided insertion: {self.value:.4f}, bound {self.bound:.4f}")
        if self.gap <= OPTIMALITY_GAP:
            return
        # No worker starts for what is proved by now.
        self._ask_others(improver, _MEANWHILE_SHARE * self.settings.seconds_left())
        improver.target = self.bound * (1 + OPTIMALITY_GAP)
        share = _DIVES_SHARE if improver.dives else _MASTER_SHARE
        improver.integer_master(share * self.settings.seconds_left())
        self._adopt(improver)
        self.report(f"integer master: {self.value:.4f}, gap {self.gap:.3%}")
        if any(job.restart_cost_s > 0 for job in self.data.instance.jobs):
            # Better profiles are not better schedules here; leave the time to the exact program.
            return
        # Attempts at the proof and short searches in turn: each makes the other cheaper.
        share = 0.05
        while self.gap > OPTIMALITY_GAP and not self.settings.time_is_up():
            if self._prove(relaxation):
                break
            improver.adopt(self.plan)
            improver.target = self.bound * (1 + OPTIMALITY_GAP)
            try:
                self.companions.search(improver, share * self.settings.seconds_left())
            finally:  # also at Ctrl-C
                self._adopt(improver)
            if share >= 1.0:
                break
            share = min(2 * share, 1.0)
            # For as long as the next proof and search take.
            self._ask_others(improver, share * self.settings.seconds_left())
        if self.gap > OPTIMALITY_GAP:
            self.companions.take(improver)
            self._adopt(improver)

    def schedule(self) -> Schedule | None:
        """Return the incumbent on hosts."""
        if self.plan is None:
            return None
        if self._placed is None or self._placed[0] is not self.plan:
            self._placed = (self.plan, self._on_hosts(self.plan))
        return self._placed[1]

    def _on_hosts(self, plan: Plan) -> Schedule:
        """Return a plan on hosts, or a schedule built there where placing it loses too much."""
        instance, value = self.data.instance, objective_of(self.objective).evaluate
        placed = place_plan(self.data, self.plan_profiles())
        allowed = (1 + OPTIMALITY_GAP) * value_of(self.data, plan) / self.unit * self.data.slot_s
        held = self.data.held
        lost = value(instance, placed) > allowed + _NOTHING * self.data.slot_s / self.unit
        lost = lost or not is_kept(instance, placed, held)
        broken = lost and not self._keeps_all(placed)
        if not lost or (self.settings.time_is_up() and not broken):
            return placed
        order = sorted(plan, key=lambda j: plan[j].profile.completion)
        built = insert_on_hosts(self.data, order)
        if not self._keeps_all(built):
            return placed
        self.report("gangs fit the totals but not the hosts together: a schedule built on hosts")
        return built if broken or value(instance, built) < value(instance, placed) else placed

    def _keeps_all(self, schedule: Schedule) -> bool:
        """Return whether a schedule keeps every rule, and the earlier levels of the goal."""
        instance = self.data.instance
        return not verify(instance, schedule) and is_kept(instance, schedule, self.data.held)

    def _decide_feasibility(self) -> None:
        """Ask HiGHS whether there is a schedule at all: insertion found none within the limits."""
        grid = grid_of(self.data.instance, objective=self.objective, held=self.data.held)
        if grid.num_choices > _MAX_ASKED:
            self.report("insertion finds no schedule within the limits; too large to ask HiGHS")
            return
        self.report("insertion finds no schedule within the limits; asking HiGHS for one")
        built = build_grid(grid)
        raw = highs.solve(
            cast(ArrayModel, built.model),
            SolverOptions(
                self.settings.seconds_left(),
                self.settings.seed,
                self.settings.workers,
                gap=OPTIMALITY_GAP / 2,
            ),
        )
        self.infeasible = raw.status == "infeasible"
        if math.isfinite(raw.bound):
            bound = raw.bound / self.data.slot_s * self.unit
            self.bound, self.bound_proof = bound, "claimed"
        if raw.values is not None:
            found = built.extract(raw.values)
            profiles = plan_of(self.data, found) if isinstance(found, Schedule) else None
            if profiles is not None:
                self.plan = {j: make_column(self.data, j, p) for j, p in profiles.items()}

    def plan_profiles(self) -> dict[int, Profile]:
        """Return the profile of each job."""
        assert self.plan is not None
        return {j: column.profile for j, column in self.plan.items()}

    def _ask_others(self, improver: Improver, seconds: float) -> None:
        """Let others search for so long, from the best of here and what they found before."""
        try:
            self.companions.ask(improver, seconds)
        finally:  # also at Ctrl-C; and a proof begins with the best that is known
            self._adopt(improver)

    def _adopt(self, improver: Improver) -> None:
        if improver.value < self.value:
            self.plan = improver.plan

    def _first_plan(self) -> Plan | None:
        """Return the best of the warm start, if it is a whole schedule, and what the rules make.

        Else the first that insertion makes; where more than weighted completions are asked for, the
        best of several orders.
        """
        data = self.data
        plans: list[Plan] = []
        if isinstance(self.warm_start, Schedule):
            profiles = plan_of(data, self.warm_start)
            if profiles is not None:
                plans.append({j: make_column(data, j, p) for j, p in profiles.items()})
        plans = [plan for plan in plans if math.isfinite(value_of(data, plan))]
        orders = serving_orders(data)
        most = serial_horizon(data)
        plans += self._by_rules(most)
        num_slots = min(most, int(data.release.max() + 4 * np.ceil(data.shortest.max())) + 8)
        while not plans:
            builder = Builder(data, num_slots)
            # Whatever the time limit: without a first schedule there is nothing to return, and one
            # sweep a job makes one.
            plans += self._inserted(builder, orders, lambda: True)
            if not all(is_exact(data, j) for j in range(data.num_jobs)):
                # The dynamic program finds what the sweep misses of jobs that may not pause.
                hurry = self.settings.within(_FIRST_SHARE * self.settings.seconds_left())
                plans += self._inserted(builder, orders, hurry.time_is_up)
            if num_slots >= most:
                break
            num_slots = min(2 * num_slots, most)
        self._first_columns = [column for plan in plans for column in plan.values()]
        return min(plans, key=lambda plan: value_of(data, plan)) if plans else None

    def _by_rules(self, num_slots: int) -> list[Plan]:
        """Return the schedules of the rules that decide slot by slot, as far as there is time.

        The first of them whatever the time: it takes less than inserting the jobs does.
        """
        if not applies(self.data):
            return []
        hurry = self.settings.within(_FIRST_SHARE * self.settings.seconds_left())
        found: list[Plan] = []
        for power in POWERS:
            plan = plan_by_rule(self.data, power, num_slots, hurry.time_is_up if found else never)
            if plan is not None and math.isfinite(value_of(self.data, plan)):
                found.append(plan)
        return found

    def _inserted(
        self, builder: Builder, orders: Sequence[Index], hurry: Callable[[], bool]
    ) -> list[Plan]:
        """Return the first schedule that insertion in one of some orders finds, if there is one.

        Of weighted completions, that is; of other targets, what every order finds in time.
        """
        found: list[Plan] = []
        for order in orders:
            if found and (self.data.target.is_linear or self.settings.time_is_up()):
                break
            plan = builder.insert_all(order.tolist(), builder.empty(), None, hurry)
            if plan is not None and math.isfinite(value_of(self.data, plan)):
                found.append(plan)
        return found

    def _num_slots(self) -> int:
        """Return how many slots the master gets: the incumbent's, and some to spare."""
        assert self.plan is not None
        last = max(column.profile.completion for column in self.plan.values())
        return math.ceil(1.1 * last) + 3

    def _prove(self, relaxation: Relaxation) -> bool:
        """Try to prove the incumbent, or find the optimum, by enumerating profiles.

        Those of least excess come first, alone: they often hold a better schedule, after which
        fewer are left. Each choice among the first of them proves what lies below the excess of
        the next.
        """
        while (listed := self._listed(relaxation)) is not None:
            reach = self._choose_first(relaxation, *listed)
            # Below a value that was aimed at there is nothing more; what is left lies above it.
            if self.gap <= OPTIMALITY_GAP or self.bound < reach or self.settings.time_is_up():
                break
        return self.gap <= OPTIMALITY_GAP

    def _choose_first(
        self,
        relaxation: Relaxation,
        columns: list[Column],
        excess: Array,
        base: float,
        reach: float,
    ) -> float:
        """Choose among the first of listed profiles, then among more, until all below are.

        Returns
        -------
        float
            How far the list reached at the end.
        """
        few = _FIRST_PROFILES
        while self.gap > OPTIMALITY_GAP and not self.settings.time_is_up():
            left = int(np.searchsorted(excess, self.value - base, side="right"))
            columns, excess = columns[:left], excess[:left]
            while few < left and base + excess[few] <= self.bound:
                few *= _MORE_PROFILES
            last = few >= left
            share = 1.0 if last and reach >= self.value else _CHOICE_SHARE
            before = self.value
            seconds = share * self.settings.seconds_left()
            raw = self._choose(columns[:few], seconds, proved_to=reach if last else None)
            if raw.status == "infeasible":
                # It is not, for the incumbent is among the columns: nothing is proved.
                return reach
            beyond = reach if last else min(reach, base + float(excess[few]))
            # Schedules outside the enumerated profiles are no better than the incumbent was.
            proved = min(raw.bound, self.value, beyond)
            if proved > self.bound:
                self.bound, self.bound_proof = proved, raw.bound_proof
            if last or raw.status != "optimal":
                return reach
            if reach < self.value < before:
                # Below a better schedule all may be listed: to go through what lies below a nearer
                # value, and then through all, would be as much again.
                whole = self._listed(relaxation, aims=1)
                if whole is not None:
                    columns, excess, base, reach = whole
                    few = max(few, int(np.searchsorted(excess, self.bound - base, side="right")))
                    left = len(columns)
            # What the first hold no better schedule of, all of them rarely do.
            few = few * _MORE_PROFILES if self.value < before else left
        return reach

    def _listed(
        self, relaxation: Relaxation, aims: int = _MAX_AIMS
    ) -> tuple[list[Column], Array, float, float] | None:
        """Return the profiles of all schedules below a value, by excess, and how far that reaches.

        The excess of a profile is what it costs its job above the cheapest; a schedule costs at
        least the base, the third value, plus the excess of any of its profiles. The fourth is the
        value: that of the incumbent, or one nearer to the bound where too many profiles are below.
        """
        job_costs, constant = relaxation.relaxed(self.data)
        constant -= float((relaxation.prices @ self.data.rows.capacity).sum())
        reach, profiles = self.value, None
        for _ in range(aims):
            if reach >= self._too_many or self.settings.time_is_up():
                break
            profiles = enumerate_profiles(
                self.data,
                relaxation.prices,
                reach - constant,
                num_states=grid_steps(self.data, len(relaxation.prices)),
                most=_MAX_PROFILES,
                stop=self.settings.time_is_up,
                job_costs=job_costs,
            )
            if profiles is not None:
                break
            self._too_many = reach
            reach = relaxation.bound + (reach - relaxation.bound) / _NEARER
        if profiles is None:
            return None
        columns = [make_column(self.data, j, p) for j, own in enumerate(profiles) for p in own]
        self.report(f"{len(columns)} profiles may be in a schedule below {reach:.4f}")
        prices, job = relaxation.prices.ravel(), np.array([c.job for c in columns], dtype=np.int64)
        cost = np.array(
            [job_costs.of(c.job, c.profile.completion) + prices[c.rows] @ c.use for c in columns]
        )
        cheapest = np.full(self.data.num_jobs, np.inf)
        np.minimum.at(cheapest, job, cost)
        excess = cost - cheapest[job]
        order = np.argsort(excess, kind="stable")
        base = float(cheapest.sum()) + constant
        return [columns[i] for i in order], excess[order], base, reach

    def _choose(
        self, columns: list[Column], seconds: float, *, proved_to: float | None
    ) -> RawResult:
        """Choose the best schedule among columns and the incumbent's; return what is proved.

        With a value up to which all profiles are listed, what lies below it is proved twice.
        """
        assert self.plan is not None
        known = {(column.job, column.profile.key()) for column in columns}
        mine = {(column.job, column.profile.key()) for column in self.plan.values()}
        extra = [c for c in self.plan.values() if (c.job, c.profile.key()) not in known]
        columns = columns + extra
        start = [i for i, c in enumerate(columns) if (c.job, c.profile.key()) in mine]
        chosen, raw = solve_integer_master(
            self.data,
            columns,
            Builder(self.data, self.num_slots).empty(),
            list(range(self.data.num_jobs)),
            SolverOptions(
                seconds, self.settings.seed, self.settings.workers, gap=OPTIMALITY_GAP / 2
            ),
            start,
            proved_to=proved_to,
        )
        if chosen is not None:
            plan = {column.job: column for column in chosen}
            if value_of(self.data, plan) < self.value:
                self.plan = plan
        return raw
