"""What some tests need beside the locked requirements, and what happens where it is missing.

A test that needs one of these says so with a mark, ``@pytest.mark.torch`` and its like; a module
that cannot even be imported without PyTorch begins with ``pytestmark = need_torch()``. With ``CI``
set a missing part fails the test; elsewhere the test is reported as not run, with what to install.
So nobody has to install a database to try a change, and nothing is left out unseen.

``ALLOC_TESTS_WITHOUT="postgres browser"`` hides what is installed, to see what a bare machine sees.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDS = {
    "torch": ("PyTorch", "run `make install-learn`"),
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
    sentence = f"{NOT_RUN}{what} is not here; {cure}."
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence, allow_module_level=True)


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
    "torch": lambda: find_spec("torch"),
    "postgres": postgres_programs,
    "browser": chromium_programs,
}
