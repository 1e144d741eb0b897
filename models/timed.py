"""Pyomo models that look at the clock while they are built and written out."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pyomo.environ as pyo

from alloc.clock import check_time
from alloc.errors import OutOfTime

Rule = Callable[..., Any]


def timed(rule: Rule) -> Rule:
    """Return a rule, of rows or of bounds of variables, that raises `OutOfTime` when time is up."""

    @wraps(rule)
    def in_time(*arguments: Any) -> Any:
        check_time()
        return rule(*arguments)

    return in_time


def _is_failure(record: logging.LogRecord) -> bool:
    """Return whether Pyomo reports more than that the time is up, which it takes for a failure."""
    return not isinstance(sys.exc_info()[1], OutOfTime)


logging.getLogger("pyomo.core").addFilter(_is_failure)


class TimedModel(pyo.ConcreteModel):  # type: ignore[misc]  # Pyomo has no types
    """A concrete model that ends with `OutOfTime` when the time to build it is up.

    Rows take most of the time, by their rules and as they are written out: at each of them, and
    at each component, the model looks at the clock (`alloc.clock.check_time`).
    """

    def Constraint(self, *index: Any, **options: Any) -> Callable[[Rule], Rule]:
        """Return the decorator that makes a constraint of a rule, as Pyomo's own."""
        decorate = self.__getattr__("Constraint")(*index, **options)
        # Pyomo tells a rule of one row by its arguments, which `timed` hides.
        return (lambda rule: decorate(timed(rule))) if index else decorate

    def add_component(self, name: str, val: Any) -> None:
        """Add a component, as Pyomo's own.

        Parameters
        ----------
        name
            Name of the component.
        val
            A Pyomo component: a set, variable, row or the like.
        """
        check_time()
        super().add_component(name, val)

    def component_data_objects(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Yield rows, variables and so on, as Pyomo's own: what writes a model out asks here."""
        for part in super().component_data_objects(*arguments, **options):
            check_time()
            yield part
