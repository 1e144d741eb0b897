"""Solve the stored instances and write better bounds to the manifest.

``python -m benchmarks.bounds [ID | FAMILY ...] [--time-limit S] [--seed N] [--workers N]``. A bound
is replaced only by a better one; a contradiction (a lower bound above an upper bound) is an error.
The manifest is written after every instance, so an interrupt loses nothing.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

import alloc
from alloc.errors import AllocError
from alloc.instances.catalogue import Entry, Manifest, read_manifest, write_manifest
from alloc.instances.stored import MANIFEST, ROOT, load_entry
from alloc.result import Limits

ON_REQUEST = True  # it takes an hour and changes a file

TIME_LIMIT_S = {
    "elastic-tiny": 20.0,
    "elastic-small": 60.0,
    "elastic-medium": 120.0,
    "elastic-large": 600.0,
}
"""Time limit of one solve by family, seconds."""
OTHER_TIME_LIMIT_S = 120.0

_HEADER = (
    f"{'instance':18s} {'status':11s} {'seconds':>8s} {'lower':>13s} {'upper':>13s} {'gap':>9s} "
    f"{'/no contention':>14s}  better"
)


def select(manifest: Manifest, names: Sequence[str]) -> list[Entry]:
    """Return the entries of the named ids and families, all of them when there is no name."""
    if not names:
        return list(manifest.instances)
    families = {entry.family for entry in manifest.instances}
    chosen: dict[str, Entry] = {}
    for name in names:
        found = (
            [entry for entry in manifest.instances if entry.family == name]
            if name in families
            else [manifest.entry(name)]
        )
        chosen |= {entry.id: entry for entry in found}
    return list(chosen.values())


def improve(entry: Entry, root: Path, *, time_limit_s: float, seed: int, workers: int) -> str:
    """Solve one instance, write what is better to the manifest, and return a line of the table."""
    result = alloc.solve(
        load_entry(entry, root),
        "malleable",
        "auto",
        objective=entry.objective,
        limits=Limits(seconds=time_limit_s, seed=seed, workers=workers),
    )
    certificate = result.certificate
    path = root / MANIFEST
    # Read again: another run may have written since.
    manifest = read_manifest(path)
    before = manifest.entry(entry.id)
    after = before.improved(certificate, datetime.datetime.now(datetime.UTC).date())
    better = [
        field for field in ("lower", "upper") if getattr(after, field) != getattr(before, field)
    ]
    if better:
        write_manifest(manifest.with_entry(after), path)
    lower = "-" if after.lower is None else f"{after.lower.value:.6g}"
    upper = "-" if after.upper is None else f"{after.upper.value:.6g}"
    gap = "-" if after.gap is None else f"{after.gap:.2e}"
    ratio = "-" if after.upper is None else f"{after.upper.value / after.no_contention:.3f}"
    return (
        f"{entry.id:18s} {certificate.status:11s} {certificate.seconds:8.1f} {lower:>13s} "
        f"{upper:>13s} {gap:>9s} {ratio:>14s}  {', '.join(better) or '-'}"
    )


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Solve the chosen instances one after the other; return 0, or 1 if one could not be solved."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds")
    parser.add_argument("names", nargs="*", metavar="ID|FAMILY", help="default: all")
    parser.add_argument("--time-limit", type=float, metavar="S", help="default: by family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args(argv)
    failed = False
    try:
        entries = select(read_manifest(root / MANIFEST), arguments.names)
    except AllocError as error:
        parser.error(str(error))
    print(_HEADER)
    for entry in entries:
        limit = arguments.time_limit or TIME_LIMIT_S.get(entry.family, OTHER_TIME_LIMIT_S)
        try:
            line = improve(
                entry, root, time_limit_s=limit, seed=arguments.seed, workers=arguments.workers
            )
        except AllocError as error:
            failed = True
            line = f"{entry.id:18s} {error}"
        print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
