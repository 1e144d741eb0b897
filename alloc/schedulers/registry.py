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
from alloc.schedulers.shelf import (
    ShelvedPolicy,
    added_policies,
    is_policy_path,
    shipped_entries,
    shipped_policies,
)
from alloc.schedulers.state import Scheduler

ENTRY_POINTS = "alloc.schedulers"
"""Entry-point group in which other packages announce their policies."""

SCHEDULERS: Mapping[str, str] = {
    "fifo": "alloc.schedulers.fifo:Fifo",
    "easy-backfill": "alloc.schedulers.backfilling:EasyBackfill",
    "srtf": "alloc.schedulers.srtf:Srtf",
    "srtf-dl2": "alloc.schedulers.srtf:SrtfDl2",
    "las": "alloc.schedulers.las:Las",
    "drf": "alloc.schedulers.drf:Drf",
    "tetris": "alloc.schedulers.tetris:Tetris",
    "optimus": "alloc.schedulers.optimus:Optimus",
    "random-ps": "alloc.schedulers.random_ps:RandomPs",
    "set-rule": "alloc.schedulers.learned.job_set_rule:SetRule",
    "exact-progress": "alloc.schedulers.exact_round:exact_progress",
    "exact-remaining-time": "alloc.schedulers.exact_round:exact_remaining_time",
    "exact-goodput": "alloc.schedulers.exact_round:exact_goodput",
    "first-fit": "alloc.schedulers.placement:FirstFit",
    "best-fit": "alloc.schedulers.placement:BestFit",
    "random-fit": "alloc.schedulers.placement:RandomFit",
    "fgd": "alloc.schedulers.placement:Fgd",
    "hived": "alloc.schedulers.placement:HivedCells",
    "kai": "alloc.schedulers.placement:KaiBinPack",
    "kueue-best-fit": "alloc.schedulers.placement:KueueBestFit",
    "kueue-balanced": "alloc.schedulers.placement:KueueBalanced",
    "repack": "alloc.schedulers.placement:Repacking",
    "rollout": "alloc.schedulers.rollout:Rollout",
    "rolling-horizon": "alloc.simulation.rolling_horizon:RollingHorizon",
    # Learned, each a file in learned/policies.
    **shipped_entries(),
}
"""The policies of alloc: name to ``module:attribute`` of what makes one."""


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
        A name of `scheduler_names`, or the path of a policy file, which ends in ``.onnx``. A path
        opens a file: hold names that strangers send against `scheduler_names` first.
    **options
        The policy's own options.

    Raises
    ------
    InstanceError
        If there is no such policy or it has no such option.
    """
    factory = scheduler_factory(name)
    taken = inspect.signature(factory).parameters
    for option in options:
        if option not in taken:
            choices = f"it takes {', '.join(taken)}" if taken else "it takes none"
            raise InstanceError(
                f'scheduler {name} has no option "{option}"{nearest(option, taken, ";")} {choices}.'
            )
        if wanted := _unmet(taken[option], options[option]):
            raise InstanceError(
                f'scheduler {name}: {option} is "{options[option]}"; it must be {wanted}.'
            )
    made = factory(**options)
    if is_policy_path(name) and made.name in SCHEDULERS and made.name not in shipped_policies():
        raise InstanceError(
            f'{name}: calls itself "{made.name}", which is another scheduler of alloc; give it '
            "another name in its model card."
        )
    return made


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
    if is_policy_path(name):
        return ShelvedPolicy(Path(name))
    known = {**_announced(), **SCHEDULERS}
    if name in known:
        module, _, attribute = known[name].partition(":")
        return cast(Callable[..., Scheduler], getattr(import_module(module), attribute))
    added = added_policies()
    if name in added:
        return ShelvedPolicy(added[name], name)
    names = scheduler_names()
    raise InstanceError(
        f'unknown scheduler "{name}"{nearest(name, names, ".")} Known: {", ".join(names)}.'
    )


def schedulers_with(feature: str) -> tuple[str, ...]:
    """Return the names of alloc's policies that honour a rule, see `Scheduler`."""
    able = []
    for name, where in SCHEDULERS.items():
        module, _, attribute = where.partition(":")
        features = getattr(getattr(import_module(module), attribute), "features", ())
        # Who knows all placement rules knows the required level too.
        if feature in features or (feature == "required levels" and "placement rules" in features):
            able.append(name)
    return tuple(able)
