"""The feature spec of a network that does not state one, from the shapes it works on.

The shapes tell the kind and the size of a window; what they do not tell (an encoding, a topology
level) is as by default in the environments, unless it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.schedulers.learned.domain_choice import DOMAIN_COLUMNS, GANG_COLUMNS
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.job_priority import FEATURES
from alloc.schedulers.learned.kinds import feature_spec, parameters_of
from alloc.schedulers.learned.window_features import ENCODINGS, WindowFeatures

WINDOW, DOMAIN, PRIORITY = "dl2-window/1", "gang-domain/1", "job-priority/1"
"""The kinds that are told by their shapes: those of the two environments, and the smallest."""

_ROWS = {encoding: WindowFeatures(encoding=encoding).num_rows for encoding in ENCODINGS}


def spec_of_shapes(
    seen: Sequence[int], actions: int | None, kind: str | None, given: Mapping[str, Any], where: str
) -> FeatureSpec:
    """Return the spec of a network from the shapes of what it sees and answers.

    Parameters
    ----------
    seen
        Shape of an observation, without batch axis.
    actions
        Number of actions; None for a network that gives each row a number.
    kind
        Name of its kind, or None for the one that has such shapes.
    given
        Parameters of the kind.
    where
        What it is called in messages.

    Raises
    ------
    InstanceError
        If no kind has such shapes, or the one named has not.
    """
    if kind is None:
        kind, read = _kind_of(tuple(seen), actions, where)
        given = {**read, **given}
    elif kind == WINDOW and len(seen) == 2:
        given = {"window": seen[1], **given}
    elif kind == DOMAIN and len(seen) == 2:
        given = {"domains": seen[0] - 1, **given}
    try:
        spec = feature_spec(kind, **given)
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    if len(spec.inputs) == 1 and _differs(spec.inputs[0].shape, seen):
        raise InstanceError(
            f"{where}: sees {_text(seen)}, and kind {kind} with these parameters shows "
            f"{spec.inputs[0].text}; give the parameters it was trained with."
        )
    last = spec.outputs[0].shape[-1]
    if actions is not None and isinstance(last, int) and last != actions:
        raise InstanceError(
            f"{where}: chooses from {actions} actions, and kind {kind} with these parameters has "
            f"{last}; give the parameters it was trained with."
        )
    return spec


def spec_of_spaces(
    low: npt.NDArray[Any],
    high: npt.NDArray[Any],
    actions: int,
    kind: str | None,
    given: Mapping[str, Any],
    where: str,
) -> FeatureSpec:
    """Return the spec of an agent from the spaces of the environment it was trained in.

    The bounds of the observations tell the encoding of a window, too, and an agent of another
    encoding is refused.

    Parameters
    ----------
    low, high
        Bounds of the observation.
    actions, kind, given, where
        As in `spec_of_shapes`.

    Raises
    ------
    InstanceError
        As for `spec_of_shapes`, or if the bounds are not those of the kind.
    """
    spec = spec_of_shapes(low.shape, actions, kind, given, where)
    if spec.kind != WINDOW:
        return spec
    encodings = [given["encoding"]] if "encoding" in given else list(ENCODINGS)
    raw = int(high[-1, 0]) if "max_tasks" not in given and high[-1, 0] > 1 else None
    for encoding in encodings:
        more = {} if raw is None or encoding != "released" else {"max_tasks": raw}
        spec = feature_spec(
            WINDOW, **{"window": low.shape[1], **given, **more, "encoding": encoding}
        )
        features: WindowFeatures = parameters_of(spec).window_features  # type: ignore[attr-defined]
        bounds = features.bounds()
        if features.shape == low.shape and all(map(np.array_equal, bounds, (low, high))):
            return spec
    raise InstanceError(
        f"{where}: was trained on observations whose bounds are not those of encoding "
        f"{' or '.join(encodings)}; give the encoding, max_tasks and models of its environment, "
        "and train it without wrappers that change what it sees."
    )


def _kind_of(seen: tuple[int, ...], actions: int | None, where: str) -> tuple[str, dict[str, Any]]:
    columns = len(DOMAIN_COLUMNS) + len(GANG_COLUMNS)
    if len(seen) == 2 and actions is not None:
        rows, width = seen
        for encoding, num_rows in _ROWS.items():
            if rows == num_rows and actions == 3 * width + 1:
                return WINDOW, {"window": width, "encoding": encoding}
        if width == columns and actions == rows + 1:
            return DOMAIN, {"domains": rows - 1}
    if actions is None and seen[-1:] == (len(FEATURES),):
        return PRIORITY, {}
    answers = "a number for each row" if actions is None else f"{actions} actions"
    raise InstanceError(
        f"{where}: sees {_text(seen)} and answers with {answers}, which no environment of alloc "
        f"has: {WINDOW} shows ({_ROWS['released']} or {_ROWS['paper']}, window) for 3 window + 1 "
        f"actions, {DOMAIN} shows (domains + 1, {columns}) for domains + 2 actions, {PRIORITY} "
        f"shows (jobs, {len(FEATURES)}) for a number each; say which one with kind=..., or write "
        "a scheduler around it."
    )


def _differs(shape: Sequence[int | str], seen: Sequence[int]) -> bool:
    """Return whether a spec's shape, whose first axis is open, is another than what is seen."""
    fixed = [axis for axis in shape if isinstance(axis, int)]
    return fixed != list(seen)[len(seen) - len(fixed) :] if len(fixed) <= len(seen) else True


def _text(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"
