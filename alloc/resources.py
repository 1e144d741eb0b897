"""Named resources: any integer amount that hosts or the cluster offer and tasks ask for.

GPU, CPU and memory are fields of their own, with their units (`alloc.units.RESOURCES`). Whatever
else a job needs has a name that its cluster chooses: ``nvme_gib``, ``licence_x``, ``power_w``.

* A *host resource* is offered by hosts: ``HostType(..., resources={"nvme_gib": 3500})``. A task
  takes it from the host it stands on, as it takes CPU.
* A *cluster resource* is offered by no host but by the cluster as a whole:
  ``Topology(..., resources={"licence_x": 4})``. A task takes it wherever it stands; all tasks that
  run at the same time hold at most what there is. A name is one or the other, never both.
* A task asks for both in the same way: ``TaskGroup(..., resources={"licence_x": 1})``.

There is one *axis*, `Topology.resource_names`: GPU, CPU, memory, then the other names, sorted.
Every vector of amounts lies on it: `Topology.capacity` (hosts, resources), `Topology.totals`,
`TaskGroup.demand`, `Configuration.demand`. It has three entries where nothing else is named, so
that instances without named resources are what they ever were. The column of a cluster resource
shows on every host all that the cluster has: no host by itself can hold more, and one limit for all
hosts together, as for a tenant's quota, does the rest.

An `alloc.problems.allocation.instance.Instance` brings its topology and its task groups onto one
axis: a name that only some of them know is 0 elsewhere. A name that a job asks for and nobody
offers is a cluster resource of 0, so that what asks for it fits nowhere. Documents hold no zeros.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from alloc.errors import InstanceError
from alloc.units import MILLI, RESOURCES

MAX_AMOUNT = 10**9
"""Most of a named resource on one host, for one task, or of the cluster: as many as the milli-GPU
of a million GPUs, so that sums over many hosts and tasks stay within the 64 bits of the arrays."""

_FIELDS = (*RESOURCES, "num_gpus", "gpu_memory_mib", "gpu", "gpus", "cpu", "cpus", "memory")
"""Names of what has a field of its own, and short forms of them, in small letters."""

_RULES = ("affinity", "level", "quota", "slices", "spread")
"""What else a job may be told that it lacks: a resource of that name could not be told from it."""


class Amounts(Mapping[str, int]):
    """Amounts of named resources; a name that is not there is 0. Never changed, and hashable.

    Parameters
    ----------
    amounts
        Amounts by name; zeros count for `names` alone.
    names
        More names with an amount of 0.

    Attributes
    ----------
    names
        The names whose amounts `row` gives, sorted: those of the amounts, and the zeros. Amounts
        that differ in them alone are equal.
    """

    __slots__ = ("_amounts", "_hash", "names", "row")

    def __init__(self, amounts: Mapping[str, int], names: Iterable[str] = ()) -> None:
        self._amounts = {name: amounts[name] for name in sorted(amounts) if amounts[name]}
        self.names = tuple(sorted({*amounts, *names}))
        self.row = tuple(self._amounts.get(name, 0) for name in self.names)
        self._hash = hash(tuple(self._amounts.items()))

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Amounts):
            return self._amounts == other._amounts
        return bool(self._amounts == other)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Amounts], tuple[dict[str, int], tuple[str, ...]]]:
        # Hashes of text differ from process to process: they are no part of what is sent.
        return Amounts, (self._amounts, self.names)

    def __repr__(self) -> str:
        return repr(self._amounts)


NO_AMOUNTS = Amounts({})
"""What asks for, or offers, nothing beyond GPU, CPU and memory."""


def amounts_of(given: Mapping[str, int], where: str = "resources") -> Amounts:
    """Return amounts as they were given, checked.

    Parameters
    ----------
    given
        Whole amounts by name, from 0 to `MAX_AMOUNT`.
    where
        What they belong to, for messages.

    Raises
    ------
    InstanceError
        If a name is no word, or that of a field or rule, or an amount no whole number in range.
    """
    if isinstance(given, Amounts):
        return given
    if not isinstance(given, Mapping):
        raise InstanceError(
            f"{where}: resources is {given!r}; give amounts by name, for example "
            '{"nvme_gib": 10}.'
        )
    if not given:
        return NO_AMOUNTS
    found = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name or " " in name or not name.isprintable():
            raise InstanceError(
                f'{where}: resources has the name {name!r}; use a word, for example "nvme_gib".'
            )
        if name.lower() in _FIELDS:
            raise InstanceError(
                f'{where}: resources names "{name}", which has a field of its own; give it there.'
            )
        if name in _RULES:
            raise InstanceError(
                f'{where}: resources names "{name}", which is the name of a rule of placement; '
                "give it another name."
            )
        try:
            if isinstance(value, bool):
                raise TypeError
            amount = operator.index(value)
        except TypeError:
            raise InstanceError(
                f'{where}: resources: "{name}" is {value!r}; give a whole number, in a unit small '
                "enough for that."
            ) from None
        if amount < 0:
            raise InstanceError(f'{where}: resources: "{name}" is {amount}; it must be 0 or more.')
        if amount > MAX_AMOUNT:
            raise InstanceError(
                f'{where}: resources: "{name}" is {amount:,}, more than a billion; use a '
                "larger unit, for example GiB for bytes."
            )
        found[name] = amount
    return Amounts(found)


def on_axis(amounts: Mapping[str, int], names: Iterable[str]) -> Amounts:
    """Return amounts with zeros for more names.

    Parameters
    ----------
    amounts
        Amounts by name, 0 or more.
    names
        Names to add; those that are there already stay as they are.
    """
    return Amounts(amounts, (*amounts_of(amounts).names, *names))


def format_amount(resource: str, amount: float) -> str:
    """Return an amount of a resource in words: ``8 GPU``, ``512 MiB``, ``3 licence_x``.

    Parameters
    ----------
    resource
        One of `alloc.units.RESOURCES`, or a name of the cluster's own.
    amount
        In the unit of the resource: milli-GPU, milli-cores, MiB, or its own.
    """
    if resource in ("gpu_milli", "cpu_milli"):
        return f"{amount / MILLI:g} {'GPU' if resource == 'gpu_milli' else 'CPU'}"
    return f"{amount:g} {'MiB' if resource == 'memory_mib' else resource}"
