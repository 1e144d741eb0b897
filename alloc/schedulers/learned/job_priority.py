"""Kind ``job-priority/1``: a network that gives every job a number, and the largest goes first.

The smallest kind there is, for any instance, in slots and in continuous time: one row of features
for each job in the system, one priority for each row. Jobs are then served in falling priority as
the rule-based policies serve them: each takes as much as it can use before the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.kinds import Network
from alloc.schedulers.policy import Policy, serve
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import HOUR_S
from alloc.workload import Configuration

FEATURES = (
    "age_h",
    "left_h",
    "left_fraction",
    "attained_gpu_h",
    "running",
    "weight",
    "least_share",
    "most_share",
)
"""The columns: time since arrival in hours; remaining work at the fastest rate in hours; remaining
work over all work, 0 to 1; GPU time received in GPU hours; 1 if it has something, else 0;
importance; share of the cluster's dominant resource that its smallest and its fastest
configuration take, 0 to 1."""


class JobPriorityParameters(KindParameters):
    """The parameters of the kind.

    Parameters
    ----------
    skip
        Whether to go on to the next job when one does not fit, or to stop there.
    time_scale_h
        What the three columns in hours are divided by, more than 0.
    """

    skip: bool = True
    time_scale_h: float = Field(default=1.0, gt=0)


class JobPriorityKind:
    """One priority for each job; the largest is served first, ties in order of arrival."""

    name = "job-priority/1"
    title = "gives every job a priority; the largest is served first"
    needs: Knowledge = "estimate"
    features = Policy.features
    parameters = JobPriorityParameters
    can_sample = False

    def inputs(self, parameters: JobPriorityParameters) -> tuple[TensorSpec, ...]:
        """Return the features: one row for each job, in order of arrival."""
        return (TensorSpec(name="jobs", dtype="float32", shape=("jobs", len(FEATURES))),)

    def outputs(self, parameters: JobPriorityParameters) -> tuple[TensorSpec, ...]:
        """Return the priorities, larger first."""
        return (TensorSpec(name="priority", dtype="float32", shape=("jobs",)),)

    def make_decider(
        self,
        network: Network,
        parameters: JobPriorityParameters,
        *,
        name: str,
        sample: bool = False,
    ) -> JobPriorityDecider:
        """Return what decides with a network.

        Parameters
        ----------
        network
            Answers with the priorities.
        parameters
            The parameters of the policy's spec.
        name
            Name of the policy, for messages.
        sample
            Without effect: priorities are not drawn.
        """
        return JobPriorityDecider(network, parameters, name)


class JobPriorityDecider(Policy):
    """Serve jobs in falling priority, as the network gives it."""

    needs: Knowledge = "estimate"
    information = "what its network is shown"

    def __init__(self, network: Network, parameters: JobPriorityParameters, name: str) -> None:
        super().__init__()
        self.name = name
        self._network = network
        self._parameters = parameters

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        round_, competing = self._open(state)
        if competing:
            rows = job_features(competing, state, self._parameters.time_scale_h)
            priority = self._network({"jobs": rows})["priority"]
            order = np.argsort(-priority, kind="stable")
            serve(round_, [competing[k] for k in order], skip=self._parameters.skip)
        return self._close(round_, competing)


def job_features(
    views: Sequence[JobView], state: ClusterState, time_scale_h: float = 1.0
) -> npt.NDArray[np.float32]:
    """Return one row of `FEATURES` for each job, shape (jobs, features).

    Parameters
    ----------
    views
        The jobs.
    state
        The time, and the cluster that demands are shares of.
    time_scale_h
        Hours that times are divided by, above 0.
    """
    capacity = state.topology.totals[:3]
    seen: dict[int, tuple[float, float, float]] = {}
    rows = np.empty((len(views), len(FEATURES)), dtype=np.float32)
    for k, view in enumerate(views):
        # Jobs of one model share their table; it is looked at once.
        key = id(view.configurations)
        if key not in seen:
            seen[key] = _extent(view.configurations, capacity)
        rate, least, most = seen[key]
        work, left = view.work or 1.0, view.work_left or 0.0
        rows[k] = (
            (state.now_s - view.arrival_s) / HOUR_S / time_scale_h,
            (left / rate if rate > 0 else 0.0) / HOUR_S / time_scale_h,
            left / work,
            view.attained_gpu_s / HOUR_S / time_scale_h,
            view.current is not None,
            view.weight,
            least,
            most,
        )
    return rows


def _extent(
    configurations: Sequence[Configuration], capacity: npt.NDArray[Any]
) -> tuple[float, float, float]:
    """Return the fastest rate, and the shares of the smallest and of the fastest configuration."""
    fastest = max(configurations, key=lambda configuration: configuration.rate)
    least = min(dominant_share(way.demand, capacity) for way in configurations)
    return fastest.rate, least, dominant_share(fastest.demand, capacity)


def dominant_share(demand: Sequence[int], capacity: Sequence[int] | npt.NDArray[Any]) -> float:
    """Return the largest share that a demand takes of any resource, as far as both are given.

    Parameters
    ----------
    demand
        What is asked for of each resource, 0 or more.
    capacity
        What there is of each, in the same units; resources with 0 are left out.
    """
    shares = (need / float(have) for need, have in zip(demand, capacity, strict=False) if have)
    return max(shares, default=0.0)
