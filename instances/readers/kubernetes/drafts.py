"""Drafts: gangs with the ways to run them, before it is known which quotas limit anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from alloc.instances.readers.kubernetes.gangs import Gang
from alloc.instances.readers.kubernetes.pods import PodRequest
from alloc.instances.readers.kubernetes.quotas import Key
from alloc.problems.allocation.solution import TaskPlacement
from alloc.workload import Configuration, PlacementRules, TaskGroup


@dataclass
class Way:
    """A way to run a gang, before the quotas have their names.

    Parameters
    ----------
    gpu_type
        GPU type that says which nodes it may use, or None.
    groups
        Role, count, what each pod asks for, milli-GPU, other resources, and what it takes of which
        quotas.
    rate
        Its rate.
    """

    gpu_type: str | None
    groups: list[tuple[str, int, PodRequest, int, dict[str, int], list[tuple[Key, int]]]]
    rate: float = 1.0

    def configuration(self, means: dict[Key, tuple[str, ...]]) -> Configuration:
        """Return the configuration, quotas by their names."""
        groups = []
        for role, count, request, milli, named, keys in self.groups:
            asked = Counter({**dict(request.named), **named})
            for key, amount in keys:
                for resource in means.get(key, ()):
                    asked[resource] += amount
            groups.append(
                TaskGroup(role, count, milli, request.cpu_milli, request.memory_mib,
                          resources=dict(asked))
            )  # fmt: skip
        return Configuration(tuple(groups), self.rate, self.gpu_type)

    @property
    def takes(self) -> Counter[Key]:
        """What all its pods take of each quota."""
        total: Counter[Key] = Counter()
        for _, count, _, _, _, keys in self.groups:
            for key, amount in keys:
                total[key] += count * amount
        return total


@dataclass
class Draft:
    """A gang with the ways to run it.

    Parameters
    ----------
    gang
        The gang.
    ways
        The ways, at least one.
    rules
        Its rules of placement.
    places
        Where its tasks stand, if it runs.
    """

    gang: Gang
    ways: list[Way]
    rules: PlacementRules
    places: tuple[TaskPlacement, ...] = ()
