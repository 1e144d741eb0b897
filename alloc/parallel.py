"""Workers: where the parallel calls of one run go - processes here, or a Dask or Ray cluster.

joblib hands the calls out, whoever the workers are. A run has one pool of them from its beginning
to its end, and what many calls need is sent once.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from alloc.errors import InstanceError, missing_extra
from alloc.processes import ctrl_c_waits

if TYPE_CHECKING:
    import joblib

Out = TypeVar("Out")

CLUSTERS = ("dask", "ray")
"""Kinds of workers that may be on other machines."""
_KEPT = 2
"""Shared values that a worker keeps: calls about one value come one after the other, so that at the
border between two both are wanted."""


class Workers:
    """The workers of one run; made by `workers`.

    Parameters
    ----------
    count
        How many calls run at the same time; -1: one on each core.
    stack
        Closes, at the end of the run, what is opened here.
    """

    def __init__(self, count: int, stack: ExitStack) -> None:
        import joblib
        from joblib.parallel import get_active_backend

        self._count = count
        # joblib makes calls here where there is one worker, also one of a cluster's.
        self._is_serial: bool = joblib.effective_n_jobs(count) == 1
        self._stack = stack
        self._backend = get_active_backend()[0]
        self._pools: dict[str, joblib.Parallel] = {}
        self._sent: dict[int, Any] = {}

    @property
    def is_alone(self) -> bool:
        """Whether calls are made in this process, also by threads of it."""
        return self._is_serial or getattr(self._backend, "uses_threads", False)

    @contextmanager
    def sharing(self, values: Sequence[Any]) -> Iterator[None]:
        """Send values once to each worker; calls that are given them find them there.

        Parameters
        ----------
        values
            What many calls are given.
        """
        with ExitStack() as stack:
            if not self._is_serial:
                self._sent |= _sent(values, self._backend, stack)
            try:
                yield
            finally:
                for value in values:
                    self._sent.pop(id(value), None)

    def pool(self, return_as: str = "list") -> joblib.Parallel:
        """Return joblib's `Parallel` with these workers, the same for the whole run.

        Parameters
        ----------
        return_as
            How results come back, as of `joblib.Parallel`.
        """
        import joblib

        if return_as not in self._pools:
            # A batch of more than one call would hold back finished ones.
            pool = joblib.Parallel(return_as=return_as, batch_size=1)
            self._pools[return_as] = self._stack.enter_context(pool)
        return self._pools[return_as]

    def run(
        self, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]
    ) -> Generator[Out, None, None]:
        """Yield the results of calls as they are done, in any order.

        Whoever may stop before the last one closes it (`contextlib.closing`): the other calls end
        then, and the pool is free for the next run.

        Parameters
        ----------
        function
            What is called; it travels to the workers.
        calls
            The arguments of each call.
        """
        import joblib

        if self._is_serial:
            yield from (function(*given) for given in calls)
            return
        if self._backend.supports_return_generator:
            yield from self.start(function, calls)
            return
        sent = self._as_sent(function, calls)
        # One call for each worker at a time: each batch is known before the next one starts.
        size = max(1, joblib.effective_n_jobs(self._count))
        for first in range(0, len(sent), size):
            yield from self.pool()(sent[first : first + size])

    def in_order(self, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]) -> list[Out]:
        """Return the results of calls, in the order of the calls.

        Parameters
        ----------
        function, calls
            As of `run`.
        """
        if self._is_serial:
            return [function(*given) for given in calls]
        return list(self.pool()(self._as_sent(function, calls)))

    @property
    def starts_at_once(self) -> bool:
        """Whether calls can go on while this process does something else (`start`)."""
        # Threads hold Python's lock, and within a worker joblib has nothing but threads.
        own = _kind(self._backend) != "" and bool(self._backend.supports_return_generator)
        return own and not self._is_serial

    def start(
        self, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]
    ) -> Generator[Out, None, None]:
        """Start calls, and return the results as they are done; of workers that start at once.

        Whoever may stop before the last one ends them (`end`).

        Parameters
        ----------
        function, calls
            As of `run`.
        """
        pool = self.pool("generator_unordered")
        pool.timeout = None
        results: Generator[Out, None, None] = pool(self._as_sent(function, calls))
        return results

    def in_time(self, results: Iterable[Out], seconds: float) -> Iterator[Out]:
        """Yield the results of `start` that come in time; the calls of the others end then.

        Parameters
        ----------
        results
            What `start` has returned.
        seconds
            For how long to wait for each, seconds.
        """
        # joblib's error is not Python's own of that name.
        from multiprocessing import TimeoutError as TooLong

        self.pool("generator_unordered").timeout = seconds
        with suppress(TooLong, TimeoutError):
            yield from results

    def end(self, results: Generator[Out, None, None]) -> None:
        """End the calls of `start` whose results nobody waits for any more."""
        with warnings.catch_warnings():
            # joblib warns that calls are cancelled, which is what is wanted.
            warnings.simplefilter("ignore", UserWarning)
            results.close()

    def _as_sent(self, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return calls as joblib takes them, with what stands for values that are sent already."""
        import joblib

        here = (Path.cwd(), tuple(sys.path))
        return [
            joblib.delayed(_as_here)(here, function, *(self._sent.get(id(a), a) for a in given))
            for given in calls
        ]


