"""What some tests need beside the locked requirements, and what happens where it is missing.

A test that needs one of these says so with a mark, ``@pytest.mark.torch`` and its like; a module
that cannot even be imported without PyTorch begins with ``pytestmark = need_torch()``. With ``CI``
set a missing part fails the test; elsewhere the test is reported as not run, with what to install.
So nobody has to install a database to try a change, and nothing is left out unseen.

Published traces and sets of instances are not part of the repository: `need_data` finds them, or
leaves the test out.

``ALLOC_TESTS_WITHOUT="postgres browser"`` hides what is installed, to see what a bare machine sees.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

NEEDS = {
    "torch": ("PyTorch with onnxscript", "run `make install-learn`"),
    "sb3": (
        "Stable-Baselines3 with sb3-contrib",
        "run `make install-extras`",
    ),
    "dask": ("Dask with distributed", "run `make install`"),
    "ray": ("Ray", "run `make install-extras`"),
    "polars": ("Polars", "run `make install`"),
    "postgres": ("PostgreSQL", "install the package postgresql"),
    "browser": ("Chromium", "install the packages chromium and chromium-driver"),
}
"""Marks, in words what tests with that mark need, and how to get it."""

NOT_RUN = "NOT RUN: "
"""How the reason of such a test begins."""


def need(mark: str) -> None:
    """Stop here without what tests of this mark need."""
    __tracebackhide__ = True  # so that the report names the test's file, not this one
    if mark not in os.environ.get("ALLOC_TESTS_WITHOUT", "").split() and _FIND[mark]():
        return
    what, cure = NEEDS[mark]
    if os.environ.get("CI"):
        pytest.fail(f"{NOT_RUN}{what} is not here; {cure}.", pytrace=False)
    not_run(f"{what} is not here; {cure}.")


def not_run(why: str) -> NoReturn:
    """Leave a test out: the only place where that is done, and the end of the run says why."""
    __tracebackhide__ = True
    pytest.skip(f"{NOT_RUN}{why}", allow_module_level=True)


def need_data(kind: str, *inner: str) -> Path:
    """Return a file or folder of data that are not part of the repository, or stop here.

    Nobody but their publishers may hand them out, so that not even CI can ask for them.

    Parameters
    ----------
    kind
        ``traces``, ``placement`` or ``orlib``; see `benchmarks.data`.
    inner
        The path within their folder.
    """
    __tracebackhide__ = True
    from benchmarks.data import VARIABLES, data_folder

    path = data_folder(kind).joinpath(*inner)
    if not path.exists():
        not_run(f"{kind} data are not here; point {VARIABLES[kind]} to their folder.")
    return path


def need_torch() -> pytest.MarkDecorator:
    """Stop a module here without PyTorch; return the mark of all its tests."""
    __tracebackhide__ = True
    need("torch")
    return pytest.mark.torch


def postgres_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs (initdb, postgres)."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).parent]
    return found[-1] if found else None


def chromium_programs() -> tuple[str, str] | None:
    """Return the paths of Chromium and of its driver."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


_FIND = {
    "torch": lambda: find_spec("torch") and find_spec("onnxscript"),
    "sb3": lambda: find_spec("stable_baselines3") and find_spec("sb3_contrib"),
    "dask": lambda: find_spec("dask") and find_spec("distributed"),
    "ray": lambda: find_spec("ray"),
    "polars": lambda: find_spec("polars"),
    "postgres": postgres_programs,
    "browser": chromium_programs,
}
