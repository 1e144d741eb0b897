"""Tiny random problems by the registry: of every family that is there, whoever added it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import alloc
from alloc.errors import UnsupportedFeatureError
from alloc.families import FAMILIES
from benchmarks.tiny.families import FAMILIES as TINY

SEEDS = range(8)


def tiny_problems(name: str) -> Iterator[Any]:
    """Yield random problems that are a family's to answer."""
    for tiny in TINY.values():
        for made in map(tiny.problem, SEEDS):
            # Some come with what is wanted of them, such as an objective.
            problem = made[0] if isinstance(made, tuple) else made
            if FAMILIES[name].takes(problem):
                yield problem


def answered(name: str, number: int = 1) -> Iterator[tuple[Any, Any]]:
    """Yield the first problems that have a solution, with their results."""
    for problem in tiny_problems(name):
        try:
            result = alloc.solve(problem, name, limits=alloc.Limits(5.0))
        except UnsupportedFeatureError:
            continue  # of another family of instances
        if result.solution is not None:
            yield problem, result
            number -= 1
            if not number:
                return
    raise AssertionError(f"too few tiny problems of {name} have an answer")
