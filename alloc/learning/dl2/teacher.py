"""The teacher: any scheduler's decisions, taken apart into the single grants that DL2 imitates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.ladder import SERVER as SERVER_ROLE
from alloc.schedulers.ladder import WORKER as WORKER_ROLE
from alloc.schedulers.learned.step_table import BUNDLE, SERVER, WORKER
from alloc.schedulers.learned.window import WindowJob, WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.policy import Policy
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import Simulation

Floats = npt.NDArray[np.float32]
Grant = tuple[str, int]
"""A job and the step it is given: `WORKER`, `SERVER` or `BUNDLE`."""


class Teacher:
    """Plays traces with a scheduler and says for each of its grants what the network should say.

    A rule of the package is watched as it gives out tasks, so its grants come in its own order. Any
    other scheduler only says what each job gets in the end; then the grants are put in the order of
    what they add to progress (`by_gain`).

    `name` is a scheduler of the registry, `features` what the network is shown; the others are as
    in `DL2Settings`.
    """

    def __init__(
        self, name: str, features: WindowFeatures, *, from_pairs: bool, shuffled: bool
    ) -> None:
        self._scheduler = make_scheduler(name)
        self._features = features
        self._from_pairs = from_pairs
        self._shuffled = shuffled
        self._grants: list[Grant] = []
        if isinstance(self._scheduler, Policy):
            self._scheduler.watch = self._note
        self._board = _Board(features, from_pairs=from_pairs)

    def begin(self, instance: Instance) -> None:
        """Begin a trace."""
        self._scheduler.reset()
        self._board.reset(len(instance.jobs))
        self._simulation = Simulation(instance, decider=self._scheduler.name)
        self._state = self._simulation.next_decision()

    @property
    def over(self) -> bool:
        """Whether the trace is over."""
        return self._state is None

    def play_slot(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Play one slot.

        The generator deals the jobs to columns; the scheduler draws from a stream of its own.

        Returns
        -------
        tuple of array
            Flat observations, shape (grants, inputs), and labels: 1 for what was granted, shape
            (grants, actions); a row of 0 where the job was not in view.
        """
        state = self._state
        assert state is not None
        self._grants = []
        board = self._board
        board.open(state)
        decision = self._scheduler.decide(state)
        grants = self._sequence(decision)
        shown = [board.show(grant, rng, self._shuffled) for grant in grants]
        if self._from_pairs and board.has_moves:
            shown.append(board.show(None, rng, self._shuffled))
        self._simulation.apply(decision)
        self._state = self._simulation.next_decision()
        inputs, actions = board.sizes
        states = np.zeros((len(shown), inputs), np.float32)
        labels = np.zeros((len(shown), actions), np.float32)
        for k, (window, label) in enumerate(shown):
            states[k] = window.ravel()
            if label is not None:
                labels[k, label] = 1.0
        return states, labels

    def _note(self, job_id: str, role: str) -> None:
        self._grants.append((job_id, WORKER if role == WORKER_ROLE else SERVER))

    def _sequence(self, decision: Decision) -> Iterator[Grant]:
        """Return the grants one by one, each worked out when those before it have been shown."""
        if self._grants and not self._from_pairs:
            return iter(self._grants)
        if self._grants:
            return self._board.beyond(self._grants)
        return by_gain(self._board.jobs, tasks_of(decision))


