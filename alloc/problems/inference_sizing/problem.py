"""Inference sizing: models to serve and GPUs to serve them on, period by period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.problems.inference_sizing.served import OptionKey, ServedModel, named, require_unique
from alloc.units import (
    require_count,
    require_memory,
    require_non_negative,
    require_positive,
)

Billing = Literal["used", "held"]


@dataclass(frozen=True)
class GpuPool:
    """GPUs of one type from one source: owned, rented, or lent by training.

    Parameters
    ----------
    name
        Unique name.
    gpu_type
        GPU type.
    gpus_per_host
        GPUs of a host, 1 or more; a replica stands on one host.
    hosts
        Hosts to be had, one number for all periods or one for each.
    price_per_gpu_hour
        Price of a GPU for an hour, one number for all periods or one for each.
    gpu_memory_mib
        Memory of a GPU, MiB.
    billing
        ``"used"``: the GPUs of replicas are paid in the periods in which they run; ``"held"``:
        whole hosts are paid in all periods, as many as the fullest period needs; no more can be
        held than are to be had in every period.
    lender
        Who else uses the GPUs, for example ``"training"``, or None.
    currency
        Currency of the price; one for all pools.
    """

    name: str
    gpu_type: str
    gpus_per_host: int
    hosts: int | tuple[int, ...]
    price_per_gpu_hour: float | tuple[float, ...]
    gpu_memory_mib: int
    billing: Billing = "used"
    lender: str | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        where = f'GPU pool "{self.name}"'
        if not self.name:
            raise InstanceError("a GPU pool has no name; name it.")
        require_count(self.gpus_per_host, where, "gpus_per_host", 1)
        for number in self.hosts if isinstance(self.hosts, tuple) else (self.hosts,):
            require_count(number, where, "hosts")
        prices = self.price_per_gpu_hour
        for price in prices if isinstance(prices, tuple) else (prices,):
            require_non_negative(price, where, "price_per_gpu_hour")
        require_memory(self.gpu_memory_mib, where, "gpu_memory_mib")
        if self.billing not in ("used", "held"):
            raise InstanceError(
                f'{where}: billing is "{self.billing}"'
                f"{nearest(self.billing, ('used', 'held'), ';')} known: used, held."
            )

    def hosts_in(self, period: int) -> int:
        """Return the hosts to be had in a period."""
        return self.hosts[period] if isinstance(self.hosts, tuple) else self.hosts

    def price_in(self, period: int) -> float:
        """Return the price of a GPU for an hour of a period."""
        prices = self.price_per_gpu_hour
        return prices[period] if isinstance(prices, tuple) else prices


@dataclass(frozen=True)
class Period:
    """A part of the time planned for, such as an hour of the day.

    Parameters
    ----------
    name
        Unique name, for example ``"weekday 09"``.
    hours
        Hours that it stands for, more than 0: an hour of five weekdays is 5.
    """

    name: str
    hours: float

    def __post_init__(self) -> None:
        require_positive(self.hours, f'period "{self.name}"', "hours")


@dataclass(frozen=True)
class RateTightening:
    """Less trust in the closed form: a replay missed a goal at the rate that it promises.

    Parameters
    ----------
    model, period
        Names.
    gpu_type, tensor_parallel, pipeline_parallel
        The option.
    factor
        What is left of the rate that replicas sustain, above 0 and at most 1.
    """

    model: str
    period: str
    gpu_type: str
    tensor_parallel: int
    pipeline_parallel: int
    factor: float

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise InstanceError(
                f'tightening of model "{self.model}" in period "{self.period}": factor is '
                f"{self.factor:g}; give a number above 0 and at most 1."
            )

    @property
    def place(self) -> tuple[str, str, OptionKey]:
        """Model, period and option."""
        return (
            self.model,
            self.period,
            (self.gpu_type, self.tensor_parallel, self.pipeline_parallel),
        )


@dataclass(frozen=True)
class InferenceProblem(Problem):
    """What is to be served, and on what.

    Parameters
    ----------
    models
        The models, one or more.
    pools
        The GPUs to choose from, one pool or more.
    periods
        The periods planned for, one or more.
    name
        Name for people.
    tightened
        Where the closed form promises too much; `alloc.planning.size_inference` adds to it.
    """

    models: tuple[ServedModel, ...]
    pools: tuple[GpuPool, ...]
    periods: tuple[Period, ...]
    name: str = "inference"
    tightened: tuple[RateTightening, ...] = ()

    def __post_init__(self) -> None:
        where = f'inference problem "{self.name}"'
        for field in ("models", "pools", "periods"):
            if not getattr(self, field):
                raise InstanceError(f"{where}: {field} is empty; give at least one.")
        require_unique((m.name for m in self.models), where, "model")
        require_unique((p.name for p in self.pools), where, "GPU pool")
        require_unique((p.name for p in self.periods), where, "period")
        currencies = sorted({pool.currency for pool in self.pools})
        if len(currencies) > 1:
            raise InstanceError(
                f"{where}: prices are in {' and '.join(currencies)}; convert them to one currency."
            )
        self._check_lengths()
        self._check_types(where)
        for tightening in self.tightened:
            model = self.model(tightening.model)
            named(self.periods, tightening.period, "period")
            model.option(tightening.place[2])

    def _check_lengths(self) -> None:
        number = len(self.periods)
        for model in self.models:
            for request_class in model.classes:
                if len(request_class.rate_per_s) != number:
                    raise InstanceError(
                        f'model "{model.name}", class "{request_class.name}": rate_per_s has '
                        f"{len(request_class.rate_per_s)} numbers for {number} periods; give one "
                        "per period."
                    )
        for pool in self.pools:
            for field in ("hosts", "price_per_gpu_hour"):
                values = getattr(pool, field)
                if isinstance(values, tuple) and len(values) != number:
                    raise InstanceError(
                        f'GPU pool "{pool.name}": {field} has {len(values)} numbers for {number} '
                        "periods; give one per period, or one for all."
                    )

    def _check_types(self, where: str) -> None:
        memory: dict[str, int] = {}
        for pool in self.pools:
            if memory.setdefault(pool.gpu_type, pool.gpu_memory_mib) != pool.gpu_memory_mib:
                raise InstanceError(
                    f'{where}: GPU type "{pool.gpu_type}" has {memory[pool.gpu_type]} MiB in one '
                    f'pool and {pool.gpu_memory_mib} MiB in "{pool.name}"; give types of '
                    "different memory different names."
                )
        for model in self.models:
            for option in model.options:
                if option.gpu_type not in memory:
                    raise InstanceError(
                        f'model "{model.name}": option "{option.label}" wants GPU type '
                        f'"{option.gpu_type}", which no pool has'
                        f"{nearest(option.gpu_type, memory, '; add a pool or drop the option.')}"
                    )
                largest = max(p.gpus_per_host for p in self.pools if p.gpu_type == option.gpu_type)
                if option.gpus > largest:
                    raise InstanceError(
                        f'model "{model.name}": option "{option.label}" takes {option.gpus} GPUs '
                        f"on one host, and the largest host has {largest}; drop the option or add "
                        "larger hosts."
                    )

    @property
    def currency(self) -> str:
        """Currency of all prices."""
        return self.pools[0].currency

    @property
    def hours(self) -> float:
        """Hours of all periods."""
        return sum(period.hours for period in self.periods)

    @cached_property
    def factors(self) -> Mapping[tuple[str, str, OptionKey], float]:
        """What is left of the rate that replicas sustain, by model, period and option."""
        found: dict[tuple[str, str, OptionKey], float] = {}
        for tightening in self.tightened:
            found[tightening.place] = found.get(tightening.place, 1.0) * tightening.factor
        return found

    def model(self, name: str) -> ServedModel:
        """Return a model by name."""
        return named(self.models, name, "model")

    def pool(self, name: str) -> GpuPool:
        """Return a pool by name."""
        return named(self.pools, name, "GPU pool")

    def gpu_memory_mib(self, gpu_type: str) -> int:
        """Return the memory of a GPU type, MiB."""
        return next(p.gpu_memory_mib for p in self.pools if p.gpu_type == gpu_type)

    def pools_of(self, gpu_type: str) -> list[GpuPool]:
        """Return the pools of a GPU type."""
        return [pool for pool in self.pools if pool.gpu_type == gpu_type]
