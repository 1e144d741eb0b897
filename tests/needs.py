"""What some tests need beside the locked requirements, and what happens where it is missing.

With ``CI`` set a missing part fails the test; elsewhere the test is reported as not run, with what
to install. So nobody has to install a database to try a change, and nothing is left out unseen.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest


def _need(found: object, what: str, cure: str) -> None:
    if found:
        return
    sentence = f"NOT RUN: {what} is not here; {cure}."
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence, allow_module_level=True)


def need_torch() -> None:
    """Stop here without PyTorch; call it at the top of a module or in a test."""
    _need(find_spec("torch"), "PyTorch", "run `make install-learn`")


def need_postgres() -> Path:
    """Return the folder of PostgreSQL's programs (initdb, postgres)."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).parent]
    _need(found, "PostgreSQL", "install the package postgresql")
    return found[-1]


def need_chromium() -> tuple[str, str]:
    """Return the paths of Chromium and of its driver."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    _need(browser and driver, "Chromium", "install the packages chromium and chromium-driver")
    return str(browser), str(driver)
