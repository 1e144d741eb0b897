"""A hash of what an object is, whatever it has worked out meanwhile."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from joblib.hashing import NumpyHasher


def configuration_hash(of: object) -> str:
    """Return joblib's hash of an object without the cached properties of all that it holds.

    These follow from the rest: with them an object would no longer be the same after its first use.
    """
    return str(_Hasher(hash_name="md5").hash(of))


class _Hasher(NumpyHasher):  # type: ignore[misc]  # joblib has no types
    def reducer_override(self, obj: Any) -> Any:
        """Return how an object is taken apart, as `pickle.Pickler.reducer_override` has it."""
        if isinstance(obj, type):
            return NotImplemented
        # Some objects, as of functools.partial, are pickled another way once their dictionary has
        # been looked at, so only those are asked for it whose class has cached properties.
        names = _cached_by(type(obj))
        held = getattr(obj, "__dict__", None) if names else None
        cached = names & held.keys() if isinstance(held, dict) else None
        if not cached:
            return NotImplemented
        taken = obj.__reduce_ex__(self.proto)
        if isinstance(taken, str) or len(taken) < 3 or not taken[2]:
            return taken
        state = taken[2]
        if isinstance(state, tuple):  # of a class with slots: what is in the dictionary, and there
            state = _without(state[0], cached), *state[1:]
        return *taken[:2], _without(state, cached), *taken[3:]


def _cached_by(kind: type) -> set[str]:
    """Return the names of the cached properties of a class."""
    has: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        has |= vars(base)
    return {name for name, value in has.items() if isinstance(value, cached_property)}


def _without(state: Any, names: set[str]) -> Any:
    if not isinstance(state, dict):
        return state
    # An empty dictionary is pickled as None.
    return {name: value for name, value in state.items() if name not in names} or None
