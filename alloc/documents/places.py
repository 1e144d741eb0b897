"""Places: where in a document something is, in words.

A place is told by the innermost part that has a name: ``job "train-17"``, not ``jobs[16]``. Which
parts have one, and what else differs, is in `alloc.documents.shapes`.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from alloc.documents.models import Part
from alloc.documents.parsing import describe
from alloc.documents.records import record_class_of
from alloc.documents.shapes import Shape, shape_of

Path = Sequence[str | int]


@dataclass(frozen=True)
class Spot:
    """Where an error is: the owner in words, its model, and the field in it."""

    owner: str
    model: type[Part] | None
    field: str


def root_name(raw: Any, kind: str) -> str:
    """Return what a document of a kind is called.

    Parameters
    ----------
    raw
        The document as plain JSON values.
    kind
        Its kind, such as ``instance``.
    """
    name = _get(raw, "name")
    return f"{kind} {describe(name)}" if isinstance(name, str) else f"the {kind}"


def place_of(part: Part, path: Path, by_field: bool) -> tuple[str, str]:
    """Return what stands before a sentence about something in a document.

    Parameters
    ----------
    part
        The model of the document.
    path
        Fields, positions and keys that lead to what the sentence is about.
    by_field
        Whether a field says it, which never names what it is a field of; otherwise the dataclass.

    Returns
    -------
    place
        Words; empty if the sentence names its place itself.
    joint
        What stands between them and the sentence.
    """
    spot = locate(path, part, [type(part)], "", to_field=by_field)
    shape = Shape() if spot.model is None else shape_of(record_class_of(spot.model))
    if by_field:
        return spot.owner, ": "
    item = bool(path) and isinstance(path[-1], int)
    if (shape.noun or shape.alone) and not shape.within:
        return "", ""  # it names itself
    if not item if shape.by_place is None else shape.by_place:
        return spot.owner, shape.joint
    above = list(path)
    while above and not isinstance(above.pop(), str):
        pass
    return locate(above, part, [type(part)], "", to_field=False).owner, shape.joint


def locate(
    location: Path, raw: Any, models: Sequence[type[Part]], root: str, *, to_field: bool = True
) -> Spot:
    """Walk from the root to the innermost object; what is left of the location is the field.

    Where the location ends in a field that is an object, it is still the field that is meant,
    unless not `to_field`.

    Parameters
    ----------
    location
        Keys and positions from the root, as pydantic gives them.
    raw
        The document as plain JSON values.
    models
        The models that it may be of.
    root
        What the document is called.
    to_field
        Whether a location that ends in an object means the field of its owner.
    """
    steps = list(location)
    model, steps = _choose(models, raw, steps)
    owner, value = root, raw
    while steps and model is not None and steps[0] in model.model_fields:
        field = str(steps[0])
        walk = _Walk(_get(value, field), steps[1:])
        walk.go(_annotation(model, field))
        if not walk.models:
            ends = True
        elif walk.steps or walk.keys or not to_field:
            ends = False
        else:  # an error of the field, unless it is about the type of what is in it
            shape = shape_of(record_class_of(walk.models[0]))
            ends = not (shape.alone and isinstance(walk.value, dict))
        if ends:
            steps = [field, *walk.keys, *walk.steps]
            break
        owner = _owner(owner, record_class_of(model), field, walk, raw)
        value, steps = walk.value, walk.steps
        model, steps = _choose(walk.models, value, steps)
    return Spot(owner, model, "".join(_step(k, step) for k, step in enumerate(steps)))


class _Walk:
    """A walk through lists, mappings and unions down to an object, along a location.

    `models` are what the object may be; empty if none was reached. Steps that pydantic adds for
    members of unions are dropped, positions and keys are kept.
    """

    def __init__(self, value: Any, steps: Path) -> None:
        self.value = value
        self.steps = list(steps)
        self.keys: list[str | int] = []
        self.models: list[type[Part]] = []

    def go(self, annotation: Any) -> None:
        """Walk as far as the location leads."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Part):
            self.models = [annotation]
        elif origin is Annotated:
            self.go(arguments[0])
        elif origin in (Union, types.UnionType):
            self._member([a for a in arguments if a is not types.NoneType])
        elif origin in (list, tuple, dict) and self.steps:
            step = self.steps.pop(0)
            self.keys.append(step)
            self.value = _get(self.value, step)
            self.go(arguments[int(step)] if self._is_pair(origin, arguments) else arguments[-1])

    def _is_pair(self, origin: Any, arguments: tuple[Any, ...]) -> bool:
        step = self.keys[-1]
        return origin is tuple and isinstance(step, int) and step < len(arguments)

    def _member(self, members: list[Any]) -> None:
        """Walk into the member that holds the value; pydantic adds a step where there are more."""
        inner = [_unwrapped(member) for member in members]
        if all(isinstance(member, type) and issubclass(member, Part) for member in inner):
            tagged = [m for m in inner if self.steps and self.steps[0] == _tag(m)]
            self.models = tagged or inner
            self.steps = self.steps[len(tagged) :]
            return
        if len(members) > 1 and self.steps and isinstance(self.steps[0], str):
            self.steps.pop(0)
        fitting = [m for m in inner if get_origin(m) is list] if self.steps else []
        self.go(fitting[0] if fitting else inner[0])


