"""Teachers: the optimum of a round, and of all rounds to come, as labels for the jobs in it.

Parameters
----------
state
    What a scheduler sees at the start of the round.
round_
    Its jobs, as the network sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alloc.learning.imitation.rounds import LabelledRound, label
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.round.data import make_round_data
from alloc.objectives import round_utility
from alloc.schedulers.learned.job_set import JobSetRound
from alloc.schedulers.state import ClusterState
from alloc.simulation.rolling_horizon import sub_instance
from alloc.solving.malleable.column_generation import Relaxation, generate_columns
from alloc.solving.malleable.insertion import Builder, serial_horizon
from alloc.solving.outcome import Settings
from alloc.solving.round.method import dual_prices, optimise_round
from alloc.units import RESOURCES

Array = npt.NDArray[np.float64]

_NO_LIMIT_S = 1e6
"""Time limit of a teacher: labels must not depend on how fast the machine is."""


class Teacher(Protocol):
    """Labels rounds. `name` says what by; `max_jobs` is the most jobs it is asked about."""

    name: str
    max_jobs: int

    def label(self, state: ClusterState, round_: JobSetRound) -> LabelledRound | None:
        """Return the round with its optimum, or None if there is nothing to learn from it."""
        ...


class RoundTeacher:
    """The exact optimum of the round (family F1), one choice a job, with its dual prices."""

    name = "exact round"
    max_jobs = 200
    # Counts in seconds, as JCT does.
    _utility = round_utility("remaining_time")

    def label(self, state: ClusterState, round_: JobSetRound) -> LabelledRound | None:
        """Return the round with its optimum."""
        instance = sub_instance(state, round_.views, round_.slot_s)
        data = make_round_data(
            instance.topology, instance.jobs, round_.slot_s, self._utility, state.quotas
        )
        answer = optimise_round(data, settings=Settings(_NO_LIMIT_S))
        choice = _nothing(round_)
        for j, c in data.choose(answer.x):
            _enter(round_, choice, j, c, 1.0)
        prices = np.asarray(dual_prices(data)) * data.rows.capacity / round_.slot_s
        return label(round_, _complete(choice), _in_all(data.rows.resource, prices))


class HorizonTeacher:
    """The optimum over all rounds to come (family F2, mean JCT, no further arrivals).

    The linear master over whole job profiles is solved to its end by column generation. Its first
    slot is the label: a few jobs are split between profiles, which the label keeps as chances, and
    the capacity of the slot has the master's dual prices.
    """

    name = "horizon"
    max_jobs = 40

    def label(self, state: ClusterState, round_: JobSetRound) -> LabelledRound | None:
        """Return the round with the first slot of its optimum."""
        instance = sub_instance(state, round_.views, round_.slot_s)
        data = slot_data(instance)
        relaxed = _relax(data)
        choice = _nothing(round_)
        if relaxed is None:
            return None
        for column, z in zip(relaxed.columns, relaxed.z, strict=True):
            first = column.profile.choice[0] if column.profile.start == 0 else -1
            if z > 1e-9 and first >= 0:
                position = int(data.table(column.job).configuration[first])
                _enter(round_, choice, column.job, position, float(z))
        prices = np.asarray(relaxed.prices[0]) * data.rows.capacity
        return label(round_, _complete(choice), _in_all(data.rows.resource, prices))


def _relax(data: SlotData) -> Relaxation | None:
    """Return the linear optimum over all profiles of the jobs, or None without a first schedule."""
    most = serial_horizon(data)
    num_slots = min(most, int(4 * np.ceil(data.shortest.max())) + 8)
    order = np.argsort(data.shortest / data.weight, kind="stable").tolist()
    while True:
        builder = Builder(data, num_slots)
        free = np.zeros((num_slots, len(data.rows.names)))
        plan = builder.insert_all(order, builder.empty(), free)
        if plan is not None or num_slots >= most:
            break
        num_slots = min(2 * num_slots, most)
    if plan is None:
        return None
    last = max(column.profile.completion for column in plan.values())
    return generate_columns(
        data,
        int(np.ceil(1.1 * last)) + 3,
        list(plan.values()),
        Settings(_NO_LIMIT_S),
        _NO_LIMIT_S / 2,
        lambda line: None,
    )


def _in_all(resource: Sequence[int] | npt.NDArray[np.int64], prices: Array) -> Array:
    """Return the price of all that there is of each resource, by that of each row."""
    return np.asarray(np.bincount(resource, prices, len(RESOURCES)), dtype=float)


def _nothing(round_: JobSetRound) -> Array:
    return np.zeros((len(round_.views), round_.book.rate.shape[1] + 1))


def _enter(round_: JobSetRound, choice: Array, job: int, position: int, chance: float) -> None:
    """Enter a configuration of a job; one that is not on its ladder has an equal that is."""
    positions = round_.book.ladders[round_.jobs.table[job]].positions
    if position in positions:
        choice[job, positions.index(position)] += chance


def _complete(choice: Array) -> Array:
    """Give the last place what is missing to 1; the master may cover a job a little more often."""
    total = choice.sum(axis=1, keepdims=True)
    choice /= np.maximum(total, 1.0)
    choice[:, -1] = 1.0 - choice[:, :-1].sum(axis=1)
    return choice
