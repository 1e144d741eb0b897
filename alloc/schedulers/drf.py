"""DRF: dominant resource fairness by progressive filling."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from alloc.schedulers.grant import BUNDLE, Outcome
from alloc.schedulers.ladder import TaskLadder
from alloc.schedulers.policy import Policy
from alloc.schedulers.published import Rules
from alloc.schedulers.round import Round
from alloc.schedulers.state import JobView, Knowledge


class Drf(Policy):
    """Give the next step to the user with the smallest dominant share, again and again.

    A user is a job, or a tenant with all its jobs. The dominant share is the largest, over
    resources, of what the user holds relative to the cluster. A step is one bundle of a worker and
    a PS, or the next larger gang of the job's undominated configurations. Ties: arrival, then order
    of the instance. The first step that does not fit ends the round.

    Parameters
    ----------
    skip
        Leave out a job whose step does not fit, and go on with the others (departure from DL2's
        evaluation, which stops).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
    2011; bundles, ties and the end at the first misfit as in the evaluation of DL2 (Peng et al.,
    IEEE TPDS 2021), where every job is a user. Departures: ties of arrival go to the order of the
    instance (there: memory addresses); pairs missing from a job's table are stepped over.
    """

    name = "drf"
    needs: Knowledge = "none"
    information = "demands and arrival"

    def __init__(
        self, *, skip: bool = False, rules: Rules = "alloc", max_tasks: int | None = None
    ) -> None:
        super().__init__(rules, max_tasks, {"skip": skip})
        self._skip = skip

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        total = [
            (r, int(amount)) for r, amount in enumerate(round_.state.topology.totals) if amount
        ]
        # Jobs come in order of arrival, so that ties go by their positions. Each is a user by
        # itself, known by its position, or with all of its tenant's, known by the name.
        users = [k if view.tenant is None else view.tenant for k, view in enumerate(competing)]
        use: dict[int | str, list[int]] = {}
        for view, assignment in round_.pinned.values():
            if view.tenant is not None:
                _add(use, view.tenant, view.configurations[assignment.configuration].demand)

        def share(user: int | str) -> float:
            held = use.get(user)
            return 0.0 if held is None else max([held[r] / t for r, t in total])

        # Jobs that are users by themselves and take bundles: the share of so many.
        shares: dict[tuple[int, int], float] = {}
        single, is_watched = not round_.state.quotas, round_.is_watched
        heap = [(share(user) if use else 0.0, k) for k, user in enumerate(users)]
        heapq.heapify(heap)
        while heap:
            seen, k = heap[0]  # it stays there until its next share is known
            view, user = competing[k], users[k]
            if single and view.tenant is None:
                grant = round_.grant_of(view)
                ladder = grant.ladder
                if isinstance(ladder, TaskLadder):
                    given = len(grant.workers_on)
                    pair = ladder.next_pair(given)
                    if pair is None:
                        heapq.heappop(heap)
                        continue
                    if pair - given == 1 and not is_watched:
                        host = round_.hosts.give(ladder.bundle)
                        if given_all := host is not None:
                            grant.workers_on.append(host)
                            grant.servers_on.append(host)
                    else:
                        given_all = round_.give_tasks(grant, BUNDLE, ladder.bundle, pair - given)
                    if given_all:
                        key = (id(ladder), pair)
                        held = shares.get(key)
                        if held is None:
                            held = max([pair * ladder.bundle[r] / t for r, t in total])
                            shares[key] = held
                        heapq.heapreplace(heap, (held, k))
                    elif not self._skip:
                        break
                    else:
                        heapq.heappop(heap)
                    continue
            heapq.heappop(heap)
            if (now := share(user)) > seen:  # another job of the tenant was served meanwhile
                heapq.heappush(heap, (now, k))
                continue
            grant = round_.grant_of(view)
            before = grant.demand
            outcome = round_.step(view)
            if outcome is Outcome.MISFIT and not self._skip:
                break
            if outcome is Outcome.GRANTED:
                _add(use, user, [a - b for a, b in zip(grant.demand, before, strict=True)])
                heapq.heappush(heap, (share(user), k))


def _add(use: dict[int | str, list[int]], user: int | str, demand: Sequence[int]) -> None:
    held = use.get(user)
    use[user] = [*demand] if held is None else [a + b for a, b in zip(held, demand, strict=True)]
