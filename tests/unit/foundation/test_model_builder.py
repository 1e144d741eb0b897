"""The builder of array models against the same rows written down densely."""

from typing import Any

import numpy as np
import pytest

from alloc.model_builder import ModelBuilder


@pytest.mark.parametrize("seed", range(20))
def test_blocks_and_single_rows_give_the_matrix_written_down_densely(seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    upper = rng.integers(1, 9, shape)
    at = builder.columns(shape, upper, cost=2.0)
    more = builder.columns(2, integer=False)
    assert at.shape == shape
    expected: list[Any] = []
    for n in range(6):
        if rng.random() < 0.5:
            row = np.zeros(at.size + 2)
            values = rng.integers(1, 9, at.size)
            np.add.at(row, at.ravel(), values)
            row[more[0]] += 3.0
            position = builder.row(
                f"row {n}", [(at.ravel(), values), (int(more[0]), 3.0)], lower=n, upper=n + 1
            )
            assert position == len(expected)
            expected.append((row, n, n + 1))
            continue
        values = rng.integers(1, 9, shape)
        count = np.arange(shape[0])
        builder.rows(
            f"row {n}",
            shape[0],
            # The second term names the first column of each row again: entries add up.
            [(count[:, None], at, values), (count, at[:, 0], 1.0)],
            upper=count + n,
        )
        for k in count:
            row = np.zeros(at.size + 2)
            row[at[k]] = values[k]
            row[at[k, 0]] += 1.0
            expected.append((row, -np.inf, k + n))
    model = builder.model("max", 5.0)
    assert model.matrix.toarray().tolist() == [row.tolist() for row, _, _ in expected]
    assert model.row_lower.tolist() == [low for _, low, _ in expected]
    assert model.row_upper.tolist() == [high for _, _, high in expected]
    assert model.upper.tolist() == [*upper.ravel().tolist(), np.inf, np.inf]
    assert model.lower.tolist() == [0.0] * (at.size + 2)
    assert model.integer.tolist() == [True] * at.size + [False] * 2
    assert model.cost.tolist() == [2.0] * at.size + [0.0] * 2
    assert (model.sense, model.offset) == ("max", 5.0)


def test_a_family_names_the_rows_that_stand_together_and_a_declared_one_may_be_empty() -> None:
    builder = ModelBuilder("C1", "C2", "C3")
    builder.columns(1)
    builder.row("C1", [(0, 1.0)])
    builder.rows("C1", 2, [])
    builder.row("C3", [])
    builder.row("scattered", [])
    builder.row("C4", [])
    builder.row("scattered", [])
    rows = builder.model("min").rows
    assert rows == {"C1": slice(0, 3), "C2": slice(3, 3), "C3": slice(3, 4), "C4": slice(5, 6)}


def test_an_empty_builder_is_an_empty_model() -> None:
    model = ModelBuilder().model("min")
    assert model.matrix.shape == (0, 0)
    assert len(model.cost) == len(model.row_lower) == 0
