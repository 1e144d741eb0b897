"""SRTF: shortest remaining first."""

from __future__ import annotations

from alloc.errors import InstanceError, nearest
from alloc.schedulers.policy import Policy, serve
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge

MEASURES = ("fraction", "time")
"""What may be remaining: the fraction of the job's work, or its time at full speed."""


class Srtf(Policy):
    """Serve jobs by what they have left, the least first; each takes all it can use in turn.

    Preemptive: a job with less left takes the place of one with more. Ties: arrival, then order of
    the instance. The first job that does not fit ends the round.

    Parameters
    ----------
    by
        ``fraction``: the remaining fraction of the work, as in DL2's evaluation (new jobs all have
        1, so it is close to FIFO); ``time``: remaining work over the job's highest rate, which is
        what the name says.
    skip
        Go on to the next job when one does not fit (departure: the published rule stops).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    The SRTF of the DL2 evaluation: Peng et al., IEEE TPDS 2021, and its released code. Departures:
    ties of arrival go to the order of the instance (there: memory addresses); outside slots, and
    for gangs, a job takes the fastest configuration that fits.
    """

    name = "srtf"
    needs: Knowledge = "estimate"
    information = "remaining work"
    preemptive = True

    def __init__(
        self,
        *,
        by: str = "fraction",
        skip: bool = False,
        rules: str = "alloc",
        max_tasks: int | None = None,
    ) -> None:
        super().__init__(rules, max_tasks, {"by": by != "fraction", "skip": skip})
        if by not in MEASURES:
            raise InstanceError(
                f'srtf: by is "{by}"{nearest(by, MEASURES, ".")} It must be fraction or time.'
            )
        self._measure = remaining_fraction if by == "fraction" else _remaining_time_s
        self._skip = skip

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._published is not None:
            return self._published.decide(state)
        round_, competing = self._open(state)
        order = sorted(competing, key=lambda view: (self._measure(view), view.in_order))
        serve(round_, order, skip=self._skip)
        return self._close(round_, competing)


def remaining_fraction(view: JobView) -> float:
    """Return the remaining fraction of a job's work, as known."""
    work, left = work_of(view)
    return left / work


def work_of(view: JobView) -> tuple[float, float]:
    """Return total and remaining work of a job, as known.

    Raises
    ------
    InstanceError
        If they are not known.
    """
    if view.work is None or view.work_left is None:
        raise InstanceError(
            f'job "{view.id}": its work is unknown to this policy; '
            'give it knowledge "estimate" or "exact".'
        )
    return view.work, view.work_left


def _remaining_time_s(view: JobView) -> float:
    bound = view.bound_to
    if bound is not None and (rate := view.configurations[bound].rate) > 0:
        return work_of(view)[1] / rate
    return work_of(view)[1] / max(configuration.rate for configuration in view.configurations)
