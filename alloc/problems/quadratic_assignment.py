"""Quadratic assignment: who goes where, when the cost lies between pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.fingerprint import digest
from alloc.problems import Problem

Array = npt.NDArray[np.float64]
Permutation = npt.NDArray[np.int64]

_MAX_COST = 1e300
"""Largest cost that the entries may add up to: numbers end at 1.8e308, and methods add and scale
costs before they compare them."""


@dataclass(frozen=True, eq=False)
class QuadraticAssignment(Problem):
    """A quadratic assignment problem in the form of Koopmans and Beckmann.

    Facility i goes to location ``p[i]``; the cost is
    ``sum over i, k of flow[i, k] * distance[p[i], p[k]]``, each pair in both directions and the
    diagonal included.

    Parameters
    ----------
    name
        For people.
    flow
        What facility i sends to facility k, shape (n, n), finite.
    distance
        Cost of a unit sent from one location to another, shape (n, n), finite.

    Raises
    ------
    InstanceError
        If they are no such matrices, or so large that a cost would not be a number.

    References
    ----------
    Koopmans, Beckmann. Assignment problems and the location of economic activities. Econometrica
    25(1), 1957. doi:10.2307/1907742.

    Examples
    --------
    >>> import numpy as np
    >>> pair = QuadraticAssignment("pair", np.array([[0, 2], [0, 0]]), np.array([[0, 3], [5, 0]]))
    >>> pair.cost([0, 1]), pair.cost([1, 0])
    (6.0, 10.0)
    """

    name: str
    flow: Array
    distance: Array

    def __post_init__(self) -> None:
        for field in ("flow", "distance"):
            try:
                matrix = np.array(getattr(self, field), dtype=float)
            except (TypeError, ValueError):
                raise InstanceError(
                    f'quadratic assignment "{self.name}": {field} is not a matrix of numbers; give '
                    "an array of shape (n, n)."
                ) from None
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
                raise InstanceError(
                    f'quadratic assignment "{self.name}": {field} has shape {matrix.shape}; it '
                    "must be a square matrix of at least one row."
                )
            if not np.isfinite(matrix).all():
                raise InstanceError(
                    f'quadratic assignment "{self.name}": {field} holds infinite or missing '
                    "numbers; give finite ones (a large distance where there is no way)."
                )
            matrix.setflags(write=False)
            object.__setattr__(self, field, matrix)
        if self.flow.shape != self.distance.shape:
            raise InstanceError(
                f'quadratic assignment "{self.name}": flow is of size {len(self.flow)} and '
                f"distance of size {len(self.distance)}; give as many facilities as locations, "
                "with rows of zeros for facilities that send nothing."
            )
        flow, distance = (float(np.abs(matrix).max()) for matrix in (self.flow, self.distance))
        if not flow * distance * self.size**2 <= _MAX_COST:
            raise InstanceError(
                f'quadratic assignment "{self.name}": flows up to {flow:g} times distances up to '
                f"{distance:g} may cost more than {_MAX_COST:g}; give them in larger units."
            )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of name, flows and distances."""
        return digest(self.name, self.flow, self.distance)

    @property
    def size(self) -> int:
        """Number of facilities, and of locations."""
        return len(self.flow)

    @cached_property
    def integral(self) -> bool:
        """Whether all numbers are whole, so that every cost is."""
        return all(bool((m == np.rint(m)).all()) for m in (self.flow, self.distance))

    @cached_property
    def step(self) -> float:
        """Number that every difference of two costs is a multiple of; 0 if none is known.

        With whole numbers it is at least 1, and 2 if both matrices are symmetric and one diagonal
        tells nothing apart: then every pair counts twice.
        """
        if not self.integral:
            return 0.0
        paired = all(np.array_equal(m, m.T) for m in (self.flow, self.distance))
        flat = any(np.ptp(np.diagonal(m)) == 0 for m in (self.flow, self.distance))
        return 2.0 if paired and flat else 1.0

    def cost(self, permutation: npt.ArrayLike) -> float:
        """Return the cost when facility i goes to location ``permutation[i]``.

        Raises
        ------
        InstanceError
            If it is not a permutation of 0 to n - 1.
        """
        p = np.asarray(permutation)
        if p.shape != (self.size,) or not np.array_equal(np.sort(p), np.arange(self.size)):
            raise InstanceError(
                f'quadratic assignment "{self.name}": the assignment is not a permutation of 0 to '
                f"{self.size - 1}; give every facility one location of its own."
            )
        p = p.astype(np.int64)
        return float((self.flow * self.distance[np.ix_(p, p)]).sum())
