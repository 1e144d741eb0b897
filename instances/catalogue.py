"""The manifest: what is known about every stored instance, read strictly and written whole."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from alloc.certificate import OPTIMALITY_GAP, Certificate, relative_gap
from alloc.documents.files import read_bytes, write_text
from alloc.documents.parsing import describe, parse_json
from alloc.errors import CertificateError, InstanceError, nearest
from alloc.objectives import OBJECTIVES

OBJECTIVE = "weighted_jct"
"""The objective of the best known bounds."""

_REBUILD = "write it again with python -m alloc.instances.maintenance generate"
_IMPROVEMENT = 1e-9  # relative; less is rounding

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    """No unknown fields, no conversions, no NaN, no changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Bound(_Part):
    """A best known lower or upper bound on an instance's optimum, and where it comes from.

    Parameters
    ----------
    value
        The bound, in the unit of the objective.
    formulation, backend, backend_version
        What was solved, and by what.
    seed, workers
        Random seed and threads of the solver.
    seconds
        Wall time of the solve, seconds.
    date
        Day of the solve.
    proof
        ``recomputed``: alloc evaluated the value again without the solver (a schedule by the
        checker, a lower bound by weak duality); ``claimed``: it is the solver's word.
    """

    value: Positive
    formulation: str
    backend: str
    backend_version: str
    seed: int
    workers: int
    seconds: Annotated[float, Field(ge=0)]
    date: datetime.date
    proof: Literal["recomputed", "claimed"]


class Entry(_Part):
    """A stored instance: how it was made, how large it is, and what is known about its optimum.

    Parameters
    ----------
    id
        ``family/NN``.
    file
        Path of its document, relative to the manifest.
    generator, parameters
        Generator and its keyword arguments, seed included.
    sha256
        Checksum of the document.
    fingerprint
        Fingerprint of the instance.
    jobs, hosts, gpus
        Size.
    slots
        Slots until the last job can be complete when jobs do not compete.
    no_contention
        The objective when every job runs alone at its best rate from its arrival: a lower bound.
    objective
        Name of the objective of `no_contention`, `lower` and `upper`.
    lower, upper
        Best known bounds on the optimum, or None.
    proved
        Whether they meet (within `alloc.certificate.OPTIMALITY_GAP`): the optimum is known.
    """

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*/[0-9]+$")]
    file: Annotated[str, Field(pattern=r"^data(/[a-z0-9][a-z0-9-]*)+\.json$")]
    generator: str
    parameters: Mapping[str, Any]
    sha256: Sha256
    fingerprint: Sha256
    jobs: Count
    hosts: Count
    gpus: Annotated[int, Field(ge=0)]
    slots: Count
    no_contention: Positive
    objective: str = OBJECTIVE
    lower: Bound | None = None
    upper: Bound | None = None
    proved: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f'objective "{self.objective}" is unknown{nearest(self.objective, OBJECTIVES)}'
            )
        if self.lower is not None and self.upper is not None:
            _require_order(self.id, self.lower, self.upper)
        if self.proved != _meet(self.lower, self.upper):
            raise ValueError(f"proved is {self.proved}, but the bounds say otherwise")
        return self

    @property
    def family(self) -> str:
        """The family, the part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def gap(self) -> float | None:
        """Relative gap between the best known bounds, or None without an upper bound."""
        if self.lower is None or self.upper is None:
            return None
        return relative_gap(self.upper.value, self.lower.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        return self.model_dump(mode="json")

    def improved(self, certificate: Certificate, date: datetime.date) -> Entry:
        """Return the entry with each bound replaced where the certificate's is better.

        Parameters
        ----------
        certificate
            Certificate of a solve of this instance for this objective.
        date
            Day of the solve.

        Raises
        ------
        InstanceError
            If the certificate is about another instance or objective.
        CertificateError
            If it contradicts what is known: a lower bound above an upper bound.
        """
        for field, expected, given in (
            ("fingerprint", self.fingerprint, certificate.fingerprint),
            ("objective", self.objective, certificate.objective_name),
        ):
            if given != expected:
                raise InstanceError(
                    f"{self.id}: the certificate's {field} is {given}, not {expected}; "
                    "solve this instance for this objective."
                )
        lower, upper = self.lower, self.upper
        if 0 < certificate.bound < float("inf") and (
            lower is None or certificate.bound > lower.value * (1 + _IMPROVEMENT)
        ):
            recomputed = certificate.bound_proof == "recomputed"
            lower = _bound(certificate, certificate.bound, recomputed, date)
        if certificate.objective is not None and (
            upper is None or certificate.objective < upper.value * (1 - _IMPROVEMENT)
        ):
            upper = _bound(certificate, certificate.objective, certificate.verified, date)
        if lower is not None and upper is not None:
            _require_order(self.id, lower, upper)
        return self.model_copy(
            update={"lower": lower, "upper": upper, "proved": _meet(lower, upper)}
        )


class Manifest(_Part):
    """All stored instances.

    Parameters
    ----------
    manifest_version
        Version of the format.
    instances
        The entries, ids unique, families together.
    """

    manifest_version: Literal[1]
    instances: tuple[Entry, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self._by_id) != len(self.instances):
            raise ValueError("an id appears twice; ids are unique")
        return self

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.instances}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in order."""
        return tuple(self._by_id)

    def entry(self, instance_id: str) -> Entry:
        """Return the entry of that id.

        Raises
        ------
        InstanceError
            If there is none.
        """
        if instance_id not in self._by_id:
            families = ", ".join(dict.fromkeys(entry.family for entry in self.instances))
            raise InstanceError(
                f'no stored instance "{instance_id}"{nearest(instance_id, self._by_id) or ";"} '
                f"an id is a family and a number, for example {next(iter(self._by_id))}; "
                f"families: {families}."
            )
        return self._by_id[instance_id]

    def with_entry(self, entry: Entry) -> Manifest:
        """Return the manifest with the entry of that id replaced."""
        self.entry(entry.id)
        return Manifest(
            manifest_version=1,
            instances=tuple(entry if e.id == entry.id else e for e in self.instances),
        )


