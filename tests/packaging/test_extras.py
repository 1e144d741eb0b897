"""Without the optional packages everything else works, and what lacks one says so in a sentence."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    extra: {
        Requirement(line).name.replace("-", "_") for line in PROJECT["optional-dependencies"][extra]
    }
    for extra in ("learn", "gym", "server", "client", "ray", "dask")
}

# Nothing of an extra can be imported, as if only `pip install .` had been run.
BARE = f"""
import importlib, json, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set().union(*EXTRAS.values()) | {"starlette"}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_bare(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BARE + code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    """Import every module without the extras; return the class and the text of each error."""
    code = """
import alloc
outcomes = {}
for info in pkgutil.walk_packages(alloc.__path__, "alloc."):
    if not info.name.endswith("__main__"):
        try:
            importlib.import_module(info.name)
            outcomes[info.name] = ("", "")
        except Exception as error:
            outcomes[info.name] = (type(error).__name__, str(error))
print(json.dumps(outcomes))
"""
    done = run_bare(code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_base_install_imports_every_module_outside_the_rooms_of_the_extras(outcomes):
    failed = {name: error for name, error in outcomes.items() if error != ["", ""]}
    rooms = ("alloc.learning.", "alloc.server.", "alloc.client.")
    assert [name for name in failed if not name.startswith(rooms)] == []
    assert len(outcomes) > 400


@pytest.mark.long
def test_the_front_of_every_room_opens(outcomes):
    """Packages import without their extra, so what does not need it can be used."""
    fronts = [n for n in outcomes if (ROOT / n.replace(".", "/") / "__init__.py").exists()]
    assert {"alloc.learning.dl2", "alloc.learning.environments", "alloc.server"} <= set(fronts)
    assert {name: outcomes[name] for name in fronts if outcomes[name] != ["", ""]} == {}


@pytest.mark.long
def test_what_trains_names_the_cure_and_ends_in_no_traceback_of_an_import(outcomes):
    learning = {n: e for n, e in outcomes.items() if n.startswith("alloc.learning.") and e[0]}
    assert "alloc.learning.dl2.networks" in learning
    assert {kind for kind, _ in learning.values()} == {"BackendUnavailableError"}
    assert all(
        re.search(r'pip install "\.\[(learn|gym)\]"', sentence) for _, sentence in learning.values()
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["alloc.learning.dl2.DL2Trainer", "alloc.learning.imitation.SetPolicy",
             "alloc.learning.environments.ElasticAllocation", "alloc.client.Client"],
)  # fmt: skip
def test_a_name_that_needs_an_extra_names_it(name):
    package, _, attribute = name.rpartition(".")
    rooms = {"client": "client", "environments": "gym"}
    extra = next((extra for room, extra in rooms.items() if room in name), "learn")
    done = run_bare(f"""
from alloc.errors import BackendUnavailableError
try:
    importlib.import_module("{package}").{attribute}
except BackendUnavailableError as error:
    print(error)
""")
    assert f'in a checkout of alloc, run `pip install ".[{extra}]"`' in done.stdout, done.stderr


@pytest.mark.long
def test_the_benchmarks_are_listed_and_those_that_train_say_what_they_lack():
    run = "from benchmarks.__main__ import main; sys.exit(main(sys.argv[1:]))"
    listed = run_bare(run, "--list")
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^dl2 +\w", listed.stdout, re.MULTILINE)
    named = run_bare(run, "dl2")
    assert named.returncode == 1
    assert "NOT RUN: training and exporting policies need PyTorch" in named.stderr
    assert named.stderr.endswith("not run: dl2\n")
    assert "Traceback" not in named.stderr
