"""Where data lie that are not part of the repository: traces, placement sets, OR-library."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLES = {"traces": "ALLOC_TRACES", "placement": "ALLOC_PLACEMENT", "orlib": "ALLOC_ORLIB"}
"""The environment variable that names the folder of each kind."""


def data_folder(kind: str) -> Path:
    """Return the folder of a kind of data, whether it exists or not.

    It is the one that the environment names, or ``../shared/data/KIND`` beside the repository.
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / kind
    return Path(os.environ.get(VARIABLES[kind], beside))
