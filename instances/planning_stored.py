"""Stored planning problems by id, with best known bounds.

``python -m alloc.instances.planning_stored`` writes the documents and the manifest from the recipes
here; bounds of problems that did not change are kept, and better ones are written by
``python -m benchmarks right_sizing --record``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alloc.capacity import PlanningProblem
from alloc.documents.files import read_bytes, write_text
from alloc.errors import CertificateError, InstanceError, nearest
from alloc.instances.planning import generate_planning

ROOT = Path(__file__).resolve().parent
MANIFEST = "planning_manifest.json"
_ROUNDING = 1e-6

_TINY: dict[str, Any] = {
    "num_host_types": 2,
    "num_sites": 2,
    "num_quarters": 2,
    "num_classes": 2,
    "num_scenarios": 2,
    "gpus": 40.0,
    "bands": 2,
}
_SMALL: dict[str, Any] = {
    "num_host_types": 4,
    "num_sites": 2,
    "num_quarters": 3,
    "num_classes": 4,
    "num_scenarios": 2,
    "gpus": 120.0,
    "bands": 3,
}
_MEDIUM: dict[str, Any] = {
    "num_host_types": 10,
    "num_sites": 3,
    "num_quarters": 6,
    "num_classes": 15,
    "num_scenarios": 8,
    "gpus": 600.0,
}
_LARGE: dict[str, Any] = {
    "num_host_types": 20,
    "num_sites": 5,
    "num_quarters": 8,
    "num_classes": 50,
    "num_scenarios": 20,
    "gpus": 3000.0,
}

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "planning-tiny/01": {**_TINY, "seed": 1},
    "planning-tiny/02": {**_TINY, "failures": 1, "seed": 2},
    "planning-tiny/03": {**_TINY, "epsilon": 0.5, "goals": False, "seed": 3},
    "planning-small/01": {**_SMALL, "seed": 11},
    "planning-small/02": {**_SMALL, "failures": 1, "carbon_price_per_kg": 0.1, "seed": 12},
    "planning-small/03": {**_SMALL, "budget_share": 2.0, "own": 0.6, "seed": 13},
    "planning-small/04": {**_SMALL, "num_scenarios": 4, "epsilon": 0.25, "seed": 14},
    "planning-medium/01": {**_MEDIUM, "seed": 21},
    "planning-medium/02": {**_MEDIUM, "failures": 1, "seed": 22},
    "planning-large/01": {**_LARGE, "seed": 1},
    "planning-large/02": {**_LARGE, "failures": 1, "seed": 1},
    "planning-large/03": {**_LARGE, "failures": 1, "epsilon": 0.1, "seed": 3},
}
"""What the stored problems are made from."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class PlanningBounds(_Part):
    """Best known bounds on the cost, and where they come from.

    Parameters
    ----------
    lower, upper
        The proved bound, and the cost of the best plan, money.
    backend_version
        The solver.
    seconds
        Wall time of the solve that gave the better of the two, seconds.
    date
        Day of the solve.
    """

    lower: float
    upper: float
    backend_version: str
    seconds: float
    date: str


class PlanningEntry(_Part):
    """What is known about a stored planning problem.

    Parameters
    ----------
    id
        For example ``planning-small/01``.
    parameters
        Of `alloc.instances.planning.generate_planning`.
    sha256
        Of the file.
    fingerprint
        Of the problem.
    bounds
        Best known bounds, or None.
    """

    id: str
    parameters: dict[str, Any]
    sha256: Sha256
    fingerprint: Sha256
    bounds: PlanningBounds | None = None

    @property
    def file(self) -> str:
        """Path of the document below the folder of the manifest."""
        return f"data/{self.id}.json"


class PlanningManifest(_Part):
    """The stored planning problems."""

    manifest_version: Literal[1]
    problems: list[PlanningEntry]


@functools.cache
def planning_manifest() -> tuple[PlanningEntry, ...]:
    """Return the entries of the stored planning problems."""
    text = read_bytes(ROOT / MANIFEST)
    return tuple(PlanningManifest.model_validate_json(text).problems)


