"""Results: how far a search goes, and its answer with certificate, repairs and sensitivities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, Generic, TypeVar, overload

from alloc.certificate import OPTIMALITY_GAP, Certificate, Status
from alloc.errors import AllocError, InstanceError
from alloc.serialisation import Documented
from alloc.tabular import Tabular
from alloc.units import require_non_negative

_MAX_WHOLE = 2**31 - 1
"""Largest seed or number of threads that HiGHS and CP-SAT take."""


@dataclass(frozen=True)
class Limits:
    """How far a search goes.

    Parameters
    ----------
    seconds
        Wall time, seconds, more than 0. The best solution found by then is returned with the
        bound proved by then.
    gap
        Relative gap between value and bound at which the search may stop, 0 or more. General
        solvers, right-sizing, inference sizing, operation and quadratic assignment stop there;
        the other methods look only at the time and go on to the optimum. Whatever is given here,
        an answer is called optimal only where its gap is at most 1e-6.
    seed
        Random seed, 0 to 2,147,483,647.
    workers
        Threads of the solver, 1 or more, and of placement, malleable and right-sizing also
        processes that search: this one, and so many less one beside it.
    memory_mib
        Memory that the search may take beyond what a fresh process holds, MiB, 1 or more; None
        without limit. `alloc.solve` then works in a process of its own, as with ``isolated``. At
        nine tenths the search ends as at Ctrl-C, and the best solution found is returned with the
        bound proved by then, limit ``"memory"``. A step that asks for more than is left at once
        fails, which is a `SolverError`.

    Raises
    ------
    InstanceError
        If a number is out of its range.
    """

    seconds: float = 60.0
    gap: float = OPTIMALITY_GAP
    seed: int = 0
    workers: int = 1
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "gap"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise InstanceError(f"limits: {name} is {value!r}; give a number.")
        if not (self.seconds > 0 and math.isfinite(self.seconds)):
            raise InstanceError(
                f"limits: seconds is {self.seconds}; give a number of seconds above 0."
            )
        require_non_negative(self.gap, "limits", "gap")
        whole = [("seed", 0), ("workers", 1)]
        if self.memory_mib is not None:
            whole.append(("memory_mib", 1))
        for name, least in whole:
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, Integral)
                or not least <= int(value) <= _MAX_WHOLE
            ):
                raise InstanceError(
                    f"limits: {name} is {value}; give a whole number from {least} to {_MAX_WHOLE}."
                )

    def replace(self, **changes: Any) -> Limits:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class Repair:
    """A change that makes an infeasible problem feasible, alone or with others: the least found.

    Parameters
    ----------
    kind
        What gives way. Of right-sizing ``demand``, ``goal``, ``budget``, ``rack_units``,
        ``ports``, ``power_kw`` or ``carbon``; of inference ``goal``, ``rate``, ``hosts``,
        ``failures`` or ``memory``; of quotas ``capacity`` or ``exceeding``.
    name
        What it is of, for example a class, site, model or pool; empty for the whole problem.
    amount, unit
        By how much it changes, more than 0, and the unit; 1 ``goal`` for a goal that is given up.
    sentence
        The same for people.
    scenario
        The scenario in which it is short, or None if in all.
    quarter
        Quarter, from 0; None: all together.
    before, after
        The number that changes, in the same unit; None where there is no single one.
    option
        Number of the option that it belongs to, from 0, the one that changes least first. All
        repairs of an option are needed together, and one option is enough.
    least
        Whether it is proved that no option of these kinds changes less.
    cost
        Cost of the best solution after the option, or None if it was not solved.
    """

    kind: str
    name: str
    amount: float
    unit: str
    sentence: str
    scenario: str | None = None
    quarter: int | None = None
    before: float | None = None
    after: float | None = None
    option: int = 0
    least: bool = False
    cost: float | None = None


@dataclass(frozen=True)
class Sensitivity:
    """What more of something does to the objective.

    Parameters
    ----------
    kind
        What there is more of: of right-sizing ``budget``, ``rack_units``, ``ports``,
        ``power_kw``, ``carbon``, ``host`` or ``demand``; of inference ``host`` or ``rate``; of
        quotas ``gpu`` or ``demand``.
    name
        What it is of, for example a site, class, pool or tenant; empty for the whole problem.
    amount, unit
        How much more.
    value
        Objective with it less objective without it, so less than 0 where a cost falls; None: there
        is no solution with it, or none was found.
    period
        The period of a plan in which there is more, from 0; None: in all.
    lower, upper
        Proved range of the value; None: nothing is proved.
    is_exact
        Whether the value is proved, or that there is none.
    """

    kind: str
    name: str
    amount: float
    unit: str
    value: float | None
    period: int | None = None
    lower: float | None = None
    upper: float | None = None
    is_exact: bool = False


S = TypeVar("S")
T = TypeVar("T")


class Deferred(Sequence[T]):
    """A sequence that is worked out when somebody first looks at it, and then kept.

    It equals the tuple of its items, and is pickled as that.

    Parameters
    ----------
    work_out
        Returns the items; Ctrl-C in it goes to who looks, and the next one to look begins afresh.
    """

    def __init__(self, work_out: Callable[[], Sequence[T]]) -> None:
        self._work_out: Callable[[], Sequence[T]] | None = work_out
        self._items: tuple[T, ...] = ()

    @property
    def items(self) -> tuple[T, ...]:
        """The items."""
        work_out = self._work_out  # another thread may be at it
        if work_out is not None:
            self._items = tuple(work_out())
            self._work_out = None  # with all the data that it holds
        return self._items

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return self.items == (other.items if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(self.items)

    def __repr__(self) -> str:
        return repr(self.items)

    def __reduce__(self) -> tuple[type, tuple[tuple[T, ...]]]:
        return tuple, (self.items,)


@dataclass(frozen=True)
class Result(Documented, Tabular, Generic[S]):
    """An answer with its certificate: what `alloc.solve` returns for every family.

    Parameters
    ----------
    solution
        The best solution found, or ``None``.
    certificate
        What is proved about it.
    log
        What the method reports, one line a step.
    conflict
        For an infeasible instance, the requirements in conflict.
    stages
        For a goal of several levels, the certificate of each, most important first: the bound of a
        level holds among solutions that keep what the earlier ones reached. `certificate` is that
        of the first level that is not proved optimal, or of the last. Empty for a single objective.
    repairs
        For an infeasible problem, what would make it feasible, the option that changes least
        first.
    sensitivities
        What a little more of each thing would do to the objective.
    assumptions
        What the answer takes for granted, in sentences.
    """

    solution: S | None
    certificate: Certificate
    log: tuple[str, ...] = ()
    conflict: str | None = None
    stages: tuple[Certificate, ...] = ()
    repairs: tuple[Repair, ...] = ()
    sensitivities: Sequence[Sensitivity] = ()
    assumptions: tuple[str, ...] = ()

    def complete(self) -> Result[S]:
        """Work out what is deferred, and return the result.

        Ctrl-C in it keeps the answer: what is returned then has no sensitivities, and the interrupt
        as the limit of its certificate.
        """
        try:
            len(self.sensitivities)
        except KeyboardInterrupt:
            certificate = self.certificate.replace(limit="interrupt")
            return self.replace(certificate=certificate, sensitivities=())
        return self

    def __getstate__(self) -> dict[str, Any]:
        # What is sent to another process is an answer that Ctrl-C must not lose.
        return vars(self.complete())

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return it, complete, as a JSON document, and write it if a path is given.

        Parameters
        ----------
        path
            Path of the file, or None to write none; compressed where its name ends in ``.gz``.

        Raises
        ------
        InstanceError
            If a name or number in it has no place in a document.
        AllocError
            If the file cannot be written; what was there before is still there.
        """
        return super(Result, self.complete()).to_json(path)

    @property
    def status(self) -> Status:
        """Status of the certificate."""
        return self.certificate.status

    @property
    def objective(self) -> float | None:
        """Value of the solution, recomputed by the checker, or None without one."""
        return self.certificate.objective

    @property
    def bound(self) -> float:
        """Proved bound on every solution's value."""
        return self.certificate.bound

    @property
    def gap(self) -> float | None:
        """Relative gap between objective and bound, 0 or more; None without a solution."""
        return self.certificate.gap

    @property
    def repair_options(self) -> tuple[str, ...]:
        """For an infeasible problem, what would be enough: a sentence for each option."""
        options = dict.fromkeys(repair.option for repair in self.repairs)
        return tuple(
            "; and ".join(repair.sentence for repair in self.repairs if repair.option == option)
            for option in options
        )

    def require_kind(self, kind: type, where: str) -> None:
        """Refuse the result of another family.

        Parameters
        ----------
        kind
            Type that the solution must have, if there is one.
        where
            What holds the result, for the message.

        Raises
        ------
        InstanceError
            If it has another.
        """
        if self.solution is not None and not isinstance(self.solution, kind):
            raise InstanceError(
                f"{where}: the solution is {type(self.solution).__name__}; give a result whose "
                f"solution is {kind.__name__}."
            )

    def require_solution(self) -> S:
        """Return the solution.

        Raises
        ------
        AllocError
            If there is none; the message says why.
        """
        if self.solution is None:
            reason = self.conflict or f"status {self.certificate.status}"
            raise AllocError(f"there is no solution: {reason}")
        return self.solution

    @classmethod
    def from_json(cls, text: str | bytes) -> Result[Any]:
        """Read a result from the text of a JSON document; the document says of which family."""
        return super().from_json(text)
