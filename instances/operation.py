"""Generator of decisions and job streams in operation, by the sizes of the Path Relinking paper.

The paper's own generator and its profiled times are not at hand. What is fixed by its report: 10 to
100 nodes and 50 to 450 jobs, nodes whose type is chosen among virtual machines of several sizes,
jobs that share a node's GPUs, due dates between loose and tight, weights of tardiness. The numbers
of this module are our own: sizes and prices of the order of public clouds' GPU machines, speed-ups
that fall behind the number of GPUs, and due dates relative to a job's times.

References
----------
F. Filippini et al., IEEE Trans. Services Computing 16(3), 2023, doi:10.1109/TSC.2022.3188440.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.operation.job_stream import OperationStream, StreamJob
from alloc.problems.operation.problem import (
    Accounting,
    EarlyStop,
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
)
from alloc.units import require_count, require_non_negative, require_positive

PUBLISHED_SIZES = ((10, 50), (20, 100), (40, 180), (60, 270), (80, 360), (100, 450))
"""Nodes and jobs, in steps up to the size for which the paper reports less than 7 s."""


@dataclass(frozen=True)
class _Machine:
    """A GPU generation: speed against the slowest, money and power of a GPU, power of the node."""

    name: str
    speed: float
    price_per_gpu_h: float
    gpu_w: float
    node_w: float
    sizes: tuple[int, ...]


# Orders of magnitude of public clouds: a GPU twice as fast costs more than twice as much.
_MACHINES = (
    _Machine("k80", 1.0, 0.9, 150.0, 200.0, (1, 2, 4)),
    _Machine("m60", 1.35, 1.1, 150.0, 200.0, (1, 2, 4)),
    _Machine("v100", 3.2, 3.06, 300.0, 350.0, (1, 2, 4, 8)),
)


def cloud_node_types(machines: Sequence[str] = ("k80", "m60")) -> tuple[NodeType, ...]:
    """Return virtual machines of several sizes; the whole machine is paid, busy or not."""
    return tuple(
        NodeType(f"{m.name}x{n}", n, (round(m.price_per_gpu_h * n, 4),) * n)
        for m in _machines(machines)
        for n in m.sizes
    )


def own_node_types(machines: Sequence[str] = ("k80", "v100")) -> tuple[NodeType, ...]:
    """Return the largest server of each machine, with the power it draws and no price."""
    return tuple(
        NodeType(
            f"{m.name}x{m.sizes[-1]}",
            m.sizes[-1],
            power_w=tuple(m.node_w + g * m.gpu_w for g in range(1, m.sizes[-1] + 1)),
        )
        for m in _machines(machines)
    )


def _machines(names: Sequence[str]) -> list[_Machine]:
    known = {m.name: m for m in _MACHINES}
    if unknown := [name for name in names if name not in known]:
        raise InstanceError(f'unknown machine "{unknown[0]}"; known: {", ".join(known)}.')
    return [known[name] for name in names]


def _speed(node_type: str) -> float:
    return {m.name: m.speed for m in _MACHINES}[node_type.partition("x")[0]]


def draw_job(
    rng: np.random.Generator,
    job_id: str,
    types: Sequence[NodeType],
    *,
    arrival_s: float = 0.0,
    slack: tuple[float, float] = (1.0, 4.0),
    mean_hours: float = 6.0,
    stops: bool = False,
) -> OperationJob:
    """Return a random job.

    Parameters
    ----------
    rng
        Random numbers.
    job_id
        Its id.
    types
        The types on which it can run, on any number of GPUs.
    arrival_s
        Its arrival, seconds.
    slack
        Range of the time to the due date, in times of the job's fastest run, drawn uniformly.
    mean_hours
        Mean time on one GPU of the slowest machine, hours; drawn log-normally, sigma 0.8.
    stops
        Whether it may stop early: after a quarter, half and three quarters of its work, together
        with a chance drawn between 20 and 80 %.

    Notes
    -----
    g GPUs are ``g ** e`` times as fast as one, e drawn between 0.6 and 0.95; each machine suits
    the job up to 20 % better or worse than its mean speed. The tardiness weight is drawn from 1,
    2, ... 5, in money an hour.
    """
    hours = float(rng.lognormal(np.log(mean_hours) - 0.32, 0.8))
    exponent = float(rng.uniform(0.6, 0.95))
    machines = sorted({t.name.partition("x")[0] for t in types})
    fit = {name: float(rng.uniform(0.8, 1.2)) for name in machines}
    durations = {
        t.name: tuple(
            round(hours * 3600 / (_speed(t.name) * fit[t.name.partition("x")[0]] * g**exponent), 3)
            for g in range(1, t.num_gpus + 1)
        )
        for t in types
    }
    fastest = min(min(times) for times in durations.values())
    due_s = round(arrival_s + fastest * float(rng.uniform(*slack)), 3)
    weight = float(rng.integers(1, 6))
    chances: tuple[EarlyStop, ...] = ()
    if stops:
        total, shares = float(rng.uniform(0.2, 0.8)), rng.dirichlet(np.ones(3))
        chances = tuple(
            EarlyStop(fraction, float(total * share))
            for fraction, share in zip((0.25, 0.5, 0.75), shares, strict=True)
        )
    return OperationJob(job_id, durations, due_s, weight, arrival_s=arrival_s, stops=chances)


def generate_operation(
    name: str = "operation",
    *,
    num_nodes: int = 10,
    num_jobs: int = 50,
    kind: str = "cloud",
    slack: tuple[float, float] = (1.0, 4.0),
    mean_hours: float = 6.0,
    stops: bool = False,
    postponement_factor: float = 10.0,
    energy_price_per_kwh: float = 0.25,
    accounting: Accounting = "first-completion",
    seed: int = 0,
) -> OperationProblem:
    """Return a random decision: all jobs have just arrived, nothing runs.

    Parameters
    ----------
    name
        Name of the problem.
    num_nodes, num_jobs
        Size.
    kind
        ``cloud``: each node is a virtual machine of a size to choose, paid by the hour, as in Path
        Relinking; ``own``: two thirds of the nodes are slower and one third faster servers, paid
        by their energy, as in ANDREAS.
    slack, mean_hours, stops
        As in `draw_job`.
    postponement_factor, energy_price_per_kwh, accounting
        As in `OperationProblem`.
    seed
        Seed of the random numbers.

    Raises
    ------
    InstanceError
        If a parameter is out of range.

    Examples
    --------
    >>> problem = generate_operation(num_nodes=2, num_jobs=3)
    >>> len(problem.types), [job.id for job in problem.jobs]
    (6, ['job-0', 'job-1', 'job-2'])
    """
    types, pools = node_world(name, num_nodes, kind)
    require_count(num_jobs, f'problem "{name}"', "num_jobs", least=1)
    require_positive(mean_hours, f'problem "{name}"', "mean_hours")
    for value in slack:
        require_non_negative(value, f'problem "{name}"', "slack")
    rng = np.random.default_rng(seed)
    jobs = tuple(
        draw_job(rng, f"job-{k}", types, slack=slack, mean_hours=mean_hours, stops=stops)
        for k in range(num_jobs)
    )
    return OperationProblem(
        name,
        types,
        pools,
        jobs,
        postponement_factor=postponement_factor,
        energy_price_per_kwh=energy_price_per_kwh if kind == "own" else 0.0,
        accounting=accounting,
    )


def node_world(
    name: str, num_nodes: int, kind: str
) -> tuple[tuple[NodeType, ...], tuple[NodePool, ...]]:
    """Return the types and pools of a ``cloud`` or of ``own`` servers; see `generate_operation`.

    Parameters
    ----------
    name
        Name of the problem, for messages.
    num_nodes
        Number of nodes, 1 or more.
    kind
        ``cloud`` or ``own``.
    """
    require_count(num_nodes, f'problem "{name}"', "num_nodes", least=1)
    if kind == "cloud":
        types = cloud_node_types()
        return types, (NodePool("node", num_nodes, tuple(t.name for t in types)),)
    if kind == "own":
        slow, fast = own_node_types()
        few = num_nodes // 3
        pools = [NodePool("slow", num_nodes - few, (slow.name,))]
        if few:
            pools.append(NodePool("fast", few, (fast.name,)))
        return (slow, fast), tuple(pools)
    raise InstanceError(f'problem "{name}": kind is "{kind}"; it is "cloud" or "own".')


def generate_operation_stream(
    name: str = "operation-stream",
    *,
    num_nodes: int = 10,
    num_jobs: int = 50,
    kind: str = "cloud",
    load: float = 0.6,
    slack: tuple[float, float] = (1.5, 5.0),
    mean_hours: float = 6.0,
    stops: bool = False,
    restart_s: float = 120.0,
    replan_s: float = 3600.0,
    postponement_factor: float = 10.0,
    energy_price_per_kwh: float = 0.25,
    accounting: Accounting = "whole-job",
    seed: int = 0,
) -> OperationStream:
    """Return a random stream of jobs with Poisson arrivals.

    Parameters
    ----------
    name
        Name of the stream.
    num_nodes, num_jobs, kind
        As in `generate_operation`.
    load
        Work that arrives per time, relative to what all nodes do on single GPUs, more than 0: at 1
        the cluster would be full of jobs on one GPU each.
    slack, mean_hours, stops
        As in `draw_job`. Where a job may stop early, when it does is drawn from its chances.
    restart_s
        Time that a job loses when it goes on in another way, seconds.
    replan_s, postponement_factor, energy_price_per_kwh, accounting
        As in `OperationStream`.
    seed
        Seed of the random numbers.

    Raises
    ------
    InstanceError
        If a parameter is out of range.
    """
    types, pools = node_world(name, num_nodes, kind)
    where = f'stream "{name}"'
    require_count(num_jobs, where, "num_jobs", least=1)
    require_positive(load, where, "load")
    rng = np.random.default_rng(seed)
    gpus = {t.name: t.num_gpus * _speed(t.name) for t in types}
    speed = sum(pool.count * max(gpus[t] for t in pool.types) for pool in pools)
    between_s = mean_hours * 3600 / (speed * load)
    jobs = []
    at_s = 0.0
    for k in range(num_jobs):
        job = draw_job(
            rng,
            f"job-{k}",
            types,
            arrival_s=round(at_s, 3),
            slack=slack,
            mean_hours=mean_hours,
            stops=stops,
        )
        job = replace(job, restart_s=restart_s)
        chances = [stop.probability for stop in job.stops]
        ends = [*(stop.fraction for stop in job.stops), 1.0]
        which = rng.choice(len(ends), p=[*chances, 1.0 - sum(chances)])
        jobs.append(StreamJob(job, float(ends[which])))
        at_s += float(rng.exponential(between_s))
    return OperationStream(
        name,
        types,
        pools,
        tuple(jobs),
        replan_s=replan_s,
        postponement_factor=postponement_factor,
        energy_price_per_kwh=energy_price_per_kwh if kind == "own" else 0.0,
        accounting=accounting,
    )
