"""What an installed package announces is found by every registry."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from alloc import plugins
from alloc.comparison import compare
from alloc.errors import InstanceError
from alloc.families import FAMILIES, Family, instance_families
from alloc.instances import load
from alloc.objectives import (
    OBJECTIVES,
    RoundUtility,
    ScheduleObjective,
    checked_utility,
    objective,
)
from alloc.solving import solve

HELPERS = Path(__file__).parents[2] / "helpers"

PACKAGE = """
from dataclasses import replace

from alloc.families import FAMILIES

family = replace(FAMILIES["checkpointing"], name="checkpointing-too", title="The same again")
taken = replace(FAMILIES["checkpointing"], name="round", title="Not theirs to take")
wrong = 3
"""
READER = """
from dataclasses import replace

from alloc.instances.readers.registry import READERS

reader = replace(READERS["itp"], kind="theirs")
"""
POINTS = """
[alloc.families]
checkpointing-too = announced:family
round = announced:taken
wrong = announced:wrong
broken = nowhere:nothing

[alloc.readers]
theirs = announced_reader:reader

[alloc.backends]
theirs = alloc.backends.highs

[alloc.schedulers]
theirs = alloc.schedulers.fifo:Fifo
"""
USE = """
import warnings
warnings.simplefilter("ignore")
import alloc
from alloc.backends import backend
from alloc.families import FAMILIES
from alloc.instances import load
from alloc.instances.checkpointing import pretraining
from alloc.instances.readers import READERS
from alloc.schedulers import make_scheduler

assert FAMILIES["round"].title.startswith("Round allocation")
assert "wrong" not in FAMILIES and "broken" not in FAMILIES
run = pretraining(num_phases=5)
assert alloc.solve(run, "checkpointing-too").objective == alloc.solve(run).objective
assert READERS["theirs"].kind == "theirs"
assert backend("theirs").MODEL_KIND == "arrays"
assert alloc.solve(load("elastic-tiny/01"), "round", "theirs").status == "optimal"
assert make_scheduler("theirs").name == "fifo"
"""


DOORS = """
import json, re, sys, tempfile, warnings
from pathlib import Path
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import alloc
    from alloc.families import FAMILIES
assert any('"taken" calls its documents "instance"' in str(one.message) for one in said)
assert "taken" not in FAMILIES
from third_party import WEEK, Choice
from typer.testing import CliRunner
from alloc.cli.application import app
from alloc.documents import json_schema
from alloc.instances import load

def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 0, (arguments, done.output)
    return done.stdout

folder = Path(tempfile.mkdtemp())
week, answer, alone = folder / "week.json", folder / "answer.json", folder / "alone.json"
# Documents and the library.
alloc.save(WEEK, week)
assert alloc.load(week) == WEEK and WEEK.kind == "timetable"
assert json_schema("timetable")["properties"]["hours"]["description"].startswith("Time that there")
result = alloc.solve(WEEK)
assert (result.status, result.objective, set(result.solution.taken)) == ("optimal", 7, {"b", "c"})
assert alloc.load(result.to_json()) == result
assert alloc.verify(WEEK, Choice(("a", "b")))[0].code == "hours"
# The command line.
assert "lessons" in run("models", "list")
assert "knapsack" in run("models", "show", "lessons")
shown = run("solve", week, "--backend", "all", "-o", answer)
assert re.search(r"learnt +7 credits", shown) and re.search(r"0 +b +\\n +1 +c", shown), shown
assert "its claims hold" in run("verify", week, answer)
alloc.save(result.solution, alone)
assert "feasible" in run("verify", week, alone)
assert "timetable" in run("instances", "schema", "timetable")
# An objective of rounds.
from alloc.cli.completion import complete_objective
assert "steps" in complete_objective("ste") and "learnt" in complete_objective("lear")
assert "steps" in run("models", "show", "round", "--json")
tiny = load("elastic-tiny/01")
values = []
for backend in ("auto", "highs", "pyomo", "cpsat"):
    one = alloc.solve(tiny, "round", backend, objective="steps")
    assert one.status == "optimal" and alloc.verify(tiny, one.solution) == []
    assert one.objective == alloc.objective("steps").evaluate(tiny, one.solution) > 0
    values.append(one.objective)
