"""Servers for tests: in a thread of this process, or in a process of their own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from sqlalchemy import create_engine, text

from alloc.server.serving import BackgroundServer

TESTS = Path(__file__).parent


class Running:
    """A server in a thread of this process, and a client of it."""

    def __init__(self, settings):
        self._server = BackgroundServer(settings.replace(port=0))
        self.port = self._server.port

    def __enter__(self):
        self._server.__enter__()
        self.client = httpx.Client(base_url=self._server.address, timeout=300.0)
        return self

    def __exit__(self, *error):
        self.client.close()
        self._server.__exit__(*error)


def wait_until_ready(client, patience_s=300.0):
    """Wait until a server takes work."""
    end = time.monotonic() + patience_s
    while True:
        try:
            if client.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < end, "the server does not get ready"
        time.sleep(0.05)


def act(client, wait=None, headers=None, label=None, **request):
    """Ask for the operation of the tests."""
    sent = dict(headers or {})
    if wait is not None:
        sent["Prefer"] = f"wait={wait}"
    params = {} if label is None else {"label": label}
    return client.post("/v1/act", json=request, headers=sent, params=params)


def wait_for(client, job_id, states=("done", "failed", "cancelled"), patience_s=300.0):
    """Wait until a job is in one of the states, and return it."""
    end = time.monotonic() + patience_s
    while True:
        job = client.get(f"/v1/jobs/{job_id}").json()
        if job["state"] in states:
            return job
        assert time.monotonic() < end, job
        time.sleep(0.03)


def wait_for_stored(database, job_id, attempt, patience_s=300.0):
    """Wait until the database knows that a job has been started so often."""
    engine = create_engine(database if "://" in database else f"sqlite:///{database}")
    query = text("SELECT attempt FROM alloc_server_jobs WHERE state = 'running' AND id = :id")
    end = time.monotonic() + patience_s
    while True:
        with engine.connect() as connection:
            if connection.execute(query, {"id": job_id}).scalar() == attempt:
                break
        assert time.monotonic() < end, "the start of the job is not stored"
        time.sleep(0.03)
    engine.dispose()


def parent_of(process):
    """Return the id of the process that a process was started by."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def processes_of(parent):
    """Return the ids of all processes below one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            above = parent_of(folder.name)
        except OSError:
            continue
        if above == parent:
            child = int(folder.name)
            found += [child, *processes_of(child)]
    return found


def files_of(process):
    """Return how many files and sockets a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def wait_until_gone(pids):
    """Wait until none of some processes is left, not even as a zombie."""
    end = time.monotonic() + 300
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "processes are left behind"
        time.sleep(0.05)


class Server:
    """A server in a process of its own."""

    def __init__(self, folder, **variables):
        self.log = Path(folder) / "log.jsonl"
        self._go = Path(folder) / "go"
        self.database = str(Path(folder) / "server.sqlite")
        environment = {
            **os.environ,
            "ALLOC_PORT": "0",
            "ALLOC_DATABASE": self.database,
            "ALLOC_TEST_GO": str(self._go),
            "ALLOC_OPERATIONS": "server_operations",
            "ALLOC_WORKERS": "2",
            "ALLOC_DRAIN_S": "0.2",
            "ALLOC_PRELOAD": "false",
            "PYTHONPATH": str(TESTS),
            **{f"ALLOC_{name.upper()}": str(value) for name, value in variables.items()},
        }
        self._begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "alloc", "serve"], env=environment, stderr=log
            )
        self.client = httpx.Client()
        try:
            self.client = httpx.Client(base_url=self._address(), timeout=300.0)
            wait_until_ready(self.client)
        except BaseException:  # nobody else would stop it
            self.kill()
            raise

    def lines(self):
        """Return what it has logged since it was started."""
        return self.log.read_text()[self._begin :]

    def let_go(self):
        """Let the jobs that hold end, here and after a restart."""
        self._go.touch()

    def kill(self):
        """End it as a crash would."""
        self.stop(signal.SIGKILL)

    def stop(self, number=signal.SIGTERM):
        """Send it a signal, and wait for its end."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(300)

    def _address(self):
        end = time.monotonic() + 300
        while time.monotonic() < end:
            found = re.search(r'"address": "(http://[^"]+)"', self.lines())
            if found:
                return found[1]
            assert self.process.poll() is None, self.lines()
            time.sleep(0.05)
        raise AssertionError("the server does not listen")
