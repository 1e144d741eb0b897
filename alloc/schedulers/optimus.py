"""Optimus: the task that saves the most remaining time, again and again."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from alloc.schedulers.grant import Grant, Outcome
from alloc.schedulers.ladder import SERVER, WORKER, TaskLadder
from alloc.schedulers.policy import Policy
from alloc.schedulers.published import Rules
from alloc.schedulers.round import Round
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import JobView, Knowledge
from alloc.workload import Configuration


@dataclass(slots=True, eq=False)
class _Step:
    """More tasks of a role, or one level more, and the rate that a job has then.

    Parameters
    ----------
    role
        Of the tasks; None for a level.
    tasks
        How many more.
    each, demand
        What one of them asks for, and all.
    rate
        Work units per second.
    then
        Where it leads, once it was taken by some job.
    """

    role: str | None
    tasks: int
    each: tuple[int, ...]
    demand: tuple[int, ...]
    rate: float
    then: _Point | None = None


class _Point:
    """What a job with a table has reached: its rate, and the steps that it can take from there.

    Parameters
    ----------
    rate
        Rate, work units per second; 0 where it has too little to run.
    steps
        The steps, none at its top.
    """

    __slots__ = ("rate", "steps")

    def __init__(self, rate: float, steps: tuple[_Step, ...]) -> None:
        self.rate, self.steps = rate, steps


class Optimus(Policy):
    """Give one worker or one PS at a time to the job whose remaining time it shortens most.

    The gain of a step from rate r to rate r' is left / r - left / r', with the remaining work and
    the rates as known. A job that has too few tasks to run gains without limit, so every job first
    gets its first worker and its first PS, in order of arrival; of a job's two roles the better is
    offered, PS on ties. Each task goes to the least loaded host. The first gain that is not above 0
    ends the round, and so does the first task that does not fit. Greedy by one step, so it stops at
    local optima of tables that are not concave.

    Other jobs climb their undominated configurations, ordered by demand.

    Parameters
    ----------
    per_dominant_resource
        Divide the gain by the step's dominant share (its largest fraction of a resource of the
        cluster), as Optimus does; the DL2 evaluation does not, and that is the default here.
    skip
        Leave out a job whose step does not fit and go on (departure: the published rule stops).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018, section 4.1; as in the evaluation of DL2 (Peng et al., IEEE TPDS 2021, and its
    released code). Departures: it is given the rates and does not learn them; pairs outside a job's
    table, or in it with rate 0, cannot be reached and are stepped over (there the table is
    extrapolated, and a job whose better role is at its limit is left out); ties go to the order of
    the instance. Original Optimus divides by the amount of the dominant resource, which orders
    steps alike as long as they share that resource.
    """

    name = "optimus"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations"

    def __init__(
        self,
        *,
        per_dominant_resource: bool = False,
        skip: bool = False,
        rules: Rules = "alloc",
        max_tasks: int | None = None,
    ) -> None:
        departures = {"per_dominant_resource": per_dominant_resource, "skip": skip}
        super().__init__(rules, max_tasks, departures)
        self._per_dominant_resource = per_dominant_resource
        self._skip = skip

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        total = [int(amount) for amount in round_.state.topology.totals]
        quotas = round_.state.quotas
        known: dict[tuple[int, int, int], _Point] = {}
        points: list[_Point | None] = [None] * len(competing)  # where there is a table of tasks
        lefts: list[float | None] = [None] * len(competing)
        plain = not self._per_dominant_resource and not quotas
        is_watched = round_.is_watched

        def give(grant: Grant, step: _Step) -> bool:
            """Give a step's tasks; return whether they fit."""
            if step.tasks == 1 and not is_watched:
                host = round_.hosts.give(step.each)
                if host is not None:
                    (grant.workers_on if step.role == WORKER else grant.servers_on).append(host)
                return host is not None
            return round_.give_tasks(grant, (step.role or "",), step.each, step.tasks)

        def after(grant: Grant, step: _Step) -> _Point:
            """Return where a job is once it has taken a step."""
            if step.then is None:
                step.then = _point_of(grant, known)
                assert step.then is not None
            return step.then

        def best(k: int) -> tuple[float, _Step] | None:
            view, point = competing[k], points[k]
            if point is None:
                now, steps = _gang_steps(round_, round_.grant_of(view))
            else:
                now, steps = point.rate, point.steps
                if plain and now > 0:
                    left = lefts[k]
                    if left is None:
                        left = lefts[k] = work_of(view)[1]
                    if len(steps) == 2:
                        servers, workers = steps
                        gains = left / now - left / servers.rate, left / now - left / workers.rate
                        # Of equals the PS.
                        return (gains[1], workers) if gains[1] > gains[0] else (gains[0], servers)
            chosen, worth, left = None, -math.inf, lefts[k]
            if left is None and now > 0 and steps:
                left = lefts[k] = work_of(view)[1]
            for step in steps:
                if view.tenant in quotas and not round_.allows(view, step.demand[0]):
                    continue
                value = math.inf
                if now > 0 and left is not None:
                    value = left / now - left / step.rate
                    if not plain:
                        value = self._worth(value, step, total)
                # The first of equals: the PS comes before the worker.
                if chosen is None or value > worth:
                    chosen, worth = step, value
            return None if chosen is None else (worth, chosen)

        def take(k: int, step: _Step) -> Outcome:
            view, point = competing[k], points[k]
            if point is None or step.role is None:
                return round_.step(view)
            grant = round_.grants[view.id]
            if quotas:
                outcome = round_.step_task(view, step.role, step.tasks)
                if outcome is not Outcome.GRANTED:
                    return outcome
            elif not give(grant, step):
                return Outcome.MISFIT
            points[k] = after(grant, step)
            return Outcome.GRANTED

        heap: list[tuple[float, int, _Step]] = []
        later: list[int] = []
        starts: dict[int, _Point | None] = {}  # by ladder
        is_quick = plain and not is_watched
        ladders = self._memory.ladders(competing, round_.state.topology)
        for k, (view, ladder) in enumerate(zip(competing, ladders, strict=True)):
            if is_quick and isinstance(ladder, TaskLadder):
                # Its first tasks, without a look at what they are worth.
                hosts = round_.hosts.give_in_turn(ladder.first_tasks)
                workers = ladder.first[0]
                round_.grants[view.id] = Grant(view, ladder, hosts[:workers], hosts[workers:])
                if len(hosts) == len(ladder.first_tasks):
                    later.append(k)  # what a step is worth depends on the job alone
                elif not self._skip:
                    return
                continue
            grant = round_.grant_of(view)
            if id(ladder) not in starts:
                starts[id(ladder)] = _point_of(grant, known)
            points[k] = starts[id(ladder)]
            # Steps without limit come first, job after job.
            while (offer := best(k)) is not None and offer[0] == math.inf:
                outcome = take(k, offer[1])
                if outcome is Outcome.MISFIT and not self._skip:
                    return
                if outcome is not Outcome.GRANTED:
                    offer = None
                    break
            if offer is not None:
                heap.append((-offer[0], k, offer[1]))
        firsts: dict[int, _Point] = {}  # by ladder
        for k in later:
            grant = round_.grants[competing[k].id]
            point = firsts.get(id(grant.ladder))
            if point is None:
                point = _point_of(grant, known)
                assert point is not None
                firsts[id(grant.ladder)] = point
            points[k] = point
            if (offer := best(k)) is not None:
                heap.append((-offer[0], k, offer[1]))
        heapq.heapify(heap)
        while heap:
            loss, k, step = heap[0]  # it stays there until the job's next step is known
            if loss >= 0:
                break
            if is_quick and step.tasks == 1 and step.role is not None:
                host = round_.hosts.give(step.each)
                if host is None:
                    if not self._skip:
                        break
                    heapq.heappop(heap)
                    continue
                grant = round_.grants[competing[k].id]
                (grant.workers_on if step.role == WORKER else grant.servers_on).append(host)
                points[k] = step.then or after(grant, step)
                offer = best(k)
            else:
                outcome = take(k, step)
                if outcome is Outcome.MISFIT and not self._skip:
                    break
                offer = best(k) if outcome is Outcome.GRANTED else None
            if offer is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (-offer[0], k, offer[1]))

    def _worth(self, gain: float, step: _Step, total: Sequence[int]) -> float:
        """Return the gain of a step, seconds, per dominant share if so wanted."""
        if not self._per_dominant_resource or not 0 < gain < math.inf:
            return gain
        share = max(d / t for d, t in zip(step.demand, total, strict=True) if t)
        return gain / share if share > 0 else math.inf


