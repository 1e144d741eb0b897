"""The specialised exact method of F2.

1. A first schedule by insertion, or the warm start.
2. Column generation over job profiles: prices, and a bound re-evaluated in plain numpy.
3. Incumbents: price-guided insertion, the integer master, large-neighbourhood search.
4. Proof: when few profiles can be in a better schedule, the integer master over all of them.
5. Tasks on hosts, slot by slot.
6. In continuous time, list scheduling from the schedule on the grid, and a local search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.scaling import power_of_two
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit
from alloc.families import FAMILIES
from alloc.formulation import Array, ArrayModel, BuiltModel, RawResult
from alloc.models.malleable.arrays import build_arrays
from alloc.models.malleable.data import Index, SlotData, slot_data
from alloc.models.malleable.fluid import fluid_bound
from alloc.models.malleable.grid import grid_of
from alloc.models.malleable.host_insertion import insert_on_hosts
from alloc.models.malleable.placing import place_plan, plan_of
from alloc.models.malleable.profiles import Profile
from alloc.objectives import objective as objective_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.solving.malleable.column_generation import (
    Relaxation,
    bound_states,
    generate_columns,
)
from alloc.solving.malleable.enumeration import enumerate_profiles
from alloc.solving.malleable.improvement import Improver, Plan, guided_plans
from alloc.solving.malleable.insertion import Builder, serial_horizon, total_cost
from alloc.solving.malleable.list_search import ListSearch, best_of
from alloc.solving.malleable.master import Column, make_column, solve_integer_master
from alloc.solving.malleable.quick_insertion import is_exact
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.refinement import Question, solve_refined
from alloc.verification import verify

_MOST_PROFILES = 120_000
_FEW_PROFILES = 4_000
_GRID_SLOTS = 300
_SEARCH_SHARE = 0.96
_FIRST_SHARE, _GUIDED_SHARE = 0.3, 0.3
"""Shares of the time left after which the first schedule, and those guided by prices, hurry."""
_GRID_SHARE = 0.5
"""Part of the time for the grid in continuous time; the rest is for what the grid cannot say."""
_MOST_COLUMNS = 50_000
_MOST_ASKED = 1_000_000
"""Choices (job, slot, configuration) up to which HiGHS is asked for a schedule: building the model
of more takes a minute and gigabytes."""
_BACKEND = "alloc column generation + HiGHS"

_TOGETHER = (
    "each job alone meets its deadline and the horizon, but capacity does not let all of them "
    "together; add hosts, drop jobs, or move the limits"
)

Report = Callable[[str], None]


def solve_malleable(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Report,
) -> Outcome[Solution]:
    """Solve an instance of F2: the method behind ``solve(..., "malleable")``.

    In continuous time a schedule on a grid of slots is improved off the grid, and the bound is the
    fluid one, which holds for schedules on any grid and none. The answer is never worse than a warm
    start that keeps every rule.
    """
    # The search compares values with fixed tolerances, so the largest weight is about 1 to it.
    unit = power_of_two(max((job.weight for job in instance.jobs), default=1.0))
    if unit != 1.0:
        report(f"weights are counted in units of {1 / unit:g}")
        jobs = tuple(replace(job, weight=job.weight * unit) for job in instance.jobs)
        instance = instance.replace(jobs=jobs)
    outcome = _solve(instance, settings, warm_start, report)
    return replace(outcome, bound=outcome.bound / unit)


def _solve(
    instance: Instance, settings: Settings, warm_start: Solution | None, report: Report
) -> Outcome[Solution]:
    """Solve an instance whose largest weight is about 1."""
    asked, continuous = instance, instance.slot_s is None
    if continuous:
        instance = instance.replace(slot_s=_grid_slot_s(instance))
    data = slot_data(instance)
    version = highs.version()
    # Checking the answer takes its part of the time limit.
    settings = replace(settings, time_limit_s=_SEARCH_SHARE * settings.time_limit_s)
    whole = settings
    if continuous:
        settings = replace(settings, time_limit_s=_GRID_SHARE * settings.time_limit_s)
    if (conflict := too_late(data, continuous)) is not None:
        return Outcome(
            None, math.inf, "recomputed", _BACKEND, version, infeasible=True, conflict=conflict
        )
    search = _Search(data, settings, warm_start, report)
    limit: Limit | None = None
    try:
        search.run()
        # Placing the answer takes as long again as placing the first one did.
        settings = search.settings
        if search.gap > OPTIMALITY_GAP and settings.time_is_up():
            limit = "time"
    except KeyboardInterrupt:
        # What was found until here is kept and certified.
        limit = "interrupt"
    if search.infeasible and not continuous:
        return Outcome(
            None, math.inf, "claimed", _BACKEND, version, infeasible=True, conflict=_TOGETHER
        )
    bound, bound_proof = search.bound * data.slot_s, search.bound_proof
    schedule = search.schedule()
    question = Question(instance, FAMILIES["malleable"], "weighted_jct")
    unproved = search.gap > OPTIMALITY_GAP or _pays_restarts(instance)
    # The totals may hold what the hosts do not hold together.
    if not unproved and schedule is not None:
        unproved = not question.reaches(schedule, bound, OPTIMALITY_GAP)
    if schedule is not None and unproved and not continuous and limit is None:
        raw, schedule = _time_indexed(question, schedule, settings, report)
        if schedule is None:
            return Outcome(
                None, math.inf, "claimed", _BACKEND, version, infeasible=True, conflict=_TOGETHER
            )
        if raw.bound > bound:
            bound, bound_proof = raw.bound, raw.bound_proof
        limit = raw.limit or ("time" if settings.time_is_up() else None)
    if continuous:
        bound, bound_proof = _continuous_bound(data, search.prices), "recomputed"
        report(f"in continuous time the prices prove {bound:g} s")
        schedule, limit = _search_lists(asked, [schedule, warm_start], bound, whole, limit, report)
    elif isinstance(warm_start, Schedule):
        # Hosts found slot by slot may lose what the plan gained.
        best = best_of(asked, [schedule, warm_start])
        schedule = None if best is None else best.schedule
    return Outcome(
        solution=schedule,
        bound=bound,
        bound_proof=bound_proof,
        backend=_BACKEND,
        backend_version=version,
        limit=limit,
    )


def _search_lists(
    instance: Instance,
    given: list[Schedule | Solution | None],
    bound: float,
    settings: Settings,
    limit: Limit | None,
    report: Report,
) -> tuple[Schedule | None, Limit | None]:
    """Return the best schedule in continuous time that is found in the time left, and its end."""
    schedules = [schedule for schedule in given if isinstance(schedule, Schedule)]
    lists = ListSearch(instance, schedules, settings.seed, settings.seconds_left)
    if limit != "interrupt":
        limit = None
        try:
            lists.run(bound * (1 + OPTIMALITY_GAP), report)
            limit = "time" if settings.seconds_left() <= 0 else None
        except KeyboardInterrupt:
            limit = "interrupt"
    return None if lists.best is None else lists.best.schedule, limit


def _pays_restarts(instance: Instance) -> bool:
    return any(job.restart_cost_s > 0 for job in instance.jobs)


def _time_indexed(
    question: Question, schedule: Schedule, settings: Settings, report: Report
) -> tuple[RawResult, Schedule | None]:
    """Return what the time-indexed program proves, and the better of a schedule and its own.

    The last resort, where the program is small enough: it branches where too many profiles are left
    to list, it sees what restarts cost, which profiles do not, and it is told what the hosts do not
    hold. Where it has no solution and the schedule breaks a rule, there is no schedule.
    """
    instance = question.problem
    nothing = RawResult("no_solution", None, None, -math.inf, None, "Not asked", "none")
    if settings.time_is_up() or grid_of(instance).num_choices > _MOST_COLUMNS:
        return nothing, schedule
    built = build_arrays(instance, "weighted_jct")
    if len(cast(ArrayModel, built.model).cost) > _MOST_COLUMNS:
        return nothing, schedule

    def run(tried: BuiltModel) -> RawResult:
        start = tried.start(schedule) if tried.start is not None else None
        raw = solve_and_prove(
            cast(ArrayModel, tried.model),
            SolverOptions(
                settings.seconds_left(),
                settings.seed,
                settings.workers,
                gap=OPTIMALITY_GAP / 2,
                start=start,
                stoppable=True,
            ),
        )
        report(f"time-indexed program: {raw.native_status}, bound {raw.bound:g} s")
        return raw

    return solve_refined(question, built, run, settings, report, schedule)


def _grid_slot_s(instance: Instance) -> float:
    """Return the slot of the grid for an instance without slots, seconds.

    Fine enough for the shortest jobs to lose little, coarse enough for a few hundred slots and for
    every restart to take one slot at most.
    """
    restart = max(job.restart_cost_s for job in instance.jobs)
    runs = np.array([job.min_run_s for job in instance.jobs])
    span = max(job.arrival_s for job in instance.jobs) + float(runs.max())
    return float(max(np.median(runs) / 8, span / _GRID_SLOTS, restart))


def _continuous_bound(data: SlotData, prices: Array | None) -> float:
    """Return the bound in continuous time: of the prices, or of every job alone."""
    no_contention = float(data.weight @ data.shortest) * data.slot_s
    return no_contention if prices is None else max(no_contention, fluid_bound(data, prices))


def too_late(data: SlotData, continuous: bool = False) -> str | None:
    """Return the sentence for a job that misses its limit even alone, or None."""
    start = data.release - data.lag if continuous else data.release
    earliest = start + data.shortest
    late = np.flatnonzero(earliest > data.limit + 1e-9)
    if not len(late):
        return None
    job = data.instance.jobs[int(late[0])]
    others = f" (and {len(late) - 1} more jobs)" if len(late) > 1 else ""
    return (
        f'job "{job.id}" completes at {earliest[late[0]] * data.slot_s:g} s at the earliest, alone '
        f"on the cluster, but must by {data.limit[late[0]] * data.slot_s:g} s{others}; move its "
        "deadline or the horizon"
    )


class _Search:
    """The state of one solve: the incumbent and the bound are valid at every moment."""

    def __init__(
        self, data: SlotData, settings: Settings, warm_start: Solution | None, report: Report
    ) -> None:
        self.data = data
        self.settings = settings
        self.warm_start = warm_start
        self.report = report
        self.plan: Plan | None = None
        self.bound = data.no_contention / data.slot_s
        self.bound_proof: BoundProof = "recomputed"
        self.num_slots = 0
        self.infeasible = False
        self.prices: Array | None = None
        self._placed: tuple[Plan, Schedule] | None = None

    @property
    def value(self) -> float:
        """Weighted JCT of the incumbent, weighted slots; infinite without one."""
        return math.inf if self.plan is None else total_cost(self.plan)

    @property
    def gap(self) -> float:
        """Relative gap between incumbent and bound."""
        return math.inf if self.plan is None else (self.value - self.bound) / max(self.value, 1e-9)

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
        if self.settings.time_is_up():
            return
        self.num_slots = num_slots = self._num_slots()
        relaxation = generate_columns(
            self.data,
            num_slots,
            list(self.plan.values()),
            self.settings,
            0.5 * self.settings.seconds_left(),
            self.report,
        )
        self.bound = max(self.bound, relaxation.bound)
        self.prices = relaxation.prices
        builder = Builder(self.data, num_slots)
        improver = Improver(self.data, builder, relaxation, self.plan, self.settings)
        guided = self.settings.within(_GUIDED_SHARE * self.settings.seconds_left())
        for plan in guided_plans(self.data, builder, relaxation, guided):
            improver.adopt(plan)
        self._adopt(improver)
        self.report(f"price-guided insertion: {self.value:.4f}, bound {self.bound:.4f}")
        improver.target = self.bound * (1 + OPTIMALITY_GAP)
        improver.integer_master(0.3 * self.settings.seconds_left())
        self._adopt(improver)
        self.report(f"integer master: {self.value:.4f}, gap {self.gap:.3%}")
        # Short searches and attempts at the proof in turn: each makes the other cheaper.
        share = 0.05
        if _pays_restarts(self.data.instance):
            # Better profiles are not better schedules here; leave the time to the exact program.
            return
        while self.gap > OPTIMALITY_GAP and not self.settings.time_is_up():
            improver.search(share * self.settings.seconds_left(), self.report)
            self._adopt(improver)
            if self._prove(relaxation):
                break
            if share >= 1.0:
                break
            share = min(2 * share, 1.0)

    def schedule(self) -> Schedule | None:
        """Return the incumbent on hosts."""
        if self.plan is None:
            return None
        if self._placed is None or self._placed[0] is not self.plan:
            self._placed = (self.plan, self._on_hosts(self.plan))
        return self._placed[1]

    def _on_hosts(self, plan: Plan) -> Schedule:
        """Return a plan on hosts, or a schedule built there where placing it loses too much."""
        instance, value = self.data.instance, objective_of("weighted_jct").evaluate
        placed = place_plan(self.data, self.plan_profiles())
        lost = value(instance, placed) > (1 + OPTIMALITY_GAP) * total_cost(plan) * self.data.slot_s
        broken = lost and bool(verify(instance, placed))
        if not lost or (self.settings.time_is_up() and not broken):
            return placed
        order = sorted(plan, key=lambda j: plan[j].profile.completion)
        built = insert_on_hosts(self.data, order)
        if verify(instance, built):
            return placed
        self.report("gangs fit the totals but not the hosts together: a schedule built on hosts")
        return built if broken or value(instance, built) < value(instance, placed) else placed

    def _decide_feasibility(self) -> None:
        """Ask HiGHS whether there is a schedule at all: insertion found none within the limits."""
        if grid_of(self.data.instance).num_choices > _MOST_ASKED:
            self.report("insertion finds no schedule within the limits; too large to ask HiGHS")
            return
        self.report("insertion finds no schedule within the limits; asking HiGHS for one")
        built = build_arrays(self.data.instance, "weighted_jct")
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
            self.bound, self.bound_proof = raw.bound / self.data.slot_s, "claimed"
        if raw.values is not None:
            found = built.extract(raw.values)
            profiles = plan_of(self.data, found) if isinstance(found, Schedule) else None
            if profiles is not None:
                self.plan = {j: make_column(self.data, j, p) for j, p in profiles.items()}

    def plan_profiles(self) -> dict[int, Profile]:
        """Return the profile of each job."""
        assert self.plan is not None
        return {j: column.profile for j, column in self.plan.items()}

    def _adopt(self, improver: Improver) -> None:
        if improver.value < self.value:
            self.plan = improver.plan

    def _first_plan(self) -> Plan | None:
        """Return the warm start if it is a whole schedule, else insertion in Smith's order."""
        data = self.data
        plans: list[Plan] = []
        if isinstance(self.warm_start, Schedule):
            profiles = plan_of(data, self.warm_start)
            if profiles is not None:
                plans.append({j: make_column(data, j, p) for j, p in profiles.items()})
        orders = (
            np.argsort(data.release + data.shortest / data.weight, kind="stable"),
            np.argsort(data.limit, kind="stable"),
        )
        most = serial_horizon(data)
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
        return min(plans, key=total_cost) if plans else None

    def _inserted(
        self, builder: Builder, orders: Sequence[Index], hurry: Callable[[], bool]
    ) -> list[Plan]:
        """Return the first schedule that insertion in one of some orders finds, if there is one."""
        for order in orders:
            plan = builder.insert_all(order.tolist(), builder.empty(), None, hurry)
            if plan is not None:
                return [plan]
        return []

    def _num_slots(self) -> int:
        """Return how many slots the master gets: the incumbent's, and some to spare."""
        assert self.plan is not None
        last = max(column.profile.completion for column in self.plan.values())
        return math.ceil(1.1 * last) + 3

    def _prove(self, relaxation: Relaxation) -> bool:
        """Try to prove the incumbent, or find the optimum, by enumerating profiles."""
        slack = self.value - relaxation.bound
        profiles = enumerate_profiles(
            self.data,
            relaxation.prices,
            slack * (1 + 1e-9) + 1e-9,
            num_states=bound_states(self.data, len(relaxation.prices)),
            most=_MOST_PROFILES,
            stop=self.settings.time_is_up,
        )
        if profiles is None:
            return False
        columns = [make_column(self.data, j, p) for j, own in enumerate(profiles) for p in own]
        self.report(f"{len(columns)} profiles are within {slack:.4f} of their job's cheapest")
        if len(columns) > _FEW_PROFILES:
            # The cheapest of them alone often hold a better schedule, and then fewer are left.
            before = self.value
            reduced = [c.cost + relaxation.prices.ravel()[c.rows] @ c.use for c in columns]
            cheapest = np.zeros(self.data.num_jobs) + math.inf
            np.minimum.at(cheapest, [c.job for c in columns], reduced)
            excess = np.array(reduced) - cheapest[[c.job for c in columns]]
            few = np.argsort(excess, kind="stable")[:_FEW_PROFILES]
            self._choose([columns[i] for i in few], 0.1 * self.settings.seconds_left())
            if self.value < before - 1e-9:
                return self._prove(relaxation)
        raw = self._choose(columns, self.settings.seconds_left(), prove=True)
        if raw.status == "infeasible":
            # It is not, for the incumbent is among the columns: nothing is proved.
            return False
        # Schedules outside the enumerated profiles are no better than the incumbent was.
        proved = min(raw.bound, self.value)
        if proved > self.bound:
            self.bound, self.bound_proof = proved, raw.bound_proof
        return raw.status == "optimal"

    def _choose(self, columns: list[Column], seconds: float, *, prove: bool = False) -> RawResult:
        """Choose the best schedule among columns and the incumbent's; return what is proved."""
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
            prove=prove,
        )
        if chosen is not None:
            plan = {column.job: column for column in chosen}
            if total_cost(plan) < self.value:
                self.plan = plan
        return raw
