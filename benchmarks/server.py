"""Serve 200 small solves a second beside hostile clients; lose no job; answer nothing with 500.

The server runs as ``alloc serve`` in a process of its own, on SQLite, every accepted job on disk
before it is acknowledged; the load generator runs in another. A small solve is a round allocation
(F1) of a stored ``elastic-tiny`` instance, asked for with ``Prefer: wait`` in one request. No two
requests are the same: each draws the rates of its configurations within 10 % of those stored, and
has a seed of its own. With ``--beside`` another process uses that share of a core.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import numpy as np

from alloc.instances import load, manifest
from alloc.server.tables import open_database
from alloc.server.tokens import add_token
from benchmarks.contract_fuzz import fuzz
from benchmarks.cpu_time import cpu_s
from benchmarks.environment import describe_environment
from benchmarks.hostile_clients import hostile_clients
from benchmarks.other_work import other_work
from benchmarks.request_load import generate_load
from benchmarks.verdict import Verdict, conclude

RATE = 200.0
SECONDS = 60.0
P99_MS = 150.0
NUM_HOSTILE = 20
NUM_LONG = 50
LONG_S = 10.0
NUM_KILLS = 3
LONG_INSTANCE = "elastic-medium/06"
"""Not solved to the end in the time that it gets, with any seed."""
_WARM_S = 5.0
_SPREAD = 0.1
"""How much a drawn rate differs from the stored one at most, as a share of it."""
_READY_S = 120.0


class ServerProcess:
    """``alloc serve`` in a process of its own."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._log = folder / "server.log"
        begin = self._log.stat().st_size if self._log.exists() else 0
        variables = {f"ALLOC_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {
            **os.environ,
            "ALLOC_PORT": "0",
            "ALLOC_DATABASE": str(folder / "server.sqlite"),
            **variables,
        }
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "alloc", "serve"], env=environment, stderr=log
            )
        self.client = httpx.Client()
        try:
            self.port = self._port(begin)
            self.address = f"http://127.0.0.1:{self.port}"
            self.client = httpx.Client(base_url=self.address, timeout=60.0)
            self._wait_until_ready()
        except BaseException:  # nobody else would stop it
            self.stop(signal.SIGKILL)
            raise

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(signal.SIGTERM)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()

    def _port(self, begin: int) -> int:
        end = time.monotonic() + _READY_S
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r'"address": "http://[^"]+:(\d+)"', self._log.read_text()[begin:])
            if found:
                return int(found[1])
            time.sleep(0.05)
        raise RuntimeError(f"the server does not start: {self._log.read_text()[begin:]}")

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _READY_S
        while self.client.get("/health/ready").status_code != 200:
            if time.monotonic() > end:
                raise RuntimeError("the server does not get ready")
            time.sleep(0.05)


def small_requests(number: int, seed: int) -> list[bytes]:
    """Return bodies of small solves, no two of them the same.

    Parameters
    ----------
    number
        How many.
    seed
        Of their rates; those of another seed are others.
    """
    rng = np.random.default_rng(seed)
    stored = [
        json.loads(load(entry.id).to_json())
        for entry in manifest()
        if entry.family == "elastic-tiny"
    ]
    bodies = []
    for k in range(number):
        instance = copy.deepcopy(stored[k % len(stored)])
        tables = [*instance["configuration_sets"].values()]
        tables += [job["configurations"] for job in instance["jobs"]]
        for one in itertools.chain.from_iterable(t for t in tables if isinstance(t, list)):
            one["rate"] = float(f"{one['rate'] * rng.uniform(1 - _SPREAD, 1 + _SPREAD):.6g}")
        request = {"instance": instance, "formulation": "round", "seed": k}
        bodies.append(json.dumps(request).encode())
    return bodies


