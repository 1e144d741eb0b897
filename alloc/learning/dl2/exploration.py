"""Job-aware exploration: how training, and only training, corrects what the policy draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alloc.schedulers.learned.step_table import BUNDLE, SERVER, WORKER

LEAST_CHANCE = 1e-20
"""Actions whose probability is not above this are never forced, as in the released code."""
RARE_SHARE = 0.001
"""Share of all actions below which a kind of action is rare."""
LARGEST_RATIO = 10
"""Ratio of workers to PSs, or the other way round, beyond which the paper calls a state poor."""
EPSILON_TEMPERATURE = 500.0
"""Updates over which the epsilon of ``epsilon-greedy`` falls."""

Chances = npt.NDArray[np.float32]


class Given(Protocol):
    """What exploration looks at of a job in view: its tasks so far in this slot."""

    workers: int
    servers: int


class Exploration:
    """Takes what the policy drew as it is; the others derive from it."""

    def begin_trace(self) -> None:
        """Forget what was done before; called before each trace."""

    def begin_slot(self, rng: np.random.Generator, update: int) -> None:
        """Prepare for a slot, after so many updates of reinforcement learning.

        Parameters
        ----------
        rng
            Draws what the slot needs.
        update
            Updates made so far, 0 or more.
        """

    def choose(
        self, drawn: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int:
        """Return the action to take.

        Parameters
        ----------
        drawn
            What the policy drew.
        columns
            The jobs in view.
        chances
            Probabilities of the actions, 0 where masked.
        rng
            Draws the coins.
        """
        return drawn


class Rules(Exploration):
    """The rules in DL2's released code.

    First, if the largest number of tasks of a job in view is more than 3 to 5 times (drawn) the
    smallest, the poorest job gets a bundle or a worker, evenly drawn. Then the jobs in view are
    looked at in order, and the first rule that applies to one wins:

    - the rarest of worker, PS and bundle so far in this trace made up less than 0.1 % of all
      actions: that one is forced;
    - the job lacks workers or PSs: it gets what is missing (both: a bundle every other time);
    - it has more than k PSs a worker (k is drawn for each slot from 3 to 7), on the toss of a coin:
      a bundle or a worker, evenly drawn;
    - it has at least half as many workers as PSs, on the toss of a coin: a PS, and a bundle in one
      of a hundred.

    Where workers and PSs are both missing, the rule for the PS comes last, wins, and looks at the
    probability of a worker by mistake; this is kept.
    """

    def __init__(self) -> None:
        self.begin_trace()
        self._ratio = 5

    def begin_trace(self) -> None:
        """Forget what was done before."""
        self._counts = [0, 0, 0]

    def begin_slot(self, rng: np.random.Generator, update: int) -> None:
        """Draw how many PSs a worker are too many."""
        self._ratio = 3 + int(rng.random() * 5)

    def choose(
        self, drawn: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int:
        """Return the action to take, and count it."""
        action = drawn
        if columns:
            action = self._balance(drawn, columns, chances, rng)
            forced = self._scan(action, columns, chances, rng)
            if forced is not None:
                action = forced
        if action < len(chances) - 1:
            self._counts[action % 3] += 1
        return action

    @staticmethod
    def _balance(
        drawn: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int:
        """Return an action for the poorest job, if it is too poor."""
        tasks = [job.workers + job.servers for job in columns]
        least = min(tasks)
        # Rounded down, as the released code's language divides.
        if least and max(tasks) // least > 3 + int(rng.random() * 3):
            first = 3 * tasks.index(least)
            if chances[first + BUNDLE] > LEAST_CHANCE and chances[first + WORKER] > LEAST_CHANCE:
                return first + (BUNDLE if rng.random() < 0.5 else WORKER)
        return drawn

    def _scan(
        self, action: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int | None:
        """Return the action of the first rule that applies, or None."""
        counts, ratio = self._counts, self._ratio
        rarest = min(counts)
        rare = counts.index(rarest) if 0 < rarest < RARE_SHARE * sum(counts) else None
        for column, job in enumerate(columns):
            first = 3 * column
            if rare is not None and chances[first + rare] > LEAST_CHANCE:
                return first + rare
            workers, servers = job.workers, job.servers
            if workers == 0 or servers == 0:
                return self._complete(action, first, workers, servers, chances, rng)
            if servers > ratio * workers:
                if (
                    rng.random() < 0.5
                    and chances[first + BUNDLE] > LEAST_CHANCE
                    and chances[first + WORKER] > LEAST_CHANCE
                ):
                    return first + (BUNDLE if rng.random() < 0.5 else WORKER)
            elif (
                2 * workers >= servers
                and rng.random() < 0.5
                and chances[first + BUNDLE] > LEAST_CHANCE
                and chances[first + SERVER] > LEAST_CHANCE
            ):
                return first + (BUNDLE if rng.random() < 0.01 else SERVER)
        return None

    @staticmethod
    def _complete(
        action: int,
        first: int,
        workers: int,
        servers: int,
        chances: Chances,
        rng: np.random.Generator,
    ) -> int:
        """Return the action that gives a job what it lacks; the one in hand where none can."""
        likely = chances[first + WORKER] > LEAST_CHANCE
        if (
            workers == 0
            and servers == 0
            and chances[first + BUNDLE] > LEAST_CHANCE
            and rng.random() < 0.5
        ):
            action = first + BUNDLE
        if workers == 0 and likely:
            action = first + WORKER
        # Sic: the probability of the worker; only a masked PS keeps it from being forced.
        if servers == 0 and likely and chances[first + SERVER] > 0:
            action = first + SERVER
        return action


class PoorStates(Exploration):
    """The paper's rule: with a given probability (paper: 0.4) a poor state is corrected.

    Poor is a job with workers but no PS, with PSs but no worker, or with more than 10 of one for
    each of the other; it gets one of what it lacks. The first poor job in view is corrected.
    """

    def __init__(self, share: float) -> None:
        self._share = share

    def choose(
        self, drawn: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int:
        """Return the action to take."""
        if rng.random() >= self._share:
            return drawn
        for column, job in enumerate(columns):
            workers, servers = job.workers, job.servers
            if workers > LARGEST_RATIO * servers:
                action = 3 * column + SERVER
            elif servers > LARGEST_RATIO * workers:
                action = 3 * column + WORKER
            else:
                continue
            if chances[action] > 0:
                return action
        return drawn


class EpsilonGreedy(Exploration):
    """Any action, evenly drawn, with a probability that falls from 1 as training goes on.

    After u updates it is ``2 / (1 + exp(u / 500))``. This stands in for the rules in the released
    code's own ablation of them.
    """

    def begin_slot(self, rng: np.random.Generator, update: int) -> None:
        """Work out the probability."""
        self._epsilon = 2.0 / (1.0 + math.exp(min(update / EPSILON_TEMPERATURE, 500.0)))

    def choose(
        self, drawn: int, columns: Sequence[Given], chances: Chances, rng: np.random.Generator
    ) -> int:
        """Return the action to take."""
        if rng.random() >= self._epsilon:
            return drawn
        possible = np.flatnonzero(chances > LEAST_CHANCE)
        return int(possible[int(rng.random() * len(possible))])


def exploration(name: str, share: float) -> Exploration:
    """Return an exploration by name, see `DL2Settings`.

    Parameters
    ----------
    name
        One of those of `DL2Settings.exploration`.
    share
        Probability that ``poor-states`` corrects, 0 to 1; the others do not use it.
    """
    if name == "rules":
        return Rules()
    if name == "poor-states":
        return PoorStates(share)
    return EpsilonGreedy() if name == "epsilon-greedy" else Exploration()
