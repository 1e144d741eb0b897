"""The validation curve: what is drawn is what the model card says."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pytest

from alloc.errors import InstanceError
from alloc.plotting import new_figure, plot_validation_curve
from alloc.schedulers.learned import CurvePoint

CURVE = tuple(CurvePoint(step=s, value=v) for s, v in ((0, 5.5), (50, 3.25), (100, 4.0)))


def test_the_curve_and_its_lowest_point_are_drawn() -> None:
    """The best checkpoint is the one that was shipped; it is marked."""
    ax: Any = plot_validation_curve(
        CURVE,
        step="update",
        value="mean JCT, slots",
        title="mine",
        ax=new_figure(6, 3).add_subplot(),
    )
    curve, lowest = ax.get_lines()
    assert list(curve.get_xydata().ravel()) == [0, 5.5, 50, 3.25, 100, 4.0]
    assert list(lowest.get_xydata().ravel()) == [50, 3.25]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("update", "mean JCT, slots")
    assert ax.get_title(loc="left") == "mine"
    assert [text.get_text() for text in ax.texts] == ["3.25"]


def test_fresh_axes_are_made_if_none_are_given() -> None:
    mpl.use("agg")
    from matplotlib import pyplot

    assert plot_validation_curve(CURVE).get_figure() is not None
    pyplot.close("all")


def test_a_card_without_a_curve_says_so() -> None:
    with pytest.raises(InstanceError, match="has no validation curve"):
        plot_validation_curve(())
