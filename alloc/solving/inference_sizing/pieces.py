"""Inference sizing period by period: what is proved of each, and of all together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from alloc.backends import SolverOptions
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import BoundProof, Limit, weakest
from alloc.models.inference_sizing import (
    MixLayout,
    SizingData,
    array_model,
    frontier,
    mix_model,
    sizing_data,
)
from alloc.models.inference_sizing.layout import Layout
from alloc.problems.inference_sizing.plan import InferencePlan
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.solving.outcome import Settings

_AFTER_INTERRUPT_S = 1.0
"""Wall time for all periods not solved yet at an interrupt, seconds: who pressed Ctrl-C waits."""

Report = Callable[[str], None]
Method = Literal["mixes", "columns"]


@dataclass(frozen=True)
class Part:
    """What was found for some periods."""

    plan: InferencePlan | None
    bound: float
    limit: Limit | None
    infeasible: bool
    proof: BoundProof = "claimed"


NOT_STARTED = Part(None, -math.inf, "interrupt", False)
"""What is known of periods that nobody has looked at."""


def solve_all(
    problem: InferenceProblem,
    settings: Settings,
    method: Method,
    report: Report = lambda line: None,
) -> Part:
    """Solve a problem; at an interrupt the pieces that are left have a moment.

    Parameters
    ----------
    problem
        The problem.
    settings
        Limits.
    method
        ``mixes`` of replicas or ``columns`` of the model, the same for every piece.
    report
        Takes a line of progress.
    """
    data = sizing_data(problem)
    number = sum(len(choice.columns) for choice in data.choices)
    report(f"{len(data.periods)} kinds of periods, {number} numbers of replicas to choose from")
    pieces = _pieces(data)
    parts, interrupted = _solve_pieces(pieces, settings, method)
    if interrupted and parts and all(part.plan is not None for part in parts):
        # Without the other periods there is no plan.
        moment = Settings(_AFTER_INTERRUPT_S, settings.seed, settings.workers)
        parts += _solve_pieces(pieces[len(parts) :], moment, method)[0]
    found = _joined(parts + [NOT_STARTED] * (len(pieces) - len(parts)))
    return dataclasses.replace(found, limit="interrupt") if interrupted else found


def _solve_pieces(
    pieces: list[SizingData], settings: Settings, method: Method
) -> tuple[list[Part], bool]:
    """Solve pieces until one is infeasible or an interrupt; return whether there was one."""
    parts: list[Part] = []
    try:
        for k, some in enumerate(pieces):
            # What earlier pieces leave over goes to the later ones.
            share = settings.seconds_left() / (len(pieces) - k)
            parts.append(_solve_piece(some, share, settings, method))
            if parts[-1].infeasible or parts[-1].limit == "interrupt":
                break
    except KeyboardInterrupt:
        return parts, True
    return parts, any(part.limit == "interrupt" for part in parts)


def _pieces(data: SizingData) -> list[SizingData]:
    """Cut a problem into its periods where nothing is held from one to another."""
    if any(pool.billing == "held" for pool in data.problem.pools):
        return [data]
    return [
        dataclasses.replace(
            data,
            periods=(period,),
            choices=tuple(
                dataclasses.replace(choice, period=0)
                for choice in data.choices
                if choice.period == t
            ),
        )
        for t, period in enumerate(data.periods)
    ]


def _solve_piece(data: SizingData, seconds: float, settings: Settings, method: Method) -> Part:
    options = SolverOptions(
        seconds, settings.seed, settings.workers, settings.gap / 2, stoppable=True
    )
    if data.without_columns() is not None:
        return Part(None, math.inf, None, True)
    found = frontier(data) if method == "mixes" else None
    layout: MixLayout | Layout
    if found is not None:
        layout = MixLayout(data, found)
        if not all(found.mixes.values()):
            return Part(None, math.inf, None, True)
        raw = solve_and_prove(mix_model(layout), options)
    else:
        layout = Layout(data)
        raw = solve_and_prove(array_model(layout), options)
    plan = None if raw.values is None else layout.plan(raw.values)
    return Part(plan, raw.bound, raw.limit, raw.status == "infeasible", raw.bound_proof)


def _joined(parts: list[Part]) -> Part:
    """Join what was found for the pieces of a problem."""
    infeasible = any(part.infeasible for part in parts)
    limit = next((part.limit for part in parts if part.limit is not None), None)
    if infeasible:
        return Part(None, math.inf, None, True)
    bound = sum(part.bound for part in parts)
    plans = [part.plan for part in parts if part.plan is not None]
    if len(plans) < len(parts):
        return Part(None, bound, limit, False)
    joined = InferencePlan(
        tuple(group for plan in plans for group in plan.groups),
        tuple(contents for plan in plans for contents in plan.contents),
        tuple(held for plan in plans for held in plan.held),
    )
    return Part(joined, bound, limit, False, weakest(part.proof for part in parts))
