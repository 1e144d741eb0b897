"""What an experiment is: who is compared, on what terms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from alloc.errors import InstanceError, nearest
from alloc.families import require_family
from alloc.objectives import ScheduleObjective, Sense, WeightedSum, objective
from alloc.schedulers.state import Knowledge, Scheduler
from alloc.simulation.information import require_errors
from alloc.units import require_positive

OPTIMUM = "optimum"
"""Name of the row of the solved schedule, which no scheduler may have."""
VALUE = "value"
"""The one objective of which more is better: what the jobs that complete in time are worth."""


@dataclass(frozen=True)
class Entry:
    """A scheduler that takes part.

    Parameters
    ----------
    name
        Name in the registry of schedulers or of the given `scheduler`, or a place such as
        ``./rule.py:MyRule``.
    options
        Options handed to the registry; they must be plain JSON values.
    scheduler
        A ready scheduler instead, for policies that are in no registry. Its attributes and the file
        of its class are part of the key of its cells, so that neither a retrained policy nor an
        older code is mistaken for it. What that file imports is not: after a change there, give it
        another name or run without `resume`.
    place
        Where each process finds the scheduler, if it is outside of the registry; `name` is then
        what it calls itself.
    content
        A hash of what is at that place and of what the scheduler made there holds, part of the key
        of its cells.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Scheduler | None = None
    place: str | None = None
    content: str = ""

    @staticmethod
    def of(value: str | Entry | Scheduler | Callable[..., Any]) -> Entry:
        """Return the entry of a name, a place, a policy file, a scheduler, a class or a function.

        Raises
        ------
        InstanceError
            If it is none of these, or misses what a scheduler must have.
        """
        from alloc.schedulers.registry import is_learned, make_scheduler, scheduler_of, settled

        if isinstance(value, str):
            value = Entry(value)
        if isinstance(value, Entry):
            if value.scheduler is not None or value.place is not None:
                return value
            place, content = settled(value.name)
            if content:
                made = make_scheduler(place, **value.options)
                # What it holds may come from another file, as the weights of an agent do.
                with suppress(InstanceError):  # it need not be sent: each process makes its own
                    content = f"{content} {_content(made)}"
                return Entry(made.name, value.options, None, place, content)
            if not is_learned(value.name):
                return value
            # By its content: the file of that name may hold another policy tomorrow.
            value = make_scheduler(value.name, **value.options)
        made = scheduler_of(value)
        return Entry(made.name, {"content": _content(made)}, made)

    @property
    def key_options(self) -> dict[str, Any]:
        """What the decisions depend on beside the name, for the key of stored results."""
        return {**self.options, "content": self.content} if self.content else dict(self.options)

    @property
    def label(self) -> str:
        """Name for people, as the command line takes it: with its options when it has any."""
        if not self.options or self.scheduler is not None:
            return self.name
        inner = ", ".join(
            f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"
            for key, value in sorted(self.options.items())
        )
        return f"{self.name}({inner})"

    def build(self) -> Scheduler:
        """Return the scheduler itself."""
        if self.scheduler is not None:
            return self.scheduler
        from alloc.schedulers import make_scheduler

        return make_scheduler(self.place or self.name, **self.options)


@dataclass(frozen=True)
class Settings:
    """The terms of an experiment, the same for all its schedulers.

    Parameters
    ----------
    knowledge
        What schedulers are told of a job's work: ``exact``, ``estimate`` or ``none``.
    work_error
        Largest relative error of the estimate of work, 0 or more and below 1.
    speed_error
        Largest relative error of the estimate of speed, 0 or more and below 1.
    objective
        What the gap is about: the name of a cost of schedules, a weighted sum of some, such as
        ``weighted_jct + 10 makespan``, or ``value``: what the jobs that complete in time are worth.
    formulation, backend
        What is solved for the bound, and by what. The bound of a value is always that of
        ``admission``, where jobs may be refused.
    time_limit_s
        Wall time of the solve for the bound of one instance, seconds.
    solver_seed
        Random seed of that solve.
    """

    knowledge: Knowledge = "exact"
    work_error: float = 0.0
    speed_error: float = 0.0
    objective: str = "weighted_jct"
    formulation: str = "malleable"
    backend: str = "auto"
    time_limit_s: float = 60.0
    solver_seed: int = 0

    def __post_init__(self) -> None:
        where = "comparison"
        if self.knowledge not in get_args(Knowledge):
            raise InstanceError(
                f'{where}: knowledge "{self.knowledge}" is unknown'
                f"{nearest(str(self.knowledge), get_args(Knowledge), '.')} "
                f"Known: {', '.join(get_args(Knowledge))}."
            )
        require_errors(self.knowledge, self.work_error, self.speed_error)
        require_positive(self.time_limit_s, where, "time_limit_s")
        found = objective(self.objective)
        terms = [term for _, term in found.terms] if isinstance(found, WeightedSum) else [found]
        if self.objective != VALUE and not all(
            isinstance(term, ScheduleObjective) and term.sense == "min" for term in terms
        ):
            raise InstanceError(
                f'{where}: objective "{self.objective}" is not a cost of schedules; '
                f"choose for example weighted_jct, or {VALUE}."
            )
        if self.objective == VALUE and self.formulation == "malleable":
            object.__setattr__(self, "formulation", "admission")
        # Refused here, and not after all schedulers have run, for want of a bound.
        require_family(self.formulation).require_objective(None, self.objective)

    @property
    def sense(self) -> Sense:
        """Whether less or more of the objective is better."""
        return objective(self.objective).sense

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)


def _content(scheduler: Scheduler) -> str:
    """Return a hash of a scheduler's attributes, arrays included, or the `content` it states."""
    stated = getattr(scheduler, "content", None)
    if isinstance(stated, str):
        return stated
    from alloc.comparison.hashing import configuration_hash  # loads joblib
    from alloc.schedulers.places import code_of, raised

    try:
        scheduler.reset()
    except (Exception, SystemExit) as error:
        raise InstanceError(
            f'scheduler "{scheduler.name}": its reset fails, {raised(error)}; mend it there.'
        ) from error
    try:
        attributes = configuration_hash(scheduler)
    except Exception as error:  # whatever the objects that it holds raise when they are pickled
        reason = " ".join(str(error.args[0] if error.args else error).split())
        raise InstanceError(
            f'scheduler "{scheduler.name}" cannot be sent to another process ({reason}); define '
            "its class at the top of a module and keep open files and functions out of it, or let "
            "it state its content, a text that changes with its decisions."
        ) from None
    if type(scheduler).__module__.startswith("alloc."):
        return attributes
    return f"{attributes} {code_of(type(scheduler))}"


def key_of(**parts: Any) -> str:
    """Return a key for a piece of work: SHA-256 of the canonical JSON of what it depends on.

    Raises
    ------
    InstanceError
        If a part is not a plain JSON value.
    """
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InstanceError(
            f"comparison: the options {parts} cannot be written as JSON ({error}); use numbers, "
            "strings, lists and mappings, or hand in a ready scheduler."
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()
