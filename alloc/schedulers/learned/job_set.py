"""Kind ``job-set/1``: a network over the set of all jobs, decoded into a whole round at once.

The network is shown every job in the system and every resource, in any order and any number
(`job_set_features`). It answers with the worth of each job's progress and with prices of the
resources. The decision follows by arithmetic: every job takes the configuration with the best score
under those prices, the prices are brought to the point where the choice just fits, what is left is
filled (`job_set_choice`), and the tasks are dealt out over the hosts (`job_set_hosts`). One
inference a decision, whatever the number of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.honouring import REQUIRED_LEVELS
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.job_set_choice import TERMS, Chooser, utilities
from alloc.schedulers.learned.job_set_features import (
    JOB_FEATURES,
    RESOURCE_FEATURES,
    JobSet,
    features,
    job_set,
)
from alloc.schedulers.learned.job_set_hosts import Usher, usher_for
from alloc.schedulers.learned.job_set_ladders import Array, Index, LadderBook
from alloc.schedulers.learned.kinds import Network
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import RESOURCES

JOBS = "jobs"
"""Name of the input of jobs, and of the axis over them."""
RESOURCES_INPUT = "resources"
"""Name of the input of resources."""
WORTH = "worth"
"""Name of the output with alpha, beta and gamma of each job."""
PRICES = "prices"
"""Name of the output with the price of each resource."""


_PREEMPTIBLE = attrgetter("preemptible")
LONGEST_RESTART = 0.95
"""Largest part of a slot that a restart is taken to cost."""


class JobSetParameters(KindParameters):
    """The parameters of the kind: none."""


class JobSetKind:
    """Worth of every job and prices of the resources; all jobs are decided on at once."""

    name = "job-set/1"
    title = "weighs all jobs and prices the resources; every job takes its best configuration"
    needs: Knowledge = "estimate"
    features = (REQUIRED_LEVELS, "GPU memory", "MIG slices")
    parameters = JobSetParameters
    can_sample = False

    def inputs(self, parameters: JobSetParameters) -> tuple[TensorSpec, ...]:
        """Return the features of jobs and of resources (`job_set_features`)."""
        return (
            TensorSpec(name=JOBS, dtype="float32", shape=(JOBS, len(JOB_FEATURES))),
            TensorSpec(
                name=RESOURCES_INPUT,
                dtype="float32",
                shape=(len(RESOURCES), len(RESOURCE_FEATURES)),
            ),
        )

    def outputs(self, parameters: JobSetParameters) -> tuple[TensorSpec, ...]:
        """Return the worth of jobs, 0 or more, and the prices of resources per job, 0 or more."""
        return (
            TensorSpec(name=WORTH, dtype="float32", shape=(JOBS, TERMS)),
            TensorSpec(name=PRICES, dtype="float32", shape=(len(RESOURCES),)),
        )

    def make_decider(
        self,
        network: Network,
        parameters: JobSetParameters,
        *,
        name: str,
        sample: bool = False,
    ) -> JobSetDecider:
        """Return what decides with a network.

        Parameters
        ----------
        network
            Answers with the worth of jobs and the prices of resources.
        parameters
            The parameters of the policy's spec.
        name
            Name of the policy, for messages.
        sample
            Without effect: choices are not drawn.
        """
        return JobSetDecider(network, name)


class JobSetDecider:
    """Decide on all jobs of a round at once, by a network from features to worth and prices."""

    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations"
    features = JobSetKind.features
    draws = False

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self._network = network
        self._usher: Usher | None = None

    def reset(self) -> None:
        """Do nothing: all that is kept are the ladders of tables, which do not change."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            In continuous time, where there are no rounds.
        """
        round_ = self.look(state)
        if not round_.views:
            return Decision(assign=tuple(round_.kept))
        return self.seat(state, round_, *round_.choose(self._network(round_.tensors)))

    def seat(
        self, state: ClusterState, round_: JobSetRound, column: Index, score: Array
    ) -> Decision:
        """Return the decision that puts a choice for the jobs of a round on hosts: `Usher.seat`.

        Parameters
        ----------
        state
            The state that the round was made of.
        round_
            The jobs and their ladders.
        column
            Column of its ladder that each job is to run in, -1 for none, shape (jobs,).
        score
            Score of each job in each column before prices, shape (jobs, C).
        """
        assert self._usher is not None
        seated = self._usher.seat(state, round_.views, round_.jobs.table, column, score)
        unplaced = int((column >= 0).sum()) - len(seated)
        return Decision(
            assign=(*round_.kept, *seated), notes={"unplaced": float(unplaced)} if unplaced else {}
        )

    def look(self, state: ClusterState) -> JobSetRound:
        """Return the round as the network is to see it; takes what must not be paused."""
        if state.slot_s is None:
            raise UnsupportedFeatureError(
                f"policy {self.name} allocates in rounds, but the instance has no slots; "
                "set slot_s."
            )
        self._usher = usher_for(state.topology, self._usher)
        return JobSetRound(state, self._usher.book)


class JobSetRound:
    """A round: the jobs that compete, what is free, and the tensors that state it.

    What jobs that must not be paused keep is taken from the state's pool.

    Attributes
    ----------
    kept
        Assignments of those jobs.
    views, jobs
        The other jobs that can run on this cluster.
    tensors
        The input of the network; empty if no job competes.
    """

    def __init__(self, state: ClusterState, book: LadderBook) -> None:
        assert state.slot_s is not None
        self.slot_s = state.slot_s
        self.book = book
        self.kept: list[Assignment] = []
        views = list(state.jobs)
        if not all(map(_PREEMPTIBLE, views)):
            views = self._take_kept(state, views)
        self.jobs: JobSet = job_set(views, book, state.now_s)
        if views:
            able = (book.rate > 0).sum(axis=1)[self.jobs.table] > 0
            if not able.all():
                views = [views[j] for j in np.flatnonzero(able)]
                self.jobs = job_set(views, book, state.now_s)
        self.views = views
        free = state.pool.free_in_all()[: len(RESOURCES)]
        self.free: Array = np.where(book.total > 0, free / np.maximum(book.total, 1.0), 1.0)
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        if views:
            self.tensors = features(self.jobs, book, self.slot_s, self.free)

    def _take_kept(self, state: ClusterState, views: list[JobView]) -> list[JobView]:
        competing = []
        for view in views:
            if view.preemptible or view.current is None:
                competing.append(view)
            else:
                way = view.configurations[view.current.configuration]
                state.pool.take(way, view.current.tasks)
                self.kept.append(view.current)
        return competing

    def progress(self) -> Array:
        """Return the fraction of its remaining work that each job would do, shape (jobs, C)."""
        jobs, book = self.jobs, self.book
        rate = book.rate[jobs.table]
        work_s = np.full(rate.shape, self.slot_s) if jobs.restart_s.any() else None
        if work_s is None:
            return np.asarray(rate * (self.slot_s / jobs.left)[:, None])
        # A restart longer than the slot must still be worth something, or no job would ever resume.
        work_s -= np.minimum(jobs.restart_s, LONGEST_RESTART * self.slot_s)[:, None]
        for j in np.flatnonzero(jobs.restart_s):
            current = self.views[j].current
            if current is not None:
                positions = book.ladders[jobs.table[j]].positions
                if current.configuration in positions:
                    work_s[j, positions.index(current.configuration)] = self.slot_s
        return np.asarray(rate * work_s / jobs.left[:, None])

    def utilities(self, worth: npt.NDArray[Any]) -> Array:
        """Return the score of each job in each column before prices, shape (jobs, C)."""
        jobs = self.jobs
        slowest = jobs.left / (self.book.stats.slowest[jobs.table] * self.slot_s)
        return utilities(worth.astype(float), jobs.weight, self.progress(), slowest)

    def choose(self, answer: Mapping[str, npt.NDArray[Any]]) -> tuple[Index, Array]:
        """Return the column of each job, -1 for none, and the scores they were chosen by."""
        score = self.utilities(np.maximum(answer[WORTH], 0.0))
        prices = np.maximum(answer[PRICES].astype(float), 0.0) * len(self.views)
        chooser = Chooser(score, self.jobs.table, self.book.share, self.free)
        return chooser.choose(prices), score
