"""One worker each, then parameter servers at random: a rule that learns nothing."""

from __future__ import annotations

from collections.abc import Sequence

from alloc.schedulers.grant import Outcome
from alloc.schedulers.ladder import SERVER, TaskLadder
from alloc.schedulers.policy import Policy
from alloc.schedulers.round import Round
from alloc.schedulers.state import JobView, Knowledge


class RandomPs(Policy):
    """Give every job one worker, and what then remains, at random, as parameter servers.

    Every job gets a bundle of one worker and one PS in order of arrival (without its first PS a job
    makes no progress); then jobs drawn evenly get one more PS each, until one does not fit on the
    least loaded host or all are at the top of their tables. Other jobs get their smallest gang
    first and then, when drawn, the next level.

    On DL2's measured speeds parameter servers are what jobs lack, so this rule comes close to
    trained policies: report it beside them.

    References
    ----------
    The first step is the one DL2's code takes before its policy is asked (Peng et al., IEEE TPDS
    2021); the rest is this project's own yardstick.
    """

    name = "random-ps"
    needs: Knowledge = "none"
    draws = True
    information = "nothing but which pairs of workers and PSs a job can run"

    def __init__(self) -> None:
        super().__init__()

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        open_ = []
        for view in competing:
            outcome = round_.step(view)
            if outcome is Outcome.MISFIT:
                break
            if outcome is Outcome.GRANTED:
                open_.append(view)
        else:
            while open_:
                k = int(round_.state.rng.integers(len(open_)))
                view = open_[k]
                grant = round_.grant_of(view)
                if isinstance(grant.ladder, TaskLadder):
                    after = grant.ladder.next_servers(grant.workers, grant.servers)
                    count = 0 if after is None else after - grant.servers
                    outcome = round_.step_task(view, SERVER, count) if count else Outcome.TOP
                else:
                    outcome = round_.step(view)
                if outcome is Outcome.MISFIT:
                    break
                if outcome is Outcome.TOP:
                    del open_[k]
