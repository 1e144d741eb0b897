"""Quotas: tenants hold what is theirs, and what their cohort lends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run
from alloc.units import MILLI
from alloc.verification.peaks import peaks_of
from alloc.verification.violation import Violation


def check_quotas(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield tenants and cohorts that are over their GPU quota, each at its worst moment.

    A tenant holds at most its quota and what it may borrow; the tenants of a cohort together at
    most the sum of their quotas.

    Parameters
    ----------
    instance
        The jobs, and the tenants with their quotas and cohorts.
    runs
        Runs of its jobs.
    """
    if not instance.tenants:
        return
    tenants = {tenant.name: k for k, tenant in enumerate(instance.tenants)}
    held = [run for run in runs if instance.job(run.job).tenant in tenants]
    if not held:
        return
    owner = np.array([tenants[instance.job(run.job).tenant or ""] for run in held])
    spans = np.array([(run.start_s, run.end_s) for run in held])
    demands = np.array(
        [[instance.job(run.job).configurations[run.configuration].demand[0]] for run in held]
    )
    peaks, times = peaks_of(owner, spans, demands, len(tenants))
    for tenant, peak, time in zip(instance.tenants, peaks[:, 0], times[:, 0], strict=True):
        excess = int(peak) - tenant.gpu_quota_milli - tenant.borrowing_milli
        if excess > 0:
            borrowed = (
                f" and the {tenant.borrowing_milli / MILLI:g} it may borrow"
                if tenant.borrowing_milli
                else ""
            )
            yield Violation(
                "quota",
                (tenant.name,),
                excess,
                "milli-GPU",
                f'tenant "{tenant.name}" holds {peak / MILLI:g} GPUs at {time:g} s, '
                f"{excess / MILLI:g} over its quota{borrowed}.",
            )
    cohorts = list(dict.fromkeys(t.cohort for t in instance.tenants if t.cohort is not None))
    if not cohorts:
        return
    cohort_of = np.array(
        [-1 if t.cohort is None else cohorts.index(t.cohort) for t in instance.tenants]
    )[owner]
    inside = cohort_of >= 0
    if not inside.any():
        return
    peaks, times = peaks_of(cohort_of[inside], spans[inside], demands[inside], len(cohorts))
    for cohort, peak, time in zip(cohorts, peaks[:, 0], times[:, 0], strict=True):
        excess = int(peak) - sum(t.gpu_quota_milli for t in instance.tenants if t.cohort == cohort)
        if excess > 0:
            yield Violation(
                "cohort",
                (cohort,),
                excess,
                "milli-GPU",
                f'cohort "{cohort}" holds {peak / MILLI:g} GPUs at {time:g} s, '
                f"{excess / MILLI:g} over the quotas of its tenants.",
            )
