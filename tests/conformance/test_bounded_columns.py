"""No model builder hands HiGHS' presolve an integer program with a column that has no end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.backends import SolverOptions, highs, second_proof
from alloc.backends.column_bounds import bounded
from alloc.families import FAMILIES, instance_families
from alloc.formulation import ArrayModel, RawResult
from alloc.models.placement.facts import NOT_LINEAR
from benchmarks import scales

PLANNED = [name for name, _ in scales.families(0, ()) if name.split()[-1] not in NOT_LINEAR]

WITHOUT_HIGHS = {"ranks", "stages", "saturn-spase"}
"""Ranks are mapped without an integer program where their numbers are small; CP-SAT orders stages;
Pyomo hands Saturn's program on by itself."""


@pytest.mark.long
@pytest.mark.parametrize("name", PLANNED)
def test_every_integer_program_has_finite_bounds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS' presolve can crash the process, or outrun its limit, where one has none.

    Small ones go to the search of the second proof, which proves nothing of a column without end.
    """
    handed: list[int] = []
    native = highs._solve_scaled

    def look_at(model: ArrayModel) -> None:
        if model.integer.any():
            open_ended = np.isinf(model.lower) | np.isinf(model.upper)
            handed.append(int(open_ended.sum()))

    def watched(model: ArrayModel, options: SolverOptions) -> RawResult:
        look_at(model)
        return native(model, options)

    class Watched(second_proof._Tree):
        def __init__(self, model: ArrayModel, *rest: Any, **more: Any) -> None:
            look_at(model)
            super().__init__(model, *rest, **more)

    monkeypatch.setattr(highs, "_solve_scaled", watched)
    monkeypatch.setattr(second_proof, "_Tree", Watched)
    for seed in range(2):
        cases = dict(scales.families(seed, ()))[name]
        next(iter(cases)).solve()
    assert handed or name.split()[0] in WITHOUT_HIGHS
    assert not any(handed)


@pytest.mark.parametrize(
    "formulation", [name for name, known in instance_families().items() if "arrays" in known.models]
)
def test_every_models_has_an_end_before_it_is_handed_over(formulation: str) -> None:
    """The arrays of each formulation, for each objective, as they leave the builder."""
    instance = scales.tiny_instance(1)
    chosen = FAMILIES[formulation]
    if formulation != "round":
        instance = scales.rigid(instance)
    # Tardiness asks for due dates.
    instance = instance.replace(jobs=tuple(job.replace(due_date_s=30.0) for job in instance.jobs))
    for objective in set(chosen.objectives) - set(NOT_LINEAR):
        model = bounded(chosen.build("arrays", instance, objective).model)  # type: ignore[arg-type]
        assert np.isfinite(model.lower).all(), objective
        assert np.isfinite(model.upper).all(), objective