def small_solves(
    folder: Path, rate: float, seconds: float, hostile: int, beside: float = 0.0
) -> Verdict:
    """Return what came of small solves at a steady rate, with hostile clients beside them."""
    requests = small_requests(round(rate * seconds), 1)
    names = ("good", "hostile")
    good, bad = (f"Authorization: Bearer {_token(folder, name)}\r\n" for name in names)
    with ServerProcess(folder, workers=2, require_tokens="true") as server:
        headers = f"{good}Prefer: wait=30\r\n"
        warm = small_requests(round(rate / 2 * _WARM_S), 0)
        generate_load(server.port, "/v1/solve", warm, rate / 2, _WARM_S, headers)
        with other_work(beside), hostile_clients(server.port, hostile, bad) as hostile_pid:
            before = np.array([*cpu_s(server.process.pid), cpu_s(hostile_pid)[0]])
            found = generate_load(server.port, "/v1/solve", requests, rate, seconds, headers)
            used = np.array([*cpu_s(server.process.pid), cpu_s(hostile_pid)[0]]) - before
    ms = 1e3 * np.asarray(found.latencies_s or [float("inf")])
    achieved = len(found.latencies_s) / found.seconds
    p50, p95, p99 = np.quantile(ms, [0.5, 0.95, 0.99])
    number = len(found.latencies_s) + found.failures
    print(
        f"{len(found.latencies_s)} solves in {found.seconds:.1f} s ({achieved:.1f}/s), "
        f"{found.failures} failures {found.first_failure}"
    )
    print(f"latency ms: p50 {p50:.1f}  p95 {p95:.1f}  p99 {p99:.1f}  most {ms.max():.1f}")
    server_ms, workers_ms, hostile_ms = 1e3 * used / number
    generator_ms = 1e3 * found.cpu_s / number
    cores = len(os.sched_getaffinity(0))
    print(
        f"CPU ms a request: server {server_ms:.2f}, workers {workers_ms:.2f}, generator "
        f"{generator_ms:.2f}, hostile clients {hostile_ms:.2f}; in all "
        f"{1e3 * used.sum() / number + generator_ms:.2f} of the {1e3 * cores / rate:.2f} that "
        f"{cores} cores have",
        flush=True,
    )
    return Verdict(
        f"{rate:g} small solves/s for {seconds:g} s with p99 <= {P99_MS:g} ms beside {hostile} "
        f"hostile clients{f' and {beside:g} cores of other work' if beside else ''}",
        f"{achieved:.1f}/s, p99 {p99:.1f} ms, {found.failures} failures",
        p99 <= P99_MS and found.failures == 0 and achieved >= 0.98 * rate,
    )


def _token(folder: Path, name: str) -> str:
    """Return a new token of a client of the server whose database is in a folder."""
    engine = open_database(str(folder / "server.sqlite"))
    try:
        return add_token(engine, name)
    finally:
        engine.dispose()


def long_solves(folder: Path, number: int, seconds: float, kills: int) -> Verdict:
    """Return what became of long solves while the server was killed again and again."""
    settings: dict[str, object] = {"workers": number, "grace_s": 300, "max_attempts": kills + 2}
    server = ServerProcess(folder, **settings)
    jobs: dict[int, str] = {}
    killed = 0
    try:
        for k in range(number):
            if k == number // 2:
                # The first kill comes while requests are on their way.
                server.stop(signal.SIGKILL)
                server, killed = ServerProcess(folder, **settings), 1
                # A client that heard nothing sends again; so does one that did hear.
                jobs[0] = _submit(server, 0, seconds)
            jobs[k] = _submit(server, k, seconds)
        while killed < kills:
            _wait_for_running(server, number)
            time.sleep(seconds / 3)
            server.stop(signal.SIGKILL)
            server, killed = ServerProcess(folder, **settings), killed + 1
        states, attempts, solved = _outcome(server, jobs, seconds)
    finally:
        server.stop(signal.SIGTERM)
    with closing(sqlite3.connect(folder / "server.sqlite")) as database:
        stored = database.execute("SELECT count(*) FROM alloc_server_jobs").fetchone()[0]
        results = database.execute("SELECT count(*) FROM alloc_server_results").fetchone()[0]
    print(
        f"jobs stored {stored}, results {results}, states {dict(states)}, attempts "
        f"{dict(sorted(attempts.items()))}, results of {solved} searches of {seconds:g} s",
        flush=True,
    )
    whole = stored == results == states["done"] == solved == len(set(jobs.values())) == number
    return Verdict(
        f"{number} concurrent {seconds:g}-second solves, none lost or doubled by {kills} kill -9",
        f"{stored} jobs, {results} results, {states['done']} done",
        whole,
    )


