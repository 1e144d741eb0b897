"""First-fit, best-fit, random-fit and KAI's bin-packing: rules that score hosts as they are."""

from __future__ import annotations

from typing import Literal

import numpy as np

from alloc.errors import InstanceError
from alloc.schedulers.placement.free_hosts import Counts, FreeHosts
from alloc.schedulers.placement.tasks import TaskRule
from alloc.units import MILLI
from alloc.workload import TaskGroup


class FirstFit(TaskRule):
    """Put each task on the first host, in the order of the topology, that has room for it.

    A share goes to the first GPU of that host that holds it.

    References
    ----------
    Textbook first-fit (Garey, Graham & Ullman, STOC 1972), for several resources at once.
    """

    name = "first-fit"
    information = "free capacity"

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the first host, and for a share its first GPU with room."""
        h = int(hosts[0])
        if not group.shares_gpu:
            return h, None
        return h, int(free.holds(hosts[:1], group)[0].argmax())


class BestFit(TaskRule):
    """Put each task on the host that it leaves with the least free CPU and GPU.

    The score of a host is 100 (1 - sum_r w_r left_r / max_r) with weights w of one half for CPU
    and GPU, left_r what the task leaves free, and max_r the largest host of the cluster. As in the
    published evaluation it is rounded down to whole points, stretched to 0..100 over the hosts that
    fit and rounded down again; the first host with the most points wins. A share goes to the GPU
    with the least room that holds it.

    Parameters
    ----------
    skip
        Go on to the next job when one does not fit.
    rounded
        Whether scores are rounded as published. Otherwise the exact scores decide.

    References
    ----------
    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, section 6 (BestFit), and the authors' simulator. Departure:
    max_r is the largest host of the cluster at hand (there: 128 CPUs and 8 GPUs, which on openb is
    the same).
    """

    name = "best-fit"
    information = "free capacity"

    def __init__(self, *, skip: bool = False, rounded: bool = True) -> None:
        super().__init__(skip=skip)
        self._rounded = rounded

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the host with the most points."""
        largest = np.maximum(free.topology.capacity.max(axis=0), 1)
        cpu = (free.cpu[hosts] - group.cpu_milli) / largest[1]
        gpu = (free.left[hosts] - group.gpu_milli) / largest[0]
        points = 1.0 - 0.5 * cpu - 0.5 * gpu
        if self._rounded:
            points = np.floor(100.0 * points)
            low, high = points.min(), points.max()
            points = np.floor((points - low) * 100.0 / (high - low)) if high > low else points
        return int(hosts[points.argmax()]), None


class RandomFit(TaskRule):
    """Put each task on a host drawn evenly from those with room, and a share on a GPU so drawn.

    References
    ----------
    The Random of Weng et al., USENIX ATC 2023, section 6, and the authors' simulator.
    """

    name = "random-fit"
    draws = True
    information = "whether a task fits"

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return a host at random, and for a share one of its GPUs with room at random."""
        h = int(rng.choice(hosts))
        if not group.shares_gpu:
            return h, None
        room = free.holds(np.array([h]), group)[0]
        return h, int(rng.choice(np.flatnonzero(room)))


class KaiBinPack(TaskRule):
    """Put each task on the fullest host that holds it, as KAI packs by default.

    A task with GPUs goes to the host with the least free GPU, one without to a host without GPUs
    if any fits, and there to the one with the least free CPU; the first of equals. A share prefers
    hosts where a GPU is shared already and holds it, and takes the fullest such GPU.

    Parameters
    ----------
    skip
        Go on to the next job when one does not fit.
    strategy
        ``binpack`` (KAI's default) or ``spread``, which prefers the emptiest host.

    References
    ----------
    The scoring plug-ins nodeplacement, gpupack and resourcetype of NVIDIA's KAI scheduler, as its
    documentation describes them. Departures: no queues, consolidation or reclaim (the queue is in
    order of arrival); the plug-ins apply in the order of their weights instead of as a sum; of the
    topology only single-domain placement, the fullest domain first.
    """

    name = "kai"
    information = "free capacity"

    def __init__(
        self, *, skip: bool = False, strategy: Literal["binpack", "spread"] = "binpack"
    ) -> None:
        super().__init__(skip=skip)
        if strategy not in ("binpack", "spread"):
            raise InstanceError(f'strategy is "{strategy}"; it is "binpack" or "spread".')
        self._sign = 1 if strategy == "binpack" else -1

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the fullest host, and for a share its fullest GPU with room."""
        if not group.gpu_milli:
            bare = hosts[free.num_gpus[hosts] == 0]
            hosts = bare if bare.size else hosts
            return int(hosts[(self._sign * free.cpu[hosts]).argmin()]), None
        if group.shares_gpu:
            shared = (free.holds(hosts, group) & (free.gpus[hosts] < MILLI)).any(axis=1)
            hosts = hosts[shared] if shared.any() else hosts
        return int(hosts[(self._sign * free.left[hosts]).argmin()]), None