def _tag(model: type[Part]) -> str:
    """Return what pydantic calls a model in the location of an error, as a member of a union."""
    record_class = record_class_of(model)
    return shape_of(record_class).tag or str(record_class.__name__)


def _choose(
    models: Sequence[type[Part]], value: Any, steps: list[str | int]
) -> tuple[type[Part] | None, list[str | int]]:
    """Return the model that an object has, and the location without its tag in a union."""
    if len(models) == 1:
        return models[0], steps
    by_tag = {_tag(model): model for model in models}
    if steps and steps[0] in by_tag:
        return by_tag[str(steps[0])], steps[1:]
    if isinstance(value, Part):
        return type(value), steps
    tag = _get(value, "type")
    return (by_tag.get(tag) if isinstance(tag, str) else None), steps


def _owner(owner: str, holder: Any, field: str, walk: _Walk, raw: Any) -> str:
    """Return the words for an object in a field of another."""
    within = shape_of(holder)
    shape = shape_of(record_class_of(walk.models[0]))
    if within.shared is not None and field == within.shared.name:
        return _set_owner(raw, *walk.keys)
    if not walk.keys:
        name = _get(walk.value, shape.name)
        label = f"{field} {describe(name)}" if shape.noun and isinstance(name, str) else field
        if shape.alone:
            return label
        return f"{owner}, {field}" if owner else field
    place = "".join(_step(k, step) for k, step in enumerate((field, *walk.keys)))
    noun = within.nouns.get(field, shape.noun)
    name = _get(walk.value, shape.name)
    if noun and isinstance(name, str):
        number = f" ({place})" if shape.name == "job" else ""
        label = f"{noun} {describe(name)}{number}"
    else:
        label = f"{place} {describe(name)}" if name and isinstance(name, str) else place
    return label if (noun and not shape.within) or not owner else f"{owner}, {label}"


def _set_owner(raw: Any, name: str | int, *position: str | int) -> str:
    """Return the words for a configuration of a set, with the first job that uses the set."""
    place = "".join(_step(k, step) for k, step in enumerate(("configurations", *position)))
    words = f"configuration set {describe(name)}, {place}"
    jobs = _get(raw, "jobs")
    for job in jobs if isinstance(jobs, list) else ():
        user = _get(job, "id")
        if _get(job, "configurations") == name and isinstance(user, str):
            return f"job {describe(user)}, {words}"
    return words


def _step(k: int, step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return step if k == 0 else f"[{describe(step)}]"


def _get(value: Any, step: str | int) -> Any:
    """Return a member of a plain JSON value, or of a model made from one."""
    if isinstance(step, str):
        if isinstance(value, Part):
            return value.__dict__.get(step)
        return value.get(step) if isinstance(value, dict) else None
    return value[step] if isinstance(value, list | tuple) and step < len(value) else None


def _annotation(model: type[Part], field: str) -> Any:
    return model.model_fields[field].annotation


def _unwrapped(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
