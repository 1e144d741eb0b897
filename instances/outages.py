"""Outages of hosts: drawn from a mean time between failures, or read from a table.

Draws come from `Generator.random` alone, whose stream numpy keeps stable: a seed names the same
outages for ever.

References
----------
Rate of failures: Llama Team, "The Llama 3 Herd of Models", arXiv:2407.21783, section 3.3.4, see
`alloc.instances.checkpointing.GPU_MTBF_S`. Times between failures of a host are Weibull with a
falling hazard, and mean times to repair go from less than an hour to more than a day: Schroeder and
Gibson, "A Large-Scale Study of Failures in High-Performance Computing Systems", DSN 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.instances.checkpointing import GPU_MTBF_S
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import Row, read_table
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.outages import Outage
from alloc.topology import Topology
from alloc.units import require_non_negative, require_positive
from alloc.workload import Job

HOST_MTBF_S = GPU_MTBF_S / 8
"""Mean time between failures of a host of eight GPUs of Llama 3's, seconds: 264 days."""
REPAIR_S = 6 * 3600.0
"""Mean time to repair, seconds: in the middle of what Schroeder and Gibson saw."""
MIN_SHAPE = 0.1
"""Least shape of a Weibull distribution: below, its mean is soon beyond all numbers."""
MAX_OUTAGES = 1_000_000
"""Outages that are drawn at most: more take minutes to simulate, and most often a unit is wrong."""


def draw_outages(
    topology: Topology,
    until_s: float,
    *,
    mtbf_s: float = HOST_MTBF_S,
    repair_s: float = REPAIR_S,
    shape: float = 1.0,
    level: str | None = None,
    level_mtbf_s: float = math.inf,
    seed: int = 0,
) -> tuple[Outage, ...]:
    """Draw when the hosts of a cluster are down.

    Each host is up for a time that is Weibull distributed, and down for one that is exponential; so
    is each domain of a level, with all its hosts at once. At time 0 all are up, as if repaired just
    then.

    Parameters
    ----------
    topology
        The cluster.
    until_s
        Time up to which hosts go down, seconds, more than 0.
    mtbf_s
        Mean time from a repair of a host to its next failure, seconds, more than 0; infinite:
        single hosts do not fail.
    repair_s
        Mean time to repair of hosts and domains, seconds, more than 0.
    shape
        Shape of the Weibull distribution, `MIN_SHAPE` or more. 1: exponential, a failure is as
        likely at any time; below 1, as Schroeder and Gibson found: likelier just after a repair.
    level
        A level of the topology whose domains fail as a whole (rack, pod ...), or None.
    level_mtbf_s
        Mean time from a repair to the next failure of one domain of the level, seconds.
    seed
        Seed of the one random generator.

    Returns
    -------
    tuple of Outage
        By time. Where a host is down for two reasons at once, the outages are one.

    Raises
    ------
    InstanceError
        If a parameter is out of range, the level is not in the topology, or there would be more
        than `MAX_OUTAGES`.
    """
    where = "outages"
    for name, value in (("until_s", until_s), ("repair_s", repair_s)):
        require_positive(value, where, name)
    if not MIN_SHAPE <= shape < math.inf:
        raise InstanceError(f"{where}: shape is {shape:g}; give {MIN_SHAPE:g} or more.")
    for name, value in (("mtbf_s", mtbf_s), ("level_mtbf_s", level_mtbf_s)):
        if not value > 0:
            raise InstanceError(f"{where}: {name} is {value:g}; it must be more than 0.")
    if level is None and math.isfinite(level_mtbf_s):
        raise InstanceError(f"{where}: level_mtbf_s is given, but no level; name the level.")
    units: list[tuple[tuple[str, ...], float]] = [((h.id,), mtbf_s) for h in topology.hosts]
    units += [(hosts, level_mtbf_s) for hosts in _hosts_of(topology, level)]
    expected = sum(len(hosts) * until_s / (mean_s + repair_s) for hosts, mean_s in units)
    if expected > MAX_OUTAGES:
        raise InstanceError(
            f"{where}: about {expected:.0f} outages up to {until_s:g} s are more than "
            f"{MAX_OUTAGES}; give times in seconds, or an earlier until_s."
        )
    rng = np.random.default_rng(seed)
    spans: dict[str, list[tuple[float, float]]] = {}
    for hosts, mean_s in units:
        for span in _spans(mean_s, repair_s, shape, until_s, rng):
            for host in hosts:
                spans.setdefault(host, []).append(span)
    return _outages((host, *span) for host, its in spans.items() for span in its)


def _hosts_of(topology: Topology, level: str | None) -> list[tuple[str, ...]]:
    """Return the hosts of each domain of a level that has any."""
    if level is None:
        return []
    if level not in topology.levels:
        known = topology.levels
        listed = f"It has {', '.join(known)}." if known else "It has none; leave the level out."
        raise InstanceError(
            f'outages: level "{level}" is not in the topology{nearest(level, known, ".")} {listed}'
        )
    found: dict[int, list[str]] = {}
    for host, k in zip(topology.hosts, topology.domain_of_host[level].tolist(), strict=True):
        if k >= 0:
            found.setdefault(k, []).append(host.id)
    return [tuple(found[k]) for k in sorted(found)]


