"""Configurations: the ways a job can run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakValueDictionary

from alloc.errors import InstanceError
from alloc.resources import NO_AMOUNTS, amounts_of, on_axis
from alloc.units import (
    MILLI,
    require_count,
    require_memory,
    require_non_negative,
    require_positive,
    require_share,
)


@dataclass(frozen=True)
class TaskGroup:
    """Identical tasks of one role.

    Parameters
    ----------
    role
        What the tasks do, for example "worker" or "ps"; not empty.
    count
        Number of tasks, 1 or more.
    gpu_milli
        GPU of one task, milli-GPU (1000 = one GPU): 0, a share from 10 to 999, or whole GPUs as a
        multiple of 1000, all on one host.
    cpu_milli
        CPU of one task, milli-cores (1000 = one core).
    memory_mib
        Host memory of one task, MiB.
    gpu_memory_mib
        GPU memory of one task on each GPU that it holds or shares, MiB; 0: no statement.
    mig_profile
        MIG slice that one task holds instead of a GPU or a share, for example ``"3g.20gb"``
        (`alloc.topology.mig` lists the profiles of each GPU type); `gpu_milli` is then 0.
    resources
        Other resources of one task, whole amounts by name, for example ``{"licence_x": 1}``: of
        its host, or of the cluster as a whole; see `alloc.resources`.
    """

    role: str
    count: int
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_memory_mib: int = 0
    mig_profile: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f'task group "{self.role}"'
        if not self.role:
            raise InstanceError("a task group has an empty role; name it, for example worker.")
        require_count(self.count, where, "count", least=1)
        require_share(self.gpu_milli, where, "gpu_milli")
        require_share(self.cpu_milli, where, "cpu_milli")
        require_memory(self.memory_mib, where, "memory_mib")
        require_memory(self.gpu_memory_mib, where, "gpu_memory_mib")
        if self.mig_profile is not None and self.gpu_milli:
            raise InstanceError(
                f'{where}: asks for the MIG slice "{self.mig_profile}" and for {self.gpu_milli} '
                "milli-GPU; a task holds one or the other, so set gpu_milli to 0."
            )
        if self.gpu_memory_mib and not self.gpu_milli:
            raise InstanceError(
                f"{where}: asks for {self.gpu_memory_mib} MiB of GPU memory but for no GPU; give "
                "gpu_milli, or leave the memory to the MIG profile."
            )
        if self.gpu_milli > MILLI and self.gpu_milli % MILLI:
            raise InstanceError(
                f"{where}: gpu_milli is {self.gpu_milli}; above one GPU only whole GPUs can be "
                "asked for, so round to a multiple of 1000."
            )
        object.__setattr__(self, "resources", amounts_of(self.resources, where))

    @cached_property
    def demand(self) -> tuple[int, ...]:
        """Demand of one task: GPU, CPU, memory, then the other resources by name.

        The task groups of an `alloc.problems.allocation.Instance` all have the resources of its
        topology, in the order of `alloc.topology.Topology.resource_names`.
        """
        return (self.gpu_milli, self.cpu_milli, self.memory_mib, *amounts_of(self.resources).row)

    @property
    def resources_on_axis(self) -> tuple[str, ...]:
        """Names of the other resources in `demand`, sorted."""
        return amounts_of(self.resources).names

    @property
    def shares_gpu(self) -> bool:
        """Whether a task takes less than a whole GPU."""
        return 0 < self.gpu_milli < MILLI

    @property
    def uses_gpu(self) -> bool:
        """Whether a task holds GPUs, a share of one, or a MIG slice."""
        return self.gpu_milli > 0 or self.mig_profile is not None


class Gang:
    """Tasks, GPU type and level of a configuration, as a key whose hash is worked out once.

    Parameters
    ----------
    parts
        What makes two gangs equal.
    """

    __slots__ = ("__weakref__", "_hash", "parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Gang) and self.parts == other.parts)

    def __reduce__(self) -> tuple[type[Gang], tuple[tuple[object, ...]]]:
        # Hashes of text differ from process to process: they are no part of what is sent.
        return Gang, (self.parts,)


_GANGS: WeakValueDictionary[Gang, Gang] = WeakValueDictionary()
"""Gangs in use: a dictionary finds a key that is the very same object without comparing it."""


@dataclass(frozen=True)
class Configuration:
    """One way to run a job: its tasks and the rate at which they get work done.

    Parameters
    ----------
    tasks
        Task groups, at least one, at most one per role; all run, or none.
    rate
        Work units per second, 0 or more. Rates are measured tables of any shape: more tasks may
        be slower.
    gpu_type
        GPU type that the hosts of the tasks must have, or None for any host.
    within
        Topology level that must hold all tasks in a single domain (``"host"``, ``"leaf"`` ...) for
        the rate to be reached, or None.
    technique
        Name of the parallelism that reaches the rate (``"fsdp"``, ``"pipeline"`` ...), for people;
        no model asks for it. None: not said.
    """

    tasks: tuple[TaskGroup, ...]
    rate: float
    gpu_type: str | None = None
    within: str | None = None
    technique: str | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise InstanceError("a configuration has no tasks; give at least one task group.")
        roles = [group.role for group in self.tasks]
        if len(set(roles)) != len(roles):
            raise InstanceError(
                f"a configuration names a role twice ({', '.join(roles)}); merge the task groups."
            )
        # Of tens of thousands in a document, the label is for the message alone.
        if type(self.rate) is not float or not 0.0 <= self.rate < math.inf:
            require_non_negative(self.rate, f"configuration {self.label}", "rate")
        if self.technique is not None and not self.technique.strip():
            raise InstanceError(
                f"configuration {self.label}: technique is empty; name the parallelism, or leave "
                "it out."
            )
        if type(self.tasks) is not tuple:
            object.__setattr__(self, "tasks", tuple(self.tasks))
        if any(group.resources is not NO_AMOUNTS for group in self.tasks):
            names = {name for group in self.tasks for name in group.resources_on_axis}
            object.__setattr__(self, "tasks", _on_axis(self.tasks, tuple(sorted(names))))

    @cached_property
    def demand(self) -> tuple[int, ...]:
        """Demand of all tasks together, in the order of `TaskGroup.demand`."""
        totals = [0] * len(self.tasks[0].demand)
        for group in self.tasks:
            for r, amount in enumerate(group.demand):
                totals[r] += group.count * amount
        return tuple(totals)

    @cached_property
    def gang(self) -> Gang:
        """What decides where the tasks can be placed together; equal ones are one object."""
        gang = Gang((self.tasks, self.gpu_type, self.within))
        return _GANGS.setdefault(gang, gang)

    def with_resources(self, names: tuple[str, ...]) -> Configuration:
        """Return the configuration with all task groups on one axis (`alloc.resources`).

        Parameters
        ----------
        names
            The names of the axis beyond GPU, CPU and memory, sorted, with all that a group asks
            for.
        """
        tasks = _on_axis(self.tasks, names)
        return self if tasks is self.tasks else replace(self, tasks=tasks)

    @cached_property
    def label(self) -> str:
        """Short name for people, for example ``2 worker + 3 ps``."""
        return " + ".join(f"{group.count} {group.role}" for group in self.tasks)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of tasks by role."""
        return {group.role: group.count for group in self.tasks}

    @cached_property
    def any_hosts(self) -> bool:
        """Whether any hosts with room will do: no GPU type, no level, no share of a GPU."""
        return (
            self.gpu_type is None
            and self.within is None
            and not any(group.shares_gpu for group in self.tasks)
        )

    @cached_property
    def ruled_groups(self) -> tuple[TaskGroup, ...]:
        """The task groups that slices and spreads count: those with GPUs, or all if none has."""
        return tuple(group for group in self.tasks if group.uses_gpu) or self.tasks

    def num_tasks(self, role: str) -> int:
        """Return the number of tasks of a role, 0 if there are none."""
        return self.counts.get(role, 0)