_open: ContextVar[Workers | None] = ContextVar("workers", default=None)


def open_cluster() -> Workers | None:
    """Return the workers of the cluster that `workers` has opened around this, if there is one."""
    return _open.get()


@contextmanager
def workers(
    kind: str | None = None,
    count: int | None = None,
    shared: Iterable[Any] = (),
) -> Iterator[Workers]:
    """Open the workers of a run, and close them at its end.

    Plans that are replayed within it use a cluster, too:
    ``with workers("dask", 4): alloc.planning.plan(...)``.

    Parameters
    ----------
    kind
        ``loky`` (processes of this machine), ``threading``, ``dask``, ``ray`` or another backend
        that joblib knows. By default the cluster that is open already, else what is chosen with
        ``joblib.parallel_config``, else loky. A Dask client or Ray session that is open is used;
        else the cluster that DASK_SCHEDULER_ADDRESS or RAY_ADDRESS names; else one is started on
        this machine.
    count
        Calls at the same time, 1 or more; -1: one on each core. By default 1, which needs no
        worker; of a cluster all that it has.
    shared
        What many calls are given: sent once to each worker.

    Raises
    ------
    InstanceError
        If the kind is unknown, the count 0, or a cluster cannot be reached or started.
    BackendUnavailableError
        If Dask or Ray is not installed.
    """
    import joblib

    from alloc.own_processes import own_processes

    if count is None:
        count = -1 if kind in CLUSTERS else 1
    if count < -1 or count == 0:
        raise InstanceError(
            f"jobs is {count}; give 1 or more processes, or -1 for one on each core."
        )
    outer = _open.get()
    values = list(shared)
    if kind is None and outer is not None:
        with outer.sharing(values):
            yield outer
        return
    with ExitStack() as stack:
        settings: dict[str, Any] = {"n_jobs": count}
        if kind is not None:
            settings["backend"] = kind
            if kind in CLUSTERS:
                stack.enter_context(_CLUSTERS[kind](count))
            elif kind not in joblib.parallel.BACKENDS:
                known = sorted({*joblib.parallel.BACKENDS, *CLUSTERS})
                raise InstanceError(
                    f'joblib has no backend "{kind}"; register it first. Known: {", ".join(known)}.'
                )
        stack.enter_context(joblib.parallel_config(**settings))
        stack.enter_context(own_processes())
        opened = Workers(count, stack)
        token = _open.set(opened if kind in CLUSTERS else None)
        stack.callback(_open.reset, token)
        with opened.sharing(values):
            yield opened


@contextmanager
def _dask(count: int) -> Iterator[None]:
    """Use the Dask client that is open; else open one, to a cluster by address or started here."""
    try:
        import dask
        from distributed import Client, get_client
    except ImportError as error:
        raise missing_extra("work on Dask needs dask.distributed", "dask", error) from error
    try:
        get_client()
    except ValueError:
        pass
    else:
        yield
        return
    local: dict[str, Any] = {}
    if dask.config.get("scheduler-address", None) is None:
        local = {
            "n_workers": (os.cpu_count() or 1) if count == -1 else count,
            # Solvers and simulations hold Python's lock: a thread would add nothing.
            "threads_per_worker": 1,
            # Dask would end a worker at its share of the memory, whatever the others leave.
            "memory_limit": 0,
            "dashboard_address": None,
        }
    client: Any = Client  # its parameters have no types
    # Dask's workers would look 100 times a second at what each call does, for a page nobody opens.
    settings = {"distributed.worker.profile.enabled": False} if local else {}
    errors = _cluster_errors("Dask", "DASK_SCHEDULER_ADDRESS")
    with ctrl_c_waits(), errors, dask.config.set(settings):
        opened = client(**local)
    with opened:
        yield


@contextmanager
def _ray(count: int) -> Iterator[None]:
    """Use the Ray session that is open; else open one, to a cluster by address or started here."""
    try:
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError as error:
        raise missing_extra("work on Ray needs ray", "ray", error) from error
    import logging

    from joblib.parallel import register_parallel_backend

    class Ray(RayBackend):  # type: ignore[misc, unused-ignore]
        """Ray's backend, results as they are done: its pool calls back as joblib wants it."""

        supports_return_generator = True

    register_parallel_backend("ray", Ray)
    if ray.is_initialized():
        yield
        return
    local: dict[str, Any] = {}
    if "RAY_ADDRESS" not in os.environ:
        local = {"num_cpus": None if count == -1 else count, "include_dashboard": False}
    with _cluster_errors("Ray", "RAY_ADDRESS"):
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    try:
        yield
    finally:
        ray.shutdown()