assert max(values) <= min(values) * (1 + 1e-6), values
assert "steps" in run("solve", "elastic-tiny/01", "--formulation", "round", "--objective", "steps")
"""
SERVED = """
import tempfile, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from server_harness import Running
from third_party import WEEK
from alloc.client import Client
from alloc.server import Settings

database = str(Path(tempfile.mkdtemp()) / "server.sqlite")
settings = Settings(database=database, workers=1, drain_s=0.2)
with Running(settings) as running, Client(str(running.client.base_url)) as client:
    job = client.submit_solve(WEEK, backend="all")
    assert set(job.result().solution.taken) == {"b", "c"}
    page = running.client.get(f"/v1/jobs/{job.id}/view").text
    assert "Solve: week" in page and "7 credits" in page and ">b<" in page, page
    families = running.client.get("/v1/families").json()["items"]
    assert {"name": "lessons", "kind": "timetable"}.items() <= families[-1].items()
    rounds = running.client.get("/v1/formulations").json()["items"][0]
    assert "steps" in rounds["objectives"]
    schemas = running.client.get("/v1/openapi.json").json()["components"]["schemas"]
    assert "TimetableDocument" in schemas
    steps = client.solve("elastic-tiny/01", formulation="round", objective="steps")
    assert steps.status == "optimal"
"""


def announce(folder: Path, points: str) -> dict[str, str]:
    """Install a package that announces these entry points; return the variables that find it."""
    about = folder / "third_party-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: third_party\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(points)
    path = [str(folder), str(HELPERS), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def run(script: str, variables: dict[str, str]) -> None:
    """Run a script in a process of its own: the registries look at packages once."""
    done = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_an_installed_package_adds_a_family_a_reader_a_backend_and_a_scheduler(tmp_path: Path):
    (tmp_path / "announced.py").write_text(PACKAGE)
    (tmp_path / "announced_reader.py").write_text(READER)
    run(USE, announce(tmp_path, POINTS))


@pytest.mark.long
@pytest.mark.parametrize("script", [DOORS, SERVED], ids=["library and command line", "server"])
def test_a_familys_every_door_opens_without_an_edit(tmp_path: Path, script: str):
    """Documents, schema, solve, verify, models, completion, server, client and page."""
    points = """
[alloc.families]
lessons = third_party_announced:family
taken = third_party_announced:taken

[alloc.objectives]
steps = third_party_objective:steps
"""
    run(script, announce(tmp_path, points))


@pytest.mark.parametrize(
    "place",
    [
        "str(folder)",
        "folder",
        "str(folder / 'old.egg')",
        "str(folder / 'packed.whl')",
        "str(folder / 'packed.EGG')",
        "str(folder / 'capitals')",
    ],
)
def test_whatever_importlib_finds_is_found(tmp_path: Path, place: str):
    """A path that is no text on `sys.path` was an error, and capitals were overlooked."""
    head = "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n"
    files = {"METADATA": head, "PKG-INFO": head, "entry_points.txt": POINTS}
    about = {
        "third.egg-info": tmp_path,
        "EGG-INFO": tmp_path / "old.egg",
        "THIRD-1.0.DIST-INFO": tmp_path / "capitals",
    }
    for name, folder in about.items():
        (folder / name).mkdir(parents=True)
        for file, content in files.items():
            (folder / name / file).write_text(content)
    for archive, name in (("packed.whl", "third-1.0.dist-info"), ("packed.EGG", "EGG-INFO")):
        with zipfile.ZipFile(tmp_path / archive, "w") as packed:
            for file, content in files.items():
                packed.writestr(f"{name}/{file}", content)
    script = f"""
