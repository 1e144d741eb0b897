"""Maximisers as schedulers, so that the simulator measures them as it measures everybody."""

from __future__ import annotations

import dataclasses

from alloc.errors import UnsupportedFeatureError
from alloc.learning.reward_audit.rewards import AuditedReward
from alloc.models.round.data import make_round_data
from alloc.problems.allocation.solution import Assignment, Schedule
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.solving.round.method import optimise_round
from alloc.workload import Job

_GAP = 1e-9
"""Relative gap of the optimum of a slot: a choice worth a little less is no maximiser of a reward;
what is below is rounding."""


class SlotMaximiser:
    """Take the largest reward of each slot, by the exact knapsack of family F1.

    It knows nothing of jobs to come, and of the jobs in the system what they are worth in this
    slot. Where the reward is indifferent, it goes for progress.

    Attributes
    ----------
    num_slots, num_proved, num_unplaced
        Slots decided, those proved optimal, and jobs that found no hosts as a gang.
    """

    needs: Knowledge = "exact"
    information = "remaining work and rates of all configurations"

    def __init__(self, reward: AuditedReward) -> None:
        self.name = f"exact per slot ({reward.base})"
        self._utility = reward.utility
        self.reset()

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self.num_slots = self.num_proved = self.num_unplaced = 0

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            Without slots, or with jobs that may not be paused or changed.
        """
        if state.slot_s is None:
            raise UnsupportedFeatureError("the reward of a slot needs slots; set slot_s.")
        jobs = []
        for view in state.jobs:
            if not view.preemptible or view.elasticity != "malleable":
                raise UnsupportedFeatureError(
                    f'job "{view.id}": the reward of single slots is maximised for malleable '
                    "jobs that may be paused; take a reward with a discount above 0."
                )
            work = view.work or 1.0
            done = min(max(work - (view.work_left or work), 0.0), work * (1 - 1e-12))
            jobs.append(
                Job(
                    view.id,
                    0.0,
                    work,
                    view.configurations,
                    weight=view.weight,
                    tenant=view.tenant,
                    work_done=done,
                )
            )
        data = make_round_data(state.topology, jobs, state.slot_s, self._utility, state.quotas)
        answer = optimise_round(data, gap=_GAP)
        allocation = data.allocation(answer.x)
        self.num_slots += 1
        self.num_proved += answer.bound <= answer.value * (1 + 1e-6) + 1e-9
        self.num_unplaced += round(float(answer.x.sum())) - len(allocation.assignments)
        return Decision(assign=allocation.assignments)


class Replay:
    """Do what a schedule of whole slots says, slot by slot."""

    needs: Knowledge = "none"
    information = "a schedule made beforehand"

    def __init__(self, schedule: Schedule, name: str) -> None:
        self.name = name
        self._runs = schedule.runs

    def reset(self) -> None:
        """Forget everything; called before each simulation."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        middle = state.now_s + (state.slot_s or 0.0) / 2
        here = {view.id for view in state.jobs}
        return Decision(
            assign=tuple(
                Assignment(**{f.name: getattr(run, f.name) for f in dataclasses.fields(Assignment)})
                for run in self._runs
                if run.start_s <= middle < run.end_s and run.job in here
            )
        )
