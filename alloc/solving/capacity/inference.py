"""Solving inference sizing: replicas per option and period at least cost, with a proof."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from alloc.backends import SolverOptions, backend
from alloc.backends.second_proof import solve_and_prove
from alloc.capacity.inference import InferenceProblem
from alloc.capacity.inference_plan import InferencePlan, plan_cost
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Certificate, Limit, weakest
from alloc.errors import CertificateError
from alloc.models.inference_sizing import (
    MixLayout,
    SizingData,
    draw_arrays,
    frontier,
    mix_model,
    sizing_data,
)
from alloc.models.inference_sizing.layout import Layout
from alloc.solving.capacity.certifying import certified
from alloc.solving.outcome import Settings
from alloc.verification.inference import verify_inference

FORMULATION = "inference_sizing"
_MOMENT_S = 1.0
"""For the periods that are not solved yet at an interrupt, seconds together."""

Report = Callable[[str], None]
Method = Literal["mixes", "columns", "pyomo"]


@dataclass(frozen=True)
class SizingOutcome:
    """A plan, or none, and what is proved.

    Parameters
    ----------
    plan
        The best plan found, or None.
    certificate
        Its cost and the bound.
    """

    plan: InferencePlan | None
    certificate: Certificate


@dataclass(frozen=True)
class _Part:
    """What was found for some periods."""

    plan: InferencePlan | None
    bound: float
    limit: Limit | None
    infeasible: bool
    proof: BoundProof = "claimed"


_NOTHING = _Part(None, -math.inf, "interrupt", False)
"""What is known of periods that nobody has looked at."""


def solve_inference(
    problem: InferenceProblem,
    settings: Settings | None = None,
    *,
    method: Method = "mixes",
    report: Report | None = None,
    keep: bool = False,
) -> SizingOutcome:
    """Find the cheapest replicas that serve every request within its goals.

    Parameters
    ----------
    problem
        The problem.
    settings
        Limits; by default 60 s, one thread.
    method
        ``"mixes"``: the strong drawing where it applies, else the columns; ``"columns"``: the
        drawing by columns as arrays; ``"pyomo"``: the whiteboard model.
    report
        Called with a line of text now and then.
    keep
        Whether an interrupt (Ctrl-C) ends it with what was found until then; else it ends it as it
        does everything.

    Raises
    ------
    CertificateError
        If the plan or the bound contradicts what the judge recomputes.
    KeyboardInterrupt
        At an interrupt, without `keep`.
    """
    settings = settings or Settings()
    try:
        found = _solve_all(problem, settings, method, report)
    except KeyboardInterrupt:
        found = _NOTHING
    if found.limit == "interrupt" and not keep:
        raise KeyboardInterrupt
    return certify_sizing(problem, found, settings, _backend_of(method))


def _solve_all(
    problem: InferenceProblem, settings: Settings, method: Method, report: Report | None
) -> _Part:
    """Solve a problem; at an interrupt the pieces that are left have a moment."""
    data = sizing_data(problem)
    if report is not None:
        number = sum(len(choice.columns) for choice in data.choices)
        report(f"{len(data.periods)} kinds of periods, {number} numbers of replicas to choose from")
    pieces = _pieces(data)
    parts, interrupted = _solve_pieces(pieces, settings, method)
    if interrupted and parts and all(part.plan is not None for part in parts):
        # Without the other periods there is no plan.
        moment = Settings(_MOMENT_S, settings.seed, settings.workers)
        parts += _solve_pieces(pieces[len(parts) :], moment, method)[0]
    found = _joined(parts + [_NOTHING] * (len(pieces) - len(parts)))
    return dataclasses.replace(found, limit="interrupt") if interrupted else found


def _solve_pieces(
    pieces: list[SizingData], settings: Settings, method: Method
) -> tuple[list[_Part], bool]:
    """Solve pieces until one is infeasible or an interrupt; return whether there was one."""
    parts: list[_Part] = []
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


def _solve_piece(data: SizingData, seconds: float, settings: Settings, method: Method) -> _Part:
    options = SolverOptions(
        seconds, settings.seed, settings.workers, OPTIMALITY_GAP / 2, stoppable=True
    )
    if not _every_model_has_columns(data):
        return _Part(None, math.inf, None, True)
    found = frontier(data) if method == "mixes" else None
    layout: MixLayout | Layout
    if found is not None:
        layout = MixLayout(data, found)
        if not all(found.mixes.values()):
            return _Part(None, math.inf, None, True)
        raw = solve_and_prove(mix_model(layout), options)
    elif method == "pyomo":
        from alloc.models.inference_sizing.pyomo_model import draw_pyomo

        whiteboard, layout = draw_pyomo(data)
        raw = backend("pyomo").solve(whiteboard, options)
    else:
        model, layout = draw_arrays(data)
        raw = solve_and_prove(model, options)
    plan = None if raw.values is None else layout.plan(raw.values)
    return _Part(plan, raw.bound, raw.limit, raw.status == "infeasible", raw.bound_proof)


def _every_model_has_columns(data: SizingData) -> bool:
    """Return whether each model with requests has replicas to choose: an empty row is no row."""
    chosen = {(choice.model, choice.period) for choice in data.choices}
    return all(
        (m, t) in chosen
        for m in range(len(data.problem.models))
        for t in range(len(data.periods))
        if data.demand(m, t) > 0
    )


def _backend_of(method: Method) -> str:
    return "pyomo" if method == "pyomo" else "highs"


def _joined(parts: list[_Part]) -> _Part:
    """Join what was found for the pieces of a problem."""
    infeasible = any(part.infeasible for part in parts)
    limit = next((part.limit for part in parts if part.limit is not None), None)
    if infeasible:
        return _Part(None, math.inf, None, True)
    bound = sum(part.bound for part in parts)
    plans = [part.plan for part in parts if part.plan is not None]
    if len(plans) < len(parts):
        return _Part(None, bound, limit, False)
    joined = InferencePlan(
        tuple(group for plan in plans for group in plan.groups),
        tuple(contents for plan in plans for contents in plan.contents),
        tuple(held for plan in plans for held in plan.held),
    )
    return _Part(joined, bound, limit, False, weakest(part.proof for part in parts))


def certify_sizing(
    problem: InferenceProblem, part: _Part, settings: Settings, backend_name: str
) -> SizingOutcome:
    """Let the judge check a plan and write its certificate.

    Raises
    ------
    CertificateError
        If the plan breaks a rule or is cheaper than the bound allows.
    """
    if part.plan is not None and (violations := verify_inference(problem, part.plan)):
        raise CertificateError(
            f"{backend_name} returned a plan that breaks a rule: {violations[0]}"
        )
    certificate = certified(
        problem,
        None if part.plan is None else plan_cost(problem, part.plan),
        part.bound,
        settings,
        objective_name="cost",
        formulation=FORMULATION,
        backend_name=backend_name,
        infeasible=part.infeasible,
        limit=part.limit,
        proof=part.proof,
    )
    return SizingOutcome(part.plan, certificate)
