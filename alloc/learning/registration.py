"""Registration of the environments with Gymnasium."""

from __future__ import annotations

_ROOM = "alloc.learning.environments"

ENVIRONMENTS: dict[str, tuple[str, str | None]] = {
    "ElasticAllocation-v0": ("environment:ElasticAllocation", "elastic_vector:ElasticVector"),
    "GangPlacement-v0": ("environment:GangPlacement", None),
}
"""The environments: id to where it is, alone and vectorised."""


def register() -> None:
    """Register the environments under their id, and under it with ``alloc/`` in front.

    Without Gymnasium nothing happens: trained policies run without it.
    """
    try:
        import gymnasium
    except ImportError:
        return

    for name, (single, vector) in ENVIRONMENTS.items():
        for full in (f"alloc/{name}", name):
            if full not in gymnasium.registry:
                gymnasium.register(
                    full,
                    entry_point=f"{_ROOM}.{single}",
                    vector_entry_point=None if vector is None else f"{_ROOM}.{vector}",
                )