def read_manifest(path: str | PathLike[str]) -> Manifest:
    """Read a manifest.

    Raises
    ------
    InstanceError
        If it cannot be read or is malformed.
    """
    text = read_bytes(path)
    raw = parse_json(text, str(path))
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise InstanceError(f"{path}: {_first_problem(error, raw)}; {_REBUILD}.") from None


def write_manifest(manifest: Manifest, path: str | PathLike[str]) -> None:
    """Write a manifest, as a whole or not at all.

    Parameters
    ----------
    manifest
        What is known of the stored instances.
    path
        Path of the JSON file.
    """
    write_text(path, manifest.model_dump_json(indent=2) + "\n")


def _bound(certificate: Certificate, value: float, recomputed: bool, date: datetime.date) -> Bound:
    return Bound(
        value=value,
        formulation=certificate.formulation,
        backend=certificate.backend,
        backend_version=certificate.backend_version,
        seed=certificate.seed,
        workers=certificate.workers,
        seconds=round(certificate.seconds, 2),
        date=date,
        proof="recomputed" if recomputed else "claimed",
    )


def _meet(lower: Bound | None, upper: Bound | None) -> bool:
    if lower is None or upper is None:
        return False
    return upper.value - lower.value <= OPTIMALITY_GAP * upper.value


def _require_order(instance_id: str, lower: Bound, upper: Bound) -> None:
    if lower.value > upper.value * (1 + OPTIMALITY_GAP):
        raise CertificateError(
            f"{instance_id}: lower bound {lower.value:.10g} ({lower.formulation} on "
            f"{lower.backend}) is above upper bound {upper.value:.10g} ({upper.formulation} on "
            f"{upper.backend}); one of them is wrong, so solve it again with both."
        )


def _first_problem(error: ValidationError, raw: Any) -> str:
    detail = error.errors(include_url=False)[0]
    location = list(detail["loc"])
    where = ""
    if len(location) > 1 and location[0] == "instances" and isinstance(location[1], int):
        item = raw["instances"][location[1]]
        name = item.get("id") if isinstance(item, dict) else None
        where = f"{name if isinstance(name, str) else f'instances[{location[1]}]'}: "
        location = location[2:]
    field = ".".join(map(str, location))
    if detail["type"] == "extra_forbidden":
        known = nearest(field, Entry.model_fields)
        return f'{where}unknown field "{field}"{known}'
    if detail["type"] == "missing":
        return f'{where}field "{field}" is missing'
    message = detail["msg"].removeprefix("Value error, ")
    given = f"{field} is {describe(detail['input'])}: " if field else ""
    return f"{where}{given}{message[0].lower()}{message[1:]}"
