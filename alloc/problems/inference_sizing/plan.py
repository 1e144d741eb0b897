"""The answer of inference sizing: replicas, the hosts they stand on, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.inference_sizing.served import OptionKey
from alloc.tabular import Tabular


@dataclass(frozen=True)
class ReplicaGroup:
    """Replicas of a model that are alike, in a period.

    Parameters
    ----------
    period, model
        Names.
    gpu_type, tensor_parallel, pipeline_parallel
        The option.
    replicas
        Replicas, 1 or more.
    batch_cap
        Most requests that a replica decodes at once.
    rate_per_s
        Requests per second routed to the group, whichever class they are of.
    """

    period: str
    model: str
    gpu_type: str
    tensor_parallel: int
    pipeline_parallel: int
    replicas: int
    batch_cap: int
    rate_per_s: float

    @property
    def key(self) -> OptionKey:
        """The option's key."""
        return (self.gpu_type, self.tensor_parallel, self.pipeline_parallel)

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True)
class HostContents:
    """Hosts of a pool that hold the same replicas in a period.

    Parameters
    ----------
    period, pool
        Names.
    hosts
        How many hosts, 1 or more.
    replica_gpus
        GPUs of each replica on every one of them.
    """

    period: str
    pool: str
    hosts: int
    replica_gpus: tuple[int, ...]


@dataclass(frozen=True)
class InferencePlan(Tabular):
    """How many replicas run where in every period.

    Parameters
    ----------
    groups
        The replicas.
    contents
        What stands on the hosts of each pool.
    held
        Pools billed for holding hosts, with the hosts held throughout.
    """

    groups: tuple[ReplicaGroup, ...]
    contents: tuple[HostContents, ...]
    held: tuple[tuple[str, int], ...] = ()

    def gpus_used(self, period: str, pool: str) -> int:
        """Return the GPUs of a pool under replicas in a period.

        Parameters
        ----------
        period
            Name of a period.
        pool
            Name of a pool.
        """
        return sum(
            c.hosts * sum(c.replica_gpus)
            for c in self.contents
            if (c.period, c.pool) == (period, pool)
        )

    def hosts_used(self, period: str, pool: str) -> int:
        """Return the hosts of a pool that hold replicas in a period.

        Parameters
        ----------
        period
            Name of a period.
        pool
            Name of a pool.
        """
        return sum(c.hosts for c in self.contents if (c.period, c.pool) == (period, pool))


def plan_cost(problem: InferenceProblem, plan: InferencePlan) -> float:
    """Return what a plan costs over all periods, in the currency of the problem.

    Parameters
    ----------
    problem
        The problem.
    plan
        An answer to it.
    """
    held = dict(plan.held)
    total = 0.0
    for pool in problem.pools:
        for t, period in enumerate(problem.periods):
            price = period.hours * pool.price_in(t)
            if pool.billing == "held":
                total += price * pool.gpus_per_host * held.get(pool.name, 0)
            else:
                total += price * plan.gpus_used(period.name, pool.name)
    return total
