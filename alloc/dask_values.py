"""Values that each worker of a Dask cluster keeps from the beginning to the end of a run.

Dask's own `Client.scatter` would do, but its memory manager takes copies that no call waits for
away again after two seconds, and calls then go to the one worker that has the value. A plugin is
set up on each worker, also on those that come later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from distributed import Worker, WorkerPlugin

_kept: dict[str, Sequence[Any]] = {}


class _Values(WorkerPlugin):
    """Keeps values on a worker as long as it is registered.

    Parameters
    ----------
    name
        Name of these values on the workers.
    values
        The values.
    """

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self._values = values

    def setup(self, worker: Worker) -> None:
        _kept[self.name] = self._values

    def teardown(self, worker: Worker) -> None:
        _kept.pop(self.name, None)


@contextmanager
def on_workers(client: Any, values: Sequence[Any]) -> Iterator[str]:
    """Keep values on each worker of a cluster; yield the name by which a call finds them there.

    Parameters
    ----------
    client
        A `distributed.Client` of the cluster; its methods have no types.
    values
        What is kept.
    """
    name = f"alloc-{uuid4().hex}"
    client.register_plugin(_Values(name, values))
    try:
        yield name
    finally:
        client.unregister_worker_plugin(name)


def kept(place: tuple[str, int]) -> Any:
    """Return a value on the worker that keeps it.

    Parameters
    ----------
    place
        Name of the values and number of this one, from 0.
    """
    name, number = place
    return _kept[name][number]
