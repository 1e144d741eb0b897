"""A small table of jobs, for tests of the reader of job tables."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

START = datetime(2024, 5, 31, 22, 0, 0)
# id, tenant, submission (s after START), wait (s), run (s), GPUs, nodes
JOBS = (
    ("a", "vision", 0, 0, 3600, 1, 1),
    ("b", "vision", 60, 30, 5400, 8, 1),
    ("c", "speech", 120, 600, 90_061, 16, 2),
    ("d", "speech", 4000, 0, 10, 4, 2),
)


def columns() -> dict[str, list[Any]]:
    """The jobs as a table of plain numbers and names that tell what they are."""
    return {
        "job_id": [j[0] for j in JOBS],
        "tenant": [j[1] for j in JOBS],
        "submit_time": [j[2] for j in JOBS],
        "duration": [j[4] for j in JOBS],
        "num_gpus": [j[5] for j in JOBS],
        "num_nodes": [j[6] for j in JOBS],
    }


def written(path: Path, table: dict[str, list[Any]], sign: str = ",") -> Path:
    rows = [list(table), *zip(*table.values(), strict=True)]
    path.write_text("\n".join(sign.join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    return path
