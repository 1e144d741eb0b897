"""A large instance cut into parts: hosts, jobs, quotas and the budget of moves are dealt out.

Answers to the parts are together an answer to the whole: a part has hosts and jobs of its own, and
shares of every limit that add up to no more than the whole. What is lost is what jobs of one part
could have done on hosts of another (POP: Narayanan et al., Solving large-scale granular resource
allocation problems efficiently with POP, SOSP 2021).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant, misfit
from alloc.topology import Topology
from alloc.topology.topology import HOST
from alloc.units import LEAST_MILLI, MILLI
from alloc.workload import Configuration

Ints = npt.NDArray[np.int64]

_PART_HOSTS = 500
"""Hosts of a part, at most about: the search of placements prices the patterns of so many in
seconds, and the answers of more parts lose more."""


@dataclass(frozen=True)
class Cut:
    """How an instance is cut.

    Parameters
    ----------
    part_of_host
        Part of each host, shape (hosts,).
    part_of_job
        Part of each job, shape (jobs,); -1 for jobs that fit no part that they may be in.
    num_parts
        Number of parts.
    """

    part_of_host: Ints
    part_of_job: Ints
    num_parts: int

    def instance(self, whole: Instance, part: int) -> Instance | None:
        """Return a part as an instance of its own; None if it has no jobs.

        Parameters
        ----------
        whole
            The instance that was cut.
        part
            Number of the part.
        """
        jobs = tuple(whole.jobs[j] for j in np.flatnonzero(self.part_of_job == part))
        if not jobs:
            return None
        own = {job.id for job in jobs}
        topology = _topology(whole.topology, np.flatnonzero(self.part_of_host == part))
        moves = whole.moves
        if moves is not None and moves.budget is not None:
            moves = Moves(_shares(moves.budget, self._running_tasks(whole))[part], moves.evict)
        return whole.replace(
            name=f"{whole.name}, part {part + 1} of {self.num_parts}",
            topology=topology,
            jobs=jobs,
            tenants=self._tenants(whole, part, topology.num_gpus * MILLI),
            running=tuple(running for running in whole.running if running.job in own),
            affinities=tuple(_within(whole.affinities, own)),
            moves=moves,
        )

    def _running_tasks(self, whole: Instance) -> list[int]:
        """Return the number of tasks that run in each part."""
        tasks = [0] * self.num_parts
        for running in whole.running:
            part = int(self.part_of_job[whole.job_index[running.job]])
            if part >= 0:
                tasks[part] += sum(task.count for task in running.tasks)
        return tasks

    def _tenants(self, whole: Instance, part: int, most: int) -> tuple[Tenant, ...]:
        """Return the tenants with the shares of their quotas that their jobs in a part have.

        What runs keeps its quota, borrowed quota too; the rest goes by what waits.
        """
        if not whole.tenants:
            return ()
        index = {tenant.name: t for t, tenant in enumerate(whole.tenants)}
        held = [[0] * self.num_parts for _ in whole.tenants]
        waits = [[0] * self.num_parts for _ in whole.tenants]
        running = {r.job: r.configuration for r in whole.running}
        for job, p in zip(whole.jobs, self.part_of_job.tolist(), strict=True):
            if job.tenant not in index or p < 0:
                continue
            t = index[job.tenant]
            now = job.configurations[running[job.id]].demand[0] if job.id in running else 0
            held[t][p] += now
            waits[t][p] += max(c.demand[0] for c in job.configurations) - now
        quotas, over = _kept_quotas(whole.tenants, held)
        found = []
        for tenant, quota, beyond, asked in zip(whole.tenants, quotas, over, waits, strict=True):
            left = tenant.gpu_quota_milli - sum(quota)
            own = quota[part] + _shares(left, asked)[part]
            left = tenant.borrowing_milli - sum(beyond)
            # Where more runs than may, what may run is shared by that.
            lent = (
                _shares(tenant.borrowing_milli, beyond)[part]
                if left < 0
                else beyond[part] + _shares(left, asked)[part]
            )
            # Crumbs that no tenant may have by itself are left to nobody.
            own, lent = (one if one >= LEAST_MILLI else 0 for one in (min(own, most), lent))
            found.append(replace(tenant, gpu_quota_milli=own, borrowing_milli=lent))
        return tuple(found)


def _kept_quotas(
    tenants: Sequence[Tenant], held: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return what runs takes in each part of the quotas, and what of it is beyond its tenant's own.

    Who has quota to lend has it where its cohort borrows.
    """
    quotas, over = [], []
    for tenant, own in zip(tenants, held, strict=True):
        quota = tenant.gpu_quota_milli
        kept = list(own) if sum(own) <= quota else _shares(quota, own)
        quotas.append(kept)
        over.append([h - k for h, k in zip(own, kept, strict=True)])
    for cohort in {tenant.cohort for tenant in tenants} - {None}:
        members = [t for t, tenant in enumerate(tenants) if tenant.cohort == cohort]
        for p in range(len(held[0])):
            needed = sum(over[t][p] for t in members)
            for t in members:
                lent = min(needed, tenants[t].gpu_quota_milli - sum(quotas[t]))
                quotas[t][p] += lent
                needed -= lent
    return quotas, over


