"""Window features: what DL2's network is shown of the jobs, and how its actions are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.instances.dl2 import JOB_TYPES
from alloc.units import require_count

ENCODINGS: Mapping[str, str] = {
    "released": "raw numbers, as DL2's released code shows them by default",
    "rescaled": "the same numbers brought to about 0 to 1, as its code can (INPUT_RESCALE)",
    "paper": "what DL2's paper describes, one-hot job types and about 0 to 1",
}
"""The encodings of a window."""

SLOTS_SCALE = 100.0
"""Slots that count as 1 in the encodings that are not raw; released code: the same."""

REMAINING_SCALE = 10.0
"""Slots of remaining run time that count as 1 in the encoding ``paper``; our choice."""

MAX_SLOTS = 1e6
"""Slots are shown up to this, so that the observation has a finite range."""


@dataclass(frozen=True)
class WindowFeatures:
    """What a network with a window is shown, and what its answers mean.

    The observation has a column for each of the first `window` jobs, in order of arrival, that can
    take one more task; columns without a job are 0. Jobs further back are invisible. The rows, for
    the encodings ``released | rescaled | paper``:

    - **type**: number of the job's model in `models` from 1, 0 if it is not there | the same over
      the number of models | one row for each model, 1 for the job's own;
    - **slots**: full slots since arrival | the same / 100 | slots in which it ran / 100;
    - **remaining**: remaining fraction of the work as known (below 0 when a job outlives its
      estimate) | the same | remaining work over the highest rate, in slots / 10;
    - **share**: dominant share of the cluster that the job has been given in this slot, 0 to 1;
    - **workers**, **PSs** given in this slot | over `max_tasks` | over `max_tasks`.

    Action ``3 i`` gives the job in column i a worker, ``3 i + 1`` a PS, ``3 i + 2`` both on one
    host, and ``3 window`` ends the slot.

    Parameters
    ----------
    window
        Columns, 1 or more. DL2: 20, and 40 or more on large clusters.
    max_tasks
        Most workers, and most PSs, of a job; its speed table may end before. DL2: 16 or 32.
    encoding
        One of `ENCODINGS`.
    models
        Names of the known models (`Job.model`), in the order of their numbers.
    initial_bundle
        Whether each slot begins, as in DL2's code, by giving every job a first bundle of a worker
        and a PS where that fits on the least loaded host.

    Notes
    -----
    Departures in ``paper``: the paper shows remaining epochs, which needs an epoch's size;
    remaining time at full speed is the same up to a factor for each model. It leaves the scales
    open; `SLOTS_SCALE` and `REMAINING_SCALE` are ours.

    References
    ----------
    Peng et al., "DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters", IEEE TPDS 2021,
    section 4.1, and the released code.
    """

    window: int = 20
    max_tasks: int = 16
    encoding: str = "released"
    models: tuple[str, ...] = tuple(JOB_TYPES)
    initial_bundle: bool = True

    def __post_init__(self) -> None:
        require_count(self.window, "window features", "window", least=1)
        require_count(self.max_tasks, "window features", "max_tasks", least=1)
        if self.encoding not in ENCODINGS:
            raise InstanceError(
                f'window features: encoding "{self.encoding}" is unknown'
                f"{nearest(self.encoding, ENCODINGS, ';')} known: {', '.join(ENCODINGS)}."
            )
        if len(set(self.models)) != len(self.models):
            raise InstanceError(
                f"window features: models names one twice ({', '.join(self.models)}); name each "
                "once."
            )

    @property
    def num_actions(self) -> int:
        """Number of actions, ``3 window + 1``."""
        return 3 * self.window + 1

    @property
    def end_slot(self) -> int:
        """The action that ends the slot."""
        return 3 * self.window

    @cached_property
    def type_rows(self) -> int:
        """Rows that tell the type of a job."""
        return len(self.models) if self.encoding == "paper" else 1

    @property
    def num_rows(self) -> int:
        """Rows of the observation."""
        return self.type_rows + 5

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the observation, (rows, window)."""
        return (self.num_rows, self.window)

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """What each row shows, with its unit."""
        if self.encoding == "released":
            return (
                "type: number of the model, 0 unknown or no job",
                "slots since arrival",
                "remaining fraction of the work",
                "dominant share of the cluster",
                "workers",
                "PSs",
            )
        tasks = f"over {self.max_tasks}"
        shared = ("dominant share of the cluster", f"workers {tasks}", f"PSs {tasks}")
        if self.encoding == "rescaled":
            return (
                f"type: number of the model over {len(self.models)}, 0 unknown or no job",
                f"slots since arrival over {SLOTS_SCALE:g}",
                "remaining fraction of the work",
                *shared,
            )
        return (
            *(f"1 for {model}" for model in self.models),
            f"slots run over {SLOTS_SCALE:g}",
            f"remaining slots at the highest rate over {REMAINING_SCALE:g}",
            *shared,
        )

    @property
    def scales(self) -> tuple[float, float, float, float]:
        """What type, slots, remaining, and workers and PSs are multiplied by."""
        if self.encoding == "released":
            return (1.0, 1.0, 1.0, 1.0)
        tasks = 1.0 / self.max_tasks
        if self.encoding == "rescaled":
            return (1.0 / max(len(self.models), 1), 1.0 / SLOTS_SCALE, 1.0, tasks)
        return (1.0, 1.0 / SLOTS_SCALE, 1.0 / REMAINING_SCALE, tasks)

    def bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return the least and the largest observation, each of `shape`."""
        by_type, by_slot, by_remaining, by_task = self.scales
        types = 1.0 if self.encoding == "paper" else by_type * len(self.models)
        max_left = MAX_SLOTS * by_remaining if self.encoding == "paper" else 1.0
        high = [types] * self.type_rows + [
            MAX_SLOTS * by_slot,
            max_left,
            1.0,
            self.max_tasks * by_task,
            self.max_tasks * by_task,
        ]
        low = [0.0] * self.num_rows
        if self.encoding != "paper":
            low[self.type_rows + 1] = -1.0
        columns = np.ones((1, self.window), np.float32)
        return (
            np.array(low, np.float32)[:, None] * columns,
            np.array(high, np.float32)[:, None] * columns,
        )