def table_of(
    tasks: Sequence[tuple[TaskGroup, ...]],
    rates: Sequence[float],
    gpu_types: Sequence[str | None],
    withins: Sequence[str | None],
    techniques: Sequence[str | None],
) -> tuple[Configuration, ...]:
    """Return configurations whose tasks have passed the checks of others, the rest checked at once.

    Of hundreds of thousands, that takes a third of the time that one at a time takes.

    Parameters
    ----------
    tasks
        Task groups of each: `Configuration.tasks` of another.
    rates, gpu_types, withins, techniques
        The other fields of each.

    Raises
    ------
    InstanceError
        If a rate is not finite and 0 or more, or a technique is empty.
    """
    fields = zip(tasks, rates, gpu_types, withins, techniques, strict=True)
    plain = all(type(rate) is float and 0.0 <= rate < math.inf for rate in rates)
    if not plain or not all(name is None or name.strip() for name in {*techniques}):
        return tuple(Configuration(*each) for each in fields)  # whichever it is says so
    # As the class itself does, but for its checks.
    new, put = object.__new__, object.__setattr__
    found = []
    for its, rate, gpu_type, within, technique in fields:
        made = new(Configuration)
        put(made, "tasks", its)
        put(made, "rate", rate)
        put(made, "gpu_type", gpu_type)
        put(made, "within", within)
        put(made, "technique", technique)
        found.append(made)
    return tuple(found)


def _on_axis(tasks: tuple[TaskGroup, ...], names: tuple[str, ...]) -> tuple[TaskGroup, ...]:
    """Return task groups whose resources have all of the names; the same if they have."""
    if all(group.resources_on_axis == names for group in tasks):
        return tasks
    return tuple(replace(g, resources=on_axis(g.resources, names)) for g in tasks)


def rigid_gang(
    num_gpus: int, *, rate: float = 1.0, cpu_milli_per_gpu: int = 0, memory_mib_per_gpu: int = 0
) -> Configuration:
    """Return the single configuration of a rigid gang of one-GPU workers.

    Parameters
    ----------
    num_gpus
        GPUs held at once.
    rate
        Work units per second; with 1.0 the job's work is its duration in seconds.
    cpu_milli_per_gpu, memory_mib_per_gpu
        Host resources of each worker.
    """
    require_positive(num_gpus, "rigid gang", "num_gpus")
    worker = TaskGroup("worker", num_gpus, MILLI, cpu_milli_per_gpu, memory_mib_per_gpu)
    return Configuration((worker,), rate)
