"""The window: DL2's way to a decision, one worker, PS or bundle at a time.

One implementation for all: the environment that policies are trained in drives a `WindowSlot`, and
so does `StepwiseDecider`, which runs a trained policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.learned.feature_spec import WindowParameters, require_in_view
from alloc.schedulers.learned.step_table import (
    BUNDLE,
    SERVER,
    WORKER,
    Cell,
    StepTable,
    shared_tables,
)
from alloc.schedulers.learned.stepwise import Mask as Mask
from alloc.schedulers.learned.stepwise import Observation as Observation
from alloc.schedulers.learned.stepwise import Reply as Reply
from alloc.schedulers.learned.window_features import MAX_SLOTS, WindowFeatures
from alloc.schedulers.least_loaded import LeastLoaded
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.topology import Topology
from alloc.workload import Configuration

_ROLES = ("ps", "worker")
"""Roles by their place in a key ``2 host + role``: keys in order are placements in order."""


class WindowJob:
    """A job in a slot: what it has been given so far."""

    __slots__ = (
        "arrival_s",
        "cell",
        "max_rate",
        "on_hosts",
        "run_slots",
        "seen",
        "servers",
        "table",
        "type",
        "view",
        "workers",
    )

    def __init__(self, view: JobView, table: StepTable, job_type: int) -> None:
        self.view = view
        self.table = table
        self.type = job_type
        self.arrival_s = view.arrival_s
        self.run_slots = 0
        self.seen: tuple[Configuration, ...] = ()
        self.max_rate = 0.0
        self.clear()

    def clear(self) -> None:
        """Take everything back."""
        self.workers = self.servers = 0
        self.cell: Cell = self.table.cells[0]
        self.on_hosts: dict[int, int] = {}

    def add(self, step: int, hosts: Iterable[int]) -> None:
        """Add the tasks of a step on hosts.

        Parameters
        ----------
        step
            `WORKER`, `SERVER` or `BUNDLE`.
        hosts
            Positions of the hosts, one for each such step.
        """
        on_hosts = self.on_hosts
        for h in hosts:
            if step != SERVER:
                on_hosts[2 * h + 1] = on_hosts.get(2 * h + 1, 0) + 1
                self.workers += 1
            if step != WORKER:
                on_hosts[2 * h] = on_hosts.get(2 * h, 0) + 1
                self.servers += 1
        self.cell = self.table.cells[self.workers * self.table.stride + self.servers]


class WindowSlot:
    """A slot in the making: the jobs of a window, what they have been given, what may come next.

    Call `open` with the state, `act` as long as its reply is a grant and `has_moves` holds, then
    `close` for the decision. Observation and mask are brought up to date by each call, in place and
    only where something changed.

    Parameters
    ----------
    features
        What is shown, and how.
    name
        Name of the policy, for messages.
    observation, mask
        Where to write: C-contiguous arrays of float32, shape `WindowFeatures.shape`, and of bool,
        shape (actions,). Own ones if not given.
    in_view
        Says whether more jobs than the window shows are refused; None: they are not.

    Attributes
    ----------
    observation
        What the network is shown; see `WindowFeatures`.
    mask
        Which actions are allowed: steps that lead on in the table of the job, as far as its
        tenant's quota goes. Whether a step fits on a host is not said, as in DL2. Ending the slot
        is always allowed.
    jobs
        The jobs of the slot in order of arrival, those out of view included.
    columns
        The jobs in view, in the order of their columns.

    Notes
    -----
    Departures from DL2's code: pairs missing from a job's table are stepped over; jobs that must
    not be paused keep what they have and are not shown.
    """

    def __init__(
        self,
        features: WindowFeatures,
        *,
        name: str = "agent",
        observation: Observation | None = None,
        mask: Mask | None = None,
        in_view: WindowParameters | None = None,
    ) -> None:
        self.features = features
        self._name = name
        self._in_view = in_view
        self.observation = np.zeros(features.shape, np.float32)
        self.mask = np.zeros(features.num_actions, np.bool_)
        if observation is not None and mask is not None:
            self.observation, self.mask = observation, mask
        self._types = {model: k for k, model in enumerate(features.models, start=1)}
        self._one_hot = features.encoding == "paper"
        self._by_type, self._by_slot, self._by_remaining, self._by_task = features.scales
        self._tables = shared_tables(features.max_tasks)
        self._tasks: dict[tuple[int, int], TaskPlacement] = {}
        self._topology: Topology | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the jobs; called before each simulation."""
        self._known: dict[str, WindowJob] = {}
        self.jobs: list[WindowJob] = []
        self.columns: list[WindowJob] = []
        self._next = 0
        self._pinned: list[Assignment] = []
        self._held: dict[str, int] = {}
        self._quotas: Mapping[str, int] = {}

    # The course of a slot.

    def open(self, state: ClusterState) -> None:
        """Begin a slot.

        Raises
        ------
        UnsupportedFeatureError
            In continuous time, or if a job is not one of workers and PSs.
        """
        if self._in_view is not None:
            require_in_view(self._name, self._in_view, len(state.jobs), state.now_s)
        if state.slot_s is None:
            raise UnsupportedFeatureError(
                f"policy {self._name} decides slot by slot, but the instance has no slots; give it "
                "a slot_s."
            )
        if self._topology is not state.topology:
            self._topology = state.topology
            self._hosts = LeastLoaded(state.topology)
            self._tasks.clear()
        else:
            self._hosts.reset()
        self._now_s, self._slot_s = state.now_s, state.slot_s
        self._quotas = state.quotas
        self._held = dict.fromkeys(state.quotas, 0)
        self._pinned = []
        self.jobs = [self._enter(v) for v in state.jobs if v.preemptible or not self._pin(v)]
        if self.features.initial_bundle:
            for job in self.jobs:
                self._give(job, BUNDLE)
        self._show_all()

    def act(self, action: int) -> Reply:
        """Give a job what the action says, or end the slot.

        After any reply but a grant the slot is over: `close` it.
        """
        if action == self.features.end_slot:
            return Reply.ENDED
        column, step = divmod(action, 3)
        if not 0 <= column < len(self.columns) or not self.mask[action]:
            return Reply.MASKED
        job = self.columns[column]
        if not self._give(job, step):
            return Reply.MISFIT
        if self._quotas and job.view.tenant in self._held:
            self._show_all()
        elif job.cell.open:
            self._show_given(column, job)
        else:
            self._drop(column)
        return Reply.GRANTED

    def close(self) -> Decision:
        """Return the decision of the slot: every job runs the configuration it has reached."""
        assignments = self._pinned.copy()
        for job in self.jobs:
            configuration = job.cell.configuration
            if configuration is not None:
                job.run_slots += 1
                assignments.append(
                    Assignment(
                        job.view.id,
                        configuration,
                        tuple([self._task(k, n) for k, n in sorted(job.on_hosts.items())]),
                    )
                )
        return Decision(assign=tuple(assignments))

    def blank(self) -> None:
        """Show no job: all that can be done is to end the slot."""
        self.columns = []
        self.observation.fill(0.0)
        self.mask.fill(False)
        self.mask[-1] = True

    @property
    def has_moves(self) -> bool:
        """Whether there is anything to do but to end the slot."""
        return bool(self.columns)

    # Jobs.

    def _enter(self, view: JobView) -> WindowJob:
        job = self._known.get(view.id)
        if job is None:
            assert self._topology is not None
            table = self._tables.get(view, self._topology, self._name)
            job_type = self._types.get(view.model, 0) if view.model is not None else 0
            job = self._known[view.id] = WindowJob(view, table, job_type)
        else:
            job.view = view
            job.clear()
        return job

    def _pin(self, view: JobView) -> bool:
        """Let a job that must not be paused keep what it has; return whether it has anything."""
        current = view.current
        if current is None:
            return False
        configuration = view.configurations[current.configuration]
        assert self._topology is not None
        demands = {group.role: group.demand for group in configuration.tasks}
        for task in current.tasks:
            host = self._topology.host_index[task.host]
            self._hosts.occupy(host, demands[task.role], task.count)
        self._hold(view, configuration.demand[0])
        self._pinned.append(current)
        return True

    def _give(self, job: WindowJob, step: int) -> bool:
        """Give a job a step; return whether there was one and it fits."""
        count = job.cell.steps[step]
        if not count or not self._allows(job, step):
            return False
        demand = job.table.demands[step]
        hosts: Iterable[int] | None
        if count == 1:
            host = self._hosts.give(demand)
            hosts = None if host is None else (host,)
        else:
            hosts = self._hosts.give_all(demand, count)
        if hosts is None:
            return False
        job.add(step, hosts)
        if self._quotas:
            self._hold(job.view, demand[0] * count)
        return True

    def _allows(self, job: WindowJob, step: int) -> bool:
        """Return whether the quota of a job's tenant allows a step."""
        tenant = job.view.tenant
        if tenant is None or tenant not in self._held:
            return True
        asked = job.table.demands[step][0] * job.cell.steps[step]
        return self._held[tenant] + asked <= self._quotas[tenant]

    def _hold(self, view: JobView, gpu_milli: int) -> None:
        if view.tenant in self._held and view.tenant is not None:
            self._held[view.tenant] += gpu_milli

    def _task(self, key: int, count: int) -> TaskPlacement:
        # Equal placements are one object: there are many, and they repeat from slot to slot.
        task = self._tasks.get((key, count))
        if task is None:
            assert self._topology is not None
            host, role = divmod(key, 2)
            task = TaskPlacement(self._topology.hosts[host].id, _ROLES[role], count)
            self._tasks[key, count] = task
        return task

    # What is shown.

    def _show_all(self) -> None:
        """Fill the window from the first job on."""
        self.blank()
        self._next = 0
        while len(self.columns) < self.features.window and self._add_next():
            pass

    def _add_next(self) -> bool:
        """Put the next job with a step left into the next column; return whether there is one."""
        jobs = self.jobs
        while self._next < len(jobs):
            job = jobs[self._next]
            self._next += 1
            if job.cell.open and (not self._quotas or self._any_allowed(job)):
                column = len(self.columns)
                self.columns.append(job)
                self._show_job(column, job)
                self._show_given(column, job)
                return True
        return False

    def _any_allowed(self, job: WindowJob) -> bool:
        return any(job.cell.steps[s] and self._allows(job, s) for s in (WORKER, SERVER, BUNDLE))

    def _show_job(self, column: int, job: WindowJob) -> None:
        """Show what does not change within a slot."""
        observation, first = self.observation, self.features.type_rows
        if not self._one_hot:
            observation[0, column] = job.type * self._by_type
            # An arrival in the middle of a slot joined at the next.
            elapsed = (self._now_s - job.arrival_s) / self._slot_s
            slots = int(elapsed + 1e-6)
            observation[first + 1, column] = _remaining_fraction(job.view)
        else:
            if job.type:
                observation[job.type - 1, column] = 1.0
            slots = job.run_slots
            observation[first + 1, column] = min(
                _remaining_s(job) / self._slot_s * self._by_remaining,
                MAX_SLOTS * self._by_remaining,
            )
        observation[first, column] = min(slots, MAX_SLOTS) * self._by_slot

    def _show_given(self, column: int, job: WindowJob) -> None:
        """Show what a job has been given and what it may get next."""
        observation, row = self.observation, self.features.type_rows + 2
        cell = job.cell
        observation[row, column] = cell.share
        observation[row + 1, column] = job.workers * self._by_task
        observation[row + 2, column] = job.servers * self._by_task
        mask, first = self.mask, 3 * column
        steps = cell.steps
        if not self._quotas:
            mask[first] = steps[0] > 0
            mask[first + 1] = steps[1] > 0
            mask[first + 2] = steps[2] > 0
        else:
            for step in (WORKER, SERVER, BUNDLE):
                mask[first + step] = steps[step] > 0 and self._allows(job, step)

    def _drop(self, column: int) -> None:
        """Take a job that can get no more out of view; those behind it move up."""
        del self.columns[column]
        observation, mask, end = self.observation, self.mask, self.features.end_slot
        observation[:, column:-1] = observation[:, column + 1 :]
        observation[:, -1] = 0.0
        mask[3 * column : end - 3] = mask[3 * column + 3 : end]
        mask[end - 3 : end] = False
        self._add_next()


def _remaining_fraction(view: JobView) -> float:
    """Return the remaining fraction of a job's work as known; below 0 when it outlives that."""
    if view.work is None or view.work_done is None:
        raise UnsupportedFeatureError(_UNKNOWN_WORK.format(view.id))
    return max(-1.0, 1.0 - view.work_done / view.work)


def _remaining_s(job: WindowJob) -> float:
    """Return the remaining time of a job at its highest rate as known, seconds."""
    view = job.view
    if view.work_left is None:
        raise UnsupportedFeatureError(_UNKNOWN_WORK.format(view.id))
    if job.seen is not view.configurations:  # with an error in the rates, new at each decision
        job.seen = view.configurations
        job.max_rate = max(configuration.rate for configuration in job.seen)
    return view.work_left / job.max_rate


_UNKNOWN_WORK = (
    'job "{}": its work is unknown, but the window shows what remains of it; give the policy '
    'knowledge "estimate" or "exact".'
)
