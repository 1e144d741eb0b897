"""Kind ``stage-graph/1``: which stage of which job starts next, and on how many GPUs.

A network over graphs, after Decima. Whenever there is room it is shown the stages of all jobs in
the system, what waits for what, and every way to start a stage that has room now; it gives each way
a score. The best starts, and the network is asked again, until nothing more fits or it would rather
wait.

References
----------
Mao, Schwarzkopf, Venkatakrishnan, Meng, Alizadeh, "Learning scheduling algorithms for data
processing clusters", SIGCOMM 2019, doi:10.1145/3341302.3342080, section 5. Departures: a stage is a
gang that keeps its GPUs, so that the number of executors is that of one of its configurations and
stage and number are chosen together, by one softmax; the agent may wait; it is told the longest
path of each stage, the work left and the weight of each job, beside what Decima is told.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from alloc.schedulers.grant import Outcome
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.kinds import Network, choose
from alloc.schedulers.learned.stage_graph_features import (
    FOLLOWS,
    JOB_FEATURES,
    JOBS,
    STAGE_FEATURES,
    STAGE_OF,
    STAGES,
    STAGES_OF,
    WAY_FEATURES,
    WAYS,
    StageGraph,
    Tensors,
    Way,
)
from alloc.schedulers.policy import Policy
from alloc.schedulers.round import Round
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import MILLI

SCORE = "score"
"""Name of the output: the score of each way."""

Asking = Generator[Tensors, int, Decision]
"""A decision in steps: yields what the network is shown, is sent the way that is taken."""


class StageGraphParameters(KindParameters):
    """The parameters of the kind.

    Parameters
    ----------
    may_wait
        Whether the network may wait for the next event where something runs, also with room left.
    """

    may_wait: bool = True


class StageGraphKind:
    """A score of every way to start a stage now; the best is taken, and it is asked again."""

    name = "stage-graph/1"
    title = "starts one stage after the other, each on the number of GPUs that scores best"
    needs: Knowledge = "estimate"
    features = Policy.features
    parameters = StageGraphParameters
    can_sample = True

    def inputs(self, parameters: StageGraphParameters) -> tuple[TensorSpec, ...]:
        """Return features and graph (`alloc.schedulers.learned.stage_graph_features`)."""
        shapes: Mapping[str, tuple[str | int, ...]] = {
            STAGES: (STAGES, len(STAGE_FEATURES)),
            FOLLOWS: (STAGES, STAGES),
            JOBS: (JOBS, len(JOB_FEATURES)),
            STAGES_OF: (JOBS, STAGES),
            WAYS: (WAYS, len(WAY_FEATURES)),
            STAGE_OF: (WAYS, STAGES),
        }
        return tuple(
            TensorSpec(name=name, dtype="float32", shape=shape) for name, shape in shapes.items()
        )

    def outputs(self, parameters: StageGraphParameters) -> tuple[TensorSpec, ...]:
        """Return the scores of the ways, unnormalised log-probabilities."""
        return (TensorSpec(name=SCORE, dtype="float32", shape=(WAYS,)),)

    def make_decider(
        self,
        network: Network,
        parameters: StageGraphParameters,
        *,
        name: str,
        sample: bool = False,
    ) -> StageGraphDecider:
        """Return what decides with a network.

        Parameters
        ----------
        network
            Answers with the scores of the ways.
        parameters
            The parameters of the policy's spec.
        name
            Name of the policy, for messages.
        sample
            Whether to draw a way with ``state.rng`` instead of taking the best.
        """
        return StageGraphDecider(network, parameters, name, sample=sample)


class StageGraphDecider(Policy):
    """Start the stage with the best score on the GPUs with the best score, again and again."""

    needs: Knowledge = "estimate"
    information = "graphs of the jobs that have arrived, remaining work of their stages, weights"

    def __init__(
        self,
        network: Network,
        parameters: StageGraphParameters,
        name: str,
        *,
        sample: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.draws = sample
        self._network = network
        self._may_wait = parameters.may_wait

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        asking = self.ask(state)
        try:
            shown = next(asking)
            while True:
                score = self._network(shown)[SCORE]
                drawn = state.rng if self.draws else None
                shown = asking.send(choose(score, np.ones(len(score), np.bool_), drawn))
        except StopIteration as ended:
            decision: Decision = ended.value
            return decision

    def ask(self, state: ClusterState) -> Asking:
        """Make a decision in steps: yield what there is to choose from, take the way chosen."""
        round_, competing = self._open(state)
        left = [view for view in competing if not view.is_complete]
        held = {view.id: _gpus(view, now.configuration) for view, now in round_.pinned.values()}
        graph: StageGraph | None = None
        while left:
            ways = _ways(round_, left)
            if not ways:
                break
            graph = graph or StageGraph(state)
            ready = len({way.view.id for way in ways})
            may_wait = self._may_wait and bool(held)
            taken = yield graph.tensors(ways, held, ready, may_wait=may_wait)
            if taken == len(ways):
                break
            way = ways[taken]
            left = [view for view in left if view is not way.view]
            if round_.give(way.view, way.configuration) is Outcome.GRANTED:
                held[way.view.id] = _gpus(way.view, way.configuration)
        return self._close(round_, competing)


def _gpus(view: JobView, configuration: int) -> float:
    return view.configurations[configuration].demand[0] / MILLI


def _ways(round_: Round, views: Sequence[JobView]) -> list[Way]:
    """Return every way to start one of some stages that has room now."""
    pool, found = round_.pool, list[Way]()
    free = math.inf if pool.open_gpus else float(pool.free[:, 0].sum())
    # Stages of one kind ask for the same tasks: each is tried once.
    fits: dict[object, bool] = {}
    moving = round_.state.executors
    for view in views:
        bound = view.bound_to
        for c in range(len(view.configurations)) if bound is None else (bound,):
            way = view.configurations[c]
            if way.rate <= 0 or way.demand[0] > free or not round_.allows(view, way.demand[0]):
                continue
            key = (way.gang, view.placement.required)
            if key not in fits:
                placed = pool.place(way, required=view.placement.required)
                fits[key] = placed is not None
                if placed is not None:
                    pool.release(way, placed)
            if fits[key]:
                delay_s = 0.0 if moving is None else moving.delay_s(view.id, _gpus(view, c))
                found.append(Way(view, c, delay_s))
    return found
