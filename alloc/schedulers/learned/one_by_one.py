"""Jobs that are placed one by one: what does not depend on the places that are chosen from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.learned.stepwise import Mask, Observation, Reply
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.workload import Configuration


class OneByOne(ABC):
    """A decision about one job after the other; see `alloc.schedulers.learned.stepwise.Stepwise`.

    The jobs that wait are asked for in order of arrival; those that run go on as they are. A job
    that fits nowhere is left waiting without being asked for. Where nothing runs, a job that fits
    may not be left waiting: nothing would ever happen again. The last action is to wait. `asked` is
    the job that is asked for, or None.

    Parameters
    ----------
    what, name
        What is placed, and the name of the policy, for messages.
    skip
        Whether the jobs behind one that waits are asked for too; otherwise they wait with it.
    """

    observation: Observation
    mask: Mask

    def __init__(self, what: str, *, skip: bool, name: str) -> None:
        self._what = what
        self._skip = skip
        self._name = name
        self.reset()

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._queue: deque[JobView] = deque()
        self.asked: JobView | None = None
        self._assigned: list[Assignment] = []
        self._runs = False

    @abstractmethod
    def _begin(self, state: ClusterState) -> None:
        """Look at the cluster, before anything is asked for."""

    @abstractmethod
    def _places(self, action: int) -> npt.NDArray[np.bool_] | None:
        """Return the hosts that an action other than waiting stands for; None for all."""

    @abstractmethod
    def _fits(self, view: JobView) -> npt.NDArray[np.bool_]:
        """Return which actions other than waiting have room for a job."""

    @abstractmethod
    def _show(self, view: JobView, fits: npt.NDArray[np.bool_]) -> None:
        """Show a job that is asked for, and allow what has room for it."""

    @abstractmethod
    def blank(self) -> None:
        """Show that there is nothing to choose."""

    def _count(self, view: JobView, assignment: Assignment) -> None:  # noqa: B027 (a hook)
        """Take note of a job that runs, or begins to."""

    def open(self, state: ClusterState) -> None:
        """Begin a decision.

        Raises
        ------
        InstanceError
            If the cluster cannot be shown.
        UnsupportedFeatureError
            If a job has several configurations.
        """
        self._begin(state)
        self._pool = state.pool
        self._assigned, self._runs = [], False
        for view in state.running:
            if view.current is None:
                continue
            self._runs = True
            self._count(view, view.current)
            if state.slot_s is not None:  # a slot starts from an empty cluster
                self._pool.take(self._only(view), view.current.tasks)
                self._assigned.append(view.current)
        self._queue = deque(state.waiting)
        self._ask_next()

    def act(self, action: int) -> Reply:
        """Place the job that is asked for, or leave it waiting."""
        view = self.asked
        if view is None or not 0 <= action < len(self.mask) or not self.mask[action]:
            return Reply.MASKED
        if action == len(self.mask) - 1:
            if not self._skip:
                self.blank()
                return Reply.ENDED
            self._ask_next()
            return Reply.PASSED
        tasks = self._pool.place(
            self._only(view), required=view.placement.required, within=self._places(action)
        )
        if tasks is None:
            raise AssertionError("an action was allowed that has no room for the job")
        assignment = Assignment(view.id, 0, tasks)
        self._assigned.append(assignment)
        self._count(view, assignment)
        self._runs = True
        self._ask_next()
        return Reply.GRANTED

    def close(self) -> Decision:
        """Return the decision: what was placed, and in slots what goes on."""
        self.blank()
        return Decision(assign=tuple(self._assigned))

    @property
    def has_moves(self) -> bool:
        """Whether a job is asked for."""
        return self.asked is not None

    def _ask_next(self) -> None:
        """Ask for the next job that fits somewhere; without `skip` only for the first."""
        while self._queue:
            view = self._queue.popleft()
            fits = self._fits(view)
            if fits.any():
                self.asked = view
                self._show(view, fits)
                return
            if not self._skip:
                break
        self.blank()

    def _would_fit(self, view: JobView, hosts: npt.NDArray[np.bool_] | None) -> bool:
        """Return whether a job has room on some hosts, by placing it and taking it back."""
        only = self._only(view)
        placed = self._pool.place(only, required=view.placement.required, within=hosts)
        if placed is None:
            return False
        self._pool.release(only, placed)
        return True

    def _only(self, view: JobView) -> Configuration:
        if len(view.configurations) != 1:
            raise UnsupportedFeatureError(
                f'policy {self._name} places {self._what}, but job "{view.id}" has '
                f"{len(view.configurations)} configurations to choose from; keep one of them."
            )
        return view.configurations[0]
