"""Ruin and recreate: some jobs give up their plans, and they and others are let in again at prices.

A job is let in with its cheapest plan among those that fit what is free; the prices are those of
the columns' bound, so that a plan leaves the slots that many want. An answer is kept if it is worth
more, or as much and pays less: it leaves more room for the next job.

References
----------
Schrimpf, Schneider, Stamm-Wilbrandt, Dueck, "Record breaking optimization results using the ruin
and recreate principle", Journal of Computational Physics 159 (2000).
"""

from __future__ import annotations

import numpy as np

from alloc.models.admission.plans import Plan
from alloc.models.malleable.data import Array
from alloc.solving.admission.plan_columns import PlanColumns
from alloc.solving.outcome import Settings

_STEPS = 400
"""Steps of a job's need: a plan is found in half a millisecond, and one that is a hundredth dearer
than the cheapest is as good here."""
_RUINED = 5
"""Most jobs that give up their plans at once: with so few a round takes two milliseconds."""
_ASKED = 16
"""Most refused jobs that ask to be let in, beside the one around which plans are given up: those
that gain most, for each is planned anew in every round."""
_NOISE = 0.2
"""How far the order of those who ask is left to chance, in parts of what they gain: without it
equal rounds would end equally, with much more of it the worth of jobs would not count."""
_PATIENCE = 60
"""Rounds without a gain for each job, after which nothing more is expected: by then every job has
been the centre of many of them."""
_MAX_MET = 4_000
"""Most plans that are kept for a choice among them, the last ones: the integer program grows with
them."""


class Insertion:
    """The search of one part.

    Parameters
    ----------
    part
        The part, with the prices of its bound.
    plans
        An answer.
    seed
        Random seed.

    Attributes
    ----------
    met
        Plans of the answers met, with their jobs.
    """

    def __init__(self, part: PlanColumns, plans: dict[int, Plan], seed: int) -> None:
        self.part, self.data = part, part.data
        self.rng = np.random.default_rng(seed)
        self.free = np.tile(part.capacity, (part.slots, 1))
        self.plans = dict[int, Plan]()
        self.paid = dict[int, float]()
        self.met = dict[tuple[int, Plan], None]()
        self._changing: dict[int, Plan] | None = None
        starts = [part.data.slots(j).start - part.first for j in part.jobs]
        self.start = np.array(starts)
        self.stop = np.array([part.data.slots(j).stop - part.first for j in part.jobs])
        tables = [self.data.grid.data.table(j) for j in part.jobs]
        self.use = [table.use for table in tables]
        # What a slot's price is for each configuration never changes.
        own = [part.prices[a:b] for a, b in zip(self.start, self.stop, strict=True)]
        self.price = [p @ use.T for p, use in zip(own, self.use, strict=True)]
        self.done = [np.outer(problem.usable, problem.rate) for problem in part.problems]
        least = [
            problem.cheapest(price, _STEPS, plan=False).least
            for problem, price in zip(part.problems, self.price, strict=True)
        ]
        self.gain: Array = part.worth - np.array(least)
        for j, plan in plans.items():
            self._take(part.position[j], plan)

    @property
    def answer(self) -> dict[int, Plan]:
        """The plans of the answer, by position of the job."""
        # Broken off in the middle of a round, it is the answer before it.
        plans = self.plans if self._changing is None else self._changing
        return {self.part.jobs[i]: plan for i, plan in plans.items()}

    def run(self, settings: Settings, enough: float) -> None:
        """Search until the time is up, or nothing more is expected.

        Parameters
        ----------
        settings
            Limits.
        enough
            What no answer is worth more than.
        """
        fruitless = 0
        self._let_in([i for i in range(len(self.part.jobs)) if i not in self.plans])
        while self.part.value(self.answer) < enough and not settings.time_is_up():
            fruitless = 0 if self._round() else fruitless + 1
            if fruitless > _PATIENCE * len(self.part.jobs):
                return

    def _round(self) -> bool:
        """Try once; return whether the answer is worth more."""
        count = len(self.part.jobs)
        out = np.array([i not in self.plans for i in range(count)])
        if not out.any():
            return False
        likely = self.gain[out] / self.part.worth[out]
        if np.isneginf(likely).all():  # none of them has a plan at any price
            return False
        # The likeliest counts as one: where prices are far above what all are worth, all were none.
        chance = np.exp(likely - likely.max())
        centre = int(self.rng.choice(np.flatnonzero(out), p=chance / chance.sum()))
        begin, end = self.start[centre], self.stop[centre]
        overlap = np.minimum(self.stop, end) - np.maximum(self.start, begin)
        share = np.maximum(overlap, 0) / (self.stop - self.start + end - begin)
        near = share * self.rng.uniform(0.0, 1.0, count)
        inside = np.flatnonzero(~out & (overlap > 0))
        number = int(self.rng.integers(1, _RUINED + 1))
        ruined = inside[np.argsort(-near[inside])[:number]].tolist()
        others = np.flatnonzero(out & (overlap > 0))
        others = others[others != centre]
        asked = others[np.argsort(-(self.gain + near)[others])[:_ASKED]].tolist()
        before = {i: self.plans[i] for i in ruined}
        worth = sum(self.part.worth[i] for i in ruined)
        paid = sum(self.paid[i] for i in ruined)
        self._changing = dict(self.plans)
        for i in ruined:
            self._give_up(i)
        new = self._let_in([*ruined, *asked], centre)
        after = sum(self.part.worth[i] for i in new)
        # Sums of weights: less than this is rounding.
        least = 1e-9 * max(worth, after)
        better = bool(after > worth + least)
        if not better and (after < worth - least or sum(self.paid[i] for i in new) > paid):
            for i in new:
                self._give_up(i)
            for i, plan in before.items():
                self._take(i, plan)
            new = []
        self._changing = None
        self._remember(new)
        return better

    def _remember(self, new: list[int]) -> None:
        for i in new:
            key = (self.part.jobs[i], self.plans[i])
            self.met.pop(key, None)
            self.met[key] = None
        while len(self.met) > _MAX_MET:
            del self.met[next(iter(self.met))]

    def _let_in(self, asking: list[int], first: int | None = None) -> list[int]:
        """Let in the jobs for which there is room, in order of gain with some chance."""
        gain = self.gain[asking] + _NOISE * self.part.worth[asking] * self.rng.normal(
            size=len(asking)
        )
        order = [asking[k] for k in np.argsort(-gain)]
        found = []
        for i in order if first is None else [first, *order]:
            own = self.free[self.start[i] : self.stop[i]]
            fits = (self.use[i][None] <= own[:, None] + 1e-6).all(axis=2)
            if np.where(fits, self.done[i], 0.0).max(axis=1).sum() < self.part.problems[i].need:
                continue
            plan = self.part.problems[i].cheapest(np.where(fits, self.price[i], np.inf), _STEPS)
            if plan.plan is not None:
                self._take(i, plan.plan)
                found.append(i)
        return found

    def _take(self, i: int, plan: Plan) -> None:
        t, c = np.array(plan, dtype=np.int64).T
        self.free[self.start[i] + t] -= self.use[i][c]
        self.plans[i] = plan
        self.paid[i] = float(self.price[i][t, c].sum())

    def _give_up(self, i: int) -> None:
        t, c = np.array(self.plans.pop(i), dtype=np.int64).T
        self.free[self.start[i] + t] += self.use[i][c]
        del self.paid[i]
