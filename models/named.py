"""Variables of Pyomo models by the names that people know: job ids, configurations, hosts.

The pages of mathematics number what they sum over. For constraints of one's own, each model offers
the same variables a second time, by name; `docs/modelling.md` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyomo.environ as pyo
from pyomo.core.base.indexed_component import IndexedComponent

from alloc.workload import Configuration

Names = tuple[str | int, ...]
"""Of jobs, hosts and so on, in words; of slots and GPUs, their number."""


def name_variables(model: Any, name: str, variables: Mapping[Names, Any], doc: str) -> None:
    """Offer variables of a model by names: ``model.run["job-3", "8 worker"]``.

    Parameters
    ----------
    model
        The Pyomo model.
    name
        Name of the component.
    variables
        The variables, by their names; slices work as usual: ``model.run["job-3", :]``.
    doc
        What they are.
    """
    # Not as variables: those are there already, and a solver would count them twice.
    model.add_component(name, pyo.Reference(dict(variables), ctype=IndexedComponent))
    model.component(name).doc = doc


def unique(names: Sequence[str]) -> list[str]:
    """Return names that differ: one that stands there twice gets a number."""
    times, met, found = Counter(names), Counter[str](), []
    for name in names:
        met[name] += 1
        found.append(f"{name} #{met[name]}" if times[name] > 1 else name)
    return found


def configuration_names(configurations: Sequence[Configuration]) -> list[str]:
    """Return a name for each configuration of a job: tasks, GPU type and technique if it has one.

    For example ``4 worker on a100 by fsdp``.
    """
    return unique(
        [
            c.label
            + (f" on {c.gpu_type}" if c.gpu_type else "")
            + (f" by {c.technique}" if c.technique else "")
            for c in configurations
        ]
    )


def class_name(ids: Sequence[str]) -> str:
    """Return the name of jobs that are alike and counted as one: that of the first."""
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} alike"
