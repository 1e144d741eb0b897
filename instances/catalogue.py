"""The manifest: what is known about every instance of the library, read strictly, written whole."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from alloc.certificate import OPTIMALITY_GAP, BoundProof, Certificate, Sense, relative_gap
from alloc.documents.files import read_bytes, write_text
from alloc.documents.parsing import describe, parse_json
from alloc.errors import CertificateError, InstanceError, nearest
from alloc.instances.listing import file_of

_REBUILD = "write it again with python -m alloc.instances.maintenance generate"
_IMPROVEMENT = 1e-9  # relative; less is rounding
_PROOFS = ("recomputed", "confirmed", "claimed")  # the strongest first
ALLOC = "alloc"
"""Who has shown what alloc's own runs have."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


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
        ``recomputed``: alloc evaluated the value again without the solver (a solution by the
        checker, a bound by weak duality); ``confirmed``: a second run or another solver proves it
        too; ``claimed``: it is the solver's word.
    who
        Who solved it.
    """

    value: float
    formulation: str
    backend: str
    backend_version: str
    seed: int
    workers: int
    seconds: Annotated[float, Field(ge=0)]
    date: datetime.date
    proof: Literal["recomputed", "confirmed", "claimed"]
    who: str = ALLOC


class Known(_Part):
    """What is known about an instance's optimum.

    Parameters
    ----------
    id
        ``family/NN``.
    fingerprint
        Fingerprint of the instance.
    objective
        Name of the objective of `lower` and `upper`.
    sense
        Whether less or more of it is better.
    lower, upper
        Best known bounds on the optimum, or None. Where less is better, the upper one is the value
        of the best solution and the lower one is proved; where more is better, it is the other way
        round.
    proved
        Whether they meet (within `alloc.certificate.OPTIMALITY_GAP`): the optimum is known.
    """

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*/[0-9]+$")]
    fingerprint: Sha256
    objective: str
    sense: Sense
    lower: Bound | None = None
    upper: Bound | None = None
    proved: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lower is not None and self.upper is not None:
            _require_order(self.id, self.lower, self.upper)
        if self.proved != _meet(self.gap):
            raise ValueError(f"proved is {self.proved}, but the bounds say otherwise")
        return self

    @property
    def family(self) -> str:
        """The family, the part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def best(self) -> Bound | None:
        """The value of the best known solution, and where it comes from."""
        return self.upper if self.sense == "min" else self.lower

    @property
    def bound(self) -> Bound | None:
        """The best proved bound, and where it comes from."""
        return self.lower if self.sense == "min" else self.upper

    @property
    def gap(self) -> float | None:
        """Relative gap between best value and bound, or None without both."""
        if self.lower is None or self.upper is None:
            return None
        value, bound = (self.upper, self.lower) if self.sense == "min" else (self.lower, self.upper)
        return relative_gap(value.value, bound.value)

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as plain JSON values."""
        return self.model_dump(mode="json")

    def improved(self, certificate: Certificate, date: datetime.date, who: str = ALLOC) -> Self:
        """Return the entry with each bound replaced where the certificate's is better.

        The same value with a stronger proof is better, too.

        Parameters
        ----------
        certificate
            Certificate of a solve of this instance for this objective.
        date
            Day of the solve.
        who
            Who solved it.

        Raises
        ------
        InstanceError
            If the certificate is about another instance or objective.
        CertificateError
            If it contradicts what is known: a lower bound above an upper bound, or no solution
            where one is known.
        """
        for field, expected, given in (
            ("fingerprint", self.fingerprint, certificate.fingerprint),
            ("objective", self.objective, certificate.objective_name),
            ("sense", self.sense, certificate.sense),
        ):
            if given != expected:
                raise InstanceError(
                    f"{self.id}: the certificate's {field} is {given}, not {expected}; "
                    "solve this instance for this objective."
                )
        if certificate.status == "infeasible" and self.best is not None:
            raise CertificateError(
                f"{self.id}: {certificate.backend} proves that there is no solution, and one of "
                f"value {self.best.value:.10g} is known ({self.best.backend}); one of them is "
                "wrong, so solve it again with both."
            )
        best = bound = None
        if certificate.objective is not None and math.isfinite(certificate.objective):
            proof: BoundProof = "recomputed" if certificate.verified else "claimed"
            best = _bound(certificate, certificate.objective, proof, date, who)
        if math.isfinite(certificate.bound) and certificate.bound_proof != "none":
            bound = _bound(certificate, certificate.bound, certificate.bound_proof, date, who)
        lower, upper = (bound, best) if self.sense == "min" else (best, bound)
        return self.tightened(lower, upper)

    def tightened(self, lower: Bound | None, upper: Bound | None) -> Self:
        """Return the entry with each bound replaced where another is better.

        Parameters
        ----------
        lower, upper
            The others, or None.

        Raises
        ------
        CertificateError
            If they contradict what is known: a lower bound above an upper bound.
        """
        lower = _better(self.lower, lower, 1)
        upper = _better(self.upper, upper, -1)
        if lower is not None and upper is not None:
            _require_order(self.id, lower, upper)
        changed = self.model_copy(update={"lower": lower, "upper": upper})
        return changed.model_copy(update={"proved": _meet(changed.gap)})


class Entry(Known):
    """An instance of the library: what it is, how large, and what is known about its optimum.

    Parameters
    ----------
    id, fingerprint, objective, sense, lower, upper, proved
        As in `Known`.
    formulation
        Family of problems, a name of `alloc.families.FAMILIES`.
    kind
        Kind of its document.
    unit
        Unit of the objective; empty: none.
    size
        Its size, counts by name.
    sha256
        Checksum of its stored document, or None if it is generated on demand.
    no_contention
        Of jobs over time, the objective when every job runs alone at its best rate from its
        arrival: a lower bound. None elsewhere.
    """

    formulation: str
    kind: str
    unit: str
    size: Mapping[str, Annotated[int, Field(ge=0)]]
    sha256: Sha256 | None = None
    no_contention: Annotated[float, Field(gt=0)] | None = None

    @property
    def file(self) -> str:
        """Path of its document, if it is stored, relative to the manifest."""
        return file_of(self.id)

    @property
    def jobs(self) -> int:
        """Its number of jobs; 0 if it has none."""
        return self.size.get("jobs", 0)

    @property
    def hosts(self) -> int:
        """Its number of hosts; 0 if it has none."""
        return self.size.get("hosts", 0)

    @property
    def gpus(self) -> int:
        """Its number of GPUs; 0 if it has none."""
        return self.size.get("gpus", 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON values, its size besides field by field."""
        return {**super().to_dict(), **self.size}


