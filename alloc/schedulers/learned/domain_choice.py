"""Kind ``gang-domain/1``: a network that chooses the domain of the next gang, one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field

from alloc.errors import InstanceError, nearest
from alloc.packing import HostPool
from alloc.schedulers.honouring import REQUIRED_LEVELS
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.learned.one_by_one import OneByOne
from alloc.schedulers.learned.stepwise import Mask, Observation, StepwiseDecider
from alloc.schedulers.state import ClusterState, JobView, Knowledge
from alloc.topology import Topology
from alloc.units import HOUR_S, require_count

DOMAIN_COLUMNS = (
    "free GPUs over the GPUs of the domain",
    "free GPUs over those of the whole cluster",
    "most free GPUs of one host over the most GPUs of a host",
    "hosts with all GPUs free over the hosts of the domain",
    "free CPU over the CPU of the domain",
    "1 if the gang fits there now, else 0",
)
"""What is shown of a domain; 0 where there is nothing of the kind."""

GANG_COLUMNS = (
    "GPUs of the gang over those of the whole cluster",
    "GPUs of its largest task over the most GPUs of a host",
    "remaining time h of the gang, as known, in hours, as h / (1 + h); 0 if unknown",
    "waiting time h of the gang in hours, as h / (1 + h)",
    "gangs n that wait behind it, as n / (10 + n)",
)
"""What is shown of the gang, the same in every row."""


@dataclass(frozen=True)
class DomainFeatures:
    """What a policy that places gangs is shown, and what its answers mean.

    The observation has a row for each domain of the level, in the order of the topology, then rows
    of zeros up to `domains`, and a last row for the cluster as a whole. The columns are
    `DOMAIN_COLUMNS` and `GANG_COLUMNS`, all from 0 to 1.

    Action k puts the gang into domain k, on the hosts of best fit there; action `domains` puts it
    on the hosts of best fit in the cluster, whatever their domains; action ``domains + 1`` leaves
    it waiting.

    Parameters
    ----------
    level
        Topology level whose domains are chosen from; ``host`` for single hosts.
    domains
        Most domains of that level, 1 or more.
    skip
        Whether the gangs behind one that waits are asked for too; otherwise they wait with it.
    """

    level: str = "leaf"
    domains: int = 8
    skip: bool = False

    def __post_init__(self) -> None:
        require_count(self.domains, "domain features", "domains", least=1)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the observation, (rows, columns)."""
        return (self.domains + 1, len(DOMAIN_COLUMNS) + len(GANG_COLUMNS))

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return self.domains + 2

    @property
    def anywhere(self) -> int:
        """The action that puts the gang anywhere."""
        return self.domains

    @property
    def wait(self) -> int:
        """The action that leaves the gang waiting."""
        return self.domains + 1


class DomainChoice(OneByOne):
    """A decision about gangs in the making, one by one; see `OneByOne`."""

    def __init__(self, features: DomainFeatures, *, name: str = "agent") -> None:
        self.features = features
        self.observation: Observation = np.zeros(features.shape, np.float32)
        self.mask: Mask = np.zeros(features.num_actions, np.bool_)
        self._cluster: _Cluster | None = None
        super().__init__("gangs", skip=features.skip, name=name)

    def blank(self) -> None:
        """Show that there is nothing to choose: all that can be done is to wait."""
        self.asked = None
        self.observation.fill(0.0)
        self.mask.fill(False)
        self.mask[self.features.wait] = True

    def _begin(self, state: ClusterState) -> None:
        """Learn the domains of the cluster, if it is another one.

        Raises
        ------
        InstanceError
            If the topology lacks the level, or has more domains of it than can be shown.
        """
        if self._cluster is None or self._cluster.topology is not state.topology:
            self._cluster = _Cluster(state.topology, self.features, self._name)
        self._now_s = state.now_s

    def _places(self, action: int) -> Mask | None:
        assert self._cluster is not None
        return None if action == self.features.anywhere else self._cluster.inside[action]

    def _fits(self, gang: JobView) -> Mask:
        cluster, configuration = self._cluster, self._only(gang)
        assert cluster is not None
        room = [self._pool.room(group) for group in configuration.tasks]
        counts = [group.count for group in configuration.tasks]
        fits = np.zeros(self.features.num_actions, np.bool_)
        for k, hosts in [*enumerate(cluster.inside), (self.features.anywhere, None)]:
            inside = [r.sum() if hosts is None else r[hosts].sum() for r in room]
            if any(r < count for r, count in zip(inside, counts, strict=True)):
                continue
            fits[k] = self._would_fit(gang, hosts)
        return fits

    def _show(self, gang: JobView, fits: Mask) -> None:
        """Show the domains and the gang."""
        self.mask[:] = fits
        self.mask[self.features.wait] = self._runs
        cluster, seen = self._cluster, self.observation
        assert cluster is not None
        seen.fill(0.0)
        cluster.show(self._pool, seen)
        of_domain = len(DOMAIN_COLUMNS)
        rows = [*range(len(cluster.inside)), self.features.anywhere]
        seen[rows, of_domain - 1] = self.mask[rows]
        configuration = self._only(gang)
        left_h = 0.0
        if gang.work_left is not None and configuration.rate > 0:
            left_h = gang.work_left / configuration.rate / HOUR_S
        waited_h = (self._now_s - gang.arrival_s) / HOUR_S
        behind = len(self._queue)
        largest = max(group.demand[0] for group in configuration.tasks)
        seen[rows, of_domain:] = (
            configuration.demand[0] / cluster.gpu_milli,
            min(1.0, largest / cluster.largest_milli),
            left_h / (1.0 + left_h),
            waited_h / (1.0 + waited_h),
            behind / (10.0 + behind),
        )


