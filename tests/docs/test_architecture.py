"""The pictures of the architecture are those of the code; contributors are told of real files."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from alloc.families import FAMILIES, load

ROOT = Path(__file__).parents[2]


def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_pictures_are_those_of_the_code():
    module = pictures()
    page = module.PAGE.read_text()
    assert module.page_with(module.pictures(), page) == page, "run python docs/pictures.py"


def test_every_room_of_the_tree_is_in_the_picture():
    there = {
        path.stem
        for path in (ROOT / "alloc").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    drawn = {room for floor in pictures().rooms() for room in floor}
    assert drawn == there - {"__init__", "__main__"}


def test_every_name_in_the_registry_can_be_loaded():
    for family in FAMILIES.values():
        named = (family.problem, family.solution, family.measure, family.checker)
        for name in filter(None, (*named, family.report)):
            assert callable(load(name))
        assert all(callable(load(method)) for method in family.methods.values())
        assert family.page_text.strip()


def test_every_file_that_contributors_are_told_of_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([\w./]+\.(?:py|md|toml))`|\]\(([\w./-]+)\)", text)
    missing = [path for pair in named for path in pair if path and not (ROOT / path).exists()]
    assert named
    assert not missing
