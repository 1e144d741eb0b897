"""The model card: where a policy comes from, how good it was, and where it must not be trusted."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field

from alloc.schedulers.learned.feature_spec import Strict, Text
from alloc.schedulers.naming import SUFFIX

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def policy_name(name: str) -> str:
    """Return a name that a policy may have: it is typed on command lines and names its file.

    Raises
    ------
    ValueError
        If it is none; the message completes a sentence that begins with the name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "is not a name of a policy: give up to 64 lower-case letters, digits, "
            '".", "_" and "-", a letter or digit first'
        )
    if name.endswith(SUFFIX):
        raise ValueError(f"is not a name of a policy: with {SUFFIX} at its end it is a path")
    return name


_LONG = 4000
"""Characters of a text, a page: a card is printed as a whole, and may come from a stranger."""


class CurvePoint(Strict):
    """A point of the validation curve, as `ModelCard.curve_step` and `curve_value` say."""

    step: float = Field(ge=0)
    value: float


class ModelCard(Strict):
    """What is to be known about a trained policy.

    Parameters
    ----------
    name
        Name of the policy: lower-case letters, digits, ``.``, ``_`` and ``-``.
    title
        What it is, in one line.
    information
        What it uses, in one sentence, for the table of a comparison.
    data
        What it was trained and validated on.
    seeds
        Seeds of training, one for each run that led to this file.
    command
        Command that trains it again.
    training_hours
        Hours of training, on the machine that `versions` describes.
    curve
        Validation curve, steps rising.
    curve_step, curve_value
        What the steps and the values of the curve are, with unit.
    licence
        Licence of the weights, an SPDX identifier where there is one.
    versions
        Versions of what it was trained with: Python, PyTorch, the machine.
    date
        Day of training.
    alloc_version
        Version of alloc that wrote it.
    limits
        Known limits, one sentence each.
    references
        Papers it follows.
    """

    name: Annotated[str, AfterValidator(policy_name)]
    title: Text = Field(min_length=1, max_length=200)
    information: Text = Field(min_length=1, max_length=300)
    data: Text = Field(min_length=1, max_length=_LONG)
    seeds: tuple[int, ...] = Field(max_length=1000)
    command: Text = Field(min_length=1, max_length=_LONG)
    training_hours: float = Field(ge=0)
    curve: tuple[CurvePoint, ...] = Field(default=(), max_length=10_000)
    curve_step: Text = Field(default="update", max_length=100)
    curve_value: Text = Field(default="mean JCT, s", max_length=100)
    licence: Text = Field(min_length=1, max_length=100)
    versions: dict[Text, Text] = Field(default_factory=dict)
    date: date
    alloc_version: Text = Field(min_length=1, max_length=50)
    limits: tuple[Text, ...] = Field(default=(), max_length=100)
    references: tuple[Text, ...] = Field(default=(), max_length=100)