def cut(whole: Instance, least: int, seed: int) -> Cut:
    """Cut an instance into parts of some hundreds of hosts, two at least.

    Hosts that share a domain of the outermost level, or a running gang, stay together, and so do
    jobs of one affinity. The hosts of each type, and the jobs by what they ask for, are dealt out
    evenly, the largest first.

    Parameters
    ----------
    whole
        The instance.
    least
        Number of parts, at least: as many as there are workers.
    seed
        Decides between parts that are alike.

    Raises
    ------
    UnsupportedFeatureError
        If it cannot be cut in two, or the cluster as a whole offers a resource.
    """
    topology = whole.topology
    if any(topology.resources.values()):
        name = next(n for n, amount in topology.resources.items() if amount)
        raise UnsupportedFeatureError(
            f'parts cannot share "{name}", which the cluster as a whole offers; take the method '
            '"auto".'
        )
    rng = np.random.default_rng(seed)
    unit_of_host = _units(whole)
    num_units = int(unit_of_host.max()) + 1
    wanted = max(2, least, -(-topology.num_hosts // _PART_HOSTS))
    if num_units < 2:
        raise UnsupportedFeatureError(
            "the hosts cannot be cut in two: domains and running gangs tie them all together; "
            'take the method "auto".'
        )
    num_parts = min(wanted, num_units)
    part_of_host = _deal_hosts(topology, unit_of_host, num_parts, rng)
    return Cut(part_of_host, _deal_jobs(whole, part_of_host, num_parts, rng), num_parts)


def _units(whole: Instance) -> Ints:
    """Return the unit of each host: hosts that stay together."""
    topology = whole.topology
    # Domains of the outermost level that has more than one.
    label = next(
        (
            domains
            for level in (*topology.levels, HOST)
            if len(np.unique(domains := topology.domain_of_host[level])) > 1
        ),
        np.zeros(topology.num_hosts, dtype=np.int64),
    )
    # A host in no domain of the level is one by itself.
    label = np.where(label >= 0, label, len(topology.domains) + np.arange(topology.num_hosts))
    pairs = [(h, int(label[h]) + topology.num_hosts) for h in range(topology.num_hosts)]
    size = topology.num_hosts + int(label.max()) + 1
    joined = {job: n for n, ids in enumerate(_joined_jobs(whole)) for job in ids}
    first: dict[int, int] = {}
    for running in whole.running:
        key = joined[running.job]
        for task in running.tasks:
            h = topology.host_index[task.host]
            pairs.append((h, first.setdefault(key, h)))
    rows, columns = np.array(pairs, dtype=np.int64).T
    links = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    found = connected_components(links, directed=False)[1][: topology.num_hosts]
    return np.asarray(np.unique(found, return_inverse=True)[1].ravel(), dtype=np.int64)


def _deal_hosts(topology: Topology, unit: Ints, num_parts: int, rng: np.random.Generator) -> Ints:
    """Deal units of hosts out, the largest first, each to the part that has least of its types."""
    types = np.unique([host.type for host in topology.hosts], return_inverse=True)[1].ravel()
    units = np.zeros((int(unit.max()) + 1, int(types.max()) + 1))
    np.add.at(units, (unit, types), 1)
    there = np.zeros((num_parts, units.shape[1]))
    part_of_unit = np.zeros(len(units), dtype=np.int64)
    for u in np.lexsort((rng.random(len(units)), -units.sum(axis=1))):
        # Of equal parts one by chance.
        part = int(np.lexsort((rng.random(num_parts), there.sum(axis=1), there @ units[u]))[0])
        part_of_unit[u] = part
        there[part] += units[u]
    return part_of_unit[unit]


def _deal_jobs(
    whole: Instance, part_of_host: Ints, num_parts: int, rng: np.random.Generator
) -> Ints:
    """Deal the jobs out: what runs stays, the rest goes where there is most room for it."""
    topology = whole.topology
    parts = [_topology(topology, np.flatnonzero(part_of_host == p)) for p in range(num_parts)]
    gpus = [_gpus_by_type(part) for part in parts]
    asked: list[dict[str | None, float]] = [defaultdict(float) for _ in parts]
    fits: dict[tuple[int, int], bool] = {}
    standing = {
        running.job: int(part_of_host[topology.host_index[running.tasks[0].host]])
        for running in whole.running
        if running.tasks
    }
    part_of_job = np.full(len(whole.jobs), -1, dtype=np.int64)
    least = [min(job.configurations, key=lambda c: c.demand) for job in whole.jobs]
    groups = [[whole.job_index[job] for job in ids] for ids in _joined_jobs(whole)]
    # What runs has no choice; of the others the largest first.
    order = sorted(
        range(len(groups)),
        key=lambda g: (
            not any(whole.jobs[j].id in standing for j in groups[g]),
            -sum(least[j].demand[0] for j in groups[g]),
            rng.random(),
        ),
    )
    for g in order:
        jobs = groups[g]
        known = {standing[whole.jobs[j].id] for j in jobs if whole.jobs[j].id in standing}
        able = known or {
            p
            for p in range(num_parts)
            if all(_fits(parts[p], p, whole.jobs[j].configurations, fits) for j in jobs)
        }
        if not able:
            continue
        load = {
            p: (sum(_load(asked[p], gpus[p], least[j]) for j in jobs), rng.random()) for p in able
        }
        part = min(load, key=lambda p: load[p])
        for j in jobs:
            # What is tied to a running job may fit on other hosts only.
            if not _fits(parts[part], part, whole.jobs[j].configurations, fits):
                continue
            part_of_job[j] = part
            asked[part][least[j].gpu_type] += least[j].demand[0]
    return part_of_job


def _load(
    asked: dict[str | None, float], gpus: dict[str | None, float], configuration: Configuration
) -> float:
    """Return the share of the GPUs of a part that is asked for, of a type if the job names one."""
    of_type = configuration.gpu_type
    return (asked[of_type] + configuration.demand[0]) / max(gpus.get(of_type, 0.0), 1.0)


def _gpus_by_type(topology: Topology) -> dict[str | None, float]:
    """Return the GPUs of each type, and of all together, under None, milli-GPU."""
    found: dict[str | None, float] = defaultdict(float)
    for name, row in zip(topology.gpu_types, topology.capacity, strict=True):
        found[name] += float(row[0])
    found[None] = float(topology.capacity[:, 0].sum())
    return found


def _fits(
    topology: Topology,
    part: int,
    configurations: Sequence[Configuration],
    known: dict[tuple[int, int], bool],
) -> bool:
    """Return whether a job fits the empty part in some configuration."""
    key = (part, id(configurations))
    if key not in known:
        known[key] = any(c.rate > 0 and misfit(topology, c) is None for c in configurations)
    return known[key]


def _within(affinities: Iterable[Affinity], jobs: Collection[str]) -> Iterator[Affinity]:
    """Yield the affinities between jobs of a part, of those that are in it."""
    for affinity in affinities:
        own = tuple(job for job in affinity.jobs if job in jobs)
        if len(own) > 1:
            yield replace(affinity, jobs=own)


def _joined_jobs(whole: Instance) -> list[list[str]]:
    """Return the jobs in groups that must be in one part: those that affinities name together."""
    group = {job.id: {job.id} for job in whole.jobs}
    for affinity in whole.affinities:
        joined = set().union(*(group[job] for job in affinity.jobs))
        for job in joined:
            group[job] = joined
    seen = {id(ids): ids for ids in group.values()}
    return [sorted(ids, key=whole.job_index.__getitem__) for ids in seen.values()]


def _topology(whole: Topology, hosts: Iterable[int]) -> Topology:
    """Return a topology of some of the hosts, in the domains that they stand in."""
    kept = {whole.hosts[h].id for h in hosts}
    # Devices of a host are called after it: ``host3/gpu0``.
    nodes = kept | {domain.id for domain in whole.domains}
    return whole.replace(
        hosts=tuple(host for host in whole.hosts if host.id in kept),
        links=tuple(
            link for link in whole.links if {end.split("/")[0] for end in (link.a, link.b)} <= nodes
        ),
    )


def _shares(amount: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of an amount by weights, which add up to it; equal ones without any."""
    total = sum(weights)
    if total == 0:
        weights, total = [1] * len(weights), len(weights)
    exact = [amount * weight / total for weight in weights]
    shares = [int(share) for share in exact]
    rest = sorted(range(len(exact)), key=lambda p: shares[p] - exact[p])
    for p in rest[: amount - sum(shares)]:
        shares[p] += 1
    return shares
