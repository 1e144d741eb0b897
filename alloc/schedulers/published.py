"""The rules of DL2's evaluation to the letter, for comparisons with its published code.

The policies of this room follow these rules as far as they make sense on any cluster and any table.
Here are the rules themselves, for malleable jobs of workers and PSs in slots, with what they do in
corners:

- tasks are added one by one up to the largest number; pairs of workers and PSs that are missing
  from a job's table, or in it with rate 0, hold resources and do no work;
- the first task that does not fit on the least loaded host ends the slot;
- what is left of a job is its work as known minus what is done, also below 0 when the job outlives
  the estimate;
- nobody is helped when a rule starts nothing.

References
----------
Peng et al., "DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters", IEEE TPDS 2021, and
the code released with it. The one departure: ties that its code leaves to memory addresses go to
the order of the instance.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

from alloc.errors import InstanceError, UnsupportedFeatureError, nearest
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.ladder import SERVER, WORKER, TaskLadder, ladder_of
from alloc.schedulers.least_loaded import LeastLoaded
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.topology import Topology
from alloc.units import MILLI, require_count

Rules = Literal["alloc", "dl2"]
"""Whose rules a policy follows: its own, or those of DL2's evaluation to the letter."""
RULES: tuple[Rules, ...] = get_args(Rules)

_SAME = 1e-9
"""Progress that agrees this well, as a fraction of the work, is the same up to rounding."""


class PublishedJob:
    """A job in a slot of DL2's evaluation.

    Work is counted as DL2 counts epochs: progress grows slot by slot by the rate, so rates are work
    a slot, and totals are work over the length of a slot. The simulator multiplies out whole runs
    instead, which may differ in the last digit, and the last digit breaks ties between jobs that
    did the same in another order.
    """

    def __init__(self, view: JobView, ladder: TaskLadder, max_tasks: int | None) -> None:
        self.view = view
        self.worker, self.server = ladder.worker, ladder.server
        self.index = {
            (configuration.num_tasks(WORKER), configuration.num_tasks(SERVER)): k
            for k, configuration in enumerate(view.configurations)
        }
        self.max_workers = self.max_servers = max_tasks or 0
        if max_tasks is None:
            self.max_workers = max(workers for workers, _ in self.index)
            self.max_servers = max(servers for _, servers in self.index)
        self.workers = self.servers = 0
        self.total = math.nan
        self.progress = 0.0

    def begin(self, view: JobView, slot_s: float) -> None:
        """Begin a slot with nothing, and count what was done in the last.

        Parameters
        ----------
        view
            The job at the start of the slot.
        slot_s
            Length of a slot, seconds, above 0.
        """
        if view.work is not None and view.work_done is not None:
            self.total = view.work / slot_s
            done = view.work_done / slot_s
            progress = self.progress + (self.rate(self.workers, self.servers) or 0.0)
            # Work done before the start, restart costs, and rates that are not as they were seen
            # are not in the count.
            same = abs(progress - done) <= _SAME * self.total
            self.progress = progress if same else done
        self.view = view
        self.workers = self.servers = 0
        self.on_hosts: dict[tuple[int, str], int] = {}

    @property
    def bundle(self) -> tuple[int, ...]:
        """Demand of a worker and a PS together."""
        return tuple(w + u for w, u in zip(self.worker, self.server, strict=True))

    @property
    def takes_bundle(self) -> bool:
        """Whether the job may have one more worker and one more PS."""
        return self.workers < self.max_workers and self.servers < self.max_servers

    @property
    def left(self) -> float:
        """Work left as known, over the slot; below 0 when the job outlives the estimate."""
        return self.total - self.progress

    @property
    def left_fraction(self) -> float:
        """Remaining fraction of the work as known."""
        return 1.0 - self.progress / self.total

    def rate(self, workers: int, servers: int) -> float | None:
        """Return the rate of a pair, or None if the table has none.

        Parameters
        ----------
        workers, servers
            Workers and PSs, 0 or more.
        """
        configuration = self.index.get((workers, servers))
        return None if configuration is None else self.view.configurations[configuration].rate

    def add(self, host: int, workers: int, servers: int) -> None:
        """Add tasks on a host.

        Parameters
        ----------
        host
            Position of the host.
        workers, servers
            Tasks to add, 0 or more.
        """
        for role, count in ((WORKER, workers), (SERVER, servers)):
            if count:
                self.on_hosts[host, role] = self.on_hosts.get((host, role), 0) + count
        self.workers += workers
        self.servers += servers


