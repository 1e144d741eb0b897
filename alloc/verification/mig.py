"""Rules of divided GPUs: MIG instances, memory of shares, and one use of a GPU at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import RunsOfOneRound
from alloc.problems.allocation.solution import Assignment, Run, TaskPlacement
from alloc.topology.gpu_fit import gpu_memory_mib
from alloc.topology.mig import COMPUTE_SLICES, MigProfile, mig_profiles, overlap
from alloc.verification.violation import Violation
from alloc.workload import TaskGroup

_COMPUTE, _MEDIA = 8, 16
"""Bits from which on compute slices and media extensions are counted: a GPU has 8 memory slices, so
at most 8 instances of at most 7 compute slices each, a number of 8 bits."""
_MEMORY = (1 << _COMPUTE) - 1
"""The bits of memory slices; also the largest count of compute slices."""


class _Use(NamedTuple):
    """One task on one GPU of a host; `gpu` is None for whole GPUs, which have no position."""

    start_s: float
    end_s: float
    job: str
    gpu: int | None
    number: int
    memory_mib: int
    profile: MigProfile | None = None
    start: int = 0


@dataclass
class _Gpu:
    """What stands on one GPU at a moment."""

    instances: list[_Use] = field(default_factory=list)
    shares: list[_Use] = field(default_factory=list)


def check_gpu_sharing(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield what is wrong with MIG instances and with the memory of shared GPUs.

    Instances begin where their profile may, do not overlap, and have the compute slices; a GPU is
    cut into instances, or shared, or held whole, never two of these; shares fit into the GPU's
    memory.

    Parameters
    ----------
    instance
        The jobs and the cluster.
    runs
        Runs of its jobs; those that overlap in time may share a GPU.
    """
    if not {"MIG slices", "GPU memory"} & instance.features.keys():
        return
    # The quick look asks for no times, without which there need be no runs.
    if _is_clear(instance, runs.assignments if isinstance(runs, RunsOfOneRound) else runs):
        return
    uses: dict[int, list[_Use]] = {}
    index = instance.topology.host_index
    # Jobs share configurations: whose groups they are is looked up once.
    groups_of: dict[int, dict[str, TaskGroup]] = {}
    for run in runs:
        configuration = instance.jobs[instance.job_index[run.job]].configurations[run.configuration]
        if id(configuration) not in groups_of:
            groups_of[id(configuration)] = {group.role: group for group in configuration.tasks}
        groups = groups_of[id(configuration)]
        for task in run.tasks:
            group = groups.get(task.role)
            if group is None or task.host not in index:
                continue  # reported by the placement rules
            h = index[task.host]
            found = _read(instance, run, task, group)
            if isinstance(found, Violation):
                yield found
            else:
                uses.setdefault(h, []).extend(found)
    for h, on_host in uses.items():
        yield from _check_host(instance, h, on_host)


def _is_clear(instance: Instance, runs: Sequence[Run | Assignment]) -> bool:
    """Return whether a quick look sees that all is well: no instances meet, whenever they stand.

    It takes instances alone, and no two on the same slice of a GPU at any time; what else may be
    right is left to the rules.
    """
    jobs, index, topology = instance.jobs, instance.job_index, instance.topology
    kinds = [(host.id, topology.host_type(host)) for host in topology.hosts]
    gpu_types = {host: kind.gpu_type for host, kind in kinds}
    # What is taken of each GPU of each host.
    taken = {host: [0] * kind.num_gpus for host, kind in kinds}
    profiles: dict[tuple[int, int], dict[str, str | None]] = {}
    needs: dict[tuple[str | None, str, int], int] = {}
    for run in runs:
        configurations = jobs[index[run.job]].configurations
        # Jobs share configurations: the profiles of their groups are looked up once.
        key = id(configurations), run.configuration
        profile_of = profiles.get(key)
        if profile_of is None:
            groups = configurations[run.configuration].tasks
            profile_of = profiles[key] = {group.role: group.mig_profile for group in groups}
        for task in run.tasks:
            profile, gpus = profile_of.get(task.role), taken.get(task.host)
            if profile is None or gpus is None:
                return False
            gpu_type = gpu_types[task.host]
            if not len(task.gpus) == len(task.starts) == task.count:
                return False
            for g, start in zip(task.gpus, task.starts, strict=True):
                key_of_need = gpu_type, profile, start
                need = needs.get(key_of_need)
                if need is None:
                    need = needs[key_of_need] = _slices_of(*key_of_need)
                if not need or not 0 <= g < len(gpus) or gpus[g] & need & _MEMORY:
                    return False
                gpus[g] += need
    return all(
        (amount >> _COMPUTE) & _MEMORY <= COMPUTE_SLICES and amount >> _MEDIA <= 1
        for gpus in taken.values()
        for amount in gpus
    )


