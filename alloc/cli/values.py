"""Values of options that need no library to be read: most are not given, or are plain text.

Recent versions of Typer read every value, also one that nobody gave, by a schema of pydantic. To
load pydantic and make the schemas takes longer than to solve a small problem.
"""

from collections.abc import Callable, Sequence
from typing import Any

_PLAIN = (bool, float, int, str)


class _LightReader:
    """Reads the value of one option: what is plain as it is, everything else as Typer does.

    Parameters
    ----------
    load
        Returns Typer's own reader of the option.
    plain
        Type of the value if it is text or a number that nothing turns into something else; then
        text, and a default, are taken as they are.
    """

    def __init__(self, load: Callable[[], Any], plain: type | None) -> None:
        self._load, self._plain = load, plain

    def __call__(self) -> "_LightReader":
        """Return itself: it stands in the place of the method that returns Typer's reader."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value that the command gets."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if not several:
            if value is param.default and type(value) is self._plain:
                return value
            if self._plain is str and type(value) is str:
                return value
        return self._load().coerce(value, param=param, ctx=ctx)


def read_lightly(parameters: Sequence[Any]) -> Sequence[Any]:
    """Return parameters of a command, which load no library for values that need none from now on.

    Older versions of Typer read values by themselves: there nothing is changed.
    """
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        load = getattr(parameter, "get_runtime_param", None)
        if described is None or load is None or isinstance(load, _LightReader):
            continue
        plain = described.annotation if described.annotation in _PLAIN else None
        if getattr(described.parameter_info, "parser", None) is not None:
            plain = None
        parameter.get_runtime_param = _LightReader(load, plain)
    return parameters