class PublishedSlot:
    """A slot of DL2's evaluation: the jobs in order of arrival, and the hosts."""

    def __init__(self, jobs: list[PublishedJob], topology: Topology) -> None:
        self.jobs = jobs
        self.topology = topology
        self.hosts = LeastLoaded(topology)

    def give(self, job: PublishedJob, workers: int, servers: int) -> bool:
        """Give a job tasks that share the least loaded host; return whether they fit there.

        Parameters
        ----------
        job
            A job of this slot.
        workers, servers
            Tasks to add, 0 or more.
        """
        demand = tuple(
            workers * w + servers * u for w, u in zip(job.worker, job.server, strict=True)
        )
        host = self.hosts.give(demand)
        if host is None:
            return False
        job.add(host, workers, servers)
        return True

    def decision(self) -> Decision:
        """Return the decision: every job runs the pair it has reached, if its table has it."""
        ids = [host.id for host in self.topology.hosts]
        assignments = []
        for job in self.jobs:
            configuration = job.index.get((job.workers, job.servers))
            if configuration is not None:
                tasks = tuple(
                    TaskPlacement(ids[host], role, count)
                    for (host, role), count in sorted(job.on_hosts.items())
                )
                assignments.append(Assignment(job.view.id, configuration, tasks))
        return Decision(assign=tuple(assignments))


def drf(slot: PublishedSlot) -> None:
    """Give a bundle to the job with the smallest dominant share, again and again."""
    totals = slot.topology.totals.tolist()

    def share(job: PublishedJob) -> float:
        held = [
            job.workers * w + job.servers * u for w, u in zip(job.worker, job.server, strict=True)
        ]
        return max(float(a / total) for a, total in zip(held, totals, strict=True) if total)

    heap = [(0.0, job.view.in_order, k) for k, job in enumerate(slot.jobs)]
    heapq.heapify(heap)
    while heap:
        _, order, k = heapq.heappop(heap)
        job = slot.jobs[k]
        if not slot.give(job, 1, 1):
            return
        if job.takes_bundle:
            heapq.heappush(heap, (share(job), order, k))


def fifo(slot: PublishedSlot) -> None:
    """Fill one job after the other, in order of arrival."""
    _in_turn(slot, slot.jobs)


def srtf(slot: PublishedSlot) -> None:
    """Fill one job after the other, the smallest remaining fraction first."""
    _in_turn(slot, sorted(slot.jobs, key=lambda job: (job.left_fraction, job.view.in_order)))


def _in_turn(slot: PublishedSlot, jobs: Iterable[PublishedJob]) -> None:
    for job in jobs:
        while job.takes_bundle:
            if not slot.give(job, 1, 1):
                return


def tetris(slot: PublishedSlot) -> None:
    """Fill host after host with the bundle of the highest score.

    The score is ``a + e p`` with the alignment a, the remaining work p, and e the mean of a over
    the mean of p: its sign prefers long work.
    """
    capacity, jobs = slot.topology.capacity.tolist(), slot.jobs
    fractions = [job.left_fraction for job in jobs]
    for host, whole in enumerate(capacity):
        used = [0] * len(whole)
        demands = [_slots(job.bundle, whole) for job in jobs]
        remaining = [sum(d) * f for d, f in zip(demands, fractions, strict=True)]
        while True:
            free = _slots([w - u for w, u in zip(whole, used, strict=True)], whole)
            alignment = [sum(f * d for f, d in zip(free, its, strict=True)) for its in demands]
            if not sum(remaining):
                break
            # The means are divided one by one, as there, for the same last digit.
            weight = (sum(alignment) / len(jobs)) / (sum(remaining) / len(jobs))
            open_ = [k for k, job in enumerate(jobs) if job.takes_bundle]
            if not weight or not open_:
                break
            best = min(open_, key=lambda k: (-(alignment[k] + weight * remaining[k]), k))
            after = [u + b for u, b in zip(used, jobs[best].bundle, strict=True)]
            if any(u > w for u, w in zip(after, whole, strict=True)):
                break
            used = after
            jobs[best].add(host, 1, 1)


