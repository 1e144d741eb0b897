"""Workers of any kind do the same work, one pool of them a run, and get what they share once."""

import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from alloc.errors import BackendUnavailableError, InstanceError, SolverError, worker_deaths
from alloc.parallel import workers

ROOT = Path(__file__).parents[3]
ADDRESSES = ("DASK_SCHEDULER_ADDRESS", "RAY_ADDRESS")
KINDS = [
    "loky",
    pytest.param("dask", marks=pytest.mark.dask),
    pytest.param("ray", marks=pytest.mark.ray),
]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_workers_of_each_kind_do_the_work_of_one_process(kind):
    done = subprocess.run(
        [sys.executable, "-c", f"from parallel_run import main; main({kind!r})"],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name not in ADDRESSES},
            "PYTHONPATH": str(ROOT / "tests" / "helpers"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["numbers"] == [list(range(12))] * 2
    # One pool: the second calls meet the processes of the first.
    assert told["processes"][0] == told["processes"][1]
    assert len(told["processes"][0]) == 2
    assert told["here"] not in told["processes"][0]
    # For 24 calls once into each process; Dask packs once for each worker and once to store it.
    assert told["unpacked"] == 1
    assert told["packed"] <= 3
    if kind != "loky":
        assert told["there"] == told["alone"]
        assert told["search"] == [[1], [True], 469.0]
        # joblib makes the calls of a cluster of one worker here, where nothing was sent to.
        assert told["single"] == list(range(12))
    # A terminal's Ctrl-C goes to the processes of Dask, too; those of Ray are a group of their own.
    assert kind != "dask" or told["deaf"]
    # Workers that come later have what was sent; after the run nobody has.
    assert kind != "dask" or (told["late"], told["left"]) == (2, 0)


def test_a_run_that_stops_early_leaves_its_pool_to_the_next():
    with workers("threading", 2) as crew:
        calls = [(number,) for number in range(8)]
        with closing(crew.run(abs, calls)) as results:
            assert next(results) in range(8)
        assert sorted(crew.run(abs, calls)) == list(range(8))


def waits_for(path, number):
    """Return the number once a file is there."""
    while not Path(path).exists():
        threading.Event().wait(0.01)
    return number


@pytest.mark.long
@pytest.mark.parametrize("kill_workers", [False, True])
def test_calls_are_answered_though_another_thread_closes_its_processes(tmp_path, kill_workers):
    """Of those that were not sent yet nobody heard again: the run waited for ever."""
    calls = [(str(tmp_path / "go"), number) for number in range(12)]
    with workers("loky", 2) as crew:
        results = crew.start(waits_for, calls)
        get_reusable_executor(reuse=True).shutdown(kill_workers=kill_workers)

        def run_of_its_own() -> None:
            with workers("loky", 2) as others:
                others.end(others.start(waits_for, calls))

        thread = threading.Thread(target=run_of_its_own)
        thread.start()
        thread.join()
        (tmp_path / "go").touch()
        assert sorted(results) == list(range(12))


@pytest.mark.long
def test_calls_that_wait_end_without_a_word(capfd):
    """The thread that sends them died of those that it had dropped, with a traceback."""
    with workers("loky", 2) as crew:
        for _ in range(5):
            crew.pool("generator_unordered").pre_dispatch = "all"
            results = crew.start(abs, [(number,) for number in range(200)])
            next(results)
            crew.end(results)
        assert sorted(crew.start(abs, [(1,), (-2,)])) == [1, 2]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("address", "where", "cure"),
    [
        ("nonsense", 'at RAY_ADDRESS "nonsense"', "correct RAY_ADDRESS, or unset it"),
        (None, "on this machine", 'use "loky"'),
    ],
)
def test_a_cluster_that_cannot_be_opened_is_a_sentence(address, where, cure, monkeypatch):
    def init(**settings):
        raise ValueError("no such\n address.")

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(
        sys.modules, "ray.util.joblib.ray_backend", SimpleNamespace(RayBackend=object)
    )
    for name in ("ray.util", "ray.util.joblib"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__path__=[]))
    monkeypatch.setattr(joblib.parallel, "BACKENDS", dict(joblib.parallel.BACKENDS))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with (
        pytest.raises(
            InstanceError, match=f"Ray opens no cluster {where}: no such address; {cure}"
        ),
        workers("ray", 2),
    ):
        pytest.fail("never opened")


def test_a_run_of_one_process_calls_here_and_packs_nothing():
    class Unpackable:
        def __reduce__(self):
            raise TypeError("stays here")

    value = Unpackable()
    with workers(None, None, [value]) as crew:
        assert list(crew.run(lambda one, number: (one, number), [(value, 1), (value, 2)])) == [
            (value, 1),
            (value, 2),
        ]


@pytest.mark.parametrize(
    ("kind", "count", "sentence"),
    [
        ("loky", 0, "jobs is 0; give 1 or more processes, or -1 for one on each core"),
        ("loky", -2, "jobs is -2"),
        ("sparky", 2, 'no backend "sparky"; register it first. Known: dask, .*loky.*ray'),
    ],
)
def test_workers_that_cannot_be_are_refused_in_a_sentence(kind, count, sentence):
    with pytest.raises(InstanceError, match=sentence), workers(kind, count):
        pytest.fail("never opened")


@pytest.mark.parametrize(("kind", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_that_is_not_installed_names_its_extra(kind, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(BackendUnavailableError, match=rf'pip install "\.\[{kind}\]"'),
        workers(kind, 2),
    ):
        pytest.fail("never opened")


@pytest.mark.parametrize(
    "name", ["KilledWorker", "RayActorError", "WorkerCrashedError", "BrokenProcessPool"]
)
def test_the_death_of_a_worker_is_a_sentence_whoever_it_works_for(name):
    death = type("Sudden", (type(name, (Exception,), {}),), {})
    with pytest.raises(SolverError, match="a worker process died"), worker_deaths("compare"):
        raise death("gone")
    with pytest.raises(KeyError), worker_deaths("compare"):
        raise KeyError(name)
