"""The data of inference sizing: columns of replica counts, losses, places on hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem
from alloc.problems.inference_sizing.rates import (
    Loss,
    caps_that_fit,
    fullest,
    group_rate,
    loss_cases,
    max_rate,
)
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel


@dataclass(frozen=True)
class Column:
    """A number of replicas of an option at a batch cap.

    Parameters
    ----------
    replicas, batch_cap
        What is chosen.
    rates
        Requests/s that it sustains with 0, 1, ... replicas lost; at most what is asked for.
    """

    replicas: int
    batch_cap: int
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """The columns of an option of a model in a period; at most one is taken.

    Parameters
    ----------
    model, period, option
        Positions; the option counts within the model, the period within `SizingData.periods`.
    columns
        What there is to choose from; none that another makes useless.
    """

    model: int
    period: int
    option: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class PeriodClass:
    """Periods that differ in nothing but their names and hours.

    Parameters
    ----------
    members
        Positions in the problem; the first stands for all.
    hours
        Hours of all together.
    """

    members: tuple[int, ...]
    hours: float


@dataclass(frozen=True)
class SizingData:
    """Everything that the models need.

    Parameters
    ----------
    problem
        The problem.
    periods
        Its periods, those that are alike together.
    choices
        What is to be chosen.
    losses
        For each model, the losses to survive.
    sizes
        For each pool, the GPUs of the replicas that could stand on its hosts, increasing.
    """

    problem: InferenceProblem
    periods: tuple[PeriodClass, ...]
    choices: tuple[Choice, ...]
    losses: tuple[tuple[Loss, ...], ...]
    sizes: tuple[tuple[int, ...], ...]

    def demand(self, model: int, period: int) -> float:
        """Return the requests/s of a model in a period class.

        Parameters
        ----------
        model
            Position of the model.
        period
            Position of the period class.
        """
        return self.problem.models[model].rate_per_s(self.periods[period].members[0])

    def without_columns(self) -> str | None:
        """Return the name of a model with requests and no replicas to choose, or None."""
        chosen = {(choice.model, choice.period) for choice in self.choices}
        for m, model in enumerate(self.problem.models):
            for t in range(len(self.periods)):
                if self.demand(m, t) > 0 and (m, t) not in chosen:
                    return model.name
        return None

    def hosts(self, pool: int, period: int) -> int:
        """Return the hosts of a pool in a period class.

        Parameters
        ----------
        pool
            Position of the pool.
        period
            Position of the period class.
        """
        return self.problem.pools[pool].hosts_in(self.periods[period].members[0])

    def price(self, pool: int, period: int) -> float:
        """Return the price of a GPU of a pool for all hours of a period class.

        Parameters
        ----------
        pool
            Position of the pool.
        period
            Position of the period class.
        """
        members = self.periods[period].members
        return self.problem.pools[pool].price_in(members[0]) * self.periods[period].hours

    def held_price(self, pool: int) -> float:
        """Return the price of holding a host through all periods."""
        held = self.problem.pools[pool]
        return held.gpus_per_host * sum(
            period.hours * held.price_in(t) for t, period in enumerate(self.problem.periods)
        )

    def max_held(self, pool: int) -> int:
        """Return the most hosts of a pool that can be held through all periods."""
        return min(self.hosts(pool, t) for t in range(len(self.periods)))


def nests(sizes: Sequence[int], room: int) -> bool:
    """Return whether things of these sizes fill hosts without loss.

    Each size divides the next and the largest divides the host: then whatever fits by its sum fits
    host by host, largest first (Coffman, Garey and Johnson, "Bin packing with divisible item
    sizes", 1987).

    Parameters
    ----------
    sizes
        GPUs of each kind of replica, 1 or more.
    room
        GPUs of a host.
    """
    chain = [*sorted(sizes), room]
    return all(b % a == 0 for a, b in pairwise(chain))


def patterns_of(sizes: Sequence[int], room: int) -> list[tuple[int, ...]]:
    """Return the fullest contents of a host, counts in the order of the sizes.

    Parameters
    ----------
    sizes
        GPUs of each kind of replica, increasing.
    room
        GPUs of a host.
    """
    return fullest(sizes, room) if sizes else []


def sizing_data(problem: InferenceProblem) -> SizingData:
    """Gather the data of a problem."""
    periods = _period_classes(problem)
    choices = []
    for m, model in enumerate(problem.models):
        losses = loss_cases(problem, model)
        for t, period in enumerate(periods):
            if model.rate_per_s(period.members[0]) <= 0:
                continue
            for o, option in enumerate(model.options):
                max_lost = max(loss[o] for loss in losses)
                columns = columns_of(problem, model, period.members[0], option, max_lost)
                if columns:
                    choices.append(Choice(m, t, o, columns))
    return SizingData(
        problem,
        periods,
        tuple(choices),
        tuple(tuple(loss_cases(problem, model)) for model in problem.models),
        tuple(_sizes_on(problem, pool) for pool in problem.pools),
    )


def columns_of(
    problem: InferenceProblem,
    model: ServedModel,
    period: int,
    option: ReplicaOption,
    max_lost: int,
) -> tuple[Column, ...]:
    """Return the columns of an option, up to the first that serves everything by itself.

    A column that another with no more replicas equals or beats at every loss is left out.

    Parameters
    ----------
    problem
        The problem.
    model
        The model to serve.
    period
        Position of a period.
    option
        How a replica of it may run: GPU type and degrees of parallelism.
    max_lost
        Largest number of replicas that may be lost at once, 0 or more.
    """
    demand = model.rate_per_s(period)
    caps = caps_that_fit(problem, model, period, option)
    places = sum(
        pool.hosts_in(period) * (pool.gpus_per_host // option.gpus)
        for pool in problem.pools_of(option.gpu_type)
    )
    kept: list[Column] = []
    for replicas in range(1, places + 1):
        found = []
        best: list[tuple[float, ...]] = []
        # The most promising cap first: most others are then out of the question unseen.
        for b in sorted(caps, key=lambda b: -max_rate(problem, model, period, option, b)):
            most = max_rate(problem, model, period, option, b)
            left = [replicas - lost for lost in range(max_lost + 1)]
            hoped = [min(most * n, demand) if n > 0 else 0.0 for n in left]
            if any(all(h <= r for h, r in zip(hoped, rates, strict=True)) for rates in best):
                continue
            rates = tuple(
                min(group_rate(problem, model, period, option, b, n), demand) if n > 0 else 0.0
                for n in left
            )
            best.append(rates)
            if rates[0] > 0:
                found.append(Column(replicas, b, rates))
        for column in found:
            if not any(_beats(other, column) for other in kept):
                kept = [other for other in kept if not _useless(other, column)]
                kept.append(column)
        if any(column.rates[-1] >= demand for column in found):
            break
    return tuple(kept)


def _beats(other: Column, column: Column) -> bool:
    return other.replicas <= column.replicas and all(
        a >= b for a, b in zip(other.rates, column.rates, strict=True)
    )


def _useless(old: Column, new: Column) -> bool:
    return old.replicas == new.replicas and _beats(new, old)


def _period_classes(problem: InferenceProblem) -> tuple[PeriodClass, ...]:
    alike: dict[object, list[int]] = {}
    for t, period in enumerate(problem.periods):
        key = (
            tuple(c.rate_per_s[t] for model in problem.models for c in model.classes),
            tuple((pool.hosts_in(t), pool.price_in(t)) for pool in problem.pools),
            tuple(
                sorted(
                    (place[0], place[2], factor)
                    for place, factor in problem.factors.items()
                    if place[1] == period.name
                )
            ),
        )
        alike.setdefault(key, []).append(t)
    return tuple(
        PeriodClass(tuple(members), sum(problem.periods[t].hours for t in members))
        for members in alike.values()
    )


def _sizes_on(problem: InferenceProblem, pool: GpuPool) -> tuple[int, ...]:
    sizes = {
        option.gpus
        for model in problem.models
        for option in model.options
        if option.gpu_type == pool.gpu_type and option.gpus <= pool.gpus_per_host
    }
    return tuple(sorted(sizes))
