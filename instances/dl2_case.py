"""Cases of DL2's evaluation: nodes of slots, jobs in epochs, speeds by PSs and workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.instances.dl2 import SLOT_S
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.units import MILLI, require_count, require_non_negative, require_positive
from alloc.workload import Configuration, Job, TaskGroup

SpeedFunction = Callable[[int, int], float]
"""Speed of a number of PSs and a number of workers, in this order as in DL2, samples/s."""

SpeedTable = Mapping[tuple[int, int], float]
"""The same by (PSs, workers); pairs may be missing."""


@dataclass(frozen=True)
class Dl2Job:
    """A job in the terms of DL2's evaluation.

    Parameters
    ----------
    id
        Unique name. Jobs are given in the order that breaks ties.
    model
        Whose speed it has.
    arrival_slot
        Slot in which it arrives (``arrv_time``), from 0; it takes part in that slot's decision.
    epochs
        Epochs as estimated (``num_epochs``): what schedulers see, more than 0.
    real_epochs
        Epochs it really takes (``real_num_epochs``); None: as estimated.
    epoch_size
        Samples in an epoch, in the units of the speed, more than 0.
    worker, ps
        CPU slots and GPU slots of a worker and of a PS.
    """

    id: str
    model: str
    arrival_slot: int
    epochs: float
    real_epochs: float | None = None
    epoch_size: float = 1.0
    worker: tuple[int, int] = (2, 4)
    ps: tuple[int, int] = (2, 0)

    def __post_init__(self) -> None:
        where = f'DL2 job "{self.id}"'
        require_count(self.arrival_slot, where, "arrival_slot")
        require_positive(self.epochs, where, "epochs")
        require_positive(self.epoch_size, where, "epoch_size")
        if self.real_epochs is not None:
            require_positive(self.real_epochs, where, "real_epochs")
        for name, slots in (("worker", self.worker), ("ps", self.ps)):
            for count in slots:
                require_count(count, where, f"slots of a {name}")


@dataclass(frozen=True)
class Dl2Case:
    """A case of DL2's evaluation, ready for `alloc.simulation.simulate`.

    Parameters
    ----------
    instance
        The truth. A unit of work is done in a second at one epoch per slot: so work is epochs times
        the length of a slot, and rates are epochs per slot, to the last digit those of DL2's code.
    seen_work
        The estimated work of each job.
    max_tasks
        Most workers, and most PSs, of a job.
    """

    instance: Instance
    seen_work: Mapping[str, float]
    max_tasks: int

    def ends(self, completion_s: Mapping[str, float | None]) -> dict[str, float | None]:
        """Return completions as DL2 counts them: the slot before, plus the used part of the last.

        Parameters
        ----------
        completion_s
            Completions of a simulation, seconds.
        """
        slot_s = self.instance.slot_s or SLOT_S
        return {
            job_id: None if end_s is None else end_s / slot_s - 1.0
            for job_id, end_s in completion_s.items()
        }


def dl2_case(
    name: str,
    jobs: Sequence[Dl2Job],
    speeds: Mapping[str, SpeedFunction | SpeedTable],
    *,
    num_nodes: int,
    max_workers: int = 16,
    slot_s: float = SLOT_S,
    node_slots: tuple[int, int] = (8, 8),
    slots_per_gpu: int = 4,
    what_if: bool = False,
) -> Dl2Case:
    """Return a case of DL2's evaluation.

    Parameters
    ----------
    name
        Name of the instance.
    jobs
        The jobs.
    speeds
        For each model its speed with a number of PSs and of workers, as a function or a table.
        Pairs without a speed do no work; a speed below 0 (round-off of an interpolation) is 0.
    num_nodes
        Nodes, all alike.
    max_workers
        Most workers, and most PSs, of a job (MAX_NUM_WORKERS).
    slot_s
        Length of a slot, seconds (TS_DURATION).
    node_slots
        CPU slots and GPU slots of a node.
    slots_per_gpu
        GPU slots that make a GPU; those of nodes and tasks are multiples of it. 1 makes every slot
        a GPU of its own.
    what_if
        Whether tables go one task beyond `max_workers`. Optimus in DL2's evaluation asks for the
        gain of such a task (and never gives it); so its rules to the letter need those speeds. All
        policies then need ``max_tasks``, and no other method should be given the instance.

    Returns
    -------
    Dl2Case

    Raises
    ------
    InstanceError
        If a job names a model without speed, or slots are no multiples.
    """
    where = f'DL2 case "{name}"'
    require_count(num_nodes, where, "num_nodes", least=1)
    require_count(max_workers, where, "max_workers", least=1)
    gpus = _gpus(where, "a node", node_slots[1], slots_per_gpu)
    node = HostType(
        name="dl2-node",
        num_gpus=gpus,
        gpu_type="dl2-gpu" if gpus else None,
        cpu_milli=node_slots[0] * MILLI,
    )
    tables: dict[tuple[object, ...], tuple[Configuration, ...]] = {}
    made = []
    for job in jobs:
        if job.model not in speeds:
            raise InstanceError(
                f'{where}: job "{job.id}" is of model "{job.model}", which has no speed'
                f"{nearest(job.model, speeds, '; give one.')}"
            )
        kind = (job.model, job.epoch_size, job.worker, job.ps)
        if kind not in tables:
            most = max_workers + 1 if what_if else max_workers
            tables[kind] = _table(
                where, job, speeds[job.model], most, max_workers, slots_per_gpu, slot_s
            )
        made.append(
            Job(
                id=job.id,
                arrival_s=job.arrival_slot * slot_s,
                work=slot_s * (job.epochs if job.real_epochs is None else job.real_epochs),
                configurations=tables[kind],
                model=job.model,
            )
        )
    instance = Instance(
        name=name,
        topology=flat_cluster(f"{num_nodes} DL2 nodes", node, num_nodes),
        jobs=tuple(made),
        slot_s=slot_s,
    )
    return Dl2Case(instance, {job.id: slot_s * job.epochs for job in jobs}, max_workers)


def _table(
    where: str,
    job: Dl2Job,
    speed: SpeedFunction | SpeedTable,
    most: int,
    max_workers: int,
    slots_per_gpu: int,
    slot_s: float,
) -> tuple[Configuration, ...]:
    """Return the configurations of a job."""
    demands = [
        (_gpus(where, f'a {role} of job "{job.id}"', gpu, slots_per_gpu) * MILLI, cpu * MILLI)
        for role, (cpu, gpu) in (("worker", job.worker), ("PS", job.ps))
    ]
    found = []
    for workers in range(1, most + 1):
        for servers in range(1, most + 1):
            if workers > max_workers and servers > max_workers:
                continue  # a what-if adds one task
            given = speed(servers, workers) if callable(speed) else speed.get((servers, workers))
            if given is None:
                continue
            require_non_negative(max(given, 0.0), where, f"speed of {job.model}")
            groups = (
                TaskGroup("worker", workers, *demands[0]),
                TaskGroup("ps", servers, *demands[1]),
            )
            epochs_per_slot = max(float(given), 0.0) * slot_s / job.epoch_size
            found.append(Configuration(groups, epochs_per_slot))
    return tuple(found)


def _gpus(where: str, what: str, slots: int, slots_per_gpu: int) -> int:
    """Return the GPUs that a number of GPU slots makes."""
    gpus, rest = divmod(slots, slots_per_gpu)
    if rest:
        raise InstanceError(
            f"{where}: {what} has {slots} GPU slots, no multiple of the {slots_per_gpu} of a GPU; "
            "set slots_per_gpu=1."
        )
    return gpus
