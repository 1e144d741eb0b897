"""Maintenance of the library: ``python -m alloc.instances.maintenance generate|check|adopt``.

``generate`` writes the stored documents and the manifest from the recipes and keeps the best known
bounds of every instance whose fingerprint is unchanged. ``check`` holds documents, manifest and
recipes against each other. ``adopt FILE`` takes over what is better in a file of best known values,
as ``alloc bench`` writes it.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from alloc.errors import AllocError
from alloc.families import FAMILIES
from alloc.instances.best_known import read_best_known
from alloc.instances.catalogue import Entry, Manifest, read_manifest, write_manifest
from alloc.instances.recipes import Recipe, recipes
from alloc.instances.stored import MANIFEST, ROOT, load_entry, regenerate

_BOUNDS = ("lower", "upper", "proved")


def generate(root: Path = ROOT, chosen: Iterable[Recipe] | None = None) -> Manifest:
    """Write the stored documents and the manifest below `root`, and return the manifest.

    Parameters
    ----------
    root
        Folder of the manifest; documents go to ``data/family/NN.json`` in it.
    chosen
        The recipes, by default all.
    """
    path = root / MANIFEST
    before = {e.id: e for e in read_manifest(path).instances} if path.exists() else {}
    entries = []
    for recipe in recipes() if chosen is None else chosen:
        problem = recipe.make()
        sha256 = None
        if recipe.family.stored:
            document = root / f"data/{recipe.id}.json"
            document.parent.mkdir(parents=True, exist_ok=True)
            sha256 = hashlib.sha256(problem.to_json(document).encode()).hexdigest()
        entry = describe(recipe, problem, sha256)
        old = before.get(recipe.id)
        if old is not None and _same_question(old, entry):
            entry = entry.model_copy(update={field: getattr(old, field) for field in _BOUNDS})
        entries.append(entry)
    for stale in _unlisted(root, entries):
        stale.unlink()
    manifest = Manifest(manifest_version=2, instances=tuple(entries))
    write_manifest(manifest, path)
    return manifest


def _same_question(old: Entry, new: Entry) -> bool:
    return (old.fingerprint, old.objective) == (new.fingerprint, new.objective)


def describe(recipe: Recipe, problem: Any, sha256: str | None = None) -> Entry:
    """Return the manifest entry of a problem, without best known bounds.

    Parameters
    ----------
    recipe
        Its recipe.
    problem
        What the recipe makes.
    sha256
        Checksum of its document, if it is stored.
    """
    family = FAMILIES[recipe.family.formulation]
    objective = recipe.family.objective
    alone = None
    if family.name == "malleable":
        alone = math.fsum(job.weight * job.min_run_s for job in problem.jobs)
    return Entry(
        id=recipe.id,
        formulation=family.name,
        kind=family.kind,
        objective=objective,
        sense=family.measure_of(objective).sense,
        unit=family.unit(problem, objective),
        size=dict(recipe.family.size(problem)),
        fingerprint=problem.fingerprint,
        sha256=sha256,
        no_contention=alone,
    )


def check(root: Path = ROOT, chosen: Iterable[Recipe] | None = None) -> Iterator[str]:
    """Yield what does not agree among documents, manifest and recipes.

    Parameters
    ----------
    root
        Folder of the manifest.
    chosen
        The recipes, by default all.
    """
    manifest = read_manifest(root / MANIFEST)
    wanted = {recipe.id: recipe for recipe in (recipes() if chosen is None else chosen)}
    for recipe_id in wanted.keys() - set(manifest.ids):
        yield f"{recipe_id}: has a recipe but is not in the manifest; run generate."
    for stale in _unlisted(root, manifest.instances):
        yield f"{stale.relative_to(root)}: is not in the manifest; run generate."
    for entry in manifest.instances:
        try:
            yield from _check_entry(entry, wanted.get(entry.id), root)
        except AllocError as error:
            yield str(error)


def _check_entry(entry: Entry, recipe: Recipe | None, root: Path) -> Iterator[str]:
    if recipe is None:
        yield f"{entry.id}: is in the manifest but has no recipe; run generate."
        return
    if (entry.sha256 is not None) and not (root / entry.file).exists():
        yield f"{entry.id}: {entry.file} is missing; run generate."
        return
    expected = describe(recipe, load_entry(entry, root), entry.sha256)
    for field in Entry.model_fields:
        found = getattr(entry, field)
        if field not in _BOUNDS and found != getattr(expected, field):
            yield f"{entry.id}: {field} in the manifest is {found}; run generate."
    if entry.sha256 is not None:
        regenerate(entry)


def adopt(file: Path, root: Path = ROOT) -> list[str]:
    """Take over what is better in a file of best known values; return the ids that changed.

    Parameters
    ----------
    file
        As `alloc bench` writes it.
    root
        Folder of the manifest.

    Raises
    ------
    InstanceError
        If the file cannot be read.
    CertificateError
        If what it holds contradicts the manifest.
    """
    manifest = read_manifest(root / MANIFEST)
    changed = []
    for entry, better in read_best_known(file).better_than(manifest.instances):
        manifest = manifest.with_entry(better)
        changed.append(entry.id)
    if changed:
        write_manifest(manifest, root / MANIFEST)
    return changed


def _unlisted(root: Path, entries: Iterable[Entry]) -> list[Path]:
    listed = {root / entry.file for entry in entries if entry.sha256 is not None}
    return sorted(set((root / "data").glob("**/*.json")) - listed)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when something does not agree."""
    parser = argparse.ArgumentParser(prog="python -m alloc.instances.maintenance")
    parser.add_argument("command", choices=("generate", "check", "adopt"))
    parser.add_argument("file", nargs="?", type=Path, help="of adopt: best known values")
    arguments = parser.parse_args(argv)
    if (arguments.command == "adopt") != (arguments.file is not None):
        parser.error("adopt takes a file of best known values, the other commands take none")
    try:
        if arguments.command == "generate":
            made = generate()
            print(f"{len(made.instances)} instances in {ROOT / MANIFEST}")
            return 0
        if arguments.command == "adopt":
            print(f"better now: {', '.join(adopt(arguments.file)) or 'none'}")
            return 0
        problems = list(check())
    except AllocError as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("documents, manifest and recipes agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