def _slices_of(gpu_type: str | None, name: str, start: int) -> int:
    """Return memory slices as bits, and beyond them compute slices and media extensions as counts.

    0 where no such instance may begin. Sums of instances that share no memory slice are exact.
    """
    profile = mig_profiles(gpu_type).get(name)
    if profile is None or start not in profile.starts:
        return 0
    memory = sum(1 << at for at in profile.slices(start))
    return memory | profile.compute_slices << _COMPUTE | profile.media << _MEDIA


def _read(
    instance: Instance, run: Run, task: TaskPlacement, group: TaskGroup
) -> list[_Use] | Violation:
    """Return the GPU uses of placed tasks, or what is wrong with them by themselves."""
    topology = instance.topology
    kind = topology.host_type(topology.hosts[topology.host_index[task.host]])
    span = (run.start_s, run.end_s, run.job)

    def wrong(code: str, sentence: str) -> Violation:
        where = f'job "{run.job}": its {task.count} {task.role} tasks on host "{task.host}"'
        return Violation(code, (run.job, task.host), task.count, "tasks", f"{where} {sentence}")

    if group.mig_profile is None:
        if task.starts:
            return wrong("mig_start", "hold no MIG slice, but name starts; leave them out.")
        memory = gpu_memory_mib(kind.gpu_type)
        if group.gpu_memory_mib and group.gpu_memory_mib > (memory or 0):
            have = "is not known" if memory is None else f"is {memory} MiB"
            return wrong(
                "gpu_memory_of_task",
                f"need {group.gpu_memory_mib} MiB of GPU memory, and that of {kind.gpu_type} "
                f"{have}.",
            )
        if group.shares_gpu:
            if len(task.gpus) != task.count:
                return []  # reported by the placement rules
            return [_Use(*span, g, 1, group.gpu_memory_mib) for g in task.gpus]
        count = task.count * group.gpu_milli // 1000
        return [_Use(*span, None, count, 0)] if count else []
    profile = mig_profiles(kind.gpu_type).get(group.mig_profile)
    if profile is None:
        return wrong(
            "mig_profile",
            f'hold "{group.mig_profile}" slices, which GPU type {kind.gpu_type} does not have.',
        )
    if len(task.gpus) != task.count or len(task.starts) != task.count:
        return wrong(
            "mig_start",
            f"hold MIG slices, so each must name its GPU and its start; named: {list(task.gpus)} "
            f"and {list(task.starts)}.",
        )
    if min(task.gpus, default=0) < 0 or max(task.gpus, default=0) >= kind.num_gpus:
        return wrong(
            "gpu_position", f"name GPUs {list(task.gpus)}; the host has {kind.num_gpus} from 0."
        )
    if not set(task.starts).issubset(profile.starts):
        return wrong(
            "mig_start",
            f'begin at {list(task.starts)}, but "{profile.name}" begins at one of '
            f"{list(profile.starts)}.",
        )
    return [
        _Use(*span, g, 1, 0, profile, start)
        for g, start in zip(task.gpus, task.starts, strict=True)
    ]


