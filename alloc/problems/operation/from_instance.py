"""Decisions in operation from scheduling instances."""

from __future__ import annotations

from collections.abc import Mapping

from alloc.errors import InstanceError, UnsupportedFeatureError, nearest
from alloc.problems.allocation.instance import Instance
from alloc.problems.operation.problem import (
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
    RunningJob,
)
from alloc.topology import HostType
from alloc.topology.gpu_types import gpu_type
from alloc.units import MILLI, RESOURCES, require_non_negative
from alloc.workload import Configuration, Job


def operation_from_instance(
    instance: Instance,
    *,
    now_s: float = 0.0,
    price_per_gpu_h: Mapping[str, float] | None = None,
    power_w: Mapping[str, tuple[float, ...]] | None = None,
    host_power_w: float = 200.0,
    tardiness_cost_per_h: float = 1.0,
    energy_price_per_kwh: float = 0.0,
    replan_s: float = 3600.0,
    postponement_factor: float = 1.0,
    currency: str = "EUR",
) -> OperationProblem:
    """Return the decision to take at a time in an instance.

    Host types become node types, each with a pool of its hosts; a job's configurations become its
    durations on as many whole GPUs of one host. What an instance does not say, prices and power,
    is given here.

    Parameters
    ----------
    instance
        The instance. Every job needs a due date (or a deadline, which then counts as one) and a
        configuration that fits one host; placement rules and other features are refused.
    now_s
        The time; jobs that arrive later are left out.
    price_per_gpu_h
        Money per GPU and hour by host type, paid for the whole host while it is on; types that
        are left out are free.
    power_w
        Power with 1, 2, ... GPUs in use by host type, watts. Types that are left out take
        `host_power_w` and the power of the GPU's data sheet for each GPU in use.
    host_power_w
        Power of a host without its GPUs, watts.
    tardiness_cost_per_h
        Money per hour of tardiness of a job of weight 1.
    energy_price_per_kwh, replan_s, postponement_factor, currency
        As in `OperationProblem`.

    Raises
    ------
    UnsupportedFeatureError
        If the instance asks for what the model of operation does not have.
    InstanceError
        If a job has no due date, or a name is unknown.
    """
    where = f'instance "{instance.name}"'
    for feature, owner in instance.features.items():
        raise UnsupportedFeatureError(
            f"{where}: operation does not model {feature}, which {owner} asks for; leave it out."
        )
    require_non_negative(host_power_w, where, "host_power_w")
    hosts = {t.name: t for t in instance.topology.host_types if t.num_gpus}
    for name in [*(price_per_gpu_h or {}), *(power_w or {})]:
        if name not in hosts:
            raise InstanceError(
                f'{where}: has no host type "{name}" with GPUs'
                f"{nearest(name, hosts, '; known: ' + ', '.join(hosts) + '.')}"
            )
    counts = {name: 0 for name in hosts}
    ids: dict[str, tuple[str, int]] = {}
    for host in instance.topology.hosts:
        if host.type in counts:
            ids[host.id] = (host.type, counts[host.type])
            counts[host.type] += 1
    types = tuple(
        _node_type(host, price_per_gpu_h or {}, power_w or {}, host_power_w, currency)
        for name, host in hosts.items()
        if counts[name]
    )
    jobs = tuple(
        _operation_job(job, hosts, tardiness_cost_per_h)
        for job in instance.jobs
        if job.arrival_s <= now_s
    )
    return OperationProblem(
        instance.name,
        types,
        tuple(NodePool(t.name, counts[t.name], (t.name,)) for t in types),
        jobs,
        now_s=now_s,
        replan_s=replan_s,
        postponement_factor=postponement_factor,
        currency=currency,
        energy_price_per_kwh=energy_price_per_kwh,
        running=_running(instance, ids, {job.id for job in jobs}),
    )


def _node_type(
    host: HostType,
    price_per_gpu_h: Mapping[str, float],
    power_w: Mapping[str, tuple[float, ...]],
    host_power_w: float,
    currency: str,
) -> NodeType:
    price = price_per_gpu_h.get(host.name, 0.0) * host.num_gpus
    table = power_w.get(host.name, ())
    if not table and host.gpu_type is not None:
        try:
            of_gpu = gpu_type(host.gpu_type).power_w
        except InstanceError:  # a name of the cluster's own
            of_gpu = None
        if of_gpu is not None:
            table = tuple(host_power_w + g * of_gpu for g in range(1, host.num_gpus + 1))
    return NodeType(
        host.name,
        host.num_gpus,
        (price,) * host.num_gpus if price else (),
        tuple(table),
        currency,
    )


def _operation_job(
    job: Job, hosts: Mapping[str, HostType], tardiness_cost_per_h: float
) -> OperationJob:
    due = job.due_date_s if job.due_date_s is not None else job.deadline_s
    if due is None:
        raise InstanceError(
            f'job "{job.id}": has neither due_date_s nor deadline_s; operation weighs cost against '
            "tardiness, so give it a due date."
        )
    durations = {}
    for name, host in hosts.items():
        times: list[float | None] = [None] * host.num_gpus
        for configuration in job.configurations:
            gpus = _gpus_on(configuration, host)
            if gpus is not None and configuration.rate > 0:
                time, known = job.work_left / configuration.rate, times[gpus - 1]
                times[gpus - 1] = time if known is None else min(known, time)
        if any(time is not None for time in times):
            durations[name] = tuple(times)
    if not durations:
        raise UnsupportedFeatureError(
            f'job "{job.id}": no configuration runs on whole GPUs of one host with the CPU and '
            "memory that go with them; operation has no jobs across hosts, and no named resources."
        )
    return OperationJob(
        job.id,
        durations,
        due,
        tardiness_cost_per_h * job.weight,
        arrival_s=job.arrival_s,
        restart_s=job.restart_cost_s if job.work_done else 0.0,
    )


def _gpus_on(configuration: Configuration, host: HostType) -> int | None:
    """Return the whole GPUs that a configuration takes on one host, or None if it does not fit.

    Its CPU and memory must be within the share of the host that goes with its GPUs: then jobs fit
    together whenever their GPUs do. With named resources they might not.
    """
    gpu_milli, cpu_milli, memory_mib = configuration.demand[: len(RESOURCES)]
    gpus = gpu_milli // MILLI
    others = any(group.shares_gpu or group.resources for group in configuration.tasks)
    if others or not 1 <= gpus <= host.num_gpus:
        return None
    if configuration.gpu_type not in (None, host.gpu_type):
        return None
    if cpu_milli * host.num_gpus > host.cpu_milli * gpus:
        return None
    if memory_mib * host.num_gpus > host.memory_mib * gpus:
        return None
    return gpus


def _running(
    instance: Instance, ids: Mapping[str, tuple[str, int]], jobs: set[str]
) -> tuple[RunningJob, ...]:
    """Return what runs on whole GPUs of one host; of other placements operation knows nothing."""
    found = []
    for running in instance.running:
        hosts = {task.host for task in running.tasks}
        if running.job not in jobs or len(hosts) != 1 or next(iter(hosts)) not in ids:
            continue
        kind, number = ids[next(iter(hosts))]
        host = next(t for t in instance.topology.host_types if t.name == kind)
        gpus = _gpus_on(instance.job(running.job).configurations[running.configuration], host)
        if gpus is not None:
            found.append(RunningJob(running.job, f"{kind}-{number}", kind, gpus))
    return tuple(found)
