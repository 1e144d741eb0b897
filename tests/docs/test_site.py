"""The documentation site: every page in its navigation, every name and command in its reference."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from doc_examples import blocks
from packaging.requirements import Requirement
from typer.main import get_command
from website import pages, reference
from website.commands import command_pages
from website.pictures import as_table, with_pictures

import alloc
from alloc.cli.application import app

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation_once():
    listed = [place for places in pages.navigation().values() for place in places]
    missing = sorted({*pages.sources()} - {"index.md", *listed})
    assert missing == [], f"add a line to a list of docs/index.md for each page: {missing}"
    assert sorted(listed) == sorted(set(listed)), "a page stands in docs/index.md twice"
    assert {*listed} <= {*pages.sources()}


@pytest.mark.parametrize("place", pages.sources())
def test_links_of_a_page_lead_to_what_is_staged(place, tmp_path):
    text = pages.with_local_links(pages.sources()[place], tmp_path)
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", outside):
        if not target.startswith("https://"):
            there = (tmp_path / place).parent.joinpath(target).resolve()
            name = there.relative_to(tmp_path.resolve()).as_posix()
            staged = name in pages.sources() or name.startswith("images/") or there.is_file()
            assert staged, target


def test_what_stands_in_a_fence_is_no_link(tmp_path, monkeypatch):
    page = ROOT / "docs" / "made-up.md"
    text = "[a](../CONTRIBUTING.md#commits)\n\n```text\n[a](../CONTRIBUTING.md)\n```\n"
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: text)
    staged = pages.with_local_links(page, tmp_path)
    assert staged == text.replace("../CONTRIBUTING.md#", "contributing.md#")


def test_a_link_to_a_folder_leads_to_a_list_of_its_files(tmp_path):
    pages.with_local_links(ROOT / "docs" / "tables-and-notebooks.md", tmp_path)
    listed = (tmp_path / "examples" / "index.md").read_text(encoding="utf-8")
    names = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert {name for name in names if f"]({name})" not in listed} == set()


@pytest.fixture(scope="module")
def api():
    return reference.reference_pages()


def documented(api) -> list[str]:
    text = "\n".join(api.values())
    return re.findall(r"^\.\. auto(?:class|function):: (\S+)$", text, re.MULTILINE)


def test_every_public_name_is_in_the_reference_once(api):
    """The names at the top of alloc, and those that the pages for users import."""
    shown = documented(api)
    assert len(shown) == len(set(shown))
    kinds = (inspect.isfunction, inspect.isclass)
    top = {n for n in alloc.__all__ if any(kind(getattr(alloc, n)) for kind in kinds)}
    assert {f"alloc.{name}" for name in top} <= set(shown)
    objects = {id(value_of(name)) for name in shown}
    wanted = runpy.run_path(str(ROOT / "tests" / "docs" / "test_docstrings.py"))
    missing = {n for n, value in wanted["shown"]() if callable(value) and id(value) not in objects}
    assert missing == set(), "docs/website/reference.py leaves these names out"


def value_of(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def test_rooms_whose_parameters_are_held_are_in_the_reference():
    wanted = runpy.run_path(str(ROOT / "tests" / "docs" / "test_docstrings.py"))["ROOMS"]
    missing = sorted(set(wanted) - set(reference.ROOMS))
    assert missing == [], f"add to ROOMS in docs/website/reference.py: {missing}"


def test_every_page_of_the_reference_is_in_its_list(api):
    rooms = {place.removeprefix("api/").removesuffix(".rst") for place in api} - {"index"}
    listed = re.findall(r"^- :doc:`([^`]+)`", api["api/index.rst"], re.MULTILINE)
    assert sorted(listed) == sorted(rooms)


def walk(command, path=("alloc",)):
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from walk(inner, (*path, name))


@pytest.mark.long
def test_every_command_and_option_is_in_the_reference():
    sections = {}
    for text in command_pages().values():
        for part in re.split(r"^##+ (?=alloc )", text, flags=re.MULTILINE)[1:]:
            heading, _, body = part.partition("\n")
            assert heading not in sections
            sections[heading] = body
    commands = {" ".join(path): command for path, command in walk(get_command(app))}
    assert commands.keys() == sections.keys()
    assert "alloc plan init" in commands
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.name != "help" and not getattr(parameter, "hidden", False):
                is_option = parameter.opts[0].startswith("-")
                written = parameter.opts[-1] if is_option else parameter.metavar or parameter.name
                assert written.upper() in sections[name].upper(), f"{name}: {parameter.name}"


def test_pictures_follow_the_lines_that_draw_them(tmp_path):
    lines = (
        "# One\n\n```python slow\nfrom alloc.plotting import new_figure, save_figure\n"
        'save_figure(new_figure(2, 2), "empty", ["svg"])\n```\nAfter.\n'
    )
    text = with_pictures(lines, tmp_path, "deep/one.md")
    assert "```\n\n![One](../images/deep-one/empty.svg)\nAfter." in text
    drawn = (tmp_path / "images" / "deep-one" / "empty.svg").read_text(encoding="utf-8")
    assert 'fill="white"' in drawn


def test_the_gallery_saves_a_picture_in_each_section():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(re.findall(r'", \["svg"\]\)$', section, re.MULTILINE)) == 1, section[:40]


def test_flow_charts_become_tables():
    chart = "flowchart TD\n    a -->|f| b\n    a -->|C.g| c\n    b -->|h| c\n"
    assert as_table(chart).splitlines()[2:] == [
        "| `a` | `b` (f), `c` (C.g) |",
        "| `b` | `c` (h) |",
    ]
    with pytest.raises(ValueError, match="expected an arrow"):
        as_table("flowchart TD\n    a --- b\n")
    for place, path in pages.sources().items():
        for block in blocks(path):
            assert block.language != "mermaid" or as_table(block.body), place


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_examples_use_only_what_they_import(page):
    """`alloc.parallel` is there once it was imported: a reader's session has only the page."""
    there = {*alloc.__all__, *alloc._ROOMS, "__version__"}
    for block in blocks(page):
        if block.language != "python":
            continue
        tree = ast.parse(block.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                continue
            there |= {name.split(".")[1] for name in imported if name.startswith("alloc.")}
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "alloc"
        }
        assert used <= there, f"{page.name}:{block.line}"


def test_the_lock_of_the_site_has_what_the_extra_asks_for_at_the_versions_of_the_lock():
    folder = ROOT / "requirements"
    pin = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    lock, site = (
        set(pin.findall((folder / f"{name}.txt").read_text(encoding="utf-8")))
        for name in ("lock", "docs")
    )
    both = {name for name, _ in lock} & {name for name, _ in site}
    assert {pin for pin in site if pin[0] in both} <= lock
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["docs"]
    told = (folder / "docs.in").read_text(encoding="utf-8").splitlines()
    assert wanted == [line for line in told if not line.startswith("#")]
    assert {Requirement(line).name for line in wanted} <= {name for name, _ in site}


def test_continuous_integration_builds_the_site():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^make .*\blint docs$", script, re.MULTILINE)
