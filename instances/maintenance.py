"""Maintenance of the stored instances: ``python -m alloc.instances.maintenance generate|check``.

``generate`` writes the documents and the manifest from the recipes and keeps the best known bounds
of every instance whose fingerprint is unchanged. ``check`` holds documents, manifest, recipes and
generators against each other. Best known bounds come from ``python -m benchmarks bounds``, for
solvers live above this room.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from alloc.errors import AllocError
from alloc.instances.catalogue import Entry, Manifest, read_manifest, write_manifest
from alloc.instances.recipes import Recipe, recipes
from alloc.instances.stored import MANIFEST, ROOT, load_entry, regenerate
from alloc.objectives import require_slot
from alloc.problems.allocation.instance import Instance


def generate(root: Path = ROOT, chosen: Iterable[Recipe] | None = None) -> Manifest:
    """Write the document of every recipe and the manifest below `root`, and return the manifest.

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
        instance = recipe.make()
        document = root / _file(recipe.id)
        document.parent.mkdir(parents=True, exist_ok=True)
        text = instance.to_json(document)
        entry = describe(recipe, instance, hashlib.sha256(text.encode()).hexdigest())
        old = before.get(recipe.id)
        if old is not None and old.fingerprint == entry.fingerprint:
            known = {"lower": old.lower, "upper": old.upper, "proved": old.proved}
            entry = entry.model_copy(update=known)
        entries.append(entry)
    for stale in _unlisted(root, entries):
        stale.unlink()
    manifest = Manifest(manifest_version=1, instances=tuple(entries))
    write_manifest(manifest, path)
    return manifest


def describe(recipe: Recipe, instance: Instance, sha256: str) -> Entry:
    """Return the manifest entry of an instance, without best known bounds."""
    slot_s = require_slot(instance)
    return Entry(
        id=recipe.id,
        file=_file(recipe.id),
        generator=recipe.generator,
        parameters=dict(recipe.parameters),
        sha256=sha256,
        fingerprint=instance.fingerprint,
        jobs=len(instance.jobs),
        hosts=instance.topology.num_hosts,
        gpus=instance.topology.num_gpus,
        slots=max(math.ceil((job.arrival_s + job.min_run_s) / slot_s) for job in instance.jobs),
        no_contention=math.fsum(job.weight * job.min_run_s for job in instance.jobs),
    )


def check(root: Path = ROOT, chosen: Iterable[Recipe] | None = None) -> Iterator[str]:
    """Yield what does not agree among documents, manifest, recipes and generators."""
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
    if not (root / entry.file).exists():
        yield f"{entry.id}: {entry.file} is missing; run generate."
        return
    stored = load_entry(entry, root)
    expected = describe(recipe, stored, entry.sha256)
    for field in Entry.model_fields:
        found = getattr(entry, field)
        if field not in ("lower", "upper", "proved") and found != getattr(expected, field):
            yield f"{entry.id}: {field} in the manifest is {found}; run generate."
    regenerate(entry)


def _file(instance_id: str) -> str:
    return f"data/{instance_id}.json"


def _unlisted(root: Path, entries: Iterable[Entry]) -> list[Path]:
    listed = {root / entry.file for entry in entries}
    # Planning problems have a manifest of their own.
    found = {path for path in (root / "data").glob("**/*.json") if not _is_planning(path)}
    return sorted(found - listed)


def _is_planning(path: Path) -> bool:
    return path.parent.name.startswith("planning-")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when something does not agree."""
    parser = argparse.ArgumentParser(prog="python -m alloc.instances.maintenance")
    parser.add_argument("command", choices=("generate", "check"))
    command = parser.parse_args(argv).command
    try:
        if command == "generate":
            made = generate()
            print(f"{len(made.instances)} instances written below {ROOT}")
            return 0
        problems = list(check())
    except AllocError as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("documents, manifest, recipes and generators agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
