"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, on loopback."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from needs import postgres_programs


class PostgresCluster:
    """A database cluster that can be stopped and started, and leaves nothing behind.

    PostgreSQL refuses to run as root, so root hands it to an unprivileged user.
    """

    def __init__(self):
        self._programs: Any = postgres_programs()
        self._folder = Path(tempfile.mkdtemp(prefix="alloc-postgres-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            name = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self._folder, name)
            self._user = {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._data = self._folder / "data"
        self._run("initdb", "-D", self._data, "-U", "alloc", "-A", "trust", "-E", "UTF8", "-N")
        self.start()

    def start(self):
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                self._programs / "postgres",
                *("-D", self._data, "-p", str(self.port), "-k", self._folder, "-h", "127.0.0.1"),
                # Its crashes are not what is tested here.
                *("-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60"),
            ],
            stderr=(self._folder / "log").open("a") if not self._user else subprocess.DEVNULL,
            cwd="/",
            **self._user,
        )
        end = time.monotonic() + 300
        while time.monotonic() < end:
            with suppress(subprocess.CalledProcessError):
                self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port))
                return
            time.sleep(0.1)
        raise AssertionError("PostgreSQL does not start")

    def stop(self):
        """Stop it at once, with all connections to it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(300)

    def new_database(self, name):
        """Make an empty database; return its URL."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "alloc", name)
        return f"postgresql+psycopg://alloc@127.0.0.1:{self.port}/{name}"

    def remove(self):
        """Stop it, and remove its folder."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(300)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program, *arguments):
        subprocess.run(
            [self._programs / program, *map(str, arguments)],
            check=True,
            capture_output=True,
            cwd="/",
            **self._user,
        )
