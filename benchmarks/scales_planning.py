"""Planning problems in other currencies, for the benchmark of scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.certificate import BoundProof, Status
from alloc.instances.operation import generate_operation
from alloc.objectives import Sense
from alloc.problems.colocation import ColocationProblem
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenCounts
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel
from alloc.problems.quota_planning.problem import (
    DemandScenario,
    GpuCapacity,
    QuotaProblem,
    QuotaTenant,
    TenantDemand,
)
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
)
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.outcome import Settings
from alloc.solving.rank_mapping.method import map_ranks
from alloc.solving.right_sizing.method import right_size
from alloc.solving.solver import solve_within
from alloc.topology import HostType, dgx_h100, leaf_spine
from alloc.workload import InterferenceTable
from alloc.workload.parallelism import Parallelism

LIMIT_S = 20.0
"""Wall time of a solve, seconds: tiny problems take a hundredth of it."""
NO_LATENCY = dict.fromkeys(("cluster", "spine", "leaf", "host", "island"), 0.0)


@dataclass(frozen=True)
class Claim:
    """What is said of a problem, its values in the problem's own units."""

    way: str
    status: Status
    objective: float | None
    bound: float
    sense: Sense
    proof: BoundProof


@dataclass(frozen=True)
class Case:
    """A problem and all ways to solve it.

    Parameters
    ----------
    name
        Formulation and objective.
    solve
        Returns the claims of all ways.
    unit
        What one unit of the objective has become by the change of units.
    """

    name: str
    solve: Callable[[], list[Claim]]
    unit: float = 1.0


def _claim(way: str, answer: object) -> Claim:
    c = answer.certificate  # type: ignore[attr-defined]
    return Claim(way, c.status, c.objective, c.bound, c.sense, c.bound_proof)


