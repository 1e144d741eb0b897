"""Large admissions in parts that share no slot, each answered by columns of plans.

Each part has columns and a bound (`alloc.solving.admission.plan_columns`). Plans are kept one after
the other as their linear program is sure of them (`alloc.solving.admission.diving`), jobs are let
in beside them at the bound's prices (`alloc.solving.admission.insertion`), an integer program
chooses among all plans met, and jobs are let in once more beside its choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from alloc.models.admission.data import AdmissionData
from alloc.models.admission.plans import Plan
from alloc.models.malleable.grid import Held
from alloc.solving.admission.diving import Dive
from alloc.solving.admission.insertion import Insertion
from alloc.solving.admission.plan_columns import PlanColumns
from alloc.solving.outcome import Progress, Settings

_GENERATE_SHARE = 0.5
"""Part of the time for columns and bounds, which most parts leave some of."""
_DIVE_SHARE, _FIRST_SHARE, _CHOOSE_SHARE = 0.6, 0.25, 0.7
"""Parts of what a part then has: to dive, which most parts leave some of; of what is left, to let
jobs in before the choice; and then, to choose. The integer program gains most from plans that stood
beside each other in good answers."""
_AT_ONCE = 160
"""Jobs that choose at once, in parts of more than three times as many: HiGHS came within a
hundredth for 449 jobs in twenty seconds of CPU time; for 530 on six times the slots not near."""


def columns_apply(data: AdmissionData) -> bool:
    """Return whether the jobs of an admission are described by plans and what they are worth."""
    return (
        [term.name for _, term in data.level.terms] == ["value"]
        and data.level.terms[0][0] > 0
        and not data.held
        and not any(data.best_effort)
        and all(
            job.preemptible and not job.restart_cost_s and not data.grid.has_started(j)
            for j, job in enumerate(data.jobs)
        )
    )


def parts_of(data: AdmissionData) -> list[list[int]]:
    """Return the jobs in parts that share no slot, the smallest part first."""
    order = sorted((data.slots(j).start, data.slots(j).stop, j) for j in range(len(data.jobs)))
    parts: list[list[int]] = []
    end = -math.inf
    for start, stop, j in order:
        if stop == start:
            continue
        if start >= end:
            parts.append([])
        parts[-1].append(j)
        end = max(end, stop)
    return sorted(parts, key=len)


def _plans(data: AdmissionData, held: Iterable[Held]) -> dict[int, Plan]:
    """Return what jobs hold as plans, by position."""
    found: dict[int, list[tuple[int, int]]] = {}
    for j, t, c in held:
        found.setdefault(j, []).append((t - data.slots(j).start, c))
    return {j: tuple(sorted(plan)) for j, plan in found.items()}


class Parts:
    """The search, part by part.

    Parameters
    ----------
    data
        The admission.
    known
        What jobs hold in answers that are known.
    settings
        Limits.
    rounded
        Returns the largest value that a bound leaves open.
    report
        Takes a line of progress.

    Attributes
    ----------
    parts
        The parts with their bounds, the smallest first.
    """

    def __init__(
        self,
        data: AdmissionData,
        known: Iterable[list[Held]],
        settings: Settings,
        rounded: Callable[[float], float],
        report: Progress,
    ) -> None:
        self.settings, self.rounded, self.report = settings, rounded, report
        self.parts = [PlanColumns(data, jobs, report) for jobs in parts_of(data)]
        answers = [_plans(data, held) for held in known]
        self.answers = [part.best_of(answers) for part in self.parts]

    @property
    def held(self) -> list[Held]:
        """What jobs hold in the best answers of all parts."""
        pairs = zip(self.parts, self.answers, strict=True)
        return [each for part, own in pairs for each in part.held(own)]

    def run(self) -> bool:
        """Search all parts; return whether Ctrl-C ended that. It may also be raised."""
        left = [k for k, part in enumerate(self.parts) if len(self.answers[k]) < len(part.jobs)]
        for k, own in self._in_turn(left, _GENERATE_SHARE):
            self.parts[k].generate(own, self.rounded)
        left = [k for k in left if not self._is_proved(k)]
        for k, own in self._in_turn(left, 1.0):
            part = self.parts[k]
            stopped = self._answer(k, own)
            self.report(
                f"{len(part.jobs)} jobs that share slots: {len(self.answers[k])} accepted, "
                f"bound {part.bound:g}"
            )
            if stopped:
                return True
        return False

    def _in_turn(self, parts: list[int], share: float) -> Iterable[tuple[int, Settings]]:
        """Yield parts with their limits: of the time left, what their number of jobs says."""
        ends = self.settings.within(share * self.settings.seconds_left())
        jobs = [len(self.parts[k].jobs) for k in parts]
        for at, k in enumerate(parts):
            yield k, ends.within(ends.seconds_left() * jobs[at] / sum(jobs[at:]))

    def _answer(self, k: int, settings: Settings) -> bool:
        """Search for an answer of one part; return whether Ctrl-C ended that."""
        part = self.parts[k]
        self._dive(k, settings.within(_DIVE_SHARE * settings.seconds_left()))
        if self._is_proved(k):
            return False
        self._let_in(k, settings.within(_FIRST_SHARE * settings.seconds_left()))
        if self._is_proved(k):
            return False
        own = settings.within(_CHOOSE_SHARE * settings.seconds_left())
        groups, stopped = part.groups(_AT_ONCE), False
        for at, jobs in enumerate(groups):
            seconds = own.seconds_left() / (len(groups) - at)
            found, stopped = part.choose(self.answers[k], own.within(seconds), jobs)
            self._take(k, found)
            if stopped or self._is_proved(k):
                break
        if not stopped and not self._is_proved(k):
            self._let_in(k, settings)
        return stopped

    @property
    def bound(self) -> float:
        """No answer to all parts is worth more."""
        return math.fsum(self.rounded(part.bound) for part in self.parts)

    def _enough(self, k: int) -> float:
        """Return what no answer to a part is worth more than, but for rounding."""
        return self.rounded(self.parts[k].bound) * (1 - 1e-9)

    def _is_proved(self, k: int) -> bool:
        return self.parts[k].value(self.answers[k]) >= self._enough(k)

    def _dive(self, k: int, settings: Settings) -> None:
        part = self.parts[k]
        if settings.time_is_up():
            return
        dive = Dive(part)
        try:
            dive.run(settings)
        finally:
            self._take(k, dive.plans)
        part.add(dive.plans.items())

    def _let_in(self, k: int, settings: Settings) -> None:
        part = self.parts[k]
        if settings.time_is_up():
            return
        search = Insertion(part, self.answers[k], settings.seed)
        try:
            search.run(settings, self._enough(k))
        finally:
            self._take(k, search.answer)
        part.add(search.met)

    def _take(self, k: int, plans: dict[int, Plan]) -> None:
        part = self.parts[k]
        if part.value(plans) > part.value(self.answers[k]):
            self.answers[k] = plans
