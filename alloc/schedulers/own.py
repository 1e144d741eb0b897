"""Schedulers of one's own: classes, objects and plain functions, held to what they must have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from alloc.errors import AllocError, InstanceError
from alloc.schedulers.functions import (
    Rule,
    RuleScheduler,
    option_parameters,
    parameters_of,
    required_parameters,
    rule_of,
)
from alloc.schedulers.places import raised
from alloc.schedulers.state import Knowledge, Scheduler

MEMBERS: Mapping[str, str] = {
    "name": 'name = "my-rule"',
    "needs": 'needs = "none" (the least it must know of the work of jobs: none, estimate or exact)',
    "information": 'information = "order of arrival" (what it uses, in one sentence)',
    "decide": "def decide(self, state), which returns a Decision",
    "reset": "def reset(self), which forgets everything before each simulation",
}
"""What a scheduler must have, and how it is written."""


class RuleFactory:
    """Makes the scheduler of a plain function; the function's own options are its parameters.

    Parameters
    ----------
    rule
        The function.
    where
        What it is called in messages.
    """

    def __init__(self, rule: Rule, where: str) -> None:
        self.documented = rule_of(rule, where)
        self._where = where
        self.__signature__ = inspect.Signature(
            [p.replace(kind=p.KEYWORD_ONLY) for p in option_parameters(rule, where)]
        )

    def __call__(self, **options: Any) -> RuleScheduler:
        """Return the scheduler."""
        return RuleScheduler(self.documented, self._where, options)


class Ready:
    """Hands out a scheduler that exists; it has no options.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.documented = type(scheduler)
        self._scheduler = scheduler
        self.__signature__ = inspect.Signature()

    def __call__(self) -> Scheduler:
        """Return the scheduler."""
        return self._scheduler


def factory_of(value: Any, where: str) -> Callable[..., Scheduler]:
    """Return what makes the scheduler that an object stands for.

    Parameters
    ----------
    value
        A class with the members of `Scheduler`, an object that has them, a function of the state
        (`RuleScheduler`), or a function without required parameters that returns a scheduler.
    where
        What it is called in messages.

    Raises
    ------
    InstanceError
        If it is none of these.
    """
    if inspect.isclass(value):
        _require_members(value, where, ("decide",))
        parameters_of(value, where)
        return cast(Callable[..., Scheduler], value)
    if hasattr(value, "decide"):
        return Ready(value)
    if not callable(value):
        raise InstanceError(
            f"{where}: is {type(value).__name__}, and no scheduler; name a function of the state, "
            "or a class with name, needs, information, decide and reset."
        )
    makes = inspect.isfunction(value) and not required_parameters(value, where)
    return cast(Callable[..., Scheduler], value) if makes else RuleFactory(value, where)


def build(factory: Callable[..., Scheduler], options: Mapping[str, Any], where: str) -> Scheduler:
    """Make a scheduler of one's own and hold it to what it must have.

    Parameters
    ----------
    factory
        A class or a function that returns a scheduler.
    options
        Arguments for it, by name.
    where
        Name of the scheduler, for messages.

    Raises
    ------
    InstanceError
        If making it fails, or something is missing.
    """
    missing = [
        p.name
        for p in inspect.signature(factory).parameters.values()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.name not in options
    ]
    if missing:
        raise InstanceError(
            f"{where}: needs the option{'s' if len(missing) > 1 else ''} {', '.join(missing)}; "
            f"give a value as in {where}({missing[0]}=1), or a default in its code."
        )
    try:
        made = factory(**options)
    except AllocError:
        raise
    except (Exception, SystemExit) as error:
        raise InstanceError(f"{where}: cannot be made, {raised(error)}; mend it there.") from error
    return require_scheduler(made, where)


def require_scheduler(made: Any, where: str) -> Scheduler:
    """Hold an object to what a scheduler must have.

    Parameters
    ----------
    made
        What a factory returned.
    where
        Name of the scheduler, for messages.

    Raises
    ------
    InstanceError
        If something is missing, or is not what it should be.
    """
    _require_members(made, where, MEMBERS)
    for member in ("name", "information"):
        if not isinstance(getattr(made, member), str) or not getattr(made, member).strip():
            raise InstanceError(f"{where}: its {member} must be text; write {MEMBERS[member]}.")
    if made.needs not in get_args(Knowledge):
        raise InstanceError(f'{where}: its needs is "{made.needs}"; write {MEMBERS["needs"]}.')
    for member, given in (("decide", (None,)), ("reset", ())):
        method = getattr(made, member)
        try:
            inspect.signature(method).bind(*given)
        except (TypeError, ValueError):
            raise InstanceError(
                f"{where}: its {member} cannot be called as it must be; write {MEMBERS[member]}."
            ) from None
    return cast(Scheduler, made)


def _require_members(value: Any, where: str, members: Any) -> None:
    missing = [member for member in members if not hasattr(value, member)]
    if missing:
        raise InstanceError(
            f"{where}: is no scheduler, it has no {', no '.join(missing)}; add "
            f"{'; '.join(MEMBERS[member] for member in missing)}."
        )
