"""The feature spec: what a policy's network is shown, and what it answers.

A spec names a kind (`alloc.schedulers.learned.kinds`), gives the kind's parameters, and states the
tensors that follow from them. It is written into the policy file, and the file's graph is held to
it before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from alloc.errors import InstanceError, UnsupportedFeatureError, nearest

DType = Literal["float32", "float64", "int32", "int64", "bool"]
"""Element types that policies may use."""

Overflow = Literal["oldest-first", "refuse"]
"""What a policy with a window does when more jobs are in the system than it can see."""


def shown(text: object, most: int = 100) -> str:
    """Return a file's own words as they may be printed: no escape codes, and not for ever.

    Parameters
    ----------
    text
        What the file says.
    most
        Characters after which it is cut off, 1 or more.
    """
    whole = str(text)
    cut = whole[:most] + ("..." if len(whole) > most else "")
    return "".join(sign if sign.isprintable() else "?" for sign in cut)


def _printable(text: str) -> str:
    """Refuse control characters: what a file says of itself is printed on terminals."""
    if not all(sign.isprintable() or sign in "\n\t" for sign in text):
        raise ValueError("holds control characters, and is text for people")
    return text


Text = Annotated[str, AfterValidator(_printable)]
"""Text that may be printed."""


class Strict(BaseModel):
    """A frozen document that refuses fields it does not know, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class KindParameters(Strict):
    """The parameters of a kind; each kind derives its own, every field with its unit and range."""


class WindowParameters(KindParameters):
    """What kinds with a window of jobs have in common.

    Parameters
    ----------
    window
        Most jobs the network is shown at a time, 1 or more.
    on_overflow
        With more jobs in the system: ``oldest-first``, as DL2 does, shows the first `window` of
        them in order of arrival, and the others stay invisible; ``refuse`` ends the run with one
        sentence (`require_in_view`).
    """

    window: int = Field(ge=1, le=100_000)
    on_overflow: Overflow = "oldest-first"


class TensorSpec(Strict):
    """An input or output of a network.

    Parameters
    ----------
    name
        Name in the graph.
    dtype
        Element type.
    shape
        Lengths of the axes; a name such as ``batch`` or ``jobs`` for an axis of any length.
    """

    name: Text = Field(min_length=1, max_length=100)
    dtype: DType
    shape: tuple[int | Text, ...] = Field(max_length=16)

    @property
    def text(self) -> str:
        """The tensor for people, such as ``float32 [batch, 6, 20]``."""
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"

    def misfit(self, array: npt.NDArray[Any]) -> str | None:
        """Return what is wrong with an array that should be this tensor, or None."""
        fits = array.ndim == len(self.shape) and all(
            isinstance(want, str) or want == have
            for want, have in zip(self.shape, array.shape, strict=True)
        )
        if fits and array.dtype == np.dtype(self.dtype):
            return None
        return f"{self.name} must be {self.text}, and is {array.dtype} {list(array.shape)}"


class FeatureSpec(Strict):
    """What a network is shown and answers; `alloc.schedulers.learned.feature_spec` makes one.

    Parameters
    ----------
    kind
        Name of the kind, with the version of its features, such as ``dl2-window/1``.
    parameters
        Its parameters, plain JSON values; the kind says which there are.
    inputs, outputs
        The tensors, in the order of the graph; they follow from kind and parameters.
    """

    kind: Text = Field(min_length=1, max_length=100)
    parameters: dict[str, Any] = Field(default_factory=dict)
    inputs: tuple[TensorSpec, ...] = Field(min_length=1, max_length=64)
    outputs: tuple[TensorSpec, ...] = Field(min_length=1, max_length=64)


def typed_parameters(
    kind: str, parameters: type[KindParameters], values: Mapping[str, Any]
) -> KindParameters:
    """Return the parameters of a kind, checked.

    Parameters
    ----------
    kind
        Name of the kind, for the message.
    parameters
        Class of its parameters.
    values
        The parameters by name, as a file states them.

    Raises
    ------
    InstanceError
        If one is unknown, missing or out of range.
    """
    try:
        return parameters.model_validate(dict(values))
    except ValidationError as error:
        raise InstanceError(f'kind "{kind}": {first_problem(error, parameters)}') from None


def first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """Return what pydantic found wrong first in a document of that model, as a sentence.

    An unknown field goes first: where a name is misspelled, another one is missing.

    Parameters
    ----------
    error
        What pydantic raised.
    model
        What the document was read as.
    """
    problems = error.errors(include_url=False, include_input=False)
    problem = min(problems, key=lambda found: found["type"] != "extra_forbidden")
    where = shown(".".join(map(str, problem["loc"]))) or "the document"
    others = len(problems) - 1
    more = f" ({others} more problem{'s' if others > 1 else ''})" if others else ""
    if problem["type"] == "extra_forbidden":
        *outer, name = problem["loc"]
        near = nearest(str(name), _fields_at(model, outer), ";")
        return f'"{where}" is not known{near} remove it or correct its name{more}.'
    text = shown(problem["msg"].removeprefix("Value error, "), 300)
    return f'"{where}": {text[:1].lower()}{text[1:]}{more}.'


def _fields_at(model: type[BaseModel], path: Iterable[int | str]) -> Iterable[str]:
    """Return the names of the fields at a place in a document, as far as they are known."""
    for part in path:
        field = model.model_fields.get(str(part))
        inner = None if field is None else field.annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ()
        model = inner
    return model.model_fields


def require_in_view(name: str, parameters: WindowParameters, num_jobs: int, now_s: float) -> None:
    """Refuse more jobs than a policy with a window can see, if its spec says so.

    Parameters
    ----------
    name
        Name of the policy, for the message.
    parameters
        The window and what to do beyond it.
    num_jobs
        Jobs in the system, 0 or more.
    now_s
        Time of the decision, seconds, for the message.

    Raises
    ------
    UnsupportedFeatureError
        If `num_jobs` exceeds the window and `on_overflow` is ``refuse``.
    """
    if parameters.on_overflow == "refuse" and num_jobs > parameters.window:
        raise UnsupportedFeatureError(
            f"policy {name} sees {parameters.window} jobs at a time, and {num_jobs} are in the "
            f"system at {now_s:g} s; take a policy with a larger window, or one whose spec has "
            'on_overflow "oldest-first".'
        )
