"""The registry: policies by name, loaded when they are asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

from alloc.errors import InstanceError, nearest
from alloc.plugins import announced
from alloc.schedulers.agents import agent_factory, agent_of, content_of_file, is_agent_path
from alloc.schedulers.builtin import SCHEDULERS as SCHEDULERS
from alloc.schedulers.own import build, factory_of
from alloc.schedulers.places import absolute_place, content_at, is_place, object_at
from alloc.schedulers.shelf import (
    ShelvedPolicy,
    added_policies,
    is_policy_path,
    shipped_policies,
)
from alloc.schedulers.state import Scheduler

ENTRY_POINTS = "alloc.schedulers"
"""Entry-point group in which other packages announce their policies."""


def _announced() -> dict[str, str]:
    """Return the policies that installed packages announce; ours keep their names."""
    return announced(ENTRY_POINTS, SCHEDULERS)


def scheduler_names() -> tuple[str, ...]:
    """Return the names of all policies, also of those announced or added with ``policies add``."""
    names = (*SCHEDULERS, *_announced())
    return (*names, *(name for name in added_policies() if name not in names))


def is_learned(name: str) -> bool:
    """Return whether a name stands for a policy file: its path, or a name on the shelf."""
    if is_policy_path(name) or name in shipped_policies():
        return True
    return name not in SCHEDULERS and name not in _announced() and name in added_policies()


def make_scheduler(name: str, **options: Any) -> Scheduler:
    """Return a new policy.

    Parameters
    ----------
    name
        A name of `scheduler_names`, the path of a policy or agent (`alloc.schedulers.agents`), or
        where a class or function is: ``module:Name`` or ``./file.py:Name``. A path opens a file
        and a place runs code: hold names that strangers send against `scheduler_names` first.
    **options
        The policy's own options.

    Raises
    ------
    InstanceError
        If there is no such policy or it has no such option, or what is at that place is none.
    """
    factory = scheduler_factory(name)
    taken = inspect.signature(factory).parameters
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    for option in options:
        if option not in taken:
            if anything:
                continue
            choices = f"it takes {', '.join(taken)}" if taken else "it takes none"
            raise InstanceError(
                f'scheduler {name} has no option "{option}"{nearest(option, taken, ";")} {choices}.'
            )
        if wanted := _unmet(taken[option], options[option]):
            raise InstanceError(
                f'scheduler {name}: {option} is "{options[option]}"; it must be {wanted}.'
            )
    if name in SCHEDULERS:
        return factory(**options)
    made = build(factory, options, name)
    if made.name in SCHEDULERS and is_outside(name):
        cure = " in its model card" if is_policy_path(name) else ""
        raise InstanceError(
            f'{name}: calls itself "{made.name}", which is another scheduler of alloc; give it '
            f"another name{cure}."
        )
    return made


def is_outside(name: str) -> bool:
    """Return whether a name says where a scheduler is, and is none of the registry's."""
    return is_agent_path(name) or (is_place(name) and name not in _announced())


def settled(name: str) -> tuple[str, str]:
    """Return a name as other processes find the scheduler, and a hash of what is there.

    Of a name in the registry the hash is empty: its version is that of alloc or of its package.
    """
    if is_place(name) and name not in _announced():
        return absolute_place(name), content_at(name)
    if is_agent_path(name) and not is_policy_path(name):
        return str(Path(name).absolute()), content_of_file(name)
    return name, ""


def scheduler_of(value: Any) -> Scheduler:
    """Return the scheduler that a name, class, object or plain function stands for.

    Parameters
    ----------
    value
        A name as `make_scheduler` takes it; a scheduler; a class of schedulers, made with its
        defaults; a function of the state (`RuleScheduler`); or a trained model of Stable-Baselines3
        or module of PyTorch (`agent_of`).

    Raises
    ------
    InstanceError
        If it is none of these, or misses what a scheduler must have.
    """
    if isinstance(value, str):
        return make_scheduler(value)
    if (agent := agent_of(value)) is not None:
        return agent
    if not callable(value) and not hasattr(value, "decide"):
        raise InstanceError(
            f"alloc was given {value!r} as a scheduler; give a name, a function of the state, or a "
            "class or object with name, needs, information, decide and reset."
        )
    where = getattr(value, "__name__", None) or type(value).__name__
    return build(factory_of(value, where), {}, where)


_PLAIN: Mapping[str, tuple[type, str]] = {
    "bool": (bool, "true or false"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "str": (str, "text"),
    "None": (type(None), "null"),
}
"""Plain types by name: what is an instance of them, and what they are called."""


def _unmet(option: inspect.Parameter, value: object) -> str | None:
    """Return in words what an option takes, if the value is nothing of the kind.

    Options come from command lines and files, where nobody checks types. Types that are not plain
    are for the policy to look at.
    """
    written = option.annotation
    if written is option.empty and isinstance(option.default, bool):
        written = bool
    text = written if isinstance(written, str) else inspect.formatannotation(written)
    names = ["str"] if text.startswith("Literal[") else text.split(" | ")
    if not all(name in _PLAIN for name in names):
        return None
    for name in names:
        # To Python true and false are numbers, and any text is true.
        if isinstance(value, _PLAIN[name][0]) and (name == "bool" or not isinstance(value, bool)):
            return None
    return " or ".join(_PLAIN[name][1] for name in names)


def scheduler_factory(name: str) -> Callable[..., Scheduler]:
    """Return what makes the policy of that name.

    Raises
    ------
    InstanceError
        If there is no such policy.
    """
    if is_agent_path(name):
        return agent_factory(name)
    known = {**_announced(), **SCHEDULERS}
    if name in known:
        module, _, attribute = known[name].partition(":")
        found = getattr(import_module(module), attribute)
        if name in SCHEDULERS:
            return cast(Callable[..., Scheduler], found)
        return factory_of(found, name)
    if is_place(name):
        return factory_of(object_at(name), name)
    added = added_policies()
    if name in added:
        return ShelvedPolicy(added[name], name)
    names = scheduler_names()
    raise InstanceError(
        f'unknown scheduler "{name}"{nearest(name, names, ".")} Known: {", ".join(names)}; one of '
        "your own is named module:Name or ./file.py:Name."
    )
