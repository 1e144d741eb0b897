"""The audit: what maximising a reward perfectly would do to mean JCT, and who is to blame.

References
----------
Peng et al., "DL2: a deep learning-driven scheduler for deep learning clusters", IEEE TPDS 2021,
whose reward ``progress`` is. That a return of progress, discounted, is a fractional flow time, and
undiscounted a constant, is plain arithmetic; what its maximisers lose is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from alloc.certificate import OPTIMALITY_GAP
from alloc.errors import InstanceError, SolverError
from alloc.learning.reward_audit.measuring import Earned, earn, weights_of
from alloc.learning.reward_audit.return_model import Ties, maximise_return
from alloc.learning.reward_audit.rewards import AuditedReward
from alloc.learning.reward_audit.schedulers import Replay, SlotMaximiser
from alloc.objectives import require_slot
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import Scheduler
from alloc.solving import solve

Blame = Literal["reward", "network", "training", "network or training", "nobody", "open"]

LARGE = 0.5
"""Part of the agent's gap from which on a cause is to blame for it."""
SMALL = 1.0
"""Gap of an agent, per cent, that nobody has to answer for."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class AuditRow:
    """A row of the audit.

    Parameters
    ----------
    role
        ``optimum``, ``maximiser``, ``maximiser, best ties``, ``maximiser, worst ties``, ``exact per
        round``, ``agent``, ``imitation`` or ``teacher``.
    label
        Who it is.
    mean_jct, gap
        Mean completion time on each instance, slots (weighted if the reward is), and its gap to the
        proved bound of the instance, per cent.
    value
        Return on each instance.
    proved
        On how many instances the row is what it says, by proof; None for rows without a claim.
    """

    role: str
    label: str
    mean_jct: tuple[float, ...]
    gap: tuple[float, ...]
    value: tuple[float, ...]
    proved: int | None = None

    @property
    def mean_gap(self) -> float:
        """Mean gap, per cent."""
        return float(np.mean(self.gap))


@dataclass(frozen=True)
class Audit:
    """What an audit of a reward found on instances, by name.

    `constant` is whether all schedules have the same return; `notes` are what else the reader must
    know.
    """

    reward: AuditedReward
    instances: tuple[str, ...]
    rows: tuple[AuditRow, ...]
    constant: bool
    notes: tuple[str, ...] = ()

    def row(self, role: str) -> AuditRow | None:
        """Return the row of a role, or None."""
        return next((row for row in self.rows if row.role == role), None)

    @property
    def maximiser(self) -> AuditRow | None:
        """The maximiser that speaks best for the reward: with ties broken for JCT, if known."""
        return self.row("maximiser, best ties") or self.row("maximiser")

    @property
    def blame(self) -> Blame:
        """Who is to blame for the agent's gap, as far as the rows tell."""
        agent, exact = self.row("agent"), self.maximiser
        if self.constant:
            return "reward"
        if agent is None or exact is None:
            return "open"
        if agent.mean_gap <= SMALL:
            return "nobody"
        if exact.mean_gap >= LARGE * agent.mean_gap:
            return "reward"
        imitation = self.row("imitation")
        if imitation is None:
            return "network or training"
        poor = imitation.mean_gap - exact.mean_gap >= LARGE * agent.mean_gap
        return "network" if poor else "training"

    @property
    def verdict(self) -> str:
        """The audit in one or two sentences, with the numbers."""
        if self.constant:
            values = [v for row in self.rows for v in row.value]
            return (
                f"REWARD: {self.reward.text} is {np.mean(values):g} on average whatever the "
                "scheduler does, as long as all jobs complete: it cannot tell a good schedule from "
                "a bad one. Discount it, or take jobs-in-system."
            )
        exact, agent = self.maximiser, self.row("agent")
        assert exact is not None
        aligned = (
            " Its return is minus the sum of completion times, so it asks for the optimum itself."
            if self.reward.aligned
            else ""
        )
        asked = (
            f"maximising {self.reward.text} perfectly costs {exact.mean_gap:+.1f} % of mean JCT "
            f"against the proved bound"
        )
        if agent is None:
            return f"{asked[0].upper()}{asked[1:]}.{aligned}"
        gap = f"{agent.label} loses {agent.mean_gap:+.1f} %"
        if self.blame == "nobody":
            return f"NOBODY: {gap}; {asked}.{aligned}"
        part = f"{exact.mean_gap / agent.mean_gap:.0%} of the gap"
        if self.blame == "reward":
            return f"REWARD: {gap}, and {asked}, {part}.{aligned}"
        imitation = self.row("imitation")
        if imitation is None:
            return (
                f"NETWORK OR TRAINING: {gap}, and {asked}, only {part}. Train the same network "
                "to imitate the maximiser and give it as the imitation to tell the two apart."
                f"{aligned}"
            )
        said = (
            f"{imitation.label}, the same network imitating the maximiser, "
            f"{imitation.mean_gap:+.1f} %"
        )
        who = "NETWORK" if self.blame == "network" else "TRAINING"
        return f"{who}: {gap}, {said}, and {asked}, only {part}.{aligned}"