_CLUSTERS = {"dask": _dask, "ray": _ray}


@contextmanager
def _cluster_errors(name: str, variable: str) -> Iterator[None]:
    """Say in one sentence why a cluster cannot be opened."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        address = os.environ.get(variable)
        where, cure = f'at {variable} "{address}"', f"correct {variable}, or unset it"
        if address is None:
            where, cure = "on this machine", 'use "loky"'
        why = " ".join(str(error).split()).rstrip(".")
        raise InstanceError(f"{name} opens no cluster {where}: {why}; {cure}.") from error


@dataclass(frozen=True)
class _Sent:
    """A shared value that a call is given: where its worker finds it.

    Parameters
    ----------
    read
        Returns the value on its worker, given its place.
    place
        Path of a file, a reference of Ray's, or the name and number of a value on Dask's workers.
    """

    read: Callable[[Any], Any]
    place: Any

    def get(self) -> Any:
        return self.read(self.place)


def _sent(values: Sequence[Any], backend: Any, stack: ExitStack) -> dict[int, Any]:
    """Send values to where all workers find them; return what stands for each, by its id."""
    kind = _kind(backend)
    if kind == "ray":
        import ray

        return {id(value): _Sent(_fetched, ray.put(value)) for value in values}
    if kind == "dask" and values:
        name = stack.enter_context(_on_dask_workers(backend.client, values))
        return {id(value): _Sent(_kept_here, (name, number)) for number, value in enumerate(values)}
    # Threads have the value itself, and others may be on machines that do not see our files.
    if kind != "loky" or not values:
        return {}
    # As joblib packs what it sends itself: with classes of a notebook or script.
    from joblib.externals.loky.backend.reduction import dumps

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alloc-workers-")))
    sent = {}
    for number, value in enumerate(values):
        path = folder / f"{number}.pickle"
        path.write_bytes(dumps(value))
        sent[id(value)] = _Sent(_read, str(path))
    return sent


@contextmanager
def _on_dask_workers(client: Any, values: Sequence[Any]) -> Iterator[str]:
    """Have each worker of a Dask cluster keep values; yield the name by which they are found there.

    Dask's own `Client.scatter` would do, but its memory manager takes copies that no call waits for
    away again after two seconds, and calls then go to the one worker that has the value. A plugin
    is set up on each worker, also on those that come later.
    """
    from distributed import WorkerPlugin

    class Values(WorkerPlugin):
        """Keeps values on a worker as long as it is registered."""

        def __init__(self) -> None:
            self.name = f"alloc-{uuid4().hex}"
            self.values = values

        def setup(self, worker: Any) -> None:
            _keep(self.name, self.values)

        def teardown(self, worker: Any) -> None:
            _keep(self.name, ())

    plugin = Values()
    client.register_plugin(plugin)
    try:
        yield plugin.name
    finally:
        client.unregister_worker_plugin(plugin.name)


_on_this_worker: dict[str, Sequence[Any]] = {}
"""What a worker of Dask keeps, by name."""


def _keep(name: str, values: Sequence[Any]) -> None:
    """Keep values on this worker; nothing any more, if there are none."""
    if values:
        _on_this_worker[name] = values
    else:
        del _on_this_worker[name]


def _kept_here(place: tuple[str, int]) -> Any:
    name, number = place
    return _on_this_worker[name][number]


def _kind(backend: Any) -> str:
    """Return the kind of a backend of joblib's, by the names of its classes."""
    names = {one.__name__ for one in type(backend).__mro__}
    known = {"DaskDistributedBackend": "dask", "RayBackend": "ray", "OwnProcesses": "loky"}
    return next((kind for name, kind in known.items() if name in names), "")


@lru_cache(maxsize=_KEPT)
def _read(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


@lru_cache(maxsize=_KEPT)
def _fetched(reference: Any) -> Any:
    import ray

    return ray.get(reference)


def _as_here(here: tuple[Path, tuple[str, ...]], function: Callable[..., Out], *given: Any) -> Out:
    """Call a function where a run is asked for: joblib uses processes again elsewhere.

    What is named by its module is looked for in the working folder and on Python's path.
    """
    folder, path = here
    if folder != Path.cwd():
        # On another machine there may be no such folder.
        with suppress(OSError):
            os.chdir(folder)
    sys.path.extend(entry for entry in path if entry not in sys.path)
    return function(*(one.get() if isinstance(one, _Sent) else one for one in given))
