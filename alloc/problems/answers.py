"""Answers of planning: a plan, or the reason why there is none."""

from __future__ import annotations

from typing import Generic, TypeVar

from alloc.certificate import Certificate
from alloc.errors import AllocError

P = TypeVar("P")


class Answer(Generic[P]):
    """What the results of planning share: they may hold no plan, and then say why.

    Attributes
    ----------
    plan
        The best plan found, or None.
    certificate
        What is proved about it.
    conflict
        For an infeasible problem, what is missing, in a sentence.
    """

    plan: P | None
    certificate: Certificate
    conflict: str | None

    def require_plan(self) -> P:
        """Return the plan.

        Raises
        ------
        AllocError
            If there is none; the message says why.
        """
        if self.plan is None:
            reason = self.conflict or f"status {self.certificate.status}"
            raise AllocError(f"there is no plan: {reason}")
        return self.plan