def audit_reward(
    instances: Sequence[Instance],
    reward: AuditedReward,
    *,
    agent: str | None = None,
    imitation: str | None = None,
    teacher: str | None = "drf",
    ties: bool = False,
    time_limit_s: float = 20.0,
    seed: int = 0,
    report: Report | None = None,
) -> Audit:
    """Audit a reward on small instances.

    Parameters
    ----------
    instances
        Problems in slots, small enough to be solved: about ten jobs.
    reward
        What to maximise.
    agent, imitation, teacher
        By name or path, or None: a scheduler trained on the reward, the same network trained to
        imitate the maximiser, and the agent's first scheduler.
    ties
        Whether to break ties among the maximisers for and against JCT.
    time_limit_s
        Wall time of each solve, seconds.
    seed
        Random seed of solver and schedulers.
    report
        Told what is being done.

    Raises
    ------
    InstanceError
        Without instances, or with one without slots.
    SolverError
        If no schedule is found in time.
    """
    if not instances:
        raise InstanceError("there is no instance to audit the reward on; give one or more.")
    for instance in instances:
        require_slot(instance)
    audit = _Auditor(reward, ties, time_limit_s, seed, report or (lambda line: None))
    named = [("agent", agent), ("imitation", imitation), ("teacher", teacher)]
    for k, instance in enumerate(instances):
        audit.begin(instance, f"instance {k + 1} of {len(instances)} ({instance.name})")
        audit.optimum()
        if not reward.constant:
            audit.maximisers()
        audit.schedulers([(role, name) for role, name in named if name is not None])
    rows = audit.rows()
    names = tuple(instance.name for instance in instances)
    constant = reward.constant and _same(rows)
    return Audit(reward, names, rows, constant, tuple(sorted(audit.notes)))


