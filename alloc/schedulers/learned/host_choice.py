"""Kind ``host-choice/1``: the host for the next job, by what runs beside it there.

References
----------
Bao, Peng, Wu, "Deep learning-based job placement in distributed machine learning clusters"
(Harmony), INFOCOM 2019: an agent learns from speeds which jobs stand well beside each other. The
features, one row a host, and the choice of waiting are ours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.honouring import REQUIRED_LEVELS
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec, Text
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.learned.one_by_one import OneByOne
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.state import ClusterState, JobView, Knowledge

FIXED_COLUMNS = (
    "1 for a host, 0 for waiting",
    "1 if the job fits there now, else 0",
    "jobs on the host over the most of one host",
)
"""The first columns; behind them jobs of each class on the host over the most, the class of the job
that is asked for (one of them 1), and jobs n of each class that are asked for later, n / (2 + n).
"""


def host_rows(
    on_host: npt.NDArray[np.int64],
    fits: npt.NDArray[np.bool_],
    asked: int | None,
    behind: npt.NDArray[np.int64],
    most: int,
) -> npt.NDArray[np.float32]:
    """Return what is shown: a row for each host, and a last row for waiting.

    Parameters
    ----------
    on_host, most
        Jobs of each class on each host, shape (hosts, classes), and the most jobs of a host.
    fits
        Hosts that have room, shape (hosts,).
    asked
        Class of the job that is asked for, or None if it is of no class that is known.
    behind
        Jobs of each class that are asked for later, shape (classes,).
    """
    hosts, classes = on_host.shape
    seen = np.zeros((hosts + 1, len(FIXED_COLUMNS) + 3 * classes), np.float32)
    seen[:hosts, 0] = 1.0
    seen[:hosts, 1] = fits
    seen[:hosts, 2] = on_host.sum(axis=1) / most
    seen[:hosts, 3 : 3 + classes] = on_host / most
    if asked is not None:
        seen[:, 3 + classes + asked] = 1.0
    seen[:, 3 + 2 * classes :] = behind / (2.0 + behind)
    return seen


class HostChoiceParameters(KindParameters):
    """The parameters of the kind.

    Parameters
    ----------
    classes
        Classes of jobs that interfere, as `Job.model` names them. A job of none of them is shown
        without a class.
    most
        Most jobs on a host.
    """

    classes: tuple[Text, ...] = Field(min_length=1, max_length=100)
    most: int = Field(default=4, ge=1, le=100)

    @field_validator("classes")
    @classmethod
    def _unique(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse a class named twice."""
        if len(set(names)) != len(names):
            raise ValueError("a class is named twice")
        return names


class HostChoiceKind(StepwiseKind[HostChoiceParameters]):
    """Logits over the hosts and waiting."""

    name = "host-choice/1"
    title = "puts the next job on a host, by the classes of the jobs beside it, or lets it wait"
    needs: Knowledge = "none"
    features: tuple[str, ...] = (REQUIRED_LEVELS, "GPU memory", "MIG slices")
    parameters = HostChoiceParameters
    can_sample = True

    def inputs(self, parameters: HostChoiceParameters) -> tuple[TensorSpec, ...]:
        """Return the rows, any number of them, with a batch axis in front."""
        columns = len(FIXED_COLUMNS) + 3 * len(parameters.classes)
        return (TensorSpec(name="hosts", dtype="float32", shape=("batch", "rows", columns)),)

    def outputs(self, parameters: HostChoiceParameters) -> tuple[TensorSpec, ...]:
        """Return the logits, one a row."""
        return (TensorSpec(name="logits", dtype="float32", shape=("batch", "rows")),)

    def make_stepwise(self, act: Actor, parameters: HostChoiceParameters, *, name: str) -> Decider:
        """Return what decides with an actor."""
        return StepwiseDecider(act, HostChoice(parameters, name=name))


class HostChoice(OneByOne):
    """One job after the other on one host or left waiting, see `OneByOne`."""

    def __init__(self, parameters: HostChoiceParameters, *, name: str = "agent") -> None:
        self._class = {known: c for c, known in enumerate(parameters.classes)}
        self._most = parameters.most
        super().__init__("jobs as they are", skip=True, name=name)

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self.observation = np.zeros((1, len(FIXED_COLUMNS) + 3 * len(self._class)), np.float32)
        self.blank()

    def blank(self) -> None:
        """Show that there is nothing to choose."""
        self.asked = None
        self.observation = np.zeros_like(self.observation)
        self.mask = np.zeros(len(self.observation), np.bool_)

    def _begin(self, state: ClusterState) -> None:
        self._index = state.topology.host_index
        hosts = state.topology.num_hosts
        self._on_host = np.zeros((hosts, len(self._class)), np.int64)
        self._jobs_on = np.zeros(hosts, np.int64)

    def _class_of(self, view: JobView) -> int | None:
        return None if view.model is None else self._class.get(view.model)

    def _count(self, view: JobView, assignment: Assignment) -> None:
        """Count a job on its hosts."""
        known = self._class_of(view)
        for h in {self._index[task.host] for task in assignment.tasks}:
            self._jobs_on[h] += 1
            if known is not None:
                self._on_host[h, known] += 1

    def _places(self, action: int) -> npt.NDArray[np.bool_]:
        inside: npt.NDArray[np.bool_] = np.arange(len(self._jobs_on)) == action
        return inside

    def _fits(self, view: JobView) -> npt.NDArray[np.bool_]:
        fits = self._jobs_on < self._most
        for group in self._only(view).tasks:
            fits &= self._pool.room(group) >= group.count
        for h in np.flatnonzero(fits).tolist():
            fits[h] = self._would_fit(view, self._places(h))
        return fits

    def _show(self, view: JobView, fits: npt.NDArray[np.bool_]) -> None:
        """Show the hosts, the job and those behind it."""
        behind = np.zeros(len(self._class), np.int64)
        for other in self._queue:
            known = self._class_of(other)
            if known is not None:
                behind[known] += 1
        asked = self._class_of(view)
        self.observation = host_rows(self._on_host, fits, asked, behind, self._most)
        self.mask = np.append(fits, self._runs)