def _spans(
    mean_s: float, repair_s: float, shape: float, until_s: float, rng: np.random.Generator
) -> Iterator[tuple[float, float]]:
    """Yield when something is down, from its first failure on."""
    if math.isinf(mean_s):
        return
    scale = mean_s / math.gamma(1 + 1 / shape)
    now_s = 0.0
    while True:
        # 1 - u is above 0: the inverse of both distributions is finite there.
        now_s += scale * (-math.log(1 - rng.random())) ** (1 / shape)
        if now_s >= until_s:
            return
        back_s = now_s - repair_s * math.log(1 - rng.random())
        if back_s > now_s:
            yield now_s, back_s
        now_s = back_s


def _outages(spans: Iterable[tuple[str, float, float]]) -> tuple[Outage, ...]:
    """Return outages by time; those of one host that meet are one. Infinite: never back."""
    merged: list[tuple[str, float, float]] = []
    for host, start_s, end_s in sorted(spans):
        if merged and merged[-1][0] == host and start_s <= merged[-1][2]:
            merged[-1] = (host, merged[-1][1], max(merged[-1][2], end_s))
        else:
            merged.append((host, start_s, end_s))
    merged.sort(key=lambda span: (span[1], span[0]))
    return tuple(
        Outage(host, start_s, None if math.isinf(end_s) else end_s)
        for host, start_s, end_s in merged
    )


def read_outages(path: str | PathLike[str], topology: Topology) -> tuple[Outage, ...]:
    """Read outages from a table with the columns host, down and up.

    Parameters
    ----------
    path
        A CSV file: host id, when the host goes down and when it is back, both in seconds since the
        start of the instance; an empty up: never. Other columns are ignored.
    topology
        The cluster of the hosts.

    Returns
    -------
    tuple of Outage
        By time; rows of one host that meet are one outage.

    Raises
    ------
    InstanceError
        If the file cannot be read, or a row is wrong: an outage left out would change every figure.
    """

    def parse(row: Row) -> tuple[str, float, float]:
        host = row.text("host")
        if host not in topology.host_index:
            cure = nearest(host, topology.host_index, "; name one of its hosts.")
            raise InstanceError(f'host "{host}" is not in the topology{cure}')
        up_s = row.time_s("up") if row.values["up"] else None
        one = Outage(host, row.time_s("down"), up_s)
        return host, one.start_s, math.inf if one.end_s is None else one.end_s

    log = ReportLog()
    spans = read_table(path, ("host", "down", "up"), parse, log)
    for wrong in log.report().skipped:
        raise InstanceError(f"{Path(path).name}: {wrong.reason} ({wrong.examples[0]}).")
    return _outages(spans)


def with_failures(
    instance: Instance,
    *,
    until_s: float | None = None,
    mtbf_s: float = HOST_MTBF_S,
    repair_s: float = REPAIR_S,
    shape: float = 1.0,
    level: str | None = None,
    level_mtbf_s: float = math.inf,
    seed: int = 0,
) -> Instance:
    """Return an instance whose hosts fail, in place of the outages that it has.

    Parameters
    ----------
    instance
        The instance.
    until_s
        Time up to which hosts go down, seconds. By default the horizon; without one, the last
        arrival and the time that all jobs would take one after the other, each at its best.
    mtbf_s, repair_s, shape, level, level_mtbf_s, seed
        As of `draw_outages`.

    Raises
    ------
    InstanceError
        As `draw_outages`.
    """
    if until_s is None:
        last_s = max(job.arrival_s for job in instance.jobs)
        alone_s = math.fsum(job.min_run_s for job in instance.jobs)
        until_s = last_s + alone_s if instance.horizon_s is None else instance.horizon_s
    outages = draw_outages(
        instance.topology,
        until_s,
        mtbf_s=mtbf_s,
        repair_s=repair_s,
        shape=shape,
        level=level,
        level_mtbf_s=level_mtbf_s,
        seed=seed,
    )
    drawn = f"mtbf_s {mtbf_s:g}, repair_s {repair_s:g}, shape {shape:g}, seed {seed}"
    domains = "" if level is None else f", {level} {level_mtbf_s:g} s"
    described = {**instance.description, "failures": drawn + domains}
    return instance.replace(outages=outages, description=described)


def with_checkpoints(instance: Instance, interval_s: float, save_s: float = 0.0) -> Instance:
    """Return an instance whose jobs save their state while they run.

    Parameters
    ----------
    instance
        The instance.
    interval_s
        Work between two saves, seconds, more than 0.
    save_s
        Time that a save takes, seconds, 0 or more. It is charged to the rates: a job that works
        `interval_s` and saves for `save_s` is so much slower on average, and what a failure loses
        counts from the last save.

    Raises
    ------
    InstanceError
        If a time is out of range.
    """
    require_positive(interval_s, "checkpoints", "interval_s")
    require_non_negative(save_s, "checkpoints", "save_s")
    share = interval_s / (interval_s + save_s)
    # Jobs share tables: so do those with saves.
    slower = {id(job.configurations): job.configurations for job in instance.jobs}
    for key, table in slower.items() if save_s else ():
        slower[key] = tuple(replace(c, rate=c.rate * share) for c in table)

    def saving(job: Job) -> Job:
        return job.replace(
            configurations=slower[id(job.configurations)], checkpoint_s=interval_s + save_s
        )

    return instance.replace(jobs=tuple(map(saving, instance.jobs)))