class _Auditor:
    """Collects the rows of an audit, instance by instance."""

    def __init__(
        self, reward: AuditedReward, ties: bool, time_limit_s: float, seed: int, say: Report
    ) -> None:
        self.reward, self.ties, self.seed, self.say = reward, ties, seed, say
        self.time_limit_s = time_limit_s
        self.notes: set[str] = set()
        self._cells: dict[str, list[tuple[str, float, float, float, bool | None]]] = {}

    def begin(self, instance: Instance, where: str) -> None:
        """Go on with an instance."""
        self.instance, self._where = instance, where

    def optimum(self) -> None:
        """Solve the instance for its proved bound on mean JCT, slots, and add its row."""
        self.say(f"{self._where}: clairvoyant optimum")
        instance, reward = self.instance, self.reward
        asked = instance
        if not reward.weighted:
            asked = instance.replace(jobs=tuple(replace(job, weight=1.0) for job in instance.jobs))
        result = solve(asked, limits=Limits(seconds=self.time_limit_s, seed=self.seed))
        if not isinstance(result.solution, Schedule):
            raise SolverError(
                f'instance "{instance.name}": no schedule was found in {self.time_limit_s:g} s; '
                "audit smaller instances, or raise the time limit."
            )
        certificate = result.certificate
        scale = float(weights_of(instance, reward).sum()) * require_slot(instance)
        self._bound = certificate.bound / scale
        proved = (certificate.gap or 0.0) <= OPTIMALITY_GAP
        earned = self._earn(Replay(result.solution, "clairvoyant optimum"))
        self._add("optimum", "clairvoyant optimum", earned, proved)

    def maximisers(self) -> None:
        """Add the rows of the reward's maximisers."""
        self.say(f"{self._where}: exact maximiser")
        reward, instance = self.reward, self.instance
        if reward.aligned:
            # Minus the sum of completion times: the maximiser is the optimum itself.
            label = "exact maximiser: the optimum itself"
            cell = (label, *self._cells["optimum"][-1][1:])
            self._cells.setdefault("maximiser", []).append(cell)
            return
        if reward.per_slot:
            slots = SlotMaximiser(reward)
            earned = self._earn(slots)
            proved = slots.num_proved == slots.num_slots and not slots.num_unplaced
            self._add("maximiser", slots.name, earned, proved)
            return
        wanted: list[Ties] = ["any", "best", "worst"] if self.ties else ["any"]
        for tie in wanted:
            role = "maximiser" if tie == "any" else f"maximiser, {tie} ties"
            self.say(f"{instance.name}: {role}")
            found = maximise_return(
                instance, reward, ties=tie, time_limit_s=self.time_limit_s, seed=self.seed
            )
            if found is None:
                raise SolverError(
                    f'instance "{instance.name}": no schedule of the reward was found in '
                    f"{self.time_limit_s:g} s; audit smaller instances, or raise the time limit."
                )
            earned = self._earn(Replay(found.schedule, role))
            same = _agree(earned.value, found.value, 1e-5) and (
                found.mean_jct is None or _agree(earned.mean_jct, found.mean_jct, 1e-4)
            )
            if not same:
                self.notes.add(
                    "On some instance the maximiser's plan found no hosts for a gang and was "
                    "changed, or is not proved: it does not count as proved."
                )
            self._add(role, "exact maximiser of the return", earned, found.proved and same)

    def schedulers(self, named: Sequence[tuple[str, str]]) -> None:
        """Add the rows of schedulers, role and name, behind that of the exact rounds."""
        self.say(f"{self._where}: schedulers")
        for role, name in [("exact per round", "exact-progress"), *named]:
            scheduler = make_scheduler(name)
            self._add(role, scheduler.name, self._earn(scheduler))

    def rows(self) -> tuple[AuditRow, ...]:
        """Return the table."""
        made = []
        for role, cells in self._cells.items():
            labels, jcts, gaps, values, proofs = zip(*cells, strict=True)
            known = [p for p in proofs if p is not None]
            proved = sum(known) if known else None
            made.append(AuditRow(role, labels[0], jcts, gaps, values, proved))
        return tuple(made)

    def _earn(self, scheduler: Scheduler) -> Earned:
        return earn(self.instance, scheduler, self.reward, self.seed)

    def _add(self, role: str, label: str, earned: Earned, proved: bool | None = None) -> None:
        gap = 100 * (earned.mean_jct / self._bound - 1)
        cell = (label, earned.mean_jct, gap, earned.value, proved)
        self._cells.setdefault(role, []).append(cell)


def _agree(paid: float, promised: float, tolerance: float) -> bool:
    """Return whether the simulator paid what a program promised."""
    return abs(paid - promised) <= tolerance * max(1.0, abs(promised))


def _same(rows: Sequence[AuditRow]) -> bool:
    """Return whether all rows have the same return on every instance."""
    values = np.array([row.value for row in rows])
    return bool(np.ptp(values, axis=0).max() <= 1e-6 * max(1.0, np.abs(values).max()))