class _Board:
    """What the network would be shown while a teacher gives out tasks."""

    def __init__(self, features: WindowFeatures, *, from_pairs: bool) -> None:
        self._features = features
        self._from_pairs = from_pairs
        self._share_row = features.type_rows + 2
        self._by_task = features.scales[3]
        self._shares: dict[str, float] = {}

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of an observation and of a label."""
        return self._features.shape[0] * self._features.shape[1], self._features.num_actions

    def reset(self, num_jobs: int) -> None:
        """Forget all; a trace of so many jobs comes."""
        # One column for each job there may be: those that the network cannot see included.
        wide = replace(self._features, window=num_jobs, initial_bundle=self._from_pairs)
        self._slot = WindowSlot(wide, name="teacher")
        self._shares = {}

    def open(self, state: ClusterState) -> None:
        """Begin a slot."""
        self._slot.open(state)
        self._all = self._slot.observation.copy()
        self._column = {job.view.id: k for k, job in enumerate(self._slot.columns)}
        self.jobs = {job.view.id: job for job in self._slot.columns}
        self._open = [True] * len(self._slot.columns)
        if not self._from_pairs:
            # The released code clears tasks at the start of a slot, but not the shares.
            for job_id, k in self._column.items():
                self._all[self._share_row, k] = self._shares.get(job_id, 0.0)

    @property
    def has_moves(self) -> bool:
        """Whether any job can take a task more."""
        return any(self._open)

    def beyond(self, grants: list[Grant]) -> Iterator[Grant]:
        """Yield watched grants without the first worker and PS of jobs that have them already."""
        given = {
            job_id: {WORKER: job.workers, SERVER: job.servers} for job_id, job in self.jobs.items()
        }
        for job_id, step in grants:
            left = given.get(job_id, {})
            if left.get(step, 0) > 0:
                left[step] -= 1
            else:
                yield job_id, step

    def show(
        self, grant: Grant | None, rng: np.random.Generator, shuffled: bool
    ) -> tuple[Floats, int | None]:
        """Return the observation before a grant, and its action, or None out of view; grant it.

        None for a grant stands for the end of the slot.
        """
        width = self._features.window
        visible = [k for k, is_open in enumerate(self._open) if is_open][:width]
        places = rng.permutation(width) if shuffled else np.arange(width)
        window = np.zeros(self._features.shape, np.float32)
        window[:, places[: len(visible)]] = self._all[:, visible]
        if grant is None:
            return window, self._features.end_slot
        job_id, step = grant
        column = self._column.get(job_id)
        if column is None:
            return window, None
        label = None
        if column in visible:
            label = 3 * int(places[visible.index(column)]) + step
        self._give(job_id, column, step)
        return window, label

    def _give(self, job_id: str, column: int, step: int) -> None:
        job = self.jobs[job_id]
        job.add(step, (0,))  # where it stands is not shown
        shown, row = self._all, self._share_row
        shown[row, column] = self._shares[job_id] = job.cell.share
        shown[row + 1, column] = job.workers * self._by_task
        shown[row + 2, column] = job.servers * self._by_task
        self._open[column] = job.cell.open


def tasks_of(decision: Decision) -> dict[str, tuple[int, int]]:
    """Return the workers and PSs of each job in a decision."""
    return {
        assignment.job: (
            sum(task.count for task in assignment.tasks if task.role == WORKER_ROLE),
            sum(task.count for task in assignment.tasks if task.role == SERVER_ROLE),
        )
        for assignment in decision.assign
    }


def by_gain(
    jobs: Mapping[str, WindowJob], targets: Mapping[str, tuple[int, int]]
) -> Iterator[Grant]:
    """Yield the steps that lead jobs to what they get in the end, the best step first.

    A step is worth what it adds to a job's rate, relative to the work it has left, for each task;
    ties go to the job that came first, then to worker, PS, bundle. Jobs that are to have fewer
    tasks than they hold already keep them. Each step is chosen when it is asked for, from what the
    jobs hold by then: whoever takes a step from here carries it out.

    Parameters
    ----------
    jobs
        The jobs in order of arrival, by id.
    targets
        Workers and PSs that each job gets in the end.
    """
    going = {job_id: target for job_id, target in targets.items() if job_id in jobs}
    while True:
        best: tuple[float, Grant] | None = None
        for job_id, job in jobs.items():
            if job_id not in going:
                continue
            for step, gain in _steps(job, going[job_id]):
                if best is None or gain > best[0]:
                    best = (gain, (job_id, step))
        if best is None:
            return
        yield best[1]


def _steps(job: WindowJob, target: tuple[int, int]) -> Iterator[tuple[int, float]]:
    """Yield the steps of a job that do not pass its target, with their gain for each task."""
    workers, servers = target[0] - job.workers, target[1] - job.servers
    now = _rate(job, job.workers, job.servers)
    left = job.view.work_left or 1.0
    if workers > 0:
        yield WORKER, (_rate(job, job.workers + 1, job.servers) - now) / left
    if servers > 0:
        yield SERVER, (_rate(job, job.workers, job.servers + 1) - now) / left
    if workers > 0 and servers > 0:
        yield BUNDLE, (_rate(job, job.workers + 1, job.servers + 1) - now) / (2 * left)


def _rate(job: WindowJob, workers: int, servers: int) -> float:
    cell = job.table.cell(workers, servers)
    if cell.configuration is None:
        return 0.0
    return job.view.configurations[cell.configuration].rate
