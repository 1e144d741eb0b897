"""Rank mapping: `map_ranks` puts the ranks of a job on its GPUs, with a proof of how good that is.

On a tree of domains the time of a step is minimised exactly, by counts of cells (see the page of
`alloc.models.rank_mapping`); on a general graph the traffic's total time on the links is, as a
quadratic assignment, searched for any size and proved for small ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.models.rank_mapping.counts import CountProblem, Counts, DomainTree, boundary_seconds
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.problems.rank_mapping import (
    Algorithm,
    Indices,
    RankMapping,
    RankMappingProblem,
    step_time,
    transfer_time,
    value_mapping,
)
from alloc.result import Limits, Result
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.quadratic_assignment.method import assign
from alloc.solving.rank_mapping.block_plans import Plan, has_enough, plans
from alloc.solving.solver import solve
from alloc.topology.communication import CommunicationGraph, CommunicationTree, Fabric
from alloc.topology.job_fabric import job_fabric
from alloc.topology.topology import Topology
from alloc.workload.parallelism import Parallelism

MappingObjective = Literal["step", "transfer"]

_LEAST_SHARE_S = 1.0
"""Seconds that a solve of the count model gets at least, so that the last plans of a short limit
get more than a look."""


def map_ranks(
    topology: Topology | Fabric,
    parallelism: Parallelism,
    gpus: Sequence[str] | None = None,
    *,
    objective: MappingObjective | None = None,
    algorithm: Algorithm = "auto",
    latency_s: Mapping[str, float] | None = None,
    bandwidth_gb_per_s: Mapping[str, float] | None = None,
    limits: Limits = Limits(),
) -> Result[RankMapping]:
    """Map the ranks of a job onto the GPUs of its placement.

    Parameters
    ----------
    topology
        The cluster, or a fabric made by hand.
    parallelism
        The job.
    gpus
        Ids of the GPUs of the placement (``"host-3/gpu0"``), at least as many as ranks; None for
        all.
    objective
        ``step``, the predicted communication time of a step, on trees only; or ``transfer``, the
        time of all traffic one after the other. None takes ``step`` on a tree and ``transfer`` on
        a graph.
    algorithm
        How all-reduces run.
    latency_s, bandwidth_gb_per_s
        By level, where they differ from what `alloc.topology.job_fabric` derives.
    limits
        Time and seed.

    Returns
    -------
    Result
        The best mapping found, never worse than the naive one, and a proved bound.

    Raises
    ------
    InstanceError
        If there are fewer GPUs than ranks, or a name is unknown.
    UnsupportedFeatureError
        If `objective` is ``step`` on a graph.
    CertificateError
        If the checker contradicts the mapping; a bug.

    Examples
    --------
    >>> from alloc.topology import dgx_h100, leaf_spine
    >>> from alloc.workload.parallelism import transformer_parallelism
    >>> job = transformer_parallelism(
    ...     layers=8, hidden=4096, sequence=2048, tensor=4, pipeline=2, data=4, micro_batches=4
    ... )
    >>> result = map_ranks(leaf_spine(dgx_h100(), 2, 2, num_spines=2), job)
    >>> result.certificate.status, result.certificate.backend
    ('optimal', 'alloc counts')
    """
    problem = rank_problem(
        topology,
        parallelism,
        gpus,
        algorithm=algorithm,
        latency_s=latency_s,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
    )
    result: Result[RankMapping] = solve(problem, objective=objective, limits=limits)
    return result


def rank_problem(
    topology: Topology | Fabric,
    parallelism: Parallelism,
    gpus: Sequence[str] | None = None,
    *,
    algorithm: Algorithm = "auto",
    latency_s: Mapping[str, float] | None = None,
    bandwidth_gb_per_s: Mapping[str, float] | None = None,
) -> RankMappingProblem:
    """Return the problem of mapping a job's ranks; parameters as in `map_ranks`.

    Parameters
    ----------
    topology, parallelism, gpus, algorithm, latency_s, bandwidth_gb_per_s
        As in `map_ranks`.
    """
    if isinstance(topology, Topology):
        fabric = job_fabric(topology, gpus, latency_s, bandwidth_gb_per_s)
    elif gpus is not None or latency_s or bandwidth_gb_per_s:
        raise InstanceError(
            "rank mapping: a fabric made by hand holds its GPUs, latencies and bandwidths; give "
            "gpus, latency_s and bandwidth_gb_per_s with a topology only."
        )
    else:
        fabric = topology
    return RankMappingProblem(fabric, parallelism, algorithm)


def solve_mapping(
    problem: RankMappingProblem,
    objective: str,
    settings: Settings,
    start: RankMapping | None,
    report: Callable[[str], None],
) -> Outcome[RankMapping]:
    """Map ranks by counts on a tree, or as a quadratic assignment.

    Parameters
    ----------
    problem
        The job and its GPUs.
    objective
        ``step`` or ``transfer``.
    settings
        Limits.
    start
        Mapping to start from; None: the naive one, rank by rank.
    report
        Takes a line of progress.

    Raises
    ------
    UnsupportedFeatureError
        If `objective` is ``step`` on a graph.
    """
    fabric, parallelism = problem.fabric, problem.parallelism
    first = np.arange(parallelism.num_ranks) if start is None else problem.places(start)
    if objective == "step":
        if not isinstance(fabric, CommunicationTree):
            raise UnsupportedFeatureError(
                'rank mapping: objective "step" needs a tree of domains, and these GPUs are wired '
                'pair by pair; use objective "transfer", whose answer predicts the step as well.'
            )
        search = _TreeSearch(fabric, parallelism, problem.algorithm, settings)
        try:
            places, bound, limit = search.run(first)
        except KeyboardInterrupt:
            places, bound, limit = search.places, -math.inf, "interrupt"
        method, proof = "counts", search.proof
    else:
        places, bound, limit = _assign(fabric, parallelism, settings, first, report)
        method, proof = "quadratic-assignment", "recomputed"
    mapping = value_mapping(parallelism, fabric, places, problem.algorithm)
    value = mapping.time.step_s if objective == "step" else mapping.transfer_s
    # The search leaves out what is proved to be no better, so its bound may be above the value.
    bound = min(bound, value)
    optimal = is_within(value, bound, OPTIMALITY_GAP)
    return Outcome(mapping, bound, proof, f"alloc {method}", "alloc", None if optimal else limit)


class _TreeSearch:
    """Best-first search over plans; see the page of the formulation."""

    def __init__(
        self,
        tree: CommunicationTree,
        parallelism: Parallelism,
        algorithm: Algorithm,
        settings: Settings,
    ) -> None:
        self.tree, self.parallelism, self.algorithm = tree, parallelism, algorithm
        self.settings = settings
        self.domains = DomainTree.of(tree)
        self.boundary_s = boundary_seconds(tree, parallelism)
        self.best = math.inf
        self.cut_short = False
        self.proof: BoundProof = "recomputed"
        self.places: Indices = np.zeros(0, dtype=np.int64)

    def run(self, naive: Indices) -> tuple[Indices, float, Limit | None]:
        """Return the best mapping, the bound, and what stopped the search."""
        self._note(naive)
        bound = math.inf
        limit: Limit | None = None
        for plan in plans(self.parallelism, self.tree, self.algorithm):
            problem = self._problem(plan.tensor_blocks, plan.data_blocks)
            least = plan.seconds + problem.pipeline_s((0,) * problem.depth)
            if least >= self._enough or bound <= least:
                bound = min(bound, least)
                break
            if self.settings.time_is_up():
                bound, limit = min(bound, least), "time"
                break
            if not has_enough(plan, self.domains, self.parallelism.num_ranks):
                continue
            relaxed = [
                replace(self._problem(*blocks), fewest=plan.fewest) for blocks in plan.relaxations()
            ]
            if not all(each.has_room() for each in relaxed):
                continue
            least = plan.seconds + max(r.pipeline_s(r.least_cuts()) for r in relaxed)
            if least >= self._enough:
                continue
            bound = min(bound, self._resolve(plan, least, len(relaxed) == 1))
        return self.places, bound, limit or ("time" if self.cut_short else None)

    @property
    def _enough(self) -> float:
        """Bound from which on nothing better is to be had."""
        return self.best * (1 - 1e-12)

    def _problem(self, tensor: tuple[int, ...], data: tuple[int, ...]) -> CountProblem:
        p = self.parallelism
        return CountProblem(
            self.domains, tensor, data, p.pipeline, self.boundary_s, p.micro_batches
        )

    def _note(self, places: Indices) -> float:
        value = step_time(self.parallelism, self.tree, places, self.algorithm).step_s
        if value < self.best:
            self.best, self.places = value, places
        return value

    def _resolve(self, plan: Plan, least: float, exact: bool) -> float:
        """Try a plan; return a lower bound on the mappings that need no more than it."""
        needed = (plan.tensor_blocks, plan.data_blocks)
        for blocks in dict.fromkeys((*plan.finest, needed)):
            pipeline = self._try(self._problem(*blocks), plan.seconds, least)
            if exact and blocks == needed:
                least = max(least, plan.seconds + pipeline)
            if self.best <= least * (1 + 1e-12):
                break
        return least

    def _try(self, problem: CountProblem, seconds: float, least: float) -> float:
        """Note the mappings with given blocks; return a lower bound on their pipeline time."""
        if not problem.has_room():
            return 0.0
        p = self.parallelism
        runs, cuts = min(problem.equal_runs(), key=lambda r: problem.pipeline_s(r[1]))
        self._note(problem.places(problem.counts_of_runs(runs), p.tensor, p.data))
        if seconds + problem.pipeline_s(cuts) <= least * (1 + 1e-12):
            return 0.0
        if self.settings.time_is_up():
            self.cut_short = True
            return 0.0
        counts, pipeline = self._counts(problem, runs, cuts)
        if counts is not None:
            self._note(problem.places(counts, p.tensor, p.data))
        return pipeline

    def _counts(
        self, problem: CountProblem, runs: tuple[int, ...], cuts: tuple[int, ...]
    ) -> tuple[Counts | None, float]:
        """Solve the count model; return counts and a lower bound on the pipeline time."""
        from alloc.backends import cpsat
        from alloc.models.rank_mapping.cpsat_model import counts_of, cpsat_counts

        left = self.settings.seconds_left()
        start = problem.counts_of_runs(runs)[: problem.open_levels]
        values = np.concatenate([x.reshape(-1) for x in start]).astype(float)
        # Later plans may hold the answer: no solve takes all of the time.
        share = min(left, max(_LEAST_SHARE_S, left / 3))
        options = SolverOptions(share, self.settings.seed, gap=0.0, start=values)
        raw = cpsat.solve(cpsat_counts(problem, cuts), options)
        self.cut_short |= raw.status != "optimal"
        counts = None if raw.values is None else counts_of(problem, raw.values)
        self.proof = "claimed"  # from here on it is CP-SAT's word too
        # The equal runs are a solution: whoever calls it infeasible proves nothing.
        return counts, 0.0 if raw.status == "infeasible" else max(raw.bound, 0.0)


def _assign(
    fabric: Fabric,
    parallelism: Parallelism,
    settings: Settings,
    first: Indices,
    report: Callable[[str], None],
) -> tuple[Indices, float, Limit | None]:
    """Minimise the time of all traffic as a quadratic assignment."""
    problem = assignment_problem(fabric, parallelism)
    spare = np.setdiff1d(np.arange(problem.size), first)
    outcome = assign(problem, "cost", settings, np.concatenate([first, spare]), report)
    assert outcome.solution is not None
    places = outcome.solution[: parallelism.num_ranks]
    cost = problem.cost(outcome.solution)
    scale = transfer_time(parallelism, fabric, places) / cost if cost > 0 else 0.0
    return places, outcome.bound * scale, outcome.limit


def assignment_problem(fabric: Fabric, parallelism: Parallelism) -> QuadraticAssignment:
    """Return rank mapping as a quadratic assignment: traffic against seconds per byte.

    GPUs to spare get ranks without traffic. Both matrices are scaled to at most 1, so that the
    cost is in no unit; it is proportional to `alloc.problems.rank_mapping.transfer_time`.

    Parameters
    ----------
    fabric
        The GPUs, with seconds per byte between each two.
    parallelism
        The job: its ranks, at most one for each GPU, and their traffic in bytes.
    """
    graph = fabric if isinstance(fabric, CommunicationGraph) else fabric.graph()
    flow = np.zeros((graph.num_gpus, graph.num_gpus))
    n = parallelism.num_ranks
    flow[:n, :n] = parallelism.traffic()
    distance = graph.seconds_per_byte.copy()
    np.fill_diagonal(distance, 0.0)
    return QuadraticAssignment("ranks", _scaled(flow), _scaled(distance))


def _scaled(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    largest = float(matrix.max())
    return matrix / largest if largest > 0 else matrix
