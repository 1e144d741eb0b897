"""Kind ``pick-backfill/1``: level 1 picks a job and starts or reserves it, level 2 backfills.

References
----------
Fan, Lan et al., "Deep Reinforcement Agent for Scheduling in HPC" (DRAS), IPDPS 2021,
arXiv:2102.06243: two levels, of which the first selects jobs to run at once or to reserve for, and
the second jobs to backfill. Window, features and the exact check of a delay are ours.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from alloc.schedulers.backfilling import Backfilling, run_s
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.learned.stepwise import Reply, StepwiseDecider
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import HOUR_S

PICK_COLUMNS = (
    "1 for a job, 0 for ending the decision",
    "1 if it may start now, else 0",
    "GPUs of the job over those of the cluster",
    "run time h in hours as known, as h / (1 + h)",
    "waiting time h in hours, as h / (1 + h)",
    "place in the window from 0 to 1",
    "level: 0 picks, 1 backfills",
    "free GPUs over those of the cluster",
    "time h to the reservation in hours, as h / (1 + h); 0 without one",
    "waiting jobs n, as n / (10 + n)",
)
"""The columns: a row for each of the first waiting jobs, and a last row for ending."""


class PickBackfillParameters(KindParameters):
    """The parameters of the kind.

    Parameters
    ----------
    window
        Waiting jobs in view, in order of arrival; those behind it wait unseen.
    """

    window: int = Field(default=16, ge=1, le=1000)


class PickBackfillKind(StepwiseKind[PickBackfillParameters]):
    """Logits over the jobs of a window and ending."""

    name = "pick-backfill/1"
    title = "picks the next job to start or to reserve for, then backfills behind the reservation"
    needs: Knowledge = "estimate"
    features: tuple[str, ...] = ("required levels", "GPU memory", "MIG slices")
    parameters = PickBackfillParameters
    can_sample = True

    def inputs(self, parameters: PickBackfillParameters) -> tuple[TensorSpec, ...]:
        """Return the window, with a batch axis in front."""
        shape = ("batch", parameters.window + 1, len(PICK_COLUMNS))
        return (TensorSpec(name="window", dtype="float32", shape=shape),)

    def outputs(self, parameters: PickBackfillParameters) -> tuple[TensorSpec, ...]:
        """Return the logits: one a job of the window, the last for ending."""
        shape = ("batch", parameters.window + 1)
        return (TensorSpec(name="logits", dtype="float32", shape=shape),)

    def make_stepwise(
        self, act: Actor, parameters: PickBackfillParameters, *, name: str
    ) -> Decider:
        """Return what decides with an actor."""
        return StepwiseDecider(act, PickBackfill(parameters.window))


class PickBackfill:
    """One job after the other: started or reserved on level 1, backfilled on level 2.

    On level 1 every job in view, the first so many that wait, may be chosen. One that fits starts;
    the first that does not is reserved for, and level 2 begins, on which jobs that fit without
    delaying it may be started, until none is left or the decision is ended.
    """

    def __init__(self, window: int) -> None:
        self.observation = np.zeros((window + 1, len(PICK_COLUMNS)), np.float32)
        self.mask = np.zeros(window + 1, np.bool_)
        self._window = window
        self._filling: Backfilling | None = None
        self._views: list[JobView] = []

    @property
    def has_moves(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.mask.any())

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._filling = None
        self.blank()

    def open(self, state: ClusterState) -> None:
        """Begin a decision."""
        self._filling = Backfilling(state)
        self._views = [
            view for view in list(state.waiting)[: self._window] if self._filling.within_quota(view)
        ]
        self._show()

    def act(self, action: int) -> Reply:
        """Start, reserve for or backfill a job, or end."""
        filling = self._filling
        if filling is None or not self.mask[action]:
            return Reply.MASKED
        if action == self._window:
            self.blank()
            return Reply.ENDED
        view = self._views.pop(action)
        reply = Reply.GRANTED
        if not filling.start(view):
            filling.reserve(view)
            reply = Reply.PASSED
        self._show()
        return reply

    def close(self) -> Decision:
        """Return the decision."""
        return Decision() if self._filling is None else self._filling.decision()

    def blank(self) -> None:
        """Show that there is nothing to choose."""
        self.observation.fill(0.0)
        self.mask.fill(False)

    def _show(self) -> None:
        """Show the window as it stands."""
        filling = self._filling
        assert filling is not None
        self.blank()
        state, reserved = filling.state, filling.reservation
        self._views = [view for view in self._views if filling.within_quota(view)]
        fits = [filling.fits(view) for view in self._views]
        n, level = len(self._views), reserved is not None
        if not n or (level and not any(fits)):
            return
        total = float(max(state.topology.num_gpus * 1000, 1))
        ahead_h = 0.0 if reserved is None else (reserved.start_s - state.now_s) / HOUR_S
        common = (
            float(level),
            float(np.maximum(filling.pool.free[:, 0], 0).sum()) / total,
            ahead_h / (1 + ahead_h),
            n / (10 + n),
        )
        seen = self.observation
        for k, view in enumerate(self._views):
            waited_h = (state.now_s - view.arrival_s) / HOUR_S
            configuration = filling.configuration(view)
            assert configuration is not None  # within quota, so there is one
            length_h = min(run_s(view, configuration) / HOUR_S, 1e6)
            seen[k] = (
                1.0,
                float(fits[k]),
                configuration.demand[0] / total,
                length_h / (1 + length_h),
                waited_h / (1 + waited_h),
                k / self._window,
                *common,
            )
        seen[self._window] = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0, *common)
        self.mask[:n] = fits if level else True
        self.mask[self._window] = level