def right_sizing(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return a plan for a machine room and a cloud, its prices in other currencies."""
    rng = np.random.default_rng(seed)
    box = HostType("a100x8", 8, "a100")
    train = [tuple(rng.uniform(0.5, 2.5, 2).tolist()) for _ in range(2)]

    def priced(factor: float) -> PlanningProblem:
        return PlanningProblem(
            "world",
            "EUR",
            2,
            offers=(
                HostOffer("buy", box, "purchase", 150_000.0 * factor, ("north",), busy_kw=5.0,
                          rack_units=6.0, residual_fraction=0.9),
                HostOffer("rent", box, "on_demand", 24.0 * factor, ("cloud",)),
            ),
            sites=(
                Site("north", 60.0, energy_price_per_kwh=(0.2 * factor,)),
                Site("cloud"),
            ),
            classes=(JobClass("train", (JobOption("a100", 8, 10.0),), ServiceGoal("wait", 4.0)),),
            scenarios=tuple(
                Scenario(f"s{n}", 0.5, {"train": demand}) for n, demand in enumerate(train)
            ),
        )  # fmt: skip

    for factor in (1.0, *factors):
        problem = priced(factor)

        def claims(problem: PlanningProblem = problem) -> list[Claim]:
            return [
                _claim(
                    method,
                    right_size(problem, method=method, limits=Limits(seconds=LIMIT_S, gap=1e-6)),
                )
                for method in ("extensive", "decomposition")
            ]

        yield Case(f"right-sizing, prices x {factor:g}", claims, factor)


def operation(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return a decision in operation, its prices in other currencies."""
    from operation_patterns import solve_by_patterns

    import benchmarks.tiny  # noqa: F401  # puts what the tests share on the path

    problem = generate_operation(num_nodes=2, num_jobs=5, seed=seed)
    for factor in (1.0, *factors):
        priced = problem.replace(
            types=tuple(
                replace(t, price_per_h=tuple(factor * p for p in t.price_per_h))
                for t in problem.types
            ),
            jobs=tuple(
                replace(j, tardiness_cost_per_h=factor * j.tardiness_cost_per_h)
                for j in problem.jobs
            ),
            energy_price_per_kwh=factor * problem.energy_price_per_kwh,
        )

        def claims(priced: object = priced) -> list[Claim]:
            found = solve_within(priced, Settings(LIMIT_S))
            other = solve_by_patterns(priced, Settings(LIMIT_S))  # type: ignore[arg-type]
            own = _claim("aggregated", found)
            return [
                own,
                Claim("patterns", "feasible", other.cost, other.bound, "min", "claimed"),
            ]

        yield Case(f"operation, prices x {factor:g}", claims, factor)


def inference(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return replicas of a model, the prices of their GPUs in other currencies."""
    rng = np.random.default_rng(seed)
    option = ReplicaOption(
        "h100", 1, prefill_tokens_per_s=8000.0, decode_tokens_per_s=((1, 40.0), (8, 160.0))
    )
    larger = replace(option, tensor_parallel=2, prefill_tokens_per_s=14_000.0)
    tokens = TokenCounts((100, 500), (0.5, 0.5)), TokenCounts((20, 200), (0.6, 0.4))
    rates = tuple(rng.uniform(0.2, 3.0, 2).tolist())
    chat = RequestClass("chat", rates, *tokens, LatencyGoal(2.0, 95), None)
    model = ServedModel("chatbot", 1000, (chat,), (option, larger))
    prices = rng.uniform(1.0, 5.0, 2).tolist()
    for factor in (1.0, *factors):
        pools = tuple(
            GpuPool(f"p{n}", "h100", 4, 4, price * factor, 80_000) for n, price in enumerate(prices)
        )
        problem = InferenceProblem((model,), pools, (Period("a", 1.0), Period("b", 2.0)))

        def claims(problem: InferenceProblem = problem) -> list[Claim]:
            return [
                _claim(method, solve_within(problem, Settings(LIMIT_S), backend=method))
                for method in ("auto", "columns", "pyomo")
            ]

        yield Case(f"inference, prices x {factor:g}", claims, factor)


def quotas(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return quotas for three tenants, their weights in other units."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (2, 3)).tolist()
    weights = rng.uniform(0.5, 3.0, 3).tolist()
    for factor in (1.0, *factors):
        tenants = tuple(
            QuotaTenant(f"t{n}", "c", 1000, weight * factor) for n, weight in enumerate(weights)
        )
        scenarios = tuple(
            DemandScenario(
                f"s{s}",
                0.5,
                tuple(TenantDemand(f"t{n}", "a100", (1000 * x,)) for n, x in enumerate(row)),
            )
            for s, row in enumerate(rows)
        )
        problem = QuotaProblem(
            tenants, (GpuCapacity("a100", 6000),), scenarios, (1.0,), "expected_shortfall"
        )

        def claims(problem: QuotaProblem = problem) -> list[Claim]:
            return [
                _claim(method, solve_within(problem, Settings(LIMIT_S), backend=method))
                for method in ("highs", "pyomo")
            ]

        yield Case(f"quotas, weights x {factor:g}", claims, factor)


def ranks(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return a mapping of ranks, the bytes they exchange in other units."""
    rng = np.random.default_rng(seed)
    tree = leaf_spine(dgx_h100(), 1, 2, num_spines=1)
    gpus = [f"{host.id}/gpu{g}" for host in tree.hosts for g in range(3)]
    sent = (1e6 * rng.uniform(0.5, 2.0, 3)).tolist()
    for factor in (1.0, *factors):
        job = Parallelism(
            2, 1, 3, 1,
            tensor_bytes=sent[0] * factor,
            tensor_operations=3,
            data_bytes=sent[1] * factor,
        )  # fmt: skip

        def claims(job: Parallelism = job) -> list[Claim]:
            answer = map_ranks(
                tree, job, gpus, latency_s=NO_LATENCY, limits=Limits(seconds=LIMIT_S)
            )
            return [_claim("ranks", answer)]

        yield Case(f"rank mapping, bytes x {factor:g}", claims, factor)


def colocation(seed: int, factors: Sequence[float]) -> Iterator[Case]:
    """Return jobs that share GPUs, their weights in other units."""
    rng = np.random.default_rng(seed)
    table = InterferenceTable("random", ("a", "b", "c"), np.ones(3), rng.uniform(0.3, 1.0, (3, 3)))
    kinds = [table.kinds[k] for k in rng.integers(0, 3, 6)]
    weights = rng.uniform(0.5, 3.0, 6)
    for factor in (1.0, *factors):

        def claims(worth: Sequence[float] = tuple((weights * factor).tolist())) -> list[Claim]:
            found = solve(ColocationProblem(kinds, table, 3, weights=worth))
            return [_claim("pack", found)]

        yield Case(f"co-location, weights x {factor:g}", claims, factor)
