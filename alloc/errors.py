"""The exceptions of alloc: one small tree, each message saying what, where and the cure.

::

    AllocError
    ├── InstanceError (also ValueError)      the input is wrong
    ├── UnsupportedFeatureError              the input is right, this method cannot do it
    ├── BackendUnavailableError (ImportError) a solver or another package cannot be loaded
    ├── SolverError                          a solver broke its contract
    ├── CertificateError                     a claim contradicts its recomputation
    └── SimulationError                      a scheduler or the simulator broke a rule

Infeasibility and limits are results, not exceptions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class AllocError(Exception):
    """Base class of every error that alloc raises on purpose."""


class InstanceError(AllocError, ValueError):
    """The instance, solution or option handed in is malformed or contradicts itself."""


class UnsupportedFeatureError(AllocError):
    """The instance uses a feature that the chosen method does not model."""


class BackendUnavailableError(AllocError, ImportError):
    """A solver backend or an optional package is not installed or cannot be loaded."""


class SolverError(AllocError):
    """A solver returned something it must not return."""


class WorkerDiedError(SolverError):
    """A worker process died: a solver crashed, or the system ended it for its memory."""


class CertificateError(AllocError):
    """A solver's claim contradicts what the checker recomputed from the instance."""


class OutOfTime(Exception):
    """Time was up within a step, which has no answer then; the method around it ends with its own.

    No `AllocError`: limits are results, and nobody outside of a method sees it.
    """


class SimulationError(AllocError):
    """A scheduling decision or the simulation itself broke a rule."""


def missing_extra(need: str, extra: str, error: ImportError) -> BackendUnavailableError:
    """Return the error of a part of alloc whose optional packages cannot be loaded.

    Parameters
    ----------
    need
        Who needs what: ``"training needs PyTorch"``.
    extra
        The extra of alloc that installs it.
    error
        What the import said; a package that is there but broken is named too.
    """
    # From a checkout: on the public package index "alloc" is another project.
    return BackendUnavailableError(
        f"{need}, which cannot be loaded ({error}); in a checkout of alloc, run "
        f'`pip install ".[{extra}]"`.'
    )


# Comparing names takes time quadratic in their length; nobody misspells a longer one by hand.
_LONGEST = 100


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``'; did you mean "x"?'`` for the known name nearest to `name`, or `otherwise`.

    Parameters
    ----------
    name
        The name that is not known.
    known
        The names that are.
    otherwise
        What to return where none of them is near.
    """
    if len(name) > _LONGEST:
        return otherwise
    short = [word for word in known if len(word) <= _LONGEST]
    matches = difflib.get_close_matches(name, short, n=1, cutoff=0.6)
    return f'; did you mean "{matches[0]}"?' if matches else otherwise


_DEATHS = {"BrokenProcessPool", "KilledWorker", "RayActorError", "WorkerCrashedError"}
"""Errors of processes, Dask and Ray at the death of a worker, by name: two of these need not be
installed."""


@contextmanager
def worker_deaths(task: str) -> Iterator[None]:
    """Turn the death of a worker process into one sentence.

    Parameters
    ----------
    task
        What the workers were doing, for the message.

    Raises
    ------
    WorkerDiedError
        If a worker process died.
    """
    try:
        yield
    except Exception as error:
        if not _DEATHS & {one.__name__ for one in type(error).__mro__}:
            raise
        raise WorkerDiedError(
            f"{task}: a worker process died, by a crash of its solver or because the system ended "
            "it for its memory; what was finished before is kept, so run it again, with one worker "
            "to see where it dies and with fewer to need less memory."
        ) from error
