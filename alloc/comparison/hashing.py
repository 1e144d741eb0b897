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
        kind = type(obj)
        held = getattr(obj, "__dict__", None)
        if isinstance(obj, type) or not isinstance(held, dict):
            return NotImplemented
        cached = {name for name in held if isinstance(_of_class(kind, name), cached_property)}
        if not cached:
            return NotImplemented
        taken = obj.__reduce_ex__(self.proto)
        if isinstance(taken, str) or len(taken) < 3 or not taken[2]:
            return taken
        state = taken[2]
        if isinstance(state, tuple):  # of a class with slots: what is in the dictionary, and there
            state = _without(state[0], cached), *state[1:]
        return *taken[:2], _without(state, cached), *taken[3:]


def _of_class(kind: type, name: str) -> object:
    """Return what a class or one above it has under a name, None if nothing."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _without(state: Any, names: set[str]) -> Any:
    if not isinstance(state, dict):
        return state
    # An empty dictionary is pickled as None.
    return {name: value for name, value in state.items() if name not in names} or None
