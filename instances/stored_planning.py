"""Planning problems by id: examples, and those stored with best known bounds.

Ids without a slash are the examples of the documentation and the page, made by recipe;
``planning-small/01`` and its like have documents and a manifest, to measure solvers on.
``python -m alloc.instances.stored_planning`` writes documents and manifest from the recipes
(`alloc.instances.planning_recipes`); bounds of problems that did not change are kept, and better
ones are written by ``python -m benchmarks right_sizing --record``.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alloc.documents.files import read_bytes, write_text
from alloc.errors import CertificateError, InstanceError, nearest
from alloc.instances.planning import generate_planning
from alloc.instances.planning_recipes import EXAMPLES as EXAMPLES
from alloc.instances.planning_recipes import RECIPES
from alloc.instances.stored import ROOT, read_stored
from alloc.problems.right_sizing import PlanningProblem

MANIFEST = "planning_manifest.json"
_ROUNDING = 1e-6

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
    for entry in planning_manifest():
        if entry.id == problem_id:
            return entry
    known = stored_planning_ids()
    raise InstanceError(
        f'no stored planning problem "{problem_id}"{nearest(problem_id, known) or ";"} '
        f"known: {', '.join(known)}."
    )


def stored_planning_ids() -> tuple[str, ...]:
    """Return the ids of all planning problems: the examples, small ones first, and the stored."""
    return (*EXAMPLES, *(entry.id for entry in planning_manifest()))


def load_stored_planning(problem_id: str) -> PlanningProblem:
    """Return the planning problem of an id.

    Files are left out of the wheel: there a stored problem is generated again, and must have the
    fingerprint that the manifest names.

    Raises
    ------
    InstanceError
        If there is none, its file was changed, or it cannot be generated as it was.

    Examples
    --------
    >>> load_stored_planning("planning-tiny").num_quarters
    2
    """
    if problem_id in EXAMPLES:
        line, arguments = EXAMPLES[problem_id]
        problem = generate_planning(problem_id, **arguments)
        return problem.replace(description={**problem.description, "about": line})
    entry = planning_entry(problem_id)
    path = ROOT / entry.file
    if not path.exists():
        return regenerate_planning(entry)
    return PlanningProblem.from_json(
        read_stored(path, entry.id, entry.sha256, "PlanningProblem.load")
    )


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
