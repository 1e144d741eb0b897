"""Inference sizing: replicas of large language models through the hours of a day."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import between
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenSummary
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel

_LLAMA_2_70B: dict[str, Any] = {"memory_mib": 131_500, "kv_mib_per_token": 0.3125}
"""Weights as released, 69 billion parameters of two bytes each, rounded; keys and values of 80
layers with 8 heads of 128 (architecture: Llama 2, arXiv:2307.09288)."""
_OPTIONS = (
    ReplicaOption(
        "h100",
        4,
        8800.0,
        ((1, 34.0), (4, 134.0), (8, 254.0), (16, 487.0), (32, 868.0), (64, 1222.0)),
    ),
    ReplicaOption(
        "a100",
        4,
        3700.0,
        ((1, 22.0), (4, 89.0), (8, 175.0), (16, 330.0), (32, 611.0), (64, 877.0)),
    ),
)
"""Llama 2 70B on four GPUs, rounded from what Splitwise's authors measured."""
_SOURCES = (
    "speeds: Patel et al., Splitwise, ISCA 2024, performance model of its simulator (MIT), rounded",
    "tokens: means of Azure's conversation and code traces of 2023 (CC-BY-4.0), rounded",
    "tails of the tokens, rates, goals, pools and prices: ours",
)


def serving_day(
    name: str,
    *,
    num_models: int,
    num_periods: int,
    failures: int = 1,
    held: bool = True,
    scale: float = 1.0,
    seed: int = 0,
) -> InferenceProblem:
    """Return models with a daily wave each, on GPUs owned, rented, and lent by training.

    Parameters
    ----------
    name
        Name of the problem.
    num_models
        Models to serve, 1 or more.
    num_periods
        Parts of equal length that the day is cut into.
    failures
        Replicas of a model that may fail at once.
    held
        Whether hosts of one's own are paid all day.
    scale
        Factor on the rates.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    hours = 24 / num_periods
    models = []
    for k in range(num_models):
        base, shift = scale * between(rng, 2.0, 12.0), between(rng, 0.0, 24.0)
        wave = [
            base * (1 + 0.8 * math.sin(2 * math.pi * (t * hours - shift) / 24))
            for t in range(num_periods)
        ]
        chat = between(rng, 0.5, 0.9)
        classes = (
            RequestClass(
                "conversation",
                tuple(round(chat * rate, 3) for rate in wave),
                TokenSummary(1155, 99, 4500),
                TokenSummary(211, 99, 800),
                LatencyGoal(2.0, 95),
                LatencyGoal(0.15, 95),
            ),
            RequestClass(
                "code",
                tuple(round((1 - chat) * rate, 3) for rate in wave),
                TokenSummary(2048, 95, 6000),
                TokenSummary(28, 99, 250),
                LatencyGoal(3.0, 95),
            ),
        )
        models.append(
            ServedModel(
                f"model-{k}", classes=classes, options=_OPTIONS, failures=failures, **_LLAMA_2_70B
            )
        )
    # The pools grow with the peak, at most 1.8 times the base rates; what is rented is ample.
    own = math.ceil(3 * num_models * scale)
    night = [t for t in range(num_periods) if t * hours < 6 or t * hours >= 20]
    lent = tuple(own if t in night else max(1, own // 4) for t in range(num_periods))
    billing: Any = "held" if held else "used"
    pools = (
        GpuPool("own", "h100", 8, own, 2.6, 81_559, billing=billing),
        GpuPool("rented", "h100", 8, 20 * own, 5.0, 81_559),
        GpuPool("lent by training", "a100", 8, lent, 1.6, 81_559, lender="training"),
    )
    periods = tuple(Period(f"{t * hours:04.1f} h", hours) for t in range(num_periods))
    return InferenceProblem(tuple(models), pools, periods, name)


def size(problem: InferenceProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {
        "models": len(problem.models),
        "pools": len(problem.pools),
        "periods": len(problem.periods),
    }


_VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"held": False},
    {"failures": 0},
    {"scale": 4.0},
    {"failures": 2, "scale": 2.0},
)


def _family(name: str, about: str, first_seed: int, **common: Any) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "inference_sizing",
        "cost",
        serving_day,
        size,
        [{**variant, "seed": first_seed + k} for k, variant in enumerate(_VARIANTS)],
        common,
        _SOURCES,
    )


FAMILIES = (
    _family("inference-tiny", "1 model, 3 periods", 1, num_models=1, num_periods=3),
    _family("inference-small", "2 models, 6 periods", 11, num_models=2, num_periods=6),
    _family("inference-medium", "5 models, 24 hours", 21, num_models=5, num_periods=24),
    _family("inference-large", "20 models, 24 hours", 31, num_models=20, num_periods=24),
)
