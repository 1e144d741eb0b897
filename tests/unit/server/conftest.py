"""Fixtures of the tests of the server."""

import json

import pytest
from postgres_cluster import PostgresCluster
from server_harness import Running, Server

from alloc.instances import load
from alloc.server import Settings


@pytest.fixture(scope="session")
def tiny():
    """Return the document of a small instance."""
    return json.loads(load("elastic-tiny/01").to_json())


@pytest.fixture
def settings(tmp_path):
    return Settings(
        database=str(tmp_path / "server.sqlite"),
        workers=2,
        operations=("server_operations",),
        drain_s=0.2,
        port=0,
    )


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Return a client of a server that many tests share."""
    settings = Settings(
        database=str(tmp_path_factory.mktemp("shared") / "server.sqlite"),
        workers=2,
        operations=("server_operations",),
        job_limit_s=120.0,
        max_body_bytes=200_000,
        drain_s=0.2,
    )
    with Running(settings) as running:
        yield running.client


@pytest.fixture
def open_client():
    """Return a function that starts a server in this process and gives a client of it."""
    opened = []

    def start(settings):
        opened.append(Running(settings).__enter__())
        return opened[-1].client

    yield start
    for running in opened:
        running.__exit__()


@pytest.fixture
def server(tmp_path):
    """Return a function that starts a server in a process of its own, always on one database."""
    started = []

    def start(**variables):
        started.append(Server(tmp_path, **variables))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def postgres():
    """Return a PostgreSQL of these tests' own."""
    cluster = PostgresCluster()
    yield cluster
    cluster.remove()
