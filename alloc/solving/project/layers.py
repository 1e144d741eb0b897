"""Bounded dynamic programming: plans that are begun, layer by layer, wide enough for a proof.

A layer holds plans with one activity more than those of the layer before. Of each layer those that
cannot lead to a better plan are left out (`rest_bounds`), those that another one beats
(`partial_plans`), and if there are still too many all but the best by their bounds. The least bound
of what was left out for its number is a bound of the project; if nothing was, the best plan is
proved. Each pass is wider than the one before.

References
----------
C. E. Bell, K. Park, "Solving resource-constrained project scheduling problems by A* search", Naval
Research Logistics 37(1), 1990 (the states). J. Bautista, J. Pereira, "A dynamic programming based
heuristic for the assembly line balancing problem", EJOR 194(3), 2009 (bounded width).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alloc.clock import check_time
from alloc.models.malleable.cpsat_model import whole_multiples
from alloc.problems.project import ProjectPlan
from alloc.solving.project.partial_plans import PartialPlans, Steps
from alloc.solving.project.rest_bounds import RestBound

_FIRST_WIDTH, _WIDER = 64, 8
"""Plans of a layer in the first pass, and how much wider each pass is: all passes before the last
take a seventh of its time together."""
_CHUNK = 2048
"""Plans that go on together: they fit the cache of a core, and take some hundredths of a second."""
_CROWD = 4
"""Widths of plans that are held of a layer before the best are picked: half of them are beaten."""
_CLEAR = 1e-9
"""Share of a value by which a bound has to be above what it excludes, or by its own rounding."""
_BYTES = 2**29
"""Memory for the plans of a layer, bytes: half a GiB, so that several solves fit beside each
other."""


@dataclass(frozen=True)
class Swept:
    """What a pass found.

    Parameters
    ----------
    plan
        The best plan, or None where nothing is better than the one known.
    bound
        What no plan is below, seconds; infinite where none is below the one known.
    """

    plan: ProjectPlan | None
    bound: float


class Layers:
    """The search over layers.

    Parameters
    ----------
    steps
        How plans go on; the project is `Steps.fit`.
    gap
        Relative gap that is good enough.
    """

    def __init__(self, steps: Steps, gap: float) -> None:
        self.steps, self.gap = steps, gap
        self.grain = _grain(steps)
        a_row = 19 * steps.size + 16 * int(steps.units[-1]) + 64
        self.widest = _BYTES // (_CROWD * a_row)

    def widths(self) -> list[int]:
        """Return the widths of the passes; the last is what the memory holds."""
        count = max(0, int(math.log(self.widest / _FIRST_WIDTH, _WIDER)))
        found = [_FIRST_WIDTH * _WIDER**n for n in range(count + 1)]
        return [*found, self.widest] if self.widest > 2 * found[-1] else found

    def sweep(self, width: int, value: float, least: RestBound) -> Swept:
        """Look for a better plan than one of a value, at most so many plans wide.

        Parameters
        ----------
        width
            Plans of a layer.
        value
            Cost of the best plan known, seconds.
        least
            What plans cost at least.
        """
        clear, short = max(_CLEAR * abs(value), least.rounding), self.gap * abs(value) / 2
        if self.grain > max(short, 2 * clear):
            # Costs are whole in the grain: none lies between the value and the one before.
            ceiling, proved = value - self.grain + clear, value
        else:
            ceiling = proved = value - max(short, clear)
        cut = math.inf
        layer = self.steps.begin()
        for _ in range(self.steps.size):
            found: list[PartialPlans] = []
            for first in range(0, len(layer), _CHUNK):
                check_time()
                part = self.steps.following(layer[first : first + _CHUNK])
                if len(part):
                    part.least = np.maximum(part.least, least(part))
                    found.append(part[part.least < ceiling])
                if sum(map(len, found)) > _CROWD * width:
                    together, cut = _best(PartialPlans.together(found), width * _CROWD // 2, cut)
                    found = [together]
            layer = PartialPlans.together(found) if found else layer[:0]
            found.clear()  # half of the memory of the pass
            if len(layer):
                layer = least.sharpen(self.steps.not_beaten(layer))
            if not len(layer):
                return Swept(None, min(cut - least.rounding, proved))
            layer, cut = _best(layer, width, cut)
        best = int(np.argmin(layer.cost))
        bound = min(cut - least.rounding, proved, float(layer.cost[best]))
        return Swept(self._plan(layer, best), bound)

    def _plan(self, plans: PartialPlans, row: int) -> ProjectPlan:
        data, steps = self.steps.data, self.steps
        modes = plans.modes[row].tolist()
        starts = [
            int(end) - steps.lengths[k][m]
            for k, (end, m) in enumerate(zip(plans.ends[row], modes, strict=True))
        ]
        return data.plan(modes, data.schedule(modes, data.order_of(starts)))


def _best(plans: PartialPlans, width: int, cut: float) -> tuple[PartialPlans, float]:
    """Return so many of the best plans by their bounds, and the least bound of all left out."""
    if len(plans) <= width:
        return plans, cut
    order = np.argpartition(plans.least, width)
    return plans[order[:width]], min(cut, float(plans.least[order[width:]].min()))


def _grain(steps: Steps) -> float:
    """Return what the costs of all plans are whole multiples of, up to a constant; 0: nothing."""
    times, jobs = steps.times, steps.data.problem.jobs
    if not times.is_exact:
        return 0.0
    if steps.objective == "makespan":
        return times.unit
    weights = np.array([job.weight for job in jobs if job.weight > 0])
    whole = whole_multiples(weights) if len(weights) else None
    return 0.0 if whole is None else times.unit * float(weights[0]) / whole[0]