class Manifest(_Part):
    """All instances of the library.

    Parameters
    ----------
    manifest_version
        Version of the format.
    instances
        The entries, ids unique, families together.
    """

    manifest_version: Literal[2]
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
            manifest_version=2,
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


def _bound(
    certificate: Certificate, value: float, proof: BoundProof, date: datetime.date, who: str
) -> Bound:
    return Bound(
        value=value,
        formulation=certificate.formulation,
        backend=certificate.backend,
        backend_version=certificate.backend_version,
        seed=certificate.seed,
        workers=certificate.workers,
        seconds=round(certificate.seconds, 2),
        date=date,
        proof="claimed" if proof == "none" else proof,
        who=who,
    )


def _better(old: Bound | None, new: Bound | None, sign: int) -> Bound | None:
    """Return the tighter of two bounds; where they differ by rounding, the better proved one."""
    if old is None or new is None:
        return old or new
    weaker = _PROOFS.index(new.proof) - _PROOFS.index(old.proof)
    tighter = sign * (new.value - old.value)
    # A solver's word for a digit that nobody asked for must not take the place of a proof.
    rounding = OPTIMALITY_GAP if weaker > 0 else _IMPROVEMENT
    if abs(tighter) <= rounding * max(abs(old.value), abs(new.value)):
        return new if weaker < 0 else old
    return new if tighter > 0 else old


def _meet(gap: float | None) -> bool:
    return gap is not None and gap <= OPTIMALITY_GAP


def _require_order(instance_id: str, lower: Bound, upper: Bound) -> None:
    if lower.value - upper.value > OPTIMALITY_GAP * max(abs(lower.value), abs(upper.value)):
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
