"""Schedules as small blobs: column by column, equal placements once, compressed."""

from __future__ import annotations

import json
import zlib
from typing import Any

from alloc.comparison.store import StoreError
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement


def pack_schedule(schedule: Schedule) -> bytes:
    """Return a schedule as a blob.

    A scheduler that keeps its jobs where they are repeats few placements over many runs, so each
    placement is written once.
    """
    places: dict[tuple[TaskPlacement, ...], int] = {}
    rows = [
        (
            run.job,
            run.configuration,
            run.start_s,
            run.end_s,
            places.setdefault(run.tasks, len(places)),
        )
        for run in schedule.runs
    ]
    document = {
        "runs": [list(column) for column in zip(*rows, strict=True)],
        "places": [[[t.host, t.role, t.count, list(t.gpus)] for t in place] for place in places],
        "unplaced": dict(schedule.unplaced),
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def unpack_schedule(blob: bytes) -> Schedule:
    """Return the schedule of a blob.

    Raises
    ------
    StoreError
        If the blob is damaged.
    """
    try:
        document: dict[str, Any] = json.loads(zlib.decompress(blob))
        places = [
            tuple(
                TaskPlacement(host, role, count, tuple(gpus)) for host, role, count, gpus in place
            )
            for place in document["places"]
        ]
        columns = document["runs"] or [[]] * 5
        runs = tuple(
            Run(job, configuration, start_s, end_s, places[place])
            for job, configuration, start_s, end_s, place in zip(*columns, strict=True)
        )
        return Schedule(runs, document["unplaced"])
    except (zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise StoreError(
            f"the store is damaged: a schedule in it is not readable ({error}); restore a copy, or "
            "run the comparison again with resume off."
        ) from None
