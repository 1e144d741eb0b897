"""Integers of right-sizing: candidates from dives and from large neighbourhoods, and the bound.

Parameters
----------
values
    A first stage, of which the integers count, shape (columns,).
what
    What found it, for the line of progress.
point, fixed
    An optimum of the master, and the columns that keep their values, rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alloc.algorithms.add_drop import better_choices
from alloc.algorithms.bound_tightening import upper_bounds_in_better
from alloc.backends import SolverOptions
from alloc.formulation import RawResult
from alloc.models.right_sizing.data import Array, Ints
from alloc.models.right_sizing.margins import Margin
from alloc.solving.right_sizing.blocks import SHORT, BlockValue, Task
from alloc.solving.right_sizing.max_counted import max_counted
from alloc.solving.right_sizing.mending import Mending, to_blame
from alloc.solving.right_sizing.relaxation import Incumbent, Relaxation
from alloc.solving.right_sizing.slopes import open_by_slopes

_ROUNDED = "rounded"
_MENDED = "mended"
_MAX_MENDS = 6
"""Times that what goes short is mended: each but moves what is missing on, if it is not cured."""
_STEPS_OF_DIVE, _ATTEMPTS = 6, 4
"""Steps of its relaxation, and choices of places with what the last one taught; time ends both."""
_ROUNDINGS = 2
"""Of one choice of what is open: the first shows where the cuts promised too much."""
_IN_USE = 1e-3  # GPUs from which on a pool is in use
_GOOD_PART = 0.2  # part of a class that is sent to a pool for good
_FORESEEN = 3  # scenarios looked at for every pool
# Wall time of one step, seconds, so that under a limit of a minute each has several turns.
_SECONDS_TO_ROUND = 5.0
_SECONDS_TO_ADD_AND_DROP = 5.0
_SECONDS_TO_POLISH = 6.0
_SHARE_TO_TIGHTEN = 0.1  # of the time left
_SHARE_OF_DIVE = 0.25
"""Of the time left, for what is open in a dive, and then for its relaxation."""
_NEARER = 0.6
"""Distance of the incumbent from the relaxation at which to tighten again, over that before."""
_PART_OF_GAP = 1 / 3  # asked for: the gap of the first proof; halved when one gains nothing
_MAX_RAISES = 5
"""Times that the penalty of slack is raised, tenfold each: beside a larger one all other costs
would be below the solver's tolerances."""

Fixed = tuple[Ints, Array, Array]
"""Columns with lower and upper bounds for a while."""


