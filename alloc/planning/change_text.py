"""Changes as text and as documents: how a command line or a program says what to change."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from alloc.errors import InstanceError, nearest
from alloc.planning.changes import (
    Budget,
    Change,
    ClosedSite,
    Demand,
    EnergyPrice,
    Goal,
    Hosts,
    LostRack,
    NewTeam,
    NoMore,
    Price,
)
from alloc.problems.right_sizing.goals import ServiceGoal

KINDS: Mapping[str, type[Any]] = {
    "demand": Demand,
    "hosts": Hosts,
    "rack": LostRack,
    "close": ClosedSite,
    "without": NoMore,
    "price": Price,
    "energy-price": EnergyPrice,
    "budget": Budget,
    "goal": Goal,
    "team": NewTeam,
}
"""Kinds of changes by the name they have in text and documents."""

GRAMMAR = (
    ("demand=+20%, demand:CLASS=-10%", "more or fewer jobs, of all classes or one"),
    ("demand=x2, demand:CLASS=x0.5", "multiply the jobs; x works for prices too"),
    ("hosts:OFFER@SITE=-2", "lose owned hosts, or with + add some without a purchase"),
    ("rack:OFFER@SITE", "lose a rack of owned hosts, with its space"),
    ("close:SITE", "close a site, with what is owned there"),
    ("without:OFFER", "remove an offer"),
    ("price:OFFER=-10%", "change the price of an offer"),
    ("energy-price=+30%, energy-price:SITE=+30%", "change the price of energy"),
    ("budget=2e6, budget=none", "set the budget over all quarters"),
    ("goal:CLASS=wait 2h 95%, goal:CLASS=jct 8h mean, goal:CLASS=none", "set the goal of a class"),
)
"""What a change can look like as text, with what it means."""

_TEXT = re.compile(r"(?P<kind>[a-z-]+)(?::(?P<name>[^=]*))?(?:=(?P<value>.*))?", re.DOTALL)
_GOAL = re.compile(r"(?P<measure>\w+)\s+(?P<hours>[\d.eE+-]+)\s*h\s+(?P<fraction>[\d.]+\s*%|mean)")


def parse_change(text: str) -> Change:
    """Return the change that a text like ``demand=+20%`` means; see `GRAMMAR`.

    Raises
    ------
    InstanceError
        If it means none; the message gives an example.
    """
    match = _TEXT.fullmatch(text.strip())
    kinds = [kind for kind in KINDS if kind != "team"]
    if match is None or match["kind"] not in kinds:
        word = text.strip() if match is None else match["kind"]
        raise InstanceError(
            f'change "{text}": unknown kind "{word}"{nearest(word, kinds) or ";"} known: '
            f"{', '.join(kinds)}, for example demand=+20%."
        )
    kind, name, value = match["kind"], match["name"], match["value"]
    if kind == "demand":
        return Demand(_factor(text, value), name)
    if kind == "price":
        return Price(_named(text, name), _factor(text, value))
    if kind == "energy-price":
        return EnergyPrice(_factor(text, value), name)
    if kind == "hosts":
        return Hosts(*_offer_at_site(text, name), _whole(text, value))
    if kind == "rack":
        _no_value(text, value)
        return LostRack(*_offer_at_site(text, name))
    if kind == "close":
        _no_value(text, value)
        return ClosedSite(_named(text, name))
    if kind == "without":
        _no_value(text, value)
        return NoMore(_named(text, name))
    if kind == "budget":
        return Budget(None if value == "none" else _number(text, value))
    return Goal(_named(text, name), parse_goal(text, value))


def read_change(document: object) -> Change:
    """Return the change that a JSON object means: its kind, and the fields of that change.

    For example ``{"change": "demand", "factor": 1.2}``; text of `parse_change` is taken as well.

    Raises
    ------
    InstanceError
        If kind or fields are unknown or of a wrong type.
    """
    if isinstance(document, str):
        return parse_change(document)
    if not isinstance(document, Mapping) or not isinstance(document.get("change"), str):
        raise InstanceError(
            'a change is a text such as "demand=+20%", or an object with the field "change", for '
            'example {"change": "demand", "factor": 1.2}.'
        )
    kind = document["change"]
    if kind not in KINDS:
        raise InstanceError(
            f'change "{kind}" is unknown{nearest(kind, KINDS) or ";"} known: {", ".join(KINDS)}.'
        )
    from alloc.documents.formats import record_of

    where = f'change "{kind}"'
    given = {name: value for name, value in document.items() if name != "change"}
    try:
        change: Change = record_of(given, KINDS[kind], where)
    except InstanceError as error:
        sentence = str(error)
        raise InstanceError(
            sentence if sentence.startswith("change ") else f"{where}: {sentence}"
        ) from None
    return change


def _named(text: str, name: str | None) -> str:
    if not name:
        raise InstanceError(f'change "{text}": names nothing; write {_example(text)}.')
    return name


def _offer_at_site(text: str, name: str | None) -> tuple[str, str]:
    offer, at, site = _named(text, name).rpartition("@")
    if not (at and offer and site):
        raise InstanceError(f'change "{text}": name an offer at a site: {_example(text)}.')
    return offer, site


def _no_value(text: str, value: str | None) -> None:
    if value is not None:
        raise InstanceError(f'change "{text}": takes no value; write {_example(text)}.')


def _number(text: str, value: str | None) -> float:
    try:
        return float(value or "")
    except ValueError:
        raise InstanceError(
            f'change "{text}": "{value or ""}" is not a number; write {_example(text)}.'
        ) from None


def _whole(text: str, value: str | None) -> int:
    number = _number(text, value)
    if not number.is_integer():
        raise InstanceError(f'change "{text}": hosts come whole; write {_example(text)}.')
    return int(number)


def _factor(text: str, value: str | None) -> float:
    """Return the factor that +20%, -20% or x1.2 means.

    A number alone could mean times, per cent, or jobs, so it is refused; and so is a fall by all
    there is, which leaves nothing to plan.
    """
    given = (value or "").strip()
    what = text.partition("=")[0].strip()
    if given.startswith(("x", "X")):
        factor = _number(text, given[1:])
    elif given.endswith("%") and given[:1] in ("+", "-"):
        factor = 1 + _number(text, given[:-1]) / 100
    else:
        said = f'"{given}"' if given else "no value"
        number = given.strip("%+- ")
        number = number if _is_number(number) else "20"
        raise InstanceError(
            f'change "{text}": {said} does not say in relation to what; write {what}=+{number}% '
            f"for {number} % more, {what}=-{number}% for {number} % less, or {what}=x{number} for "
            f"{number} times as much."
        )
    if not 0 < factor < math.inf:
        raise InstanceError(
            f'change "{text}": multiplies by {factor:g}; write more than -100%, or x and a number '
            f"above 0, for example {what}=-20% or {what}=x0.8."
        )
    return factor


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def parse_goal(text: str, value: str | None) -> ServiceGoal | None:
    """Return the goal that ``wait 2h 95%``, ``jct 8h mean`` or ``none`` means.

    Parameters
    ----------
    text
        Where it stands, for the message.
    value
        The goal in text.

    Raises
    ------
    InstanceError
        If it means none.
    """
    if value == "none":
        return None
    match = _GOAL.fullmatch((value or "").strip())
    if match is None:
        raise InstanceError(
            f'"{text}": "{value or ""}" is not a goal; write for example wait 2h 95%, jct 8h mean, '
            "or none."
        )
    fraction = match["fraction"]
    return ServiceGoal(
        match["measure"],  # type: ignore[arg-type]
        _number(text, match["hours"]),
        None if fraction == "mean" else _number(text, fraction.rstrip("% ")) / 100,
    )


def _example(text: str) -> str:
    kind = re.match(r"[a-z-]+", text.strip())
    for example, _ in GRAMMAR:
        if kind and example.startswith(kind[0]):
            return example
    return GRAMMAR[0][0]
