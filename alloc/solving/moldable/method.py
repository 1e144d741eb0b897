"""The method of F3.

1. Schedules of lists, and moves in the best of them.
2. Bounds in numpy: energy in windows and sequences of units for peaks, prices of time for sums.
3. Where hosts are units of one resource each: packing of hosts for guesses of a peak, exchanges of
   some hosts, and for up to 62 jobs the listing of all schedules near the bound.
4. Of peaks, the filling of hosts by CP-SAT for guesses.
5. Where the model of all jobs and hosts is small, and listing says less, CP-SAT on it.
6. Large neighbourhoods by CP-SAT until time is up or the gap is closed.
"""

from __future__ import annotations

import math

import numpy as np

from alloc.algorithms.volume import raise_dual
from alloc.backends import SolverOptions, cpsat
from alloc.backends.linear_program import LinearProgram
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.formulation import Array, ArrayModel, CpSatModel, RawResult
from alloc.models.moldable.bounds import Pool, PricesOfTime, least_peak, pool_of
from alloc.models.moldable.cpsat_model import Builder
from alloc.models.moldable.data import MoldableData, moldable_data
from alloc.models.moldable.host_classes import HostClass, host_classes, modes_of
from alloc.models.moldable.sequences import TimePrices
from alloc.models.moldable.serial import Plan, plan_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.solving.moldable.exact import Exact
from alloc.solving.moldable.exchanges import Exchanges
from alloc.solving.moldable.filling import lower_peak
from alloc.solving.moldable.host_sets import MAX_JOBS
from alloc.solving.moldable.lists import first_lists, improved_list, value_of
from alloc.solving.moldable.neighbourhoods import Neighbourhoods
from alloc.solving.moldable.packing import Packing
from alloc.solving.moldable.sequence_master import SequenceMaster
from alloc.solving.outcome import Outcome, Progress, Settings

_SHARE = 0.94
"""Of the time for the search: the rest is for a last step of CP-SAT, and for the checker."""
_LISTS, _MOVES, _FEW_MOVES, _BOUND, _WHOLE = 0.1, 0.35, 0.13, 0.55, 0.8
"""By when lists, moves in them (few where hosts are packed or exchange jobs later), the bound and
CP-SAT on all jobs end, as shares of the time."""
_SEQUENCES, _PACKED = 0.25, 0.33
_EXCHANGES, _EXCHANGES_OF_PEAKS, _EXACT, _EXACT_OF_PEAKS = 0.65, 0.4, 0.85, 0.5
"""By when the bound of sequences, the packing of hosts, exchanges of hosts and the listing of all
schedules near the bound end; of peaks sooner, for hosts are filled then."""
_PACKED_AGAIN, _EXACT_AGAIN = 0.7, 0.8
"""By when hosts are packed again, and what is near the bound is listed again, of peaks."""
_PACKED_AT_ONCE = 10
"""Packings of which the best one's hosts exchange jobs: that takes as long as some of them."""
_MANY_JOBS = 128
"""Jobs up to which hosts are packed again: of more, a packing takes long, and filling gains."""
_FEW_JOBS = 16
"""Jobs up to which all schedules near the bound are listed at once, as they mostly can be, and up
to which CP-SAT may prove a peak that could not be listed in time."""
_ABOVE, _NEARER, _FAILURES = 0.05, 0.3, 10
"""By what share of the bound the first packing guesses more: what is left over then is little. How
far nearer to the bound than the best schedule the next one guesses, three quarters of it after each
that leaves something over, and after how many of these it ends."""
_SAME = 1e-9
"""Relative distance of a packed schedule from its guess that counts as none."""
_MAX_MODES = 1000
"""Modes up to which sequences are searched: beyond, the area says nearly as much."""
_FILLED, _FILLED_OF_FEW = 0.9, 0.3
"""By when the filling of hosts for guesses of a peak ends; sooner where CP-SAT gets all jobs."""
_FAILURES_OF_FEW = 3
"""Guesses that may fail of few jobs, or where CP-SAT gets all jobs next: often that proves the
rest."""
_PATIENCE, _PATIENCE_SQUARE = 2000, 20
"""Moves in a list without a gain, a second for dozens of jobs, and for each pair of few jobs."""
_PATIENCE_BEFORE_LISTING = 200
"""The same where hosts are packed and listed next: these are better, and need no good start."""
_MAX_PLACEMENTS, _MAX_OF_SUMS = 1000, 200
"""Placements of all jobs up to which CP-SAT gets the whole model: of sums of completions, of which
its relaxation says little, far fewer."""
_CELLS = 60_000
"""Ways times moments of the grid of prices: an evaluation takes some milliseconds."""
_MIN_MOMENTS, _MAX_MOMENTS = 40, 240
_AHEAD = 1.25
"""Times the length of the best schedule, so long is the grid of prices: beyond, time is free."""
_VALUE = 1000.0
"""Value of the incumbent in the units of the ascent, whose smallest step is absolute."""