def _point_of(grant: Grant, known: dict[tuple[int, int, int], _Point]) -> _Point | None:
    """Return what a job has reached, None for a gang: it has no table of tasks.

    Parameters
    ----------
    grant
        What the job has.
    known
        Those of tables already met in this round, by table and numbers of workers and PSs.
    """
    table, ladder = grant.view.configurations, grant.ladder
    if not isinstance(ladder, TaskLadder):
        return None
    key = (id(table), len(grant.workers_on), len(grant.servers_on))
    point = known.get(key)
    if point is None:
        point = known[key] = _Point(*_task_steps(ladder, table, *key[1:]))
    return point


def _gang_steps(round_: Round, grant: Grant) -> tuple[float, tuple[_Step, ...]]:
    """Return the rate of a gang, and the step to its next level, none at its top."""
    level = round_.next_level(grant.view)
    if level is None:
        return grant.rate, ()
    table = grant.view.configurations
    rate = max(table[c].rate for c in level.configurations)
    demand = tuple(a - b for a, b in zip(level.demand, grant.demand, strict=True))
    return grant.rate, (_Step(None, 1, demand, demand, rate),)


def _task_steps(
    ladder: TaskLadder, table: Sequence[Configuration], workers: int, servers: int
) -> tuple[float, tuple[_Step, ...]]:
    """Return one more PS and one more worker, as far as the table goes."""
    reached = ladder.index.get((workers, servers))
    if reached is None:
        # On the way to the first pair of the table; for DL2's tables that is one of each.
        if workers < ladder.first[0]:
            return 0.0, (_step(WORKER, 1, ladder.worker, 0.0),)
        return 0.0, (_step(SERVER, 1, ladder.server, 0.0),)
    steps = []
    more = ladder.next_servers(workers, servers)
    if more is not None:
        rate = table[ladder.index[workers, more]].rate
        steps.append(_step(SERVER, more - servers, ladder.server, rate))
    more = ladder.next_workers(workers, servers)
    if more is not None:
        rate = table[ladder.index[more, servers]].rate
        steps.append(_step(WORKER, more - workers, ladder.worker, rate))
    return table[reached].rate, tuple(steps)


def _step(role: str, count: int, demand: tuple[int, ...], rate: float) -> _Step:
    return _Step(role, count, demand, tuple(amount * count for amount in demand), rate)