def planning_entry(problem_id: str) -> PlanningEntry:
    """Return what the manifest says about a stored planning problem.

    Raises
    ------
    InstanceError
        If there is none of that id.
    """
    known = {entry.id: entry for entry in planning_manifest()}
    if problem_id not in known:
        raise InstanceError(
            f'no stored planning problem "{problem_id}"'
            f"{nearest(problem_id, known) or '; known: ' + ', '.join(known) + '.'}"
        )
    return known[problem_id]


def load_planning(problem_id: str) -> PlanningProblem:
    """Return a stored planning problem.

    Files are left out of the wheel: there the problem is generated again, and must have the
    fingerprint that the manifest names.

    Raises
    ------
    InstanceError
        If there is none, its file was changed, or it cannot be generated as it was.

    Examples
    --------
    >>> load_planning("planning-tiny/01").num_quarters
    2
    """
    entry = planning_entry(problem_id)
    path = ROOT / entry.file
    if not path.exists():
        return regenerate_planning(entry)
    data = read_bytes(path)
    found = hashlib.sha256(data).hexdigest()
    if found != entry.sha256:
        raise InstanceError(
            f"{path}: has SHA-256 {found[:12]}..., but the manifest says {entry.sha256[:12]}...; "
            f"the file of {entry.id} was changed, so restore it, or load a changed copy of your "
            "own with PlanningProblem.load."
        )
    return PlanningProblem.from_json(data)


def regenerate_planning(entry: PlanningEntry) -> PlanningProblem:
    """Return a problem generated from the parameters in its manifest entry.

    Raises
    ------
    InstanceError
        If it is another problem than the one in the manifest.
    """
    problem = generate_planning(entry.id, **entry.parameters)
    if problem.fingerprint != entry.fingerprint:
        raise InstanceError(
            f"{entry.id}: the generator makes fingerprint {problem.fingerprint[:12]}..., but the "
            f"manifest says {entry.fingerprint[:12]}...; take {entry.file} from a checkout."
        )
    return problem


def generate_all(root: Path = ROOT) -> PlanningManifest:
    """Write the documents and the manifest from the recipes; keep bounds that still hold."""
    path = root / MANIFEST
    known: dict[str, PlanningEntry] = {}
    if path.exists():
        before = PlanningManifest.model_validate_json(read_bytes(path))
        known = {entry.fingerprint: entry for entry in before.problems}
    entries = []
    for problem_id, parameters in RECIPES.items():
        problem = generate_planning(problem_id, **parameters)
        document = root / f"data/{problem_id}.json"
        document.parent.mkdir(parents=True, exist_ok=True)
        text = problem.to_json(document)
        old = known.get(problem.fingerprint)
        entries.append(
            PlanningEntry(
                id=problem_id,
                parameters=dict(parameters),
                sha256=hashlib.sha256(text.encode()).hexdigest(),
                fingerprint=problem.fingerprint,
                bounds=None if old is None else old.bounds,
            )
        )
    manifest = PlanningManifest(manifest_version=1, problems=entries)
    write_manifest(manifest, path)
    return manifest


def write_manifest(manifest: PlanningManifest, path: Path = ROOT / MANIFEST) -> None:
    """Write a manifest."""
    write_text(path, manifest.model_dump_json(indent=2) + "\n")
    planning_manifest.cache_clear()


def with_bounds(
    manifest: PlanningManifest, problem_id: str, bounds: PlanningBounds
) -> PlanningManifest:
    """Return the manifest with the better of the old and the new bounds of a problem.

    Raises
    ------
    CertificateError
        If they contradict each other.
    """
    entries = []
    for entry in manifest.problems:
        if entry.id == problem_id:
            old = entry.bounds
            if old is not None:
                lower, upper = max(old.lower, bounds.lower), min(old.upper, bounds.upper)
                if lower > upper * (1 + _ROUNDING):
                    raise CertificateError(
                        f"{problem_id}: a proved bound {lower:g} is above the cost of a plan, "
                        f"{upper:g}; one of them is false."
                    )
                # Sums in another order differ in their last digits.
                update = {"lower": min(lower, upper), "upper": upper}
                bounds = bounds.model_copy(update=update)
                if (bounds.lower, bounds.upper) == (old.lower, old.upper):
                    bounds = old
            entry = entry.model_copy(update={"bounds": bounds})
        entries.append(entry)
    return PlanningManifest(manifest_version=1, problems=entries)


if __name__ == "__main__":
    for written in generate_all().problems:
        print(written.id, written.fingerprint[:12])
