"""Fragmentation: the free GPU that a task drawn from the expected mix could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.schedulers.placement.free_hosts import Counts
from alloc.units import MILLI
from alloc.workload import Configuration

Amounts = npt.NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Shape:
    """What a task asks for, as far as fragmentation is concerned.

    Parameters
    ----------
    cpu_milli
        CPU, milli-cores.
    gpu_milli
        Share of each GPU, milli-GPU: 0 to 1,000.
    num_gpus
        GPUs; 0 or 1 below whole GPUs.
    gpu_types
        GPU types that it may use; empty: any.
    """

    cpu_milli: int
    gpu_milli: int
    num_gpus: int
    gpu_types: tuple[str, ...] = ()


def shapes_of(configurations: Iterable[Configuration]) -> Counter[Shape]:
    """Count the task shapes of a job: those of its first configuration, on the types of all."""
    configurations = tuple(configurations)
    named = {c.gpu_type for c in configurations}
    types = tuple(sorted(t for t in named if t is not None)) if None not in named else ()
    found: Counter[Shape] = Counter()
    for group in configurations[0].tasks:
        each = min(group.gpu_milli, MILLI)
        number = -(-group.gpu_milli // MILLI)
        found[Shape(group.cpu_milli, each, number, types if number else ())] += group.count
    return found


def popular(counts: Mapping[Shape, float], popularity: float) -> dict[Shape, float]:
    """Return the most frequent shapes that make up a part of all tasks, with their frequencies.

    Parameters
    ----------
    counts
        How often each shape was seen.
    popularity
        The part of the tasks to cover, above 0 to 1. Ties go to the larger shape.
    """
    goal = popularity * sum(counts.values())
    kept: dict[Shape, float] = {}
    covered = 0.0
    for shape in sorted(counts, key=lambda s: (counts[s], s), reverse=True):
        if covered >= goal:
            break
        kept[shape] = counts[shape]
        covered += counts[shape]
    return {shape: count / covered for shape, count in kept.items()}


class Fragmentation:
    """FGD's measure F of a host: the expected free GPU that a task of the mix cannot use.

    A task m with k GPUs of g milli each and c CPU cannot use, on a host n with free CPU C and free
    GPU shares R_1..R_G (Weng et al., equations 1-3),

    - all of sum_i R_i, if m needs no GPU, may not use the GPU type, c > C, or fewer than k GPUs
      have R_i >= g;
    - otherwise the GPUs that are too full: sum_i R_i [R_i < g].

    F_n is the mean over the mix. For tasks of at most one GPU the second case includes the lack of
    GPU of the first, so the sum over the mix splits into a table of the free CPU times a table of
    one GPU's free share: F_n = A(C) sum_i R_i + sum_i phi_C(R_i) + sum_(k>1) W_k(C) [...]. Scoring
    a host therefore costs one look-up per GPU, however many shapes the mix has.

    Parameters
    ----------
    topology_types
        The GPU type of each host.
    mix
        Shapes and their frequencies, which sum to 1.

    References
    ----------
    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, section 3; as in its simulator, memory is not looked at.
    """

    def __init__(self, topology_types: Iterable[str | None], mix: Mapping[Shape, float]) -> None:
        types = tuple(topology_types)
        known = sorted({t or "" for t in types})
        index = {name: k for k, name in enumerate(known)}
        self.kind: Counts = np.array([index[t or ""] for t in types], dtype=np.int64)
        asked = {shape.cpu_milli for shape in mix if shape.num_gpus}
        self._cpus: Counts = np.array(sorted(asked), dtype=np.int64)
        size = (len(known), len(self._cpus) + 1)
        self._all: Amounts = np.zeros(size)
        self._part: Amounts = np.zeros((*size, MILLI + 1))
        self._gang: dict[int, Amounts] = {}
        share = np.arange(MILLI + 1)
        for shape, frequency in mix.items():
            enough = np.zeros(size, dtype=bool)
            if shape.num_gpus:
                rank = int(np.searchsorted(self._cpus, shape.cpu_milli))
                enough[:, rank + 1 :] = True
                for name, k in index.items():
                    if shape.gpu_types and name not in shape.gpu_types:
                        enough[k] = False
            self._all += np.where(enough, 0.0, frequency)
            if shape.num_gpus == 1:
                lost = frequency * np.where(share < shape.gpu_milli, share, 0)
                self._part += np.where(enough[:, :, None], lost, 0.0)
            elif shape.num_gpus:
                gang = self._gang.setdefault(shape.num_gpus, np.zeros(size))
                gang += np.where(enough, frequency, 0.0)

    def of(self, hosts: Counts, cpu: Counts, gpus: Counts) -> Amounts:
        """Return F of hosts in given states, milli-GPU.

        Parameters
        ----------
        hosts
            Positions of the hosts, of a shape S.
        cpu
            Free CPU, milli-cores, shape S.
        gpus
            Free share of each GPU, milli-GPU, shape S + (GPUs,).
        """
        kind = self.kind[hosts]
        rank = np.searchsorted(self._cpus, cpu, side="right")
        total = gpus.sum(axis=-1)
        lost = self._part[kind[..., None], rank[..., None], gpus].sum(axis=-1)
        lost += self._all[kind, rank] * total
        return self._add_gangs(lost, kind, rank, total, (gpus == MILLI).sum(axis=-1))

    def after_share(self, hosts: Counts, cpu: Counts, gpus: Counts, share: int) -> Amounts:
        """Return F after each GPU in turn gives a share, milli-GPU, shape (hosts, GPUs).

        Parameters
        ----------
        hosts
            Positions of the hosts, shape (hosts,).
        cpu
            CPU that is free afterwards, milli-cores, shape (hosts,).
        gpus
            Free shares before, milli-GPU, shape (hosts, GPUs).
        share
            What is taken, milli-GPU; where a GPU lacks it, F is infinite.
        """
        kind = self.kind[hosts][:, None]
        rank = np.searchsorted(self._cpus, cpu, side="right")[:, None]
        left = np.maximum(gpus - share, 0)
        before = self._part[kind, rank, gpus]
        lost = before.sum(axis=1, keepdims=True) - before + self._part[kind, rank, left]
        total = np.broadcast_to(gpus.sum(axis=1, keepdims=True) - share, gpus.shape)
        lost += self._all[kind, rank] * total
        whole = gpus == MILLI
        number = whole.sum(axis=1, keepdims=True) - whole
        lost = self._add_gangs(lost, kind, rank, total, number)
        return np.where(gpus >= share, lost, np.inf)

    def _add_gangs(
        self, lost: Amounts, kind: Counts, rank: Counts, total: Counts, whole: Counts
    ) -> Amounts:
        """Add what tasks of several whole GPUs cannot use: partial GPUs, or all if too few."""
        for number, weight in self._gang.items():
            unusable = np.where(whole >= number, total - MILLI * whole, total)
            lost = lost + weight[kind, rank] * unusable
        return lost
