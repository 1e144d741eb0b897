"""What an installed package announces is found by every registry."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from alloc import plugins
from alloc.families import Family

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
checkpointing-too = strangers:family
round = strangers:taken
wrong = strangers:wrong
broken = nowhere:nothing

[alloc.readers]
theirs = strangers_reader:reader

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


def test_an_installed_package_adds_a_family_a_reader_a_backend_and_a_scheduler(tmp_path: Path):
    (tmp_path / "strangers.py").write_text(PACKAGE)
    (tmp_path / "strangers_reader.py").write_text(READER)
    about = tmp_path / "strangers-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("value", "why"),
    [("nowhere:nothing", "cannot be loaded"), ("math:pi", "is float; announce Family")],
)
def test_what_cannot_be_used_is_left_out_with_a_warning(monkeypatch, value, why):
    point = EntryPoint("theirs", value, "alloc.families")
    monkeypatch.setattr(plugins, "_points", lambda group: (point,))
    with pytest.warns(UserWarning, match=f'alloc.families: "theirs", {value}, {why}'):
        assert plugins.loaded("alloc.families", Family) == {}
