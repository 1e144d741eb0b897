"""Large-neighbourhood search: some jobs are planned again, the others keep their slots.

Around a job that is refused, those whose windows overlap its own most are free, with it; a solver
plans them again in what the others leave. Among answers of the same value those that hold fewer
GPUs are preferred: they leave room for the next job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.formulation import Array, ArrayModel
from alloc.models.admission.arrays import Columns
from alloc.models.admission.data import AdmissionData
from alloc.models.malleable.data import Index
from alloc.models.malleable.grid import Held
from alloc.solving.outcome import Settings

_FIRST, _LARGEST = 8, 24
"""Jobs that are planned again at once: at first, and after rounds without a gain."""
_SECONDS = 4.0
"""Time of one program: most end in a tenth of a second, and a few never would."""
_THRIFT = 0.4
"""What all GPU time of a neighbourhood is worth, in units of the least weight: less than a job."""


class Neighbourhoods:
    """The search around an answer.

    Parameters
    ----------
    data
        The admission.
    model, columns
        Its program, without conflicts of hosts.
    settings
        Limits and seed.
    """

    def __init__(
        self, data: AdmissionData, model: ArrayModel, columns: list[Columns], settings: Settings
    ) -> None:
        self.data, self.model, self.columns, self.settings = data, model, columns, settings
        ends = [at.a for at in columns[1:]] + [len(model.cost)]
        self.own = [np.arange(at.a, end) for at, end in zip(columns, ends, strict=True)]
        self.matrix = model.matrix.tocsc()
        self.rng = np.random.default_rng(settings.seed)
        self.thrift = np.zeros(len(model.cost))
        for j, at in enumerate(columns):
            if at.x.size:
                self.thrift[at.x] = data.gpus[j]
        self.weight = np.array([job.weight for job in data.jobs])

    def run(self, values: Array) -> Iterator[Array]:
        """Yield ever better values of the program, until nothing more is met or the time is up.

        Parameters
        ----------
        values
            Values of a and x of an answer, the others NaN or any.
        """
        current = np.nan_to_num(values)
        size, fruitless = _FIRST, 0
        while not self.settings.time_is_up():
            out = [
                j
                for j, at in enumerate(self.columns)
                if current[at.a] < 0.5 and j not in self.data.hopeless
            ]
            if not out or fruitless > 2 * len(out):
                if size >= _LARGEST or not out:
                    return
                size, fruitless = min(2 * size, _LARGEST), 0
            chance = self.weight[out] / self.weight[out].sum()
            found = self._planned_again(current, int(self.rng.choice(out, p=chance)), size)
            if found is None:
                fruitless += 1
                continue
            before = float(self.model.cost @ current)
            current = found
            if float(self.model.cost @ found) > before * (1 + 1e-9):
                fruitless = 0
                yield current
            else:
                fruitless += 1

    def answer(self, values: Array) -> tuple[list[Held], list[int]]:
        """Return what jobs hold by the values, and who is accepted."""
        held = [
            (j, int(k) + self.data.slots(j).start, int(c))
            for j, at in enumerate(self.columns)
            for k, c in np.argwhere(values[at.x] > 0.5)
        ]
        return held, [j for j, at in enumerate(self.columns) if values[at.a] > 0.5]

    def _neighbours(self, current: Array, centre: int, size: int) -> list[int]:
        """Return the jobs to be planned again: accepted ones that overlap the centre most."""
        window = self.data.slots(centre)
        near = []
        for j, at in enumerate(self.columns):
            slots = self.data.slots(j)
            overlap = min(slots.stop, window.stop) - max(slots.start, window.start)
            if j != centre and overlap > 0 and current[at.a] > 0.5:
                # Short windows near the centre, with some chance: each round another set.
                near.append((overlap / (len(slots) + len(window)) * self.rng.uniform(0.3, 1.0), j))
        return [centre, *(j for _, j in sorted(near, reverse=True)[:size])]

    def _planned_again(self, current: Array, centre: int, size: int) -> Array | None:
        """Return values in which some jobs are planned again, None if none are found."""
        jobs = self._neighbours(current, centre, size)
        free: Index = np.concatenate([self.own[j] for j in jobs])
        fixed = current.copy()
        fixed[free] = 0.0
        # Rows of one job alone hold by themselves; others see what the fixed jobs use.
        used = self.matrix @ fixed
        part = self.matrix[:, free].tocsr()
        touched = np.flatnonzero(np.diff(part.indptr))
        unit = _THRIFT * float(self.weight.min())
        most = sum(
            float(self.data.gpus[j].max()) * len(self.data.slots(j))
            for j in jobs
            if len(self.data.gpus[j])
        )
        model = replace(
            self.model,
            cost=self.model.cost[free] - unit / max(most, 1.0) * self.thrift[free],
            matrix=part[touched],
            row_lower=self.model.row_lower[touched] - used[touched],
            row_upper=self.model.row_upper[touched] - used[touched],
            lower=self.model.lower[free],
            upper=self.model.upper[free],
            integer=self.model.integer[free],
            offset=0.0,
            rows={},
        )
        seconds = min(_SECONDS, self.settings.seconds_left())
        options = SolverOptions(seconds, self.settings.seed, self.settings.workers, gap=1e-4)
        raw = highs.solve(model, options)
        if raw.values is None or raw.objective is None:
            return None
        before = float(model.cost @ current[free])
        if raw.objective < before + 1e-9 * abs(before):
            return None
        fixed[free] = raw.values
        for at in self.columns:
            fixed[at.a] = np.rint(fixed[at.a])
            fixed[at.x] = np.rint(fixed[at.x])
        return fixed
