"""Nodes in operation: what a node can be switched on as, and how many nodes there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from alloc.errors import InstanceError
from alloc.units import require_count, require_non_negative

_MAX_GPUS = 64
"""Most GPUs of a node. Beyond any server; the models grow with its square."""


@dataclass(frozen=True)
class NodeType:
    """What a node can be while it is on: a server, or a size of virtual machine.

    Parameters
    ----------
    name
        Unique name.
    num_gpus
        GPUs of the node, 1 to 64.
    price_per_h
        Money per hour while 1, 2, ... `num_gpus` GPUs are in use, in `currency`: for a rented
        machine the same number throughout. Never falling. Empty: no price.
    power_w
        Power drawn while 1, 2, ... `num_gpus` GPUs are in use, watts, the node itself included.
        Never falling. Empty: not modelled.
    currency
        Currency of the price, for example ``"EUR"``.
    """

    name: str
    num_gpus: int
    price_per_h: tuple[float, ...] = ()
    power_w: tuple[float, ...] = ()
    currency: str = "EUR"

    def __post_init__(self) -> None:
        if not self.name:
            raise InstanceError("a node type has an empty name; name it.")
        where = f'node type "{self.name}"'
        require_count(self.num_gpus, where, "num_gpus", least=1)
        if self.num_gpus > _MAX_GPUS:
            raise InstanceError(
                f"{where}: num_gpus is {self.num_gpus}, more than {_MAX_GPUS}; a node is one "
                "server, so make a pool of several."
            )
        for field in ("price_per_h", "power_w"):
            _check_table(getattr(self, field), self.num_gpus, where, field)

    def power_at(self, gpus: int) -> float:
        """Return the power with so many GPUs in use, watts; 0 when it is off or not modelled."""
        return self.power_w[gpus - 1] if gpus and self.power_w else 0.0

    def price_at(self, gpus: int) -> float:
        """Return the price with so many GPUs in use, money per hour; 0 when it is off."""
        return self.price_per_h[gpus - 1] if gpus and self.price_per_h else 0.0


def _check_table(table: Sequence[float], num_gpus: int, where: str, field: str) -> None:
    if table and len(table) != num_gpus:
        raise InstanceError(
            f"{where}: {field} has {len(table)} numbers for {num_gpus} GPUs; give one for every "
            "number of GPUs in use, from 1 up."
        )
    for g, value in enumerate(table, 1):
        require_non_negative(value, where, f"{field} with {g} GPUs in use")
        if g > 1 and value < table[g - 2]:
            raise InstanceError(
                f"{where}: {field} falls from {table[g - 2]:g} to {value:g} when {g} GPUs are in "
                "use; a busier node never costs less, so check the order."
            )


@dataclass(frozen=True)
class NodePool:
    """Identical nodes.

    Parameters
    ----------
    name
        Unique name; its nodes are name-0, name-1 ...
    count
        Number of nodes, 1 or more.
    types
        Names of the types that each node can be switched on as: one for servers of your own,
        several where a node is a virtual machine whose size is chosen.
    """

    name: str
    count: int
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise InstanceError("a node pool has an empty name; name it.")
        where = f'node pool "{self.name}"'
        require_count(self.count, where, "count", least=1)
        if not self.types or len(set(self.types)) != len(self.types):
            raise InstanceError(
                f"{where}: types are {', '.join(self.types) or '(none)'}; name at least one type, "
                "each once."
            )

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes."""
        return tuple(f"{self.name}-{k}" for k in range(self.count))