def _check_host(instance: Instance, h: int, uses: list[_Use]) -> Iterator[Violation]:
    """Check the GPUs of one host whenever something begins; each finding is reported once."""
    reported: set[tuple[str, tuple[str, ...]]] = set()
    for now in sorted({use.start_s for use in uses}):
        active = [use for use in uses if use.start_s <= now < use.end_s]
        for violation in _check_moment(instance, h, active, now):
            key = (violation.code, violation.ids)
            if key not in reported:
                reported.add(key)
                yield violation


def _check_moment(
    instance: Instance, h: int, active: Sequence[_Use], now: float
) -> Iterator[Violation]:
    host = instance.topology.hosts[h]
    kind = instance.topology.host_type(host)
    gpus: dict[int, _Gpu] = {}
    whole = 0
    for use in active:
        if use.gpu is None:
            whole += use.number
        else:
            on = gpus.setdefault(use.gpu, _Gpu())
            (on.shares if use.profile is None else on.instances).append(use)
    divided = sum(bool(on.instances) for on in gpus.values())
    if divided and whole + len(gpus) > kind.num_gpus:
        yield Violation(
            "gpu_capacity",
            (host.id,),
            whole + len(gpus) - kind.num_gpus,
            "GPU",
            f'host "{host.id}" needs {whole} whole GPUs, {divided} cut into MIG slices and '
            f"{len(gpus) - divided} shared ones at {now:g} s, but has {kind.num_gpus}.",
        )
    for g, on in sorted(gpus.items()):
        where = f'GPU {g} of host "{host.id}"'
        yield from _check_instances(host.id, g, where, on.instances, now)
        if on.instances and on.shares:
            yield Violation(
                "gpu_use",
                (host.id, f"gpu{g}", on.instances[0].job, on.shares[0].job),
                1,
                "GPU",
                f'{where} is cut into MIG slices (job "{on.instances[0].job}") and shared (job '
                f'"{on.shares[0].job}") at {now:g} s; it can be one or the other.',
            )
        memory = gpu_memory_mib(kind.gpu_type)
        asked = sum(use.memory_mib for use in on.shares)
        if memory is not None and asked > memory:
            yield Violation(
                "gpu_memory",
                (host.id, f"gpu{g}"),
                asked - memory,
                "MiB",
                f"{where} has {memory} MiB, and its shares ask for {asked} MiB at {now:g} s.",
            )


def _check_instances(
    host: str, g: int, where: str, instances: Sequence[_Use], now: float
) -> Iterator[Violation]:
    """Yield what keeps the instances on one GPU from being a layout."""
    placed = [(use.profile, use.start, use.job) for use in instances if use.profile is not None]
    for i, (p, s, job) in enumerate(placed):
        for q, t, other in placed[:i]:
            if overlap((p, s), (q, t)):
                yield Violation(
                    "mig_overlap",
                    (host, f"gpu{g}", other, job),
                    1,
                    "instances",
                    f'{where}: "{q.name}" of job "{other}" at {t} and "{p.name}" of job "{job}" '
                    f"at {s} overlap at {now:g} s.",
                )
    compute = sum(p.compute_slices for p, _, _ in placed)
    if compute > COMPUTE_SLICES:
        yield Violation(
            "mig_compute",
            (host, f"gpu{g}"),
            compute - COMPUTE_SLICES,
            "slices",
            f"{where}: its instances have {compute} compute slices at {now:g} s, of "
            f"{COMPUTE_SLICES}.",
        )
    media = sum(p.media for p, _, _ in placed)
    if media > 1:
        yield Violation(
            "mig_media",
            (host, f"gpu{g}"),
            media - 1,
            "instances",
            f"{where}: {media} instances hold the media extensions at {now:g} s; one can.",
        )
