"""Backends: solvers behind one contract. They know nothing of GPUs.

``solve(model, options) -> RawResult`` and ``version() -> str``, with `SolverOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from alloc.errors import BackendUnavailableError, InstanceError, nearest
from alloc.formulation import ArrayModel, CpSatModel, PyomoModel, RawResult
from alloc.plugins import announced


@dataclass(frozen=True)
class SolverOptions:
    """What every backend understands.

    Parameters
    ----------
    time_limit_s
        Wall time after which the solver stops, seconds.
    seed
        Random seed.
    workers
        Threads.
    gap
        Relative gap at which the solver may stop.
    start
        Values of the variables for a warm start, NaN where unknown, or None.
    stoppable
        Whether Ctrl-C stops the solver, which then returns what it has found, with the limit
        ``"interrupt"``: for callers that look at it.
    presolve
        Whether the solver may simplify the model first. HiGHS only.
    brief
        Whether it simplifies only once and tries out no column: for many columns in few rows, of
        which that takes longer than the search. HiGHS only.
    linear
        Whether the solver may use linear relaxations, beside propagation. CP-SAT only.
    by_bound
        Whether the search tries the best value that is not yet excluded, again and again: it
        raises bounds that are far off, and finds good solutions later. CP-SAT only.
    nodes
        Nodes of the search tree after which the solver stops, or None: a limit that ends every
        machine's search at the same place, as seconds do not. HiGHS only.
    """

    time_limit_s: float = 60.0
    seed: int = 0
    workers: int = 1
    gap: float = 1e-6
    start: npt.NDArray[np.float64] | None = None
    stoppable: bool = False
    presolve: bool = True
    brief: bool = False
    linear: bool = True
    by_bound: bool = False
    nodes: int | None = None


class Backend(Protocol):
    """A solver adapter (a module)."""

    MODEL_KIND: str

    def solve(
        self, model: ArrayModel | CpSatModel | PyomoModel, options: SolverOptions
    ) -> RawResult:
        """Solve a model.

        Parameters
        ----------
        model
            A model of the kind that the backend takes, `MODEL_KIND`.
        options
            Limits of the search, a start, and what the solver may do.
        """
        ...

    def version(self) -> str:
        """Return the solver's name and version."""
        ...


_OWN = {
    "highs": "alloc.backends.highs",
    "pyomo": "alloc.backends.pyomo_highs",
    "cpsat": "alloc.backends.cpsat",
}
BACKENDS = {**_OWN, **announced("alloc.backends", _OWN)}
"""The general solvers, name to module; other packages announce theirs as ``alloc.backends``."""


def backend(name: str) -> Backend:
    """Load a backend.

    Raises
    ------
    InstanceError
        If no backend has that name.
    BackendUnavailableError
        If its solver cannot be imported.
    """
    if name not in BACKENDS:
        raise InstanceError(
            f'unknown backend "{name}"{nearest(name, BACKENDS, ".")} '
            f"Known: auto, {', '.join(BACKENDS)}."
        )
    try:
        return cast(Backend, import_module(BACKENDS[name]))
    except ImportError as error:
        raise BackendUnavailableError(
            f"backend {name} cannot be loaded ({error}); install the pinned solvers: "
            '"highspy>=1.13,<1.14" and "ortools>=9.12,<9.16" (newer highspy and ortools ship '
            "clashing libraries)."
        ) from error
