"""Options of readers: their names, types and meanings, for every door."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.errors import InstanceError, nearest

Value = str | int | float | bool

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Option:
    """An option of a reader.

    Parameters
    ----------
    name
        Name of the keyword, for example ``"slot_s"``.
    type
        `str`, `int`, `float` or `bool`.
    help
        One sentence for people, with the unit.
    default
        What holds when it is not given; None when the reader then decides.
    required
        Whether it must be given.
    choices
        The values allowed, or empty for any.
    is_path
        Whether it names a file or folder, or several.
    """

    name: str
    type: type[str] | type[int] | type[float] | type[bool]
    help: str
    default: Value | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False

    def convert(self, value: object) -> object:
        """Return a value, which may be text, as this option's type.

        Raises
        ------
        InstanceError
            If the text says no such value.
        """
        if not isinstance(value, str):
            return value
        if self.choices and value not in self.choices:
            raise InstanceError(
                f'{self.name} is "{value}"{nearest(value, self.choices) or "."} '
                f"Give one of {', '.join(self.choices)}."
            )
        if self.type is bool:
            return self._switch(value)
        try:
            return self.type(value)
        except ValueError:
            kind = "a whole number" if self.type is int else "a number"
            raise InstanceError(f'{self.name} is "{value}"; give {kind}.') from None

    def _switch(self, value: str) -> bool:
        if value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        raise InstanceError(f'{self.name} is "{value}"; give true or false.')