import sys
from pathlib import Path
folder = Path({str(tmp_path)!r})
sys.path.append({place})
from alloc.plugins import announced
assert announced("alloc.schedulers") == {{"theirs": "alloc.schedulers.fifo:Fifo"}}
"""
    run(script, dict(os.environ))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere:nothing", "cannot be loaded"),
        ("math:pi", "is float; announce Family"),
        ("third_party_announced:family", 'is called "lessons"; announce it by that name'),
    ],
)
def test_what_cannot_be_used_is_left_out_with_a_warning(monkeypatch, value, why):
    point = EntryPoint("theirs", value, "alloc.families")
    monkeypatch.setattr(plugins, "_points", lambda group: (point,))
    with pytest.warns(UserWarning, match=f'alloc.families: "theirs", {value}, {why}'):
        assert plugins.loaded("alloc.families", Family) == {}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda rates, job, slot_s: 1.0 / rates, "falls as the rate rises"),
        (lambda rates, job, slot_s: -rates, "does not return a number of 0 or more"),
        (lambda rates, job, slot_s: rates * math.nan, "does not return a number of 0 or more"),
        (lambda rates, job, slot_s: 3.0, "does not return a number of 0 or more"),
    ],
)
def test_a_utility_whose_optimum_the_models_would_miss_is_refused(monkeypatch, function, why):
    """The models leave out what is beaten in rate and demand: a false optimum otherwise."""
    utility = checked_utility(RoundUtility("theirs", "max", "", "Somebody's.", function))
    monkeypatch.setitem(OBJECTIVES, "theirs", utility)
    known = FAMILIES["round"]
    monkeypatch.setitem(FAMILIES, "round", replace(known, objectives=("theirs",)))
    with pytest.raises(InstanceError, match=f'round utility "theirs", job .*: {why}'):
        solve(load("elastic-tiny/01"), "round", objective="theirs")


class Runs(ScheduleObjective):
    """Somebody's measure: how many jobs run."""

    def evaluate(self, instance, solution):
        return float(len(getattr(solution, "runs", getattr(solution, "assignments", ()))))


@pytest.mark.parametrize("goal", ["runs", "2 runs", "runs + makespan", "moves then runs"])
def test_a_measure_of_somebody_is_optimised_by_no_family(monkeypatch, goal):
    """No model states it, so no certificate may name it: it is refused before any work."""
    theirs = Runs("runs", "min", "jobs", "Jobs that run.", lambda instance, done: 0.0)
    monkeypatch.setitem(OBJECTIVES, "runs", theirs)
    instance = load("elastic-tiny/01")
    for family in instance_families():
        with pytest.raises(InstanceError, match=r'objective "(2 )?runs|objective "moves'):
            solve(instance, family, objective=goal)
    with pytest.raises(InstanceError, match="objective"):
        compare([instance], ["fifo"], objective=goal)
    done = solve(instance, "placement").solution
    assert objective("runs").evaluate(instance, done) == len(done.assignments) > 0


def test_a_utility_may_be_of_whole_numbers(monkeypatch):
    """Every way to solve it finds the same."""
    utility = checked_utility(
        RoundUtility("theirs", "max", "", "", lambda rates, job, s: np.ceil(rates).astype(int))
    )
    monkeypatch.setitem(OBJECTIVES, "theirs", utility)
    known = FAMILIES["round"]
    monkeypatch.setitem(FAMILIES, "round", replace(known, objectives=("theirs",)))
    instance = load("elastic-tiny/01")
    found = {
        solve(instance, "round", backend, objective="theirs").objective
        for backend in ("auto", "highs", "cpsat")
    }
    assert len(found) == 1


def test_a_round_is_maximised():
    with pytest.raises(InstanceError, match='sense is "min"; rounds are maximised'):
        RoundUtility("theirs", "min", "", "", lambda rates, job, slot_s: rates)
