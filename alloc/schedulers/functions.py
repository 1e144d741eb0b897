"""A plain function as a scheduler.

Parameters
----------
function
    What was given as a scheduler.
where
    Its name, for the message.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Real
from typing import Any, get_args

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError, nearest
from alloc.schedulers.places import code_of
from alloc.schedulers.policy import Policy, serve
from alloc.schedulers.round import Round
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import MILLI

Rule = Callable[..., Any]
"""Called with the state and the options; returns one of what `RuleScheduler` lists."""

UNDECLARED = "not declared: at most what every scheduler is told"
"""What a function uses that does not say."""


class RuleScheduler(Policy):
    """Decide with a function of the `ClusterState`.

    At each decision the function returns one of these:

    - jobs, or their ids, in order of priority: each is given all it can use, and one that does not
      fit is passed over;
    - a mapping from job ids to GPUs: each gets its fastest configuration with at most that
      many, in the order of the mapping; with 0, or where there is no room, it waits;
    - a `Decision`, with every host by name.

    Running jobs that the function does not name keep what they have; those that it names compete
    with the others, unless they must not be paused. Of the future it is shown nothing.

    Parameters
    ----------
    rule
        The function. Attributes of it may say what else a scheduler says of itself: `name` (by
        default the function's own), `needs` (``none``) and `information`.
    where
        What it is called in messages.
    options
        Handed to it by name.

    Raises
    ------
    InstanceError
        If what it says of itself is not what it should be.
    """

    # A function that returns a decision looks at what shares a GPU itself.
    features = (*Policy.features, "interference")
    # Whether it draws is not known.
    draws = True
    preemptive = True

    def __init__(
        self, rule: Rule, where: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.name = getattr(rule, "name", None) or name_of(rule)
        self.needs: Knowledge = getattr(rule, "needs", "none")
        self.information = getattr(rule, "information", UNDECLARED)
        self._rule = rule
        self._where = where or self.name
        self._options = dict(options or {})
        if not isinstance(self.name, str) or not isinstance(self.information, str):
            raise InstanceError(
                f"{self._where}: its name and information must be text, and one of them is none."
            )
        if self.needs not in get_args(Knowledge):
            raise InstanceError(
                f'{self._where}: its needs is "{self.needs}"; it must be one of '
                f"{', '.join(get_args(Knowledge))}: the least it must know of the jobs' work."
            )

    @property
    def content(self) -> str:
        """What its decisions depend on, for the key of stored results.

        The file that the function is from with all in it, and what the function holds; where it
        was typed in, the function with what it calls. Other files are not looked at.
        """
        import joblib

        try:
            # As its workers pickle it: a function that was typed in goes with what it calls.
            kept = pickle.dumps(joblib.wrap_non_picklable_objects((self._rule, self._options)))
        except Exception as error:  # whatever the objects that it holds raise
            raise InstanceError(
                f"{self._where}: cannot be sent to another process ({type(error).__name__}: "
                f"{error}); keep open files and connections out of it."
            ) from None
        return hashlib.sha256(code_of(innermost(self._rule)).encode() + kept).hexdigest()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        SimulationError
            If the function returns something else than it may.
        UnsupportedFeatureError
            If jobs that share a GPU slow each other down, and it does not return a `Decision`.
        """
        answer = self._rule(state, **self._options)
        if isinstance(answer, Decision):
            return answer
        if state.interference:
            # Known at the first decision, and said there: jobs in order are packed without a look
            # at what may share a GPU, which the checker would refuse in the middle of a run.
            raise UnsupportedFeatureError(
                f"scheduler {self.name} does not look at interference, which GPU type "
                f'"{state.interference[0].gpu_type}" asks for: its function returns jobs, and not '
                "where they run; return a Decision, with hosts and GPUs by name, or take "
                "similarity-packing."
            )
        gpu_milli = self._read(answer, state)
        kept, competing = list[JobView](), list[JobView]()
        for view in state.jobs:
            if view.current is not None and (view.id not in gpu_milli or not view.preemptible):
                kept.append(view)
            elif view.id in gpu_milli:
                competing.append(view)
        order = {job_id: k for k, job_id in enumerate(gpu_milli)}
        competing.sort(key=lambda view: order[view.id])
        round_ = Round(state, self._memory, self._empty_pool(state), {}, self.watch)
        round_.pin(kept)
        if not isinstance(answer, Mapping):
            serve(round_, competing, skip=True)
            return self._close(round_, competing)
        for view in competing:
            if amount := gpu_milli[view.id]:
                round_.give(view, self._configuration(view, amount))
        return round_.decision([view for view in competing if view.current is not None])

    def _read(self, answer: object, state: ClusterState) -> dict[str, int]:
        """Return the jobs that an answer names, in its order, with their milli-GPU if it says."""
        if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
            raise self._wrong(f"returned {_shown(answer)}")
        views = {view.id: view for view in state.jobs}
        found: dict[str, int] = {}
        for item in answer:
            job_id = item.id if isinstance(item, JobView) else item
            if not isinstance(job_id, str):
                raise self._wrong(f"returned {_shown(answer)}, in which {_shown(item)} is no job")
            if job_id not in views:
                raise self._wrong(
                    f'named job "{job_id}", which is not in the system'
                    f"{nearest(job_id, views, '')}".removesuffix("?")
                )
            found[job_id] = 0
            if isinstance(answer, Mapping):
                found[job_id] = self._gpu_milli(job_id, answer[item])
        total = int(state.topology.totals[0])
        if sum(found.values()) > total:
            raise self._wrong(
                f"gave away {sum(found.values()) / MILLI:g} GPUs of a cluster of {total / MILLI:g}"
            )
        return found

    def _gpu_milli(self, job_id: str, gpus: object) -> int:
        if isinstance(gpus, Real) and not isinstance(gpus, bool):
            number = float(gpus)
            if 0 <= number * MILLI < math.inf:
                return round(number * MILLI)
        raise self._wrong(f'gave job "{job_id}" {_shown(gpus)} GPUs')

    def _configuration(self, view: JobView, gpu_milli: int) -> int:
        """Return the fastest configuration of a job with at most that many milli-GPU."""
        ways = view.configurations
        bound = view.bound_to
        choices = range(len(ways)) if bound is None else [bound]
        useful = [c for c in choices if ways[c].rate > 0]
        within = [c for c in useful if ways[c].demand[0] <= gpu_milli]
        if not within:
            least = min((ways[c].demand[0] for c in useful), default=0)
            raise self._wrong(
                f'gave job "{view.id}" {gpu_milli / MILLI:g} GPUs, and it needs at least '
                f"{least / MILLI:g}"
            )
        return max(within, key=lambda c: (ways[c].rate, -ways[c].demand[0]))

    def _wrong(self, what: str) -> SimulationError:
        return SimulationError(
            f"scheduler {self.name}: its function {what}; it must return jobs of state.jobs in "
            "order of priority, {job id: GPUs}, or a Decision."
        )


def rule_of(function: Rule, where: str) -> Rule:
    """Return a function that may be a rule: one required parameter, the state.

    Raises
    ------
    InstanceError
        If it takes another number of parameters, or is asynchronous.
    """
    if inspect.iscoroutinefunction(innermost(function)):
        raise InstanceError(f"{where}: is asynchronous; write def in place of async def.")
    required = required_parameters(function, where)
    if len(required) != 1:
        raise InstanceError(
            f"{where}: requires {len(required)} parameters ({', '.join(required)}), and a rule is "
            "called with one, the state (state.now_s is the time, state.jobs are the jobs); give "
            "the others a default value, which makes them options."
        )
    if inspect.signature(function).parameters[required[0]].kind is inspect.Parameter.KEYWORD_ONLY:
        raise InstanceError(
            f"{where}: is called with the state in first place, and {required[0]} goes by its name "
            "only; leave out the * in front of it."
        )
    return function


def required_parameters(function: Rule, where: str) -> list[str]:
    """Return the names of the parameters without default value."""
    return [p.name for p in parameters_of(function, where) if p.default is p.empty]


def option_parameters(function: Rule, where: str) -> list[inspect.Parameter]:
    """Return the parameters with a default value and a name, which are the options of a rule."""
    return [
        p
        for p in parameters_of(function, where)
        if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY
    ]


def parameters_of(function: Rule, where: str) -> list[inspect.Parameter]:
    """Return the parameters of a function, without ``*args`` and ``**kwargs``.

    Raises
    ------
    InstanceError
        If Python does not know them.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InstanceError(
            f"{where}: Python does not know its parameters; write a function around it."
        ) from None
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def innermost(function: Any) -> Any:
    """Return the function inside of partial applications, decorators and callable objects."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Rule) -> str:
    """Return the name of a function for people."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "rule" if name == "<lambda>" else str(name)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
