"""The client: the library's own types in and out, the work at a server."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import httpx

from alloc.client.answers import (
    Document,
    RemotePlacement,
    RemotePlan,
    RemoteReading,
    RemoteWhatIf,
    document_of,
    explanations_of,
    placement_of,
    plan_of,
    reading_of,
    what_if_of,
)
from alloc.client.job import JobStatus, RemoteJob
from alloc.client.transport import Transport
from alloc.documents.reading import save
from alloc.errors import InstanceError
from alloc.problems import Problem
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result
from alloc.units import require_positive

T = TypeVar("T")
_WAIT_SHARE = 0.5
"""Of the longest wait for one answer, for which a server may hold it back until there is a result:
what is sent and comes back takes its time, too."""
_MAX_WAIT_S = 999_999
"""A wait is whole seconds (RFC 7240), of which the server reads six digits, seconds."""
_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "solve": Result.from_json,
    "place": placement_of,
    "explain": explanations_of,
    "compare": document_of,
    "plan": plan_of,
    "what-if": what_if_of,
    "pareto": document_of,
    "read-files": reading_of,
}


class Client:
    """A server of alloc, as if it were here.

    Every submitted request carries an idempotency key of its own, so that a request whose answer
    was lost is sent again without being done twice. Use it in a ``with`` block, or `close` it.

    Parameters
    ----------
    url
        Address of the server, for example ``"http://127.0.0.1:8642"``.
    token
        Token, or None where none is needed; `alloc serve tokens add` makes one.
    timeout_s
        Longest wait for one answer, seconds.
    patience_s
        How long a server that is away or overloaded is asked again, seconds.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8642", patience_s=0.1)
    >>> client.url
    'http://127.0.0.1:8642'
    >>> client.close()
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 60.0,
    ) -> None:
        require_positive(timeout_s, "client", "timeout_s")
        require_positive(patience_s, "client", "patience_s")
        if not url.startswith(("http://", "https://")):
            raise InstanceError(
                f'client: url is "{url}"; it begins with http:// or https://, for example '
                "http://127.0.0.1:8642."
            )
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._transport = Transport(self.url, token, timeout_s, patience_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()

    def solve(self, problem: Problem | str, **options: Any) -> Result[Any]:
        """Solve a problem of any family, and return the result.

        Parameters
        ----------
        problem
            The problem, or the id of one stored with alloc.
        **options
            Those of `submit_solve`.
        """
        return self._ask(*self._to_solve(problem, options))

    def submit_solve(self, problem: Problem | str, **options: Any) -> RemoteJob[Result[Any]]:
        """Submit a solve.

        Parameters
        ----------
        problem
            The problem, or the id of one stored with alloc.
        **options
            ``formulation``, ``objective``, ``backend``: names, as of ``alloc.solve``;
            ``time_limit_s``: wall time of the search, seconds, above 0; ``gap``: relative gap at
            which to stop, 0 or more; ``seed``: 0 or more; ``workers``: threads, 1 or more;
            ``warm_start``: a solution to start from, or its document.
        """
        return self._submit(*self._to_solve(problem, options))

    def _to_solve(
        self, problem: Problem | str, options: dict[str, Any]
    ) -> tuple[str, Callable[[bytes], Result[Any]], dict[str, Any]]:
        """Return what `_ask` and `_submit` take to have a problem solved."""
        start = options.get("warm_start")
        if start is not None and not isinstance(start, Mapping):
            options["warm_start"] = json.loads(save(start))
        return "solve", Result.from_json, {"instance": _plain(problem), **options}

    def place(self, instance: Instance | str, **options: Any) -> RemotePlacement:
        """Place a queue on a cluster as it stands, and return the placement.

        Parameters
        ----------
        instance
            Cluster, running jobs and queue, or the id of an instance stored with alloc.
        **options
            ``goal``: objectives, such as ``"gpus_placed then moves"``; ``backend``: a name;
            ``move_budget``: most running tasks that may move, 0 or more; ``evict``: whether running
            preemptible jobs may be stopped; ``repair``: whether to fix what running jobs
            break; ``topology``: the document of another cluster; ``time_limit_s``: wall time of the
            search, seconds, above 0; ``seed``: 0 or more; ``workers``: threads, 1 or more.
        """
        return self._ask("place", placement_of, {"instance": _plain(instance), **options})

    def explain(
        self, instance: Instance | str, job: str | None = None, **options: Any
    ) -> Mapping[str, Any]:
        """Return for each waiting job, or one, whether it starts and why not.

        Parameters
        ----------
        instance
            Cluster, running jobs and queue, or the id of an instance stored with alloc.
        job
            Id of a waiting job; None: all of them.
        **options
            ``moves``: whether to look for moves of running jobs that help; ``topology``: the
            document of another cluster; ``time_limit_s``: wall time for each job, seconds, above 0.
        """
        body = {"instance": _plain(instance), "job": job, **options}
        return self._ask("explain", explanations_of, body)

    def compare(
        self, instances: Sequence[Instance | str], schedulers: Sequence[str], **options: Any
    ) -> Document:
        """Run schedulers on instances, and return the document of the comparison.

        Parameters
        ----------
        instances
            The instances, all different, or ids of some stored with alloc.
        schedulers
            Names; `alloc.schedulers.scheduler_names` lists those of this alloc.
        **options
            ``seeds``: simulations of each scheduler on each instance, 1 or more; ``knowledge``,
            ``work_error``, ``speed_error``: what schedulers are told, as of
            ``alloc.comparison.compare``; ``objective``, ``formulation``, ``backend``: names, for
            the bound; ``time_limit_s``: wall time of the search for it, seconds, above 0.
        """
        body = {
            "instances": [_plain(instance) for instance in instances],
            "schedulers": list(schedulers),
            **options,
        }
        return self._ask("compare", document_of, body)

    def plan(self, problem: PlanningProblem | str, **options: Any) -> RemotePlan:
        """Return the cheapest plan.

        Parameters
        ----------
        problem
            The problem, or the id of one stored with alloc.
        **options
            Those of `submit_plan`.
        """
        return self._ask("plan", plan_of, {"problem": _plain(problem), **options})

    def submit_plan(self, problem: PlanningProblem | str, **options: Any) -> RemoteJob[RemotePlan]:
        """Submit a search for the cheapest plan.

        Parameters
        ----------
        problem
            The problem, or the id of one stored with alloc.
        **options
            ``replay``: how to replay the plan, ``{"scheduler": "fifo", "jobs": 1000, "rounds": 5}``
            or a part of it, or None for none; ``time_limit_s``: wall time of each solve, seconds,
            above 0; ``gap``: relative gap between cost and bound at which to stop, 0 or more;
            ``seed``: 0 or more; ``workers``: threads, 1 or more.
        """
        return self._submit("plan", plan_of, {"problem": _plain(problem), **options})

    def what_if(
        self,
        problem: PlanningProblem | str,
        changes: Sequence[str | Mapping[str, Any]],
        **options: Any,
    ) -> RemoteWhatIf:
        """Plan a changed problem, and compare it with the base.

        Parameters
        ----------
        problem
            The base, or the id of a problem stored with alloc.
        changes
            Changes to apply: text such as ``"demand=+20%"``, as
            ``alloc.planning.change_text.read_change`` takes it, or documents of changes.
        **options
            Those of `submit_plan`, and ``other_scheduler``: name of another policy for the changed
            plan, which needs a replay.
        """
        body = {"problem": _plain(problem), "changes": list(changes), **options}
        return self._ask("what-if", what_if_of, body)

    def pareto(
        self, problem: PlanningProblem | str, axis: str = "goals", **options: Any
    ) -> Document:
        """Return the front of a plan's cost against ``goals``, ``energy`` or ``carbon``.

        Parameters
        ----------
        problem
            The problem, or the id of one stored with alloc.
        axis
            The other axis.
        **options
            ``points``: of a front of energy or carbon, 2 or more; ``factors``: by what all goals
            are multiplied, each above 0; ``time_limit_s``, ``gap``, ``seed`` and ``workers`` as of
            `submit_plan`.
        """
        body = {"problem": _plain(problem), "axis": axis, **options}
        return self._ask("pareto", document_of, body)

    def read_files(
        self,
        *files: str | PathLike[str],
        columns: Mapping[str, str] | None = None,
        host_type: str | None = None,
        **options: Any,
    ) -> RemoteReading:
        """Return what a server makes of files: an instance, or a topology where there are no jobs.

        Parameters
        ----------
        *files
            Files of this machine: a job table or a dump of Slurm or Kubernetes, and beside it or
            alone the cluster. They are sent whole.
        columns
            Columns of a job table by what they are, such as ``{"arrival": "Submit"}``; the others
            are guessed.
        host_type
            Machine of all hosts, such as ``"dgx-h100"``, where a topology file tells none.
        **options
            Options of the reader, as of ``alloc instances import``.

        Raises
        ------
        InstanceError
            If a file cannot be read here or there, or an option makes no sense.
        """
        body = {
            "files": [_uploaded(Path(file)) for file in files],
            "columns": dict(columns or {}),
            "host_type": host_type,
            "options": options,
        }
        return self._ask("read-files", reading_of, body)

    def submit(
        self, operation: str, body: Mapping[str, Any], *, label: str | None = None
    ) -> RemoteJob[Any]:
        """Submit any operation of the server.

        Parameters
        ----------
        operation
            Its name, such as ``"size-inference"``; ``/v1/openapi.json`` at the server lists them.
        body
            The document that it takes.
        label
            A name of your own, by which `jobs` finds the job; None: no name.
        """
        return self._submit(operation, _DECODERS.get(operation, document_of), body, label)

    def job(self, job_id: str) -> RemoteJob[Any]:
        """Return a job that was submitted before, by its id."""
        operation = self._transport.send("GET", f"/v1/jobs/{job_id}").json()["operation"]
        return RemoteJob(self._transport, job_id, _DECODERS.get(operation, document_of))

    def jobs(self, **filters: Any) -> Iterator[JobStatus]:
        """Yield the jobs of this client, the latest first, page after page.

        Parameters
        ----------
        **filters
            ``state``, ``operation``, ``label``, and ``limit``: jobs on a page.
        """
        cursor: str | None = None
        while True:
            given = {**filters, **({} if cursor is None else {"cursor": cursor})}
            page = self._transport.send("GET", "/v1/jobs", params=given).json()
            yield from (JobStatus.of(document) for document in page["jobs"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _ask(self, operation: str, decode: Callable[[bytes], T], body: Mapping[str, Any]) -> T:
        """Return the answer: with the request itself where it comes soon, else the job's."""
        wait = f"wait={int(min(_WAIT_SHARE * self._timeout_s, _MAX_WAIT_S))}"
        response = self._post(operation, body, {"Prefer": wait}, {})
        if response.status_code == httpx.codes.ACCEPTED:
            return self._job(response, decode).result()
        return decode(response.content)

    def _submit(
        self,
        operation: str,
        decode: Callable[[bytes], T],
        body: Mapping[str, Any],
        label: str | None = None,
    ) -> RemoteJob[T]:
        params = {} if label is None else {"label": label}
        return self._job(self._post(operation, body, {}, params), decode)

    def _post(
        self,
        operation: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        params: Mapping[str, str],
    ) -> httpx.Response:
        key = str(uuid.uuid4())
        return self._transport.send(
            "POST",
            f"/v1/{operation}",
            content=_body(operation, body),
            headers={"Content-Type": "application/json", "Idempotency-Key": key, **headers},
            params=params,
        )

    def _job(self, response: httpx.Response, decode: Callable[[bytes], T]) -> RemoteJob[T]:
        return RemoteJob(self._transport, str(response.json()["id"]), decode)


def _body(operation: str, body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InstanceError(
            f"client: an option of {operation} cannot be written as JSON ({error}); give plain "
            "values, finite numbers and documents."
        ) from None


def _uploaded(path: Path) -> dict[str, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InstanceError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    return {
        "name": path.name,
        "content": base64.b64encode(content).decode(),
        "encoding": "base64",
    }


def _plain(part: Problem | str) -> Any:
    return part if isinstance(part, str) else json.loads(save(part))
