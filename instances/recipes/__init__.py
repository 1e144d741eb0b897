"""The library: recipes of instances of every kind of problem, family by family.

A family is a line of instances that belong together, such as ``placement-rails``. A module of this
package holds the families of one kind of problem; its name is what their names begin with. What a
generator draws follows from its parameters and a seed alone. New generators draw with
`numpy.random.Generator.random` and round what they compute, so that a seed names the same instance
on every platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

SUBJECTS = (
    "elastic",
    "gangs",
    "deadlines",
    "dags",
    "stages",
    "placement",
    "sharing",
    "colocation",
    "ranks",
    "assignment",
    "operation",
    "inference",
    "quotas",
    "planning",
    "checkpointing",
    "pipelines",
)
"""Modules of this package, in the order of the manifest."""


@dataclass(frozen=True)
class Recipe:
    """How an instance is made.

    Parameters
    ----------
    id
        ``family/NN``; the name of the instance.
    family
        Its family.
    parameters
        Keyword arguments of the family's generator, seed included; values that JSON can hold.
    """

    id: str
    family: RecipeFamily
    parameters: Mapping[str, Any]

    def make(self) -> Any:
        """Generate the instance."""
        return self.family.generator(self.id, **self.parameters)


@dataclass(frozen=True)
class RecipeFamily:
    """Instances that belong together.

    Parameters
    ----------
    name
        Unique name; the part before its first dash is the module.
    about
        A line for people.
    formulation
        Family of problems that they are of, a name of `alloc.families.FAMILIES`.
    objective
        What their best known values are of.
    generator
        What makes an instance of a name and of parameters.
    size
        What says how large an instance is.
    common
        Parameters that all of them share.
    variants
        Further parameters, one for each instance.
    sources
        Where the numbers are from.
    stored
        Whether their documents are stored; the others are generated on demand.
    """

    name: str
    about: str
    formulation: str
    objective: str
    generator: Callable[..., Any]
    size: Callable[[Any], Mapping[str, int]]
    variants: Sequence[Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    stored: bool = False

    def recipes(self) -> Iterator[Recipe]:
        """Yield the recipes of its instances, in order."""
        for number, variant in enumerate(self.variants, start=1):
            yield Recipe(f"{self.name}/{number:02d}", self, {**self.common, **variant})


def recipe_families(subjects: Sequence[str] = SUBJECTS) -> tuple[RecipeFamily, ...]:
    """Return the families of the library, in the order of the manifest.

    Parameters
    ----------
    subjects
        The modules to look in.
    """
    modules = [import_module(f"alloc.instances.recipes.{subject}") for subject in subjects]
    return tuple(family for module in modules for family in module.FAMILIES)


def recipes(subjects: Sequence[str] = SUBJECTS) -> Iterator[Recipe]:
    """Yield the recipe of every instance, in the order of the manifest.

    Parameters
    ----------
    subjects
        The modules to look in.
    """
    for family in recipe_families(subjects):
        yield from family.recipes()


def recipe_of(instance_id: str) -> Recipe | None:
    """Return the recipe of an id, or None without one.

    Parameters
    ----------
    instance_id
        For example ``"placement-rails/01"``.
    """
    subject = instance_id.partition("-")[0].partition("/")[0]
    chosen = [subject] if subject in SUBJECTS else []
    return next((recipe for recipe in recipes(chosen) if recipe.id == instance_id), None)
