"""Measured interference: how fast jobs run when they share a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InterferenceTable:
    """Speeds of kinds of jobs alone on a GPU and beside each other.

    Parameters
    ----------
    gpu_type
        GPU type measured.
    kinds
        Names of the kinds of jobs.
    alone
        Speed of each kind alone on a GPU, steps/s (any unit of work will do), shape (kinds,).
    beside
        Speed of the row's kind beside one job of the column's kind, as a fraction of its speed
        alone; 0 where the two cannot share a GPU. Measurements above 1 occur and are kept. Shape
        (kinds, kinds).
    source
        Where the numbers are from.

    Notes
    -----
    Tables are measured for pairs. In a bundle of three and more every further job is taken to slow
    each other one by the same factor as in the pair (`speeds`): an assumption, not a measurement.
    """

    gpu_type: str
    kinds: tuple[str, ...]
    alone: Array
    beside: Array
    source: str = ""

    def __post_init__(self) -> None:
        where = f'interference table of "{self.gpu_type}"'
        number = len(self.kinds)
        if len(set(self.kinds)) != number:
            raise InstanceError(f"{where}: a kind appears twice; names must be unique.")
        if not number and not self.beside.size:
            # Lists of no rows have one axis; a matrix has two.
            object.__setattr__(self, "beside", self.beside.reshape(0, 0))
        if self.alone.shape != (number,) or self.beside.shape != (number, number):
            raise InstanceError(
                f"{where}: has {number} kinds, but alone has shape {self.alone.shape} and beside "
                f"{self.beside.shape}; give ({number},) and ({number}, {number})."
            )
        if not (np.isfinite(self.alone).all() and (self.alone > 0).all()):
            raise InstanceError(f"{where}: a speed alone is not above 0; leave that kind out.")
        if not (np.isfinite(self.beside).all() and (self.beside >= 0).all()):
            raise InstanceError(
                f"{where}: a speed beside another job is negative or no number; give 0 where two "
                "kinds cannot share a GPU."
            )
        for name in ("alone", "beside"):
            own = np.array(getattr(self, name), dtype=np.float64)
            own.flags.writeable = False  # instances that hold the table are hashed
            object.__setattr__(self, name, own)

    def __eq__(self, other: object) -> bool:
        """Compare names and numbers."""
        if not isinstance(other, InterferenceTable):
            return NotImplemented
        return (
            (self.gpu_type, self.kinds, self.source) == (other.gpu_type, other.kinds, other.source)
            and np.array_equal(self.alone, other.alone)
            and np.array_equal(self.beside, other.beside)
        )

    def __hash__(self) -> int:
        return hash((self.gpu_type, self.kinds, self.beside.tobytes()))

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each kind."""
        return {kind: k for k, kind in enumerate(self.kinds)}

    def position(self, kind: str) -> int:
        """Return the position of a kind.

        Raises
        ------
        InstanceError
            If the table does not have it.
        """
        if kind not in self.index:
            raise InstanceError(
                f'interference table of "{self.gpu_type}": has no kind "{kind}"'
                f"{nearest(kind, self.kinds, '; it has ' + ', '.join(self.kinds[:5]) + ' ...')}"
            )
        return self.index[kind]

    def speeds(self, bundle: Sequence[str]) -> tuple[float, ...] | None:
        """Return each job's fraction of its speed alone when a bundle shares one GPU.

        Parameters
        ----------
        bundle
            Kinds of the jobs on the GPU.

        Returns
        -------
        tuple of float or None
            The product over the others of the pair's fraction; None if two of them cannot share.

        Examples
        --------
        >>> import numpy as np
        >>> table = InterferenceTable(
        ...     "v100", ("a", "b"), np.ones(2), np.array([[0.5, 0.9], [0.8, 0.0]])
        ... )
        >>> table.speeds(["a", "b"]), table.speeds(["b", "b"])
        ((0.9, 0.8), None)
        """
        at = [self.position(kind) for kind in bundle]
        found = []
        for i, a in enumerate(at):
            speed = float(np.prod([self.beside[a, b] for j, b in enumerate(at) if j != i]))
            if speed <= 0:
                return None
            found.append(speed)
        return tuple(found)
