"""How experiments, instances and outcomes lie in the store."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from alloc.comparison.cells import Cell, Outcome
from alloc.comparison.settings import Settings, key_of
from alloc.comparison.store import Item, StoreError
from alloc.problems.allocation.instance import Instance


@dataclass(frozen=True)
class Experiment:
    """What one call of `compare` is to do.

    Parameters
    ----------
    key
        Key in a store; the same work has the same key.
    settings
        The terms.
    fingerprints
        The instances, in order.
    schedulers
        Labels of the schedulers, in order.
    seeds
        The seeds, in order.
    bound_keys
        Key of the bound of each instance, by fingerprint.
    cells
        For each cell its key, the fingerprint, the scheduler's label and the seed.
    environment
        Versions and hardware of the last run.
    """

    key: str
    settings: Settings
    fingerprints: tuple[str, ...]
    schedulers: tuple[str, ...]
    seeds: tuple[int, ...]
    bound_keys: Mapping[str, str]
    cells: tuple[tuple[str, str, str, int], ...]
    environment: Mapping[str, str]


def pack_experiment(experiment: Experiment) -> Item:
    """Return an experiment as an item for the store."""
    record = {
        "settings": experiment.settings.to_dict(),
        "fingerprints": list(experiment.fingerprints),
        "schedulers": list(experiment.schedulers),
        "seeds": list(experiment.seeds),
        "bound_keys": dict(experiment.bound_keys),
        "cells": [list(cell) for cell in experiment.cells],
        "environment": dict(experiment.environment),
    }
    return Item(experiment.key, "experiment", True, record)


def unpack_experiment(item: Item) -> Experiment:
    """Return the experiment of a stored item."""
    try:
        record = item.record
        return Experiment(
            item.key,
            Settings(**record["settings"]),
            tuple(record["fingerprints"]),
            tuple(record["schedulers"]),
            tuple(record["seeds"]),
            dict(record["bound_keys"]),
            tuple(
                (key, fingerprint, label, seed) for key, fingerprint, label, seed in record["cells"]
            ),
            dict(record["environment"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(item, error) from None


def instance_key(fingerprint: str) -> str:
    """Return the key of an instance in a store."""
    return key_of(kind="instance", fingerprint=fingerprint)


def pack_instance(instance: Instance) -> Item:
    """Return an instance as an item for the store."""
    return Item(
        instance_key(instance.fingerprint),
        "instance",
        True,
        {"name": instance.name},
        zlib.compress(instance.to_json().encode(), 6),
    )


def unpack_instance(item: Item) -> Instance:
    """Return the instance of a stored item."""
    try:
        return Instance.from_json(zlib.decompress(item.blob or b""))
    except (zlib.error, ValueError) as error:
        raise _damaged(item, error) from None


def pack_outcome(cell: Cell, outcome: Outcome) -> Item:
    """Return the outcome of a cell as an item for the store.

    Parameters
    ----------
    cell
        The cell.
    outcome
        What came of it.
    """
    record = {
        "instance": cell.instance.name,
        "scheduler": cell.entry.label,
        "seed": cell.seed,
        "information": outcome.information,
        "objective": _to_plain(outcome.objective),
        "metrics": {name: _to_plain(value) for name, value in outcome.metrics.items()},
        "notes": {name: _to_plain(value) for name, value in outcome.notes.items()},
        "seconds": outcome.seconds,
        "error": outcome.error,
    }
    return Item(cell.key, "cell", outcome.error is None, record, outcome.schedule)


def unpack_outcome(item: Item) -> Outcome:
    """Return the outcome of a stored item."""
    try:
        record = item.record
        return Outcome(
            item.key,
            record["information"],
            _from_plain(record["objective"]),
            {name: _from_plain(value) for name, value in record["metrics"].items()},
            {name: _from_plain(value) for name, value in record["notes"].items()},
            record["seconds"],
            record["error"],
            item.blob,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(item, error) from None


def family_of(instance: Instance) -> str:
    """Return the family of an instance: as described, or its name without the number at its end."""
    if "family" in instance.description:
        return instance.description["family"]
    return re.sub(r"[-_/ ]*\d+$", "", instance.name) or instance.name


def _to_plain(value: float) -> float | str:
    # JSON has no infinity; a text is exact and every reader knows it.
    return float(value) if math.isfinite(value) else str(float(value))


def _from_plain(value: float | str) -> float:
    return float(value)


def _damaged(item: Item, error: Exception) -> StoreError:
    return StoreError(
        f"the store is damaged: the {item.kind} {item.key[:12]} is not readable ({error}); restore "
        "a copy, or run the comparison again with resume off."
    )
