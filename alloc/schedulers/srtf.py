"""SRTF: shortest remaining time first, and the rule of that name in DL2's evaluation."""

from __future__ import annotations

from typing import Literal

from alloc.errors import InstanceError, nearest
from alloc.schedulers.policy import Policy
from alloc.schedulers.published import Rules
from alloc.schedulers.state import JobView, Knowledge

_MEASURES = ("time", "fraction")


class Srtf(Policy):
    """Serve the job with the shortest remaining time first; each takes all it can use in turn.

    Preemptive: a job with less left takes the place of one with more. Ties: arrival, then order of
    the instance. A job that does not fit is passed over, so that a large gang does not idle the
    GPUs that others can use. On rigid gangs this is a strong rule; jobs that can share the cluster
    are better served together (`set-rule`).

    Parameters
    ----------
    by
        What is compared: ``time``, the remaining work over the job's highest rate, or
        ``fraction``, the remaining fraction of the work, in which all new jobs are equal (with
        ``skip=false`` this is `srtf-dl2`).
    skip
        Go on to the next job when one does not fit; otherwise it ends the round.

    References
    ----------
    Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
    Operations Research 16(3), 1968, for one machine; here for gangs, in list order.
    """

    name = "srtf"
    needs: Knowledge = "estimate"
    information = "remaining work"
    preemptive = True

    def __init__(self, *, by: Literal["time", "fraction"] = "time", skip: bool = True) -> None:
        super().__init__()
        if by not in _MEASURES:
            raise InstanceError(
                f'srtf: by is "{by}"{nearest(by, _MEASURES, ".")} It must be time or fraction.'
            )
        self._by = by
        self._skip = skip

    @property
    def by(self) -> str:
        """What is compared."""
        return self._by

    def _rank(self, view: JobView) -> float:
        if self._by == "fraction":
            return remaining_fraction(view)
        return remaining_time_s(view, self._memory.fastest(view.configurations))


class SrtfDl2(Policy):
    """Serve the job with the smallest remaining fraction of its work first, as DL2's SRTF does.

    This is not shortest remaining time (`srtf` is): all new jobs have all of their work left, so it
    is close to FIFO, and on rigid gangs comes out as FIFO.
    Preemptive. Ties: arrival, then order of the instance. The first job that does not fit ends the
    round.

    Parameters
    ----------
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job, 1 or more; None: as its table
        has.

    References
    ----------
    The SRTF of the DL2 evaluation: Peng et al., IEEE TPDS 2021, and its released code. Departures:
    ties of arrival go to the order of the instance (there: memory addresses); outside slots, and
    for gangs, a job takes the fastest configuration that fits.
    """

    name = "srtf-dl2"
    needs: Knowledge = "estimate"
    information = "remaining fraction of the work"
    preemptive = True

    def __init__(self, *, rules: Rules = "alloc", max_tasks: int | None = None) -> None:
        super().__init__(rules, max_tasks)

    def _rank(self, view: JobView) -> float:
        return remaining_fraction(view)


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


def remaining_time_s(view: JobView, fastest: float | None = None) -> float:
    """Return how long a job still runs at its fastest, or in what it is bound to, seconds.

    Parameters
    ----------
    view
        The job.
    fastest
        Its highest rate, work units per second, where that is known; ``None``: it is looked up.
    """
    bound = view.bound_to
    if bound is not None and (rate := view.configurations[bound].rate) > 0:
        return work_of(view)[1] / rate
    if fastest is None:
        fastest = max(configuration.rate for configuration in view.configurations)
    return work_of(view)[1] / fastest