def _slots(amounts: Sequence[int], whole: Sequence[int]) -> list[float]:
    """Return amounts in slots: a host has as many of each resource as it has cores.

    Slots are whole numbers in DL2's evaluation, and so they are here, for the same last digit.
    """
    slots = max(1, whole[1] // MILLI)
    return [amount * slots / w if w else 0.0 for amount, w in zip(amounts, whole, strict=True)]


def optimus(slot: PublishedSlot) -> None:
    """Give the task that shortens a job's remaining time most, again and again.

    The gain of a task is asked for one task beyond the largest number, too: a job whose better role
    is at its limit is left out, even if the other role would help. That needs a table that goes one
    task beyond `max_tasks`; where it does not, the role at its limit is not offered.
    """
    heap: list[tuple[float, int, str]] = []
    for k, job in enumerate(slot.jobs):
        gain, role = _offer(job)
        heapq.heappush(heap, (-gain, k, role))
    while heap:
        loss, k, role = heapq.heappop(heap)
        job = slot.jobs[k]
        if loss >= 0:
            return
        limit, held = (
            (job.max_workers, job.workers) if role == WORKER else (job.max_servers, job.servers)
        )
        if held >= limit:
            continue
        if not slot.give(job, int(role == WORKER), int(role == SERVER)):
            return
        gain, role = _offer(job)
        heapq.heappush(heap, (-gain, k, role))


def _offer(job: PublishedJob) -> tuple[float, str]:
    """Return the better of one more PS and one more worker, PS on ties, and its gain, slots."""
    workers, servers = job.workers, job.servers
    if not workers:
        return math.inf, WORKER
    if not servers:
        return math.inf, SERVER
    now = _time(job, workers, servers)
    worker = _gain(now, _time(job, workers + 1, servers))
    server = _gain(now, _time(job, workers, servers + 1))
    return (server, SERVER) if server >= worker else (worker, WORKER)


def _time(job: PublishedJob, workers: int, servers: int) -> float | None:
    """Return the remaining time with a pair, slots, or None beyond the table."""
    rate = job.rate(workers, servers)
    if rate is None:
        inside = workers <= job.max_workers and servers <= job.max_servers
        return math.inf if inside else None
    return job.left / rate if rate > 0 else math.copysign(math.inf, job.left)


def _gain(now: float | None, then: float | None) -> float:
    if now is None or then is None:
        return -math.inf
    gain = now - then
    return -math.inf if math.isnan(gain) else gain


_FILLS: Mapping[str, Callable[[PublishedSlot], None]] = {
    "drf": drf,
    "fifo": fifo,
    "srtf-dl2": srtf,
    "tetris": tetris,
    "optimus": optimus,
}


class PublishedRule:
    """Decides by one of the rules above.

    Parameters
    ----------
    name
        Of the rule: ``drf``, ``fifo``, ``srtf-dl2``, ``tetris`` or ``optimus``.
    max_tasks
        Most workers, and most PSs, of a job (MAX_NUM_WORKERS); None: as many as its table has.
    """

    def __init__(self, name: str, max_tasks: int | None = None) -> None:
        if max_tasks is not None:
            require_count(max_tasks, f"scheduler {name}", "max_tasks", least=1)
        self._name = name
        self._fill = _FILLS[name]
        self._max_tasks = max_tasks
        self._jobs: dict[str, PublishedJob] = {}

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._jobs.clear()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            If the instance has what DL2's evaluation does not know.
        """
        if state.slot_s is None or state.quotas:
            what = "decide slot by slot" if state.slot_s is None else "know no quotas"
            raise UnsupportedFeatureError(
                f'scheduler {self._name}: the rules of DL2 {what}; use rules="alloc" here.'
            )
        slot = PublishedSlot([self._enter(view, state) for view in state.jobs], state.topology)
        if slot.jobs:
            self._fill(slot)
        return slot.decision()

    def _enter(self, view: JobView, state: ClusterState) -> PublishedJob:
        job = self._jobs.get(view.id)
        if job is None:
            job = self._jobs[view.id] = self._new(view, state.topology)
        job.begin(view, state.slot_s or 0.0)
        return job

    def _new(self, view: JobView, topology: Topology) -> PublishedJob:
        ladder = ladder_of(view, topology)
        if not isinstance(ladder, TaskLadder) or not view.preemptible:
            raise UnsupportedFeatureError(
                f"scheduler {self._name}: the rules of DL2 are for malleable jobs of workers and "
                f'PSs that fit every host and may be paused, which job "{view.id}" is not; use '
                'rules="alloc" here.'
            )
        return PublishedJob(view, ladder, self._max_tasks)


def published_rule(
    name: str, rules: Rules, max_tasks: int | None, departures: Mapping[str, bool]
) -> PublishedRule | None:
    """Return the published rule of a policy if its `rules` ask for it, or None.

    Parameters
    ----------
    name
        Name of the policy.
    rules
        One of `RULES`.
    max_tasks
        As in `PublishedRule`.
    departures
        Options of the policy that depart from the published rules, and whether they are set.

    Raises
    ------
    InstanceError
        If there are no such rules, or options contradict them.
    """
    if rules not in RULES:
        raise InstanceError(
            f'scheduler {name}: rules "{rules}" are unknown{nearest(rules, RULES, ";")} '
            f"known: {', '.join(RULES)}."
        )
    if rules == "alloc":
        if max_tasks is not None:
            raise InstanceError(
                f'scheduler {name}: max_tasks is {max_tasks} but rules is "alloc", where the table '
                'of a job is the limit; leave it out or set rules="dl2".'
            )
        return None
    for option, is_set in departures.items():
        if is_set:
            raise InstanceError(
                f"scheduler {name}: {option} departs from the rules of DL2; leave it out or set "
                'rules="alloc".'
            )
    return PublishedRule(name, max_tasks)