class _Cluster:
    """What is fixed of a cluster: the hosts of each domain, and their totals."""

    def __init__(self, topology: Topology, features: DomainFeatures, name: str) -> None:
        known = topology.domain_of_host
        if features.level not in known:
            raise InstanceError(
                f'policy {name} chooses domains of level "{features.level}", which topology '
                f'"{topology.name}" lacks{nearest(features.level, known, ";")} its levels are '
                f"{', '.join(known)}."
            )
        of_host = known[features.level]
        ids = np.unique(of_host[of_host >= 0])
        if len(ids) > features.domains:
            raise InstanceError(
                f"policy {name} sees {features.domains} domains, but topology "
                f'"{topology.name}" has {len(ids)} of level "{features.level}"; set domains to '
                "that or more."
            )
        self.topology = topology
        self.inside: list[npt.NDArray[np.bool_]] = [of_host == k for k in ids]
        self._rows = [*range(len(ids)), features.anywhere]
        # One row of hosts for each row shown, so that sums over hosts are one product.
        self._member = np.array([*self.inside, np.ones(topology.num_hosts, bool)], np.int64)
        self._hosts = np.maximum(self._member.sum(axis=1), 1)
        totals = self._member @ topology.capacity
        self._totals = np.maximum(totals, 1)
        self._capacity = topology.capacity
        self.gpu_milli = float(max(totals[-1, 0], 1))
        self.largest_milli = float(max(topology.capacity[:, 0].max(), 1))

    def show(self, pool: HostPool, seen: Observation) -> None:
        """Show the domains, all but whether the gang fits."""
        free = np.maximum(pool.free, 0)
        gpus, cpus = (self._member @ free[:, :2]).T
        whole = (free[:, 0] == self._capacity[:, 0]) & (free[:, 0] > 0)
        most = np.where(self._member > 0, free[:, 0], 0).max(axis=1)
        rows = self._rows
        seen[rows, 0] = gpus / self._totals[:, 0]
        seen[rows, 1] = gpus / self.gpu_milli
        seen[rows, 2] = most / self.largest_milli
        seen[rows, 3] = (self._member @ whole) / self._hosts
        seen[rows, 4] = cpus / self._totals[:, 1]


class GangDomainParameters(KindParameters):
    """The parameters of the kind: `level`, `domains` and `skip` of `DomainFeatures`."""

    level: str = Field(default="leaf", min_length=1, max_length=100)
    domains: int = Field(default=8, ge=1, le=10_000)
    skip: bool = False

    @property
    def domain_features(self) -> DomainFeatures:
        """The features that these parameters stand for."""
        return DomainFeatures(self.level, self.domains, self.skip)


class GangDomainKind(StepwiseKind[GangDomainParameters]):
    """Logits over the domains of a level, anywhere, and waiting, one gang at a time."""

    name = "gang-domain/1"
    title = "sees the domains of a level and the next gang, and chooses where it goes"
    needs: Knowledge = "none"
    features: tuple[str, ...] = (REQUIRED_LEVELS, "GPU memory", "MIG slices")
    parameters = GangDomainParameters
    can_sample = True

    def inputs(self, parameters: GangDomainParameters) -> tuple[TensorSpec, ...]:
        """Return the observation, `DomainFeatures.shape` with a batch axis in front."""
        rows, columns = parameters.domain_features.shape
        return (TensorSpec(name="domains", dtype="float32", shape=("batch", rows, columns)),)

    def outputs(self, parameters: GangDomainParameters) -> tuple[TensorSpec, ...]:
        """Return the logits of the actions."""
        actions = parameters.domain_features.num_actions
        return (TensorSpec(name="logits", dtype="float32", shape=("batch", actions)),)

    def make_stepwise(self, act: Actor, parameters: GangDomainParameters, *, name: str) -> Decider:
        """Return what decides with an actor."""
        return StepwiseDecider(act, DomainChoice(parameters.domain_features, name=name))