class Candidates:
    """The search for plans: dives, neighbourhoods and the quarterly integer program.

    Parameters
    ----------
    relaxation
        What they start from, and whose cuts, bound and incumbent they improve.
    """

    def __init__(self, relaxation: Relaxation) -> None:
        self.relaxation = relaxation
        data = relaxation.data
        self.switches = self.relaxation.first.open[self.relaxation.first.open >= 0]
        self.choices: Ints = np.concatenate([self.switches, self.relaxation.first.sent.ravel()])
        """What is open, quarter by quarter, and then where jobs are sent that need a margin."""
        pools = [level.pool for level in data.levels] if len(self.switches) else []
        self.choice_pools = [data.pools[p] for p in (*pools, *(d.pool for d in data.destinations))]
        """The pool that each row of choices is about, all quarters of which follow each other."""
        self.seen = np.zeros(len(self.choices), dtype=bool)
        """Choices that were taken in some dive or, of switches, in the relaxation."""
        self.limits = max_counted(data, relaxation.first)
        """M of (C7) for each switch, as far as it is tightened."""
        self._set_limits()
        self._dives = 0
        self._tried: set[bytes] = set()
        self._short: set[bytes] = set()
        """Those of the tried that go short."""
        self._went_short = False
        """Whether the last one did, and had not been tried before."""
        self._last_short: tuple[Array, dict[Task, BlockValue]]
        """The last that did, with its values."""
        self._blamed: Ints = np.zeros(0, dtype=np.int64)
        """Columns of where jobs are sent to which it may be due that the last one went short."""
        self._raises = 0
        self._above_when_tightened = math.inf
        self._part_of_gap = _PART_OF_GAP

    def _set_limits(self) -> None:
        if len(self.switches):
            self.relaxation.quarters.limit_counted(self.limits)
            self.relaxation.master.limit_counted(self.limits)

    def try_candidate(self, values: Array, what: str) -> bool:
        """Value a first stage whose integers are set; return whether it is the best so far."""
        relaxation, first = self.relaxation, self.relaxation.first
        self._went_short = False
        point = relaxation.completing.complete(values)
        key = np.append(np.round(point[first.integer]), point[first.order]).tobytes()
        if key in self._tried:
            # In a dive the places that jobs are sent to may be to blame, which no price changes.
            if key in self._short and not (what == _ROUNDED and len(relaxation.first.sent)):
                self._cut_off(point)
            # Rows that say what it costs were dropped: without them it would come every turn.
            relaxation.cut(point, keep=True)
            return False
        self._tried.add(key)
        found = relaxation.value(point, relaxation.tasks, keep=True)
        relaxation.cut(point)
        if self._goes_short(found):
            self._short.add(key)
            self._went_short = True
            self._blamed = to_blame(relaxation, found)
            self._last_short = point, found
        worth = float(
            relaxation.setting.cost @ point
            + sum(relaxation.setting.weight[task] * found[task].value for task in relaxation.tasks)
        )
        if worth < relaxation.cost and self._is_plan(point, found):
            relaxation.take(Incumbent(point, worth, found), what)
            return True
        return False

    def try_mended(self, values: Array, what: str) -> bool:
        """Value a first stage, and mend it while it goes short and there is no plan yet."""
        if self.try_candidate(values, what):
            return True
        relaxation, mending = self.relaxation, Mending(self.relaxation)
        for _ in range(_MAX_MENDS):
            has_time = relaxation.seconds_left() > 3 * relaxation.seconds_to_value
            if not (self._went_short and has_time and relaxation.incumbent is None):
                break
            mended = mending.mend(*self._last_short)
            if mended is None:
                break
            if self.try_candidate(mended, _MENDED):
                return True
        return False

    def _cut_off(self, point: Array) -> None:
        """Raise the penalty of slack where the cuts propose again a first stage that goes short.

        It misses so little that the slack costs less than another host. Whether any plan misses
        nothing is another question: one must be known.
        """
        relaxation = self.relaxation
        if relaxation.incumbent is not None and self._raises < _MAX_RAISES:
            self._raises += 1
            relaxation.raise_slack_penalty()
            relaxation.value(point, relaxation.tasks)
            relaxation.cut(point)

    def _goes_short(self, found: dict[Task, BlockValue]) -> bool:
        # Half of what the checker allows; the other half is for rounding.
        return any(value.short > SHORT / 2 for value in found.values())

    def _is_plan(self, point: Array, found: dict[Task, BlockValue]) -> bool:
        relaxation = self.relaxation
        if relaxation.setting.feasibility:
            return True
        if self._goes_short(found):
            return False
        spent = relaxation.first.spent @ point / relaxation.unit
        for (w, t), value in found.items():
            spent[t] += relaxation.data.probability[w] * value.value
        budgets = relaxation.setting.budget_rows @ spent
        return bool(np.all(budgets <= relaxation.setting.budgets * (1 + 1e-7) + 1e-9))

    def dive(self, guess: Array | None, attempts: int = _ATTEMPTS) -> bool:
        """Choose what is open, close the relaxation around it, and round; say if that is better.

        Parameters
        ----------
        guess
            A first stage whose open pools, and places that jobs are sent to, to take; None: slope
            scaling and the relaxation find them.
        attempts
            Times that it goes on with what it learned, while its plans go short.
        """
        relaxation = self.relaxation
        switches, sent = self.switches, relaxation.first.sent.ravel()
        waive = relaxation.first.waive
        if len(sent):
            places = self._places() if guess is None else self._possible(np.round(guess[sent]))
            self.seen[len(switches) :] |= places > 0.5
            relaxation.master.fix(sent, places, places)
        if len(switches):
            chosen = (
                open_by_slopes(
                    relaxation.master,
                    relaxation.first,
                    self.limits,
                    relaxation.rng if self._dives else None,
                    _SHARE_OF_DIVE * relaxation.seconds_left(),
                )
                if guess is None
                else np.round(guess[switches])
            )
            has_time = relaxation.seconds_left() > 3 * relaxation.seconds_to_value
            if chosen is None or not (has_time or relaxation.incumbent is None):
                relaxation.master.release(sent)
                return False
            self.seen[: len(switches)] |= chosen > 0.5
            relaxation.master.fix(switches, chosen, chosen)
        if len(waive):
            answer = relaxation.master.solve()
            if answer is not None:
                allowed = relaxation.completing.waive(answer[1][waive])
                relaxation.master.fix(waive, allowed, allowed)
        self._dives += 1
        seconds = _SHARE_OF_DIVE * relaxation.seconds_left()
        fixed = np.concatenate([switches, sent, waive])
        better = False
        for _ in range(attempts if len(sent) else _ROUNDINGS):
            gap = relaxation.gap / 4
            relaxed = relaxation.relax(None, _STEPS_OF_DIVE, gap, seconds, surely=False)
            if relaxed is None:
                break
            relaxation.aggregate_cuts()
            if relaxed[0] >= relaxation.wanted():
                break  # whatever the orders are
            found = self.round(relaxed[1], fixed)
            better |= found
            is_late = relaxation.seconds_left() < 5 * relaxation.seconds_to_value
            if is_late or relaxation.closed():
                break
            if not len(sent):
                if found:
                    continue
                break
            if found or not self._went_short:
                break
            # More hosts may not cure it: on spot ones there is no more room.
            free = np.intersect1d(fixed, self._blamed)
            relaxation.master.release(free)
            fixed = np.setdiff1d(fixed, free)
        relaxation.master.release(fixed)
        return better

    def _places(self) -> Array:
        """Return where jobs that need a margin are sent.

        There where the relaxation sends a good part of them, and where the margin is kept anyway.
        """
        relaxation = self.relaxation
        data = relaxation.data
        part = _GOOD_PART if not self._dives else _GOOD_PART * 2 * relaxation.rng.random()
        # Of the most that a class may send in any quarter, what it has to send in each.
        most = data.demand.max(axis=0).T
        need = most / np.maximum(most.max(axis=1, keepdims=True), 1e-12)
        need = np.array(
            [need[list(at.job_classes)].min(axis=0) for at in data.destinations]
        ).reshape(-1, data.num_quarters)
        wish = relaxation.relaxed_point[relaxation.first.sent]
        chosen = wish > np.maximum(part * need, _IN_USE)
        kept = data.margins_kept(chosen.astype(float))
        asking: list[list[Margin]] = [[] for _ in data.destinations]
        for margin in data.margins:
            for i in margin.destinations:
                asking[i].append(margin)
        for i, margins in enumerate(asking):
            # One more that needs no more than is kept.
            needed = np.zeros(data.num_quarters)
            for margin in margins:
                others = [j for j in margin.destinations if j != i]
                met = chosen[others].all(axis=0)
                needed = np.maximum(needed, np.array(margin.gpus) * met)
            chosen[i] |= needed <= kept[data.place_of(margins[0])]
        return self._possible(np.asarray(chosen, dtype=float).ravel())

    def _possible(self, places: Array) -> Array:
        """Return places without those that may not be, or ask for more than a spot pool has.

        Of destinations that a pool cannot keep a margin for, the one goes that the relaxation sends
        least to, until what is left can be kept.
        """
        relaxation = self.relaxation
        data, first = relaxation.data, relaxation.first
        chosen = (places.reshape(first.sent.shape) > 0.5) & (first.upper[first.sent] > 0)
        wish = relaxation.relaxed_point[first.sent]
        most = first.upper[first.margin]
        for margin in sorted(data.margins, key=lambda margin: len(margin.destinations)):
            at = list(margin.destinations)
            over = np.array(margin.gpus) > most[data.place_of(margin)]
            for t in np.flatnonzero(over & chosen[at].all(axis=0)).tolist():
                chosen[min(at, key=lambda i: wish[i, t]), t] = False
        return np.asarray(chosen, dtype=float).ravel()

    def add_pool_closing_cuts(self, point: Array) -> None:
        """Learn what it costs to do without each of the pools in use at a point.

        Otherwise the cuts know nothing of first stages without them, and promise too much there.
        """
        relaxation = self.relaxation
        first = relaxation.first
        for pool in range(len(first.usable)):
            columns = first.usable[pool]
            if not (point[columns] > _IN_USE).any():
                continue
            if relaxation.seconds_left() < 10 * relaxation.seconds_to_value:
                return
            without = point.copy()
            without[columns] = 0.0
            relaxation.value(without, relaxation.some(_FORESEEN))
            relaxation.cut(without)

    def add_and_drop(self) -> bool:
        """Open and close pools of the incumbent, or of a dive, while the cuts promise a gain."""
        relaxation = self.relaxation
        if not len(self.choices):
            return False
        if relaxation.incumbent is not None:
            chosen = np.round(self.incumbent_choices())
        elif not len(relaxation.first.sent):
            share = _SHARE_OF_DIVE * relaxation.seconds_left()
            opened = open_by_slopes(relaxation.master, relaxation.first, self.limits, None, share)
            if opened is None:
                return False
            chosen = opened
        else:
            return False
        shape = len(self.choice_pools), relaxation.data.num_quarters
        found, cost = better_choices(
            relaxation.quarters.model(),
            self.choices.reshape(shape),
            chosen.reshape(shape) > 0.5,
            min(_SECONDS_TO_ADD_AND_DROP, 0.15 * relaxation.seconds_left()),
            relaxation.rng,
        )
        if cost > relaxation.wanted():
            return False
        guess = np.zeros(len(relaxation.setting.cost))
        guess[self.choices] = found.ravel()
        return self.dive(guess)

    def tighten(self) -> None:
        """Learn from the incumbent how many hosts a pool can hold in a cheaper plan.

        Again only when the incumbent has come much nearer to the relaxation: it takes seconds.
        """
        relaxation = self.relaxation
        if relaxation.incumbent is None or not len(self.switches):
            return
        above = relaxation.incumbent.cost - relaxation.linear_bound
        if above > _NEARER * self._above_when_tightened:
            return
        self._above_when_tightened = above
        # First of pools that the relaxation has open in part: others hardly gain by it.
        part = relaxation.relaxed_point[self.switches]
        order = np.argsort(-part * (1 - part), kind="stable")
        counted = relaxation.first.counted[relaxation.first.open >= 0]
        limits = self.limits.copy()
        limits[order] = upper_bounds_in_better(
            relaxation.quarters.model(),
            relaxation.incumbent.cost,
            counted[order],
            limits[order],
            _SHARE_TO_TIGHTEN * relaxation.seconds_left(),
        )
        self.limits = limits
        self._set_limits()

    def polish(self) -> bool:
        """Choose anew among some pools, the rest as in the incumbent: for each process others."""
        relaxation = self.relaxation
        if relaxation.incumbent is None or not len(self.choices):
            return False
        fixed = [self._neighbourhood() for _ in range(relaxation.values.count)]
        answers = self._integer_programs(fixed, _SECONDS_TO_POLISH, relaxation.gap / 5)
        return self._dive_at(answers)

    def _dive_at(self, answers: list[RawResult]) -> bool:
        """Dive at the answer that promises most, if any promises to be better."""
        relaxation = self.relaxation
        promises = [
            (raw.objective, raw.values)
            for raw in answers
            if raw.objective is not None and raw.values is not None
        ]
        if not promises or relaxation.seconds_left() < 3 * relaxation.seconds_to_value:
            return False
        objective, values = min(promises, key=lambda promise: promise[0])
        wanted = objective <= relaxation.wanted()
        return wanted and self.dive(values[: len(relaxation.setting.cost)])

    def _integer_programs(
        self, fixed: Sequence[Fixed | None], seconds: float, gap: float
    ) -> list[RawResult]:
        """Solve the quarterly program with some columns fixed, each time others."""
        relaxation = self.relaxation
        seconds = max(min(seconds, relaxation.seconds_left()), 0.1)
        options = SolverOptions(
            seconds, relaxation.settings.seed, 1, gap=gap, start=self._integers()
        )
        programs = [(relaxation.quarters.program(part), options) for part in fixed]
        answers = relaxation.solve_programs(programs, proves=fixed[0] is None)
        relaxation.quarters.forget([raw.values for raw in answers if raw.values is not None])
        return answers

    def _neighbourhood(self) -> Fixed:
        """Return the choices that stay as they are in the incumbent.

        Free are those of the pools of some GPU types, of a site, or all that were taken once.
        """
        relaxation = self.relaxation
        held = self.choices[~self._free()]
        assert relaxation.incumbent is not None
        values = np.round(relaxation.incumbent.values[held])
        return held, values, values

    def _free(self) -> npt.NDArray[np.bool_]:
        relaxation = self.relaxation
        kind = int(relaxation.rng.integers(8))
        if kind == 0:
            return self.seen | (np.round(self.incumbent_choices()) > 0.5)
        keys = [pool.site if kind == 1 else pool.gpu_type for pool in self.choice_pools]
        names = sorted(set(keys), key=str)
        count = min(1 if kind == 1 else 2 + kind % 2, len(names))
        chosen = {
            names[i] for i in relaxation.rng.choice(len(names), count, replace=False).tolist()
        }
        quarters = relaxation.setting.shape[1]
        return np.repeat([key in chosen for key in keys], quarters)

    def incumbent_choices(self) -> Array:
        """Return what the incumbent has open, and where it sends jobs that need a margin."""
        relaxation = self.relaxation
        assert relaxation.incumbent is not None
        return relaxation.incumbent.values[self.choices]

    def _integers(self) -> Array | None:
        """Return the incumbent's integers as a start of the quarterly program."""
        relaxation = self.relaxation
        if relaxation.incumbent is None:
            return None
        start = np.full(len(relaxation.quarters.base.cost), np.nan)
        integers = np.flatnonzero(relaxation.first.integer)
        start[integers] = relaxation.incumbent.values[integers]
        return start

    def round(self, point: Array, fixed: Ints) -> bool:
        """Round the orders near a point, as well as the quarterly cuts know how."""
        relaxation = self.relaxation
        orders = relaxation.first.order[relaxation.first.order >= 0]
        columns = np.concatenate([fixed, orders]).astype(np.int64)
        held = np.round(point[fixed])
        low = np.maximum(np.floor(point[orders] - 1e-6) - 1, 0)
        high = np.minimum(np.ceil(point[orders] + 1e-6) + 1, relaxation.first.upper[orders])
        limits = (columns, np.concatenate([held, low]), np.concatenate([held, high]))
        raw = self._integer_programs([limits], _SECONDS_TO_ROUND, relaxation.gap / 10)[0]
        if raw.values is None:
            return False
        return self.try_mended(raw.values[: len(relaxation.setting.cost)], _ROUNDED)

    def _is_refused_again(self, seconds: float) -> bool:
        """Return whether the quarterly integer program is infeasible without presolve too."""
        relaxation = self.relaxation
        seconds = max(min(seconds, relaxation.seconds_left()), 0.1)
        options = SolverOptions(seconds, relaxation.settings.seed + 1, 1, presolve=False)
        answers = relaxation.solve_programs([(relaxation.quarters.program(None), options)])
        return answers[0].status == "infeasible"

    def prove(self, seconds: float) -> bool:
        """Raise the bound by the quarterly integer program; return whether a better plan was found.

        Other processes look into neighbourhoods of the incumbent meanwhile.
        """
        relaxation = self.relaxation
        parts: list[Fixed | None] = [None]
        if relaxation.incumbent is not None and len(self.choices):
            parts += [self._neighbourhood() for _ in range(relaxation.values.count - 1)]
        answers = self._integer_programs(parts, seconds, self._part_of_gap * relaxation.gap)
        raw, before = answers[0], relaxation.bound
        if raw.status == "infeasible":
            # Tightened limits let the incumbent through, so with one the refusal is false.
            if relaxation.incumbent is None and self._is_refused_again(seconds):
                relaxation.refute()
            return False
        relaxation.raise_bound(raw.bound)
        if relaxation.bound <= before:
            self._part_of_gap /= 2
        relaxation.say("integers")
        is_late = relaxation.seconds_left() < 2 * relaxation.seconds_to_value
        if raw.values is None or relaxation.closed() or is_late:
            return False
        better = self.try_candidate(raw.values[: len(relaxation.setting.cost)], "integers")
        if len(self.choices):
            better |= self._dive_at(answers)
        return better
