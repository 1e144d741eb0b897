"""Best known values of one's own, beside those that come with alloc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from alloc.documents.files import read_bytes, write_text
from alloc.documents.parsing import parse_json
from alloc.errors import CertificateError, InstanceError
from alloc.instances.catalogue import Entry, Known

E = TypeVar("E", bound=Known)


def best_known_path() -> Path:
    """Return where the user's own best known values are kept."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "alloc" / "best-known.json"


class BestKnown(BaseModel):
    """What somebody's runs have shown of the optima of the library's instances.

    Parameters
    ----------
    best_known_version
        Version of the format.
    entries
        What is known, one an instance.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    best_known_version: Literal[1] = 1
    entries: tuple[Known, ...] = ()

    def better_than(self, shipped: Iterable[E]) -> Iterator[tuple[E, E]]:
        """Yield each entry that is improved by what is known here, and what it becomes.

        What is known of an instance that has changed since, or for another objective, is left out.

        Parameters
        ----------
        shipped
            The entries to improve.

        Raises
        ------
        CertificateError
            If both contradict each other.
        """
        here = {(known.id, known.fingerprint, known.objective): known for known in self.entries}
        for entry in shipped:
            known = here.get((entry.id, entry.fingerprint, entry.objective))
            if known is None:
                continue
            try:
                better = entry.tightened(known.lower, known.upper)
            except CertificateError as error:
                raise CertificateError(
                    f"the file of best known values contradicts the table: {error}"
                ) from None
            if better != entry:
                yield entry, better

    def over(self, entry: Entry) -> Entry:
        """Return an entry with what is better here.

        Parameters
        ----------
        entry
            The entry.
        """
        return next((better for _, better in self.better_than([entry])), entry)

    def with_known(self, entry: Known, shipped: Known | None = None) -> BestKnown:
        """Return these with what is known of an instance now.

        Parameters
        ----------
        entry
            What is known.
        shipped
            What comes with alloc: what is the same there is not kept here, since it is nobody's
            own and may be corrected there. None: all is kept.
        """
        fields = {name: getattr(entry, name) for name in Known.model_fields}
        for side in ("lower", "upper"):
            if shipped is not None and fields[side] == getattr(shipped, side):
                fields[side] = None
        # Once more, of what is left of both: whether they meet.
        kept = Known.model_construct(**fields).tightened(None, None)
        others = tuple(known for known in self.entries if known.id != entry.id)
        own = (kept,) if shipped is None or (kept.lower or kept.upper) else ()
        return BestKnown(entries=(*others, *own))


def read_best_known(path: str | PathLike[str]) -> BestKnown:
    """Read a file of best known values.

    Raises
    ------
    InstanceError
        If it cannot be read or is malformed.
    """
    text = read_bytes(path)
    parse_json(text, str(path))
    try:
        return BestKnown.model_validate_json(text)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        field = ".".join(map(str, detail["loc"]))
        raise InstanceError(
            f"{path}: {field}: {detail['msg'][0].lower()}{detail['msg'][1:]}; it is no file of "
            "best known values, so move it away and run `alloc bench` again."
        ) from None


def write_best_known(known: BestKnown, path: str | PathLike[str]) -> None:
    """Write a file of best known values, as a whole or not at all.

    Parameters
    ----------
    known
        The values.
    path
        Path of the JSON file; its folder is made where there is none.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, known.model_dump_json(indent=2) + "\n")