def solve_moldable(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve an instance of F3: the method behind ``solve(..., "moldable")``.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    settings
        Limits, and earlier levels of the goal.
    warm_start
        A schedule to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    search = _Search(moldable_data(instance, objective, settings.held), settings, report)
    limit: Limit | None = None
    try:
        search.run(warm_start)
        if not search.is_closed and search.settings.time_is_up():
            limit = "time"
    except KeyboardInterrupt:
        limit = "interrupt"
    backend = ("alloc lists and prices + CP-SAT", cpsat.version())
    if search.infeasible:
        return Outcome(
            None, math.inf, "claimed", *backend, infeasible=True, conflict=search.conflict
        )
    plan = search.plan
    return Outcome(
        solution=None if plan is None else plan.schedule(search.data),
        bound=search.bound,
        bound_proof=search.proof,
        backend=backend[0],
        backend_version=backend[1],
        limit=limit,
        assumptions=_assumptions(instance),
    )


def _assumptions(instance: Instance) -> tuple[str, ...]:
    able = [
        job.id
        for job in instance.jobs
        if job.preemptible or (job.elasticity == "malleable" and len(job.configurations) > 1)
    ]
    if not able:
        return ()
    return (
        f"{len(able)} of {len(instance.jobs)} jobs may pause or change their configuration "
        f'("{able[0]}" for one) and are asked to run through in one; the bound is of schedules '
        'in which all do. Family "malleable" lets them pause.',
    )


class _Search:
    """What is found and proved so far."""

    def __init__(self, data: MoldableData, settings: Settings, report: Progress) -> None:
        self.data, self.report = data, report
        self.whole = settings
        self.settings = settings.within(_SHARE * settings.seconds_left())
        self.plan: Plan | None = None
        self.value = math.inf
        self.infeasible = False
        self.conflict: str | None = None
        self.bound, self.proof = self._alone(), "recomputed"
        self._prices: tuple[PricesOfTime, Array, float] | None = None
        self._time_prices: TimePrices | None = None
        self.classes = host_classes(self.data)
        self._modes = modes_of(self.data, self.classes)
        self._peaks = 0.0

    bound: float
    proof: BoundProof

    def _alone(self) -> float:
        """Return the value if every job ran alone."""
        return self.data.target.level.value(self.data.earliest_end)

    @property
    def _is_sum(self) -> bool:
        """Whether completions of single jobs count, and not the peak of all alone."""
        costs = self.data.target.level.jobs
        return bool(costs.rate.any() or costs.late.any())

    @property
    def _is_listed(self) -> bool:
        """Whether hosts are units of one resource each, and no earlier level is kept."""
        return self.classes is not None and not self.data.target.held

    @property
    def _is_for_cpsat(self) -> bool:
        """Whether CP-SAT gets all jobs at once: not where listing says more, or they are many."""
        listed = self.plan is not None and self._is_listed
        many = self.data.num_jobs > _FEW_JOBS
        if listed and (many or self._time_prices is not None):
            return False
        most = _MAX_OF_SUMS if self._is_sum and self.plan is not None else _MAX_PLACEMENTS
        return sum(len(way.placements) for ways in self.data.ways for way in ways) <= most

    @property
    def is_closed(self) -> bool:
        """Whether the best schedule is as good as the bound."""
        return self.plan is not None and is_within(
            self.value, min(self.bound, self.value), OPTIMALITY_GAP / 2
        )

    def run(self, warm_start: Solution | None) -> None:
        """Search."""
        if isinstance(warm_start, Schedule):
            self._take(plan_of(self.data, warm_start))
        self._lists()
        if self.is_closed:
            return
        self._bounds()
        if not self.is_closed:
            self._exact()
        self._fill()
        if self._is_for_cpsat and not self.is_closed:
            self._whole()
        if self.plan is None or self.is_closed or self.infeasible:
            return
        around = Neighbourhoods(self.data, self.plan, self.settings)
        try:
            around.run(lambda value: is_within(value, min(self.bound, value), OPTIMALITY_GAP / 2))
        finally:
            self._take(around.plan)
            if self.data.is_complete:
                self._raise(around.bound, "claimed")
            self.report(f"{around.steps} neighbourhoods: {self.value:g}")

    def _take(self, plan: Plan | None) -> None:
        if plan is not None and (value := value_of(self.data, plan)) < self.value:
            self.plan, self.value = plan, value

    def _raise(self, bound: float, proof: BoundProof) -> None:
        if bound > self.bound:
            self.bound, self.proof = bound, proof

    def _by(self, share: float) -> Settings:
        """Return the settings of a step that ends at a share of the time."""
        left = share * self.settings.time_limit_s - (
            self.settings.time_limit_s - self.settings.seconds_left()
        )
        return self.settings.within(max(left, 0.0))

    def _lists(self) -> None:
        brief, best = self._by(_LISTS), None
        lowest = math.inf
        for plan, order, way in first_lists(self.data, brief.time_is_up):
            self._take(plan)
            if best is None or value_of(self.data, plan) < lowest:
                best, lowest = (plan, order, way), value_of(self.data, plan)
        self.report(f"lists: {self.value:g}, each job alone {self.bound:g}")
        if best is not None and not self.is_closed:
            rng = np.random.default_rng(self.settings.seed)
            many = self._is_sum and self.classes is None
            brief = self._by(_MOVES if many else _FEW_MOVES)
            few = self.data.num_jobs <= _FEW_JOBS and self._is_listed
            least = _PATIENCE_BEFORE_LISTING if few else _PATIENCE
            patience = min(least, _PATIENCE_SQUARE * self.data.num_jobs**2)
            found = improved_list(self.data, best, rng, brief.time_is_up, patience)
            self._take(found[0])
            self.report(f"moves in the best list: {self.value:g}")

    def _fill(self) -> None:
        """Lower a single peak by filling hosts for guesses of it."""
        target = self.data.target
        if self._is_sum or target.held or len(target.level.peaks) != 1 or self.plan is None:
            return
        if self.is_closed:
            return
        few = self._is_for_cpsat
        brief = self._by(_FILLED_OF_FEW if few else _FILLED)
        failures = _FAILURES_OF_FEW if few else math.inf
        lower_peak(self.data, self.value, self.bound, brief, self._take, self.report, failures)

    def _bounds(self) -> None:
        data, brief = self.data, self._by(_BOUND)
        level, pool = data.target.level, pool_of(data)

        def solve(model: ArrayModel) -> Array | None:
            if brief.time_is_up():
                return None
            try:
                found = LinearProgram(model).optimum("the energy of a bound", brief.seconds_left())
            except OutOfTime:
                return None
            return found.duals

        end_s = data.end_of_all if self.plan is None else float(self.plan.completion.max())
        ends = np.full(data.num_jobs, end_s)
        if self.plan is not None:
            ends = self.plan.completion
        peaks = [least_peak(pool, peak, float(peak.at(ends).max()), solve) for peak in level.peaks]
        alone = float(level.jobs.at(data.earliest_end).sum())
        self._raise(alone + sum(peaks), "recomputed")  # an interrupt loses no bound
        modes = self._modes
        if len(modes.total) and len(modes.job) <= _MAX_MODES:
            master = SequenceMaster(modes, self._by(_SEQUENCES))
            peaks = [
                master.least_peak(peak, low, float(peak.at(ends).max()))
                for peak, low in zip(level.peaks, peaks, strict=True)
            ]
        self._peaks = sum(peaks)
        self._raise(alone + self._peaks, "recomputed")
        if self._is_sum:
            self._price_hosts(brief)
        if self._is_sum and (self._time_prices is None or pool.has_functions):
            self._raise(self._priced(pool, brief) + self._peaks, "recomputed")
        self.report(f"bounds in numpy: {self.bound:g}")

    def _price_hosts(self, brief: Settings) -> None:
        """Set prices of time for classes of hosts, where these and costs of single jobs are all."""
        if self.classes is None or self.plan is None or self.value <= 0:
            return
        if self.data.target.held or self.data.target.level.peaks:
            return
        exact = Exact(self.data, self.classes, brief, self.report)
        prices = exact.prices(self.value, self._last_moment())
        self._time_prices = prices
        self._raise(math.fsum(prices.least) - prices.offered(self._modes.total), "recomputed")

    def _exact(self) -> None:
        """List all schedules within some distance of the bound, and let hosts exchange jobs.

        Only where hosts are units of one resource each.
        """
        level, classes = self.data.target.level, self.classes
        if classes is None or self.plan is None or self.data.target.held or self.value <= 0:
            return
        if level.peaks and not level.is_peak:
            return
        few = self.data.num_jobs <= _FEW_JOBS
        if level.is_peak:
            self._pack(classes, _FAILURES_OF_FEW if few else _FAILURES)
        before, number = math.inf, sum(len(own.hosts) for own in classes)
        # The peak of two hosts is exchanged in tenths of a second, and listed the sooner for it.
        if few and not self.is_closed and not (level.is_peak and number == 2):
            self._list(classes)
            before = self.value
        if self.is_closed:
            return
        if number > 1:
            until = _EXCHANGES if self._time_prices is not None else _EXCHANGES_OF_PEAKS
            self._exchange(classes, self.plan, until)
        if not self.is_closed and self.data.num_jobs <= MAX_JOBS and self.value < before:
            self._list(classes)
            before = self.value
        if level.is_peak and not few and number > 1:
            self._pack_again(classes)
            if not self.is_closed and self.data.num_jobs <= MAX_JOBS and self.value < before:
                self._list(classes, _EXACT_AGAIN)

    def _pack_again(self, classes: tuple[HostClass, ...]) -> None:
        """Pack hosts for one guess after the other, and let those of the best of some exchange."""
        if self.data.num_jobs > _MANY_JOBS:
            return
        brief = self._by(_PACKED_AGAIN)
        packing = Packing(self.data, classes, brief)
        rng, number = np.random.default_rng(self.settings.seed), 0
        while not brief.time_is_up() and not self.is_closed:
            best, lowest = None, math.inf
            for _ in range(_PACKED_AT_ONCE):
                guess = self.bound + float(rng.uniform()) * (self.value - self.bound)
                plan = packing.plan(guess, None)
                if plan is None:
                    break
                number += 1
                self._take(plan)
                if (value := value_of(self.data, plan)) < lowest:
                    best, lowest = plan, value
            if best is not None and lowest < (1 + _ABOVE) * self.value and not self.is_closed:
                self._exchange(classes, best, _PACKED_AGAIN)
        self.report(f"{number} more packings of hosts: {self.value:g}")

    def _list(self, classes: tuple[HostClass, ...], until: float = _EXACT_OF_PEAKS) -> None:
        """List all schedules within some distance of the bound."""
        level, prices = self.data.target.level, self._time_prices
        filled_next = level.is_peak and self.data.num_jobs > _FEW_JOBS
        brief = self._by(until if filled_next else _EXACT)
        exact = Exact(self.data, classes, brief, self.report)
        if prices is None:
            bound, plan = exact.of_peak(level.peaks[0], self.value, self.bound)
        else:
            bound, plan = exact.of_costs(self.value, prices)
        self._take(plan)
        self._raise(min(bound, self.value), "recomputed")
        self.report(f"all schedules near the bound: {self.value:g}, bound {self.bound:g}")

    def _pack(self, classes: tuple[HostClass, ...], patience: int) -> None:
        """Fill hosts one after the other for guesses of a peak, a little above the bound."""
        brief, peak = self._by(_PACKED), self.data.target.level.peaks[0]
        packing = Packing(self.data, classes, brief)
        master = SequenceMaster(self._modes, brief)
        guess, failures = self.bound * (1 + _ABOVE), 0
        while failures < patience and not brief.time_is_up() and not self.is_closed:
            found = None
            if len(classes) > 1 and len(self._modes.job) <= _MAX_MODES:
                found = master.prices(np.minimum(self.data.deadline, peak.latest(guess)))
            plan = packing.plan(guess, None if found is None else found[1])
            if plan is None:
                break
            self._take(plan)
            failures = 0 if value_of(self.data, plan) <= guess * (1 + _SAME) else failures + 1
            self.report(f"packed hosts for {guess:g}: {value_of(self.data, plan):g}")
            share = 1 - _NEARER * 0.75**failures
            guess = self.bound + share * (self.value - self.bound)

    def _exchange(self, classes: tuple[HostClass, ...], plan: Plan, until: float) -> None:
        """Let some hosts at a time deal out their jobs anew."""
        prices, brief = self._time_prices, self._by(until)
        around = Exchanges(self.data, classes, plan, prices, brief, self._take)
        around.run(lambda value: is_within(value, min(self.bound, value), OPTIMALITY_GAP / 2))
        self.report(f"{around.steps} exchanges of hosts: {around.value:g}, best {self.value:g}")

    def _last_moment(self) -> float:
        """Return where the grid of prices ends, seconds."""
        end_s = self.data.end_of_all if self.plan is None else float(self.plan.completion.max())
        first, last = float(self.data.release.min()), float(self.data.release.max())
        return max(first + _AHEAD * (end_s - first), last * (1 + 1e-9))

    def _priced(self, pool: Pool, brief: Settings) -> float:
        """Return the bound of prices of time on the costs of single jobs."""
        data, level = self.data, self.data.target.level
        number = int(np.clip(_CELLS / len(pool.job), _MIN_MOMENTS, _MAX_MOMENTS))
        slot_s = data.instance.slot_s
        begin, last = float(data.release.min()), self._last_moment()
        if slot_s is None:
            edges: Array = np.linspace(begin, last, number + 1)
        else:
            first = round(begin / slot_s)
            each = max(math.ceil((last / slot_s - first) / number), 1)
            slots = np.arange(first, math.ceil(last / slot_s) + each + 1, each)
            edges = np.asarray(slots * slot_s, dtype=np.float64)
        upper = self.value if math.isfinite(self.value) else 10 * abs(self.bound)
        factor = _VALUE / max(abs(upper), 1e-300)
        priced = PricesOfTime(pool, level.scaled(factor).jobs, edges)
        shape = (pool.load.shape[1], len(edges) - 1)
        found = raise_dual(priced.relaxed, shape, _VALUE, brief.time_is_up, lambda line: None)
        self.report(f"prices of time: {found.rounds} rounds on {shape[1]} intervals")
        self._prices = (priced, found.prices, factor)
        return priced.bound(found.prices) / factor

    def _starts(self) -> list[list[tuple[float, float]]] | None:
        """Return the starts of each way that a better schedule may have; None without prices."""
        if self._prices is None or not math.isfinite(self.value):
            return None
        priced, prices, factor = self._prices
        low, high = priced.starts_within(prices, (self.value - self._peaks) * factor)
        pairs = iter(zip(low.tolist(), high.tolist(), strict=True))
        return [[next(pairs) for _ in ways] for ways in self.data.ways]

    def _whole(self) -> None:
        """Ask CP-SAT for all jobs at once."""
        brief = self._by(_WHOLE)
        known, starts = self.value, self._starts()
        if starts is not None:
            left = sum(most >= least for own in starts for least, most in own)
            self.report(f"prices leave {left} of {sum(map(len, self.data.ways))} ways")
        try:
            with time_limit(brief.seconds_left()):
                builder = Builder(self.data, starts=starts)
                built = builder.built(most=self.value)
        except OutOfTime:
            return
        assert isinstance(built.model, CpSatModel)
        assert built.start is not None
        start = None
        # Of sums no hint: CP-SAT, alone with one, goes on along it and proves nothing.
        if self.plan is not None and not self._is_sum:
            start = built.start(self.plan.schedule(self.data))
        if brief.time_is_up():
            return
        raw: RawResult = cpsat.solve(
            built.model,
            SolverOptions(
                brief.seconds_left(),
                self.settings.seed,
                self.settings.workers,
                OPTIMALITY_GAP / 4,
                start,
                stoppable=True,
            ),
        )
        self.report(f"CP-SAT on all jobs: {raw.native_status}, bound {raw.bound:g}")
        if raw.values is not None:
            self._take(builder.plan_of_values(raw.values))
        if raw.limit == "interrupt":
            raise KeyboardInterrupt
        if not self.data.is_complete:
            return
        if raw.status == "infeasible" and self.plan is not None:
            self._raise(known, "claimed")  # no better schedule starts where a better one would
        elif raw.status == "infeasible":
            self.infeasible = True
            self.conflict = (
                "each job alone meets its deadline and the horizon, but the hosts do not let all "
                "of them together; add hosts, drop jobs, or move the limits"
            )
        elif math.isfinite(raw.bound):
            # Where starts are limited, the bound is of the schedules better than the one known.
            self._raise(min(raw.bound, known), "claimed")
