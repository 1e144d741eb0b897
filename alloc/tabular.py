"""Tables: how types reach the data frames and notebook views of themselves, which are made above them.

As with `alloc.serialisation`: the front door `alloc` says who makes them.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in `alloc.serialisation`: `import alloc` loads this module."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pandas
    import polars


_makers: list[Callable[[], Any]] = []


def made_by(room: Callable[[], Any]) -> None:
    """Let a module make the tables from now on.

    Parameters
    ----------
    room
        Returns the module, see `alloc.report.frames`.
    """
    _makers[:] = [room]


class Tabular:
    """Base of what has tables: data frames for programs, a short view in notebooks."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of its tables, the main one first."""
        return tuple(frame.name for frame in _makers[0]().frames_of(self))

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        """Return a table as a data frame of pandas; units of columns are in ``attrs["units"]``.

        Parameters
        ----------
        table
            One of `table_names`; by default the main one.

        Raises
        ------
        BackendUnavailableError
            If pandas is not installed.
        InstanceError
            If there is no such table.
        AllocError
            If it is a result without a solution.
        """
        return _makers[0]().to_pandas(self, table)

    def to_polars(self, table: str | None = None) -> polars.DataFrame:
        """Return a table as a data frame of Polars, which has no place for units.

        Parameters
        ----------
        table
            One of `table_names`; by default the main one.

        Raises
        ------
        BackendUnavailableError
            If Polars is not installed.
        InstanceError
            If there is no such table.
        AllocError
            If it is a result without a solution.
        """
        return _makers[0]().to_polars(self, table)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        view: str = _makers[0]().notebook_view(self)
        return view
