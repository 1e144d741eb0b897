"""What the tests of the command line share."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.cli.application import app
from alloc.topology import flat_cluster


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a command in this process."""
    runner = CliRunner()

    def run(*arguments: object, **options: Any) -> Any:
        # Wide enough that no cell of a table is broken into two lines.
        return runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"}, **options)

    return run


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start commands in processes of their own, and leave none behind."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "alloc", *map(str, arguments)],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def instance() -> Instance:
    """Return two jobs of one GPU and 200 s each on one GPU, in slots of 100 s.

    One waits for the other: the best sum of completion times is 200 + 400 = 600 s.
    """
    one_gpu = (Configuration((TaskGroup("worker", 1, 1000),), 1.0),)
    jobs = tuple(Job(f"job-{j}", 0.0, 200.0, one_gpu) for j in range(2))
    return Instance(
        "two in a row", flat_cluster("one GPU", HostType("box", 1, "gpu"), 1), jobs, slot_s=100.0
    )


@pytest.fixture
def instance_file(instance: Instance, tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    instance.to_json(path)
    return path


@pytest.fixture
def infeasible_file(instance: Instance, tmp_path: Path) -> Path:
    """Write the same with a horizon of 150 s, which is too short for either job."""
    path = tmp_path / "late.json"
    instance.replace(horizon_s=150.0).to_json(path)
    return path


@pytest.fixture
def continuous_file(instance: Instance, tmp_path: Path) -> Path:
    """Return a file with the same jobs in continuous time."""
    path = tmp_path / "continuous.json"
    instance.replace(slot_s=None).to_json(path)
    return path
