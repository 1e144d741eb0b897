"""Inflation: the pods of a trace as an arrival sequence that asks for more than there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.readers.openb import Pod, pod_configurations
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Elasticity, Job


def inflated_arrivals(
    topology: Topology,
    pods: Sequence[Pod],
    *,
    ratio: float = 1.3,
    seed: int = 42,
    shuffle_hosts: bool = True,
    name: str = "openb-inflated",
) -> Instance:
    """Return the pods in random order, and pods drawn from them until the demand is reached.

    This is the arrival sequence of FGD's evaluation: all pods of the trace once, in an order drawn
    by the seed; then pods drawn evenly, with replacement, until the next would lift the GPUs asked
    for above `ratio` times those of the cluster. Hosts stand in an order drawn by the seed, which
    decides between hosts of equal score. The draws are numpy's, so a seed gives a sequence with
    the published distribution, not the published sequence.

    Parameters
    ----------
    topology
        The cluster.
    pods
        The pods of the trace.
    ratio
        GPU demand in all over the GPUs of the cluster. A trace that asks for more is cut: pods
        drawn evenly leave it.
    seed
        Seed of every draw.
    shuffle_hosts
        Whether to draw the order of hosts; otherwise they stand as in the topology.
    name
        Name of the instance.

    Returns
    -------
    Instance
        A job for each arrival, in order, all released at time 0 and of one second.

    Raises
    ------
    InstanceError
        If no pod asks for a GPU, or a pod names GPU types of which the cluster has none.

    References
    ----------
    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, section 6.1, and the workload tuning of its simulator.
    """
    if not any(pod.gpu_milli for pod in pods):
        raise InstanceError("no pod asks for a GPU, so their demand cannot be inflated.")
    rng = np.random.default_rng(seed)
    if shuffle_hosts:
        order = rng.permutation(topology.num_hosts)
        topology = topology.replace(hosts=tuple(topology.hosts[h] for h in order))
    arrivals = [pods[k] for k in rng.permutation(len(pods))]
    goal = ratio * topology.num_gpus * MILLI
    demand = sum(pod.gpu_milli for pod in pods)
    while demand > goal:
        demand -= arrivals.pop(int(rng.integers(len(arrivals)))).gpu_milli
    while True:
        pod = pods[int(rng.integers(len(pods)))]
        if demand + pod.gpu_milli > goal:
            break
        demand += pod.gpu_milli
        arrivals.append(pod)
    return arrivals_in_order(topology, arrivals, name=name)


def arrivals_in_order(
    topology: Topology, pods: Sequence[Pod], *, name: str = "openb-arrivals"
) -> Instance:
    """Return pods as jobs in the order given, all released at time 0 and of one second.

    Parameters
    ----------
    topology
        The cluster.
    pods
        In the order in which they ask.
    name
        Name of the instance.

    Raises
    ------
    InstanceError
        If a pod names GPU types of which the cluster has none.
    """
    return Instance(name, topology, _jobs(pods, topology))


def _jobs(arrivals: Sequence[Pod], topology: Topology) -> tuple[Job, ...]:
    present = {t for t in topology.gpu_types if t is not None}
    shared: dict[tuple[object, ...], tuple[Configuration, ...]] = {}
    jobs = []
    for k, pod in enumerate(arrivals):
        shape = (pod.cpu_milli, pod.memory_mib, pod.gpu_milli, pod.gpu_types)
        if shape not in shared:
            shared[shape] = pod_configurations(pod, present)
            if not shared[shape]:
                raise InstanceError(
                    f'pod "{pod.name}" runs on {", ".join(pod.gpu_types)} only, but the cluster '
                    f"has {', '.join(sorted(present))}; leave such pods out."
                )
        ways = shared[shape]
        elasticity: Elasticity = "rigid" if len(ways) == 1 else "moldable"
        jobs.append(Job(f"{k:05d}-{pod.name}", 0.0, 1.0, ways, elasticity=elasticity))
    return tuple(jobs)
