"""Tables: how types reach the data frames and notebook views of themselves, made above them.

Who makes them is asked of `alloc.serialisation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.serialisation import table_maker

if TYPE_CHECKING:
    import pandas
    import polars


class Tabular:
    """Base of what has tables: data frames for programs, a short view in notebooks."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of its tables, the main one first."""
        return tuple(frame.name for frame in table_maker().frames_of(self))

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
        made: pandas.DataFrame = table_maker().to_pandas(self, table)
        return made

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
        made: polars.DataFrame = table_maker().to_polars(self, table)
        return made

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        view: str = table_maker().notebook_view(self)
        return view