def _submit(server: ServerProcess, number: int, seconds: float) -> str:
    request = {"instance": LONG_INSTANCE, "time_limit_s": seconds, "seed": number}
    headers = {"Idempotency-Key": f"long-{number}"}
    answer = server.client.post("/v1/solve", json=request, headers=headers)
    answer.raise_for_status()
    found: str = answer.json()["id"]
    return found


def _wait_for_running(server: ServerProcess, number: int) -> None:
    """Wait until all jobs have been started at the same time, or are done."""
    params: dict[str, Any] = {"state": ["running", "done"], "limit": 200}
    while len(server.client.get("/v1/jobs", params=params).json()["jobs"]) < number:
        time.sleep(0.2)


def _outcome(
    server: ServerProcess, jobs: dict[int, str], seconds: float
) -> tuple[Counter[str], Counter[int], int]:
    """Wait for all jobs; return their states and attempts, and how many hold a whole search."""
    states: Counter[str] = Counter()
    attempts: Counter[int] = Counter()
    solved = 0
    for job_id in jobs.values():
        while (job := server.client.get(f"/v1/jobs/{job_id}").json())["state"] in (
            "queued",
            "running",
        ):
            time.sleep(0.2)
        states[job["state"]] += 1
        attempts[job["attempt"]] += 1
        if job["state"] != "done":
            print(f"{job_id}: {job['problem']}")
            continue
        certificate = server.client.get(f"/v1/jobs/{job_id}/result").json()["certificate"]
        solved += certificate["limit"] == "time" and certificate["seconds"] >= 0.9 * seconds
    return states, attempts, solved


def contract(folder: Path, examples: int) -> Verdict:
    """Return what fuzzing the contract found."""
    with ServerProcess(folder, workers=2) as server:
        report = fuzz(server.address, examples)
    statuses: Counter[int] = Counter()
    for (_, status), number in report.answers.items():
        statuses[status] += number
    print(f"{report.requests} requests, by status {dict(sorted(statuses.items()))}")
    for job_id, problem in report.broken_jobs.items():
        print(f"job {job_id}: {problem}")
    for operation, failure in report.failures.items():
        print(f"{operation}: {failure}")
    return Verdict(
        "the OpenAPI contract fuzzed with no 500",
        f"{report.requests} requests, {report.server_errors} server errors, "
        f"{len(report.failures)} operations that answer otherwise than described",
        report.server_errors == 0 and not report.failures,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print what the server reaches; return 1 if it misses a target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server")
    parser.add_argument("--rate", type=float, default=RATE, help="small solves a second")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--hostile", type=int, default=NUM_HOSTILE, help="hostile clients")
    parser.add_argument(
        "--beside", type=float, default=0.0, help="share of a core that other work uses, 0 to 1"
    )
    parser.add_argument("--long", type=int, default=NUM_LONG, help="long solves; 0 for none")
    parser.add_argument("--long-seconds", type=float, default=LONG_S)
    parser.add_argument("--kills", type=int, default=NUM_KILLS)
    parser.add_argument("--examples", type=int, default=25, help="fuzzed requests; 0 for none")
    arguments = parser.parse_args(argv)
    verdicts = []
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / part for part in ("small", "long", "contract")]
        for folder in folders:
            folder.mkdir()
        if arguments.rate:
            load_ = arguments.rate, arguments.seconds, arguments.hostile, arguments.beside
            verdicts.append(small_solves(folders[0], *load_))
        if arguments.long:
            verdicts.append(
                long_solves(folders[1], arguments.long, arguments.long_seconds, arguments.kills)
            )
        if arguments.examples:
            verdicts.append(contract(folders[2], arguments.examples))
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
