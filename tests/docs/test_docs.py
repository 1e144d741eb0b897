"""Every example of the README and the documentation runs, and every link leads somewhere."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from doc_examples import Block, Page, agrees, blocks, commands
from typer.main import get_command

from alloc.cli.application import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONG = {
    "capacity-planning",
    "client",
    "csv-to-gap",
    "dag-jobs",
    "failures",
    "operation",
    "parallel",
}
LONG |= {"quota-planning", "server", "trace-to-purchase", "tutorial"}
"""Pages whose examples take more than a second; those of the README run with the short tests."""
names = [str(page.relative_to(ROOT)) for page in PAGES]


def run_all(page: Path, chosen: list[Block], folder: Path, monkeypatch) -> None:
    from alloc import backends, families

    # What a page registers is gone after it.
    monkeypatch.setattr(backends, "BACKENDS", dict(backends.BACKENDS))
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    # Nor does it touch the policies of whoever runs the tests.
    monkeypatch.setenv("ALLOC_POLICIES", str(folder / "policies"))
    monkeypatch.chdir(folder)
    # Pages show commands as they are typed in a clone, where the samples are.
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    monkeypatch.syspath_prepend(str(folder))
    run = Page(page.name)
    try:
        for block in chosen:
            run.run(block)
    finally:
        # Other tests have files of the same names.
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def marked(page: Path) -> object:
    """Return the page as a parameter, marked if its examples import PyTorch or take long."""
    torch = any(re.search(r"^import torch$", b.body, re.MULTILINE) for b in blocks(page))
    marks = [pytest.mark.torch] if torch else []
    return pytest.param(page, marks=[*marks, pytest.mark.long] if page.stem in LONG else marks)


@pytest.mark.parametrize("page", [marked(page) for page in PAGES], ids=names)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    chosen = [block for block in blocks(page) if not block.slow]
    run_all(page, chosen, tmp_path, monkeypatch)


SLOW = [page for page in PAGES if any(block.slow for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [marked(page) for page in SLOW], ids=[page.name for page in SLOW])
def test_the_slow_examples_of_a_page_run_with_the_others(page, tmp_path, monkeypatch):
    run_all(page, blocks(page), tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_block_has_a_known_language(page):
    """A block of another language would be an example that nobody runs."""
    known = {"python", "console", "sh", "text", "json", "toml", "math", "bibtex", "mermaid"}
    assert [b.line for b in blocks(page) if b.language not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_json_shown_is_json(page):
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.body)


_OTHERS = {"", "git", "python", "cd", "pip", "podman", "eval", "export"}
"""Programs that examples may call beside alloc and make."""


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_that_are_not_run_could_be(page):
    """Targets of make exist, and options of alloc are spelled as the program spells them."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for block in blocks(page):
        if block.language != "sh":
            continue
        for line in re.sub(r"\\\n\s*", "", block.body).splitlines():
            program, *arguments = shlex.split(line, comments=True) or [""]
            if program == "make":
                assert {a for a in arguments if "=" not in a} <= targets, line
            elif program == "alloc":
                # Parsing the program's own options is carrying them out.
                if not arguments[0].startswith("--"):
                    parse(arguments)
            else:
                assert program in _OTHERS, line


def parse(arguments: list[str]) -> None:
    """Parse a command line of alloc without running it."""
    command = get_command(app)
    while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
        name, *arguments = arguments
        command = command.commands[name]
    command.make_context("alloc", list(arguments))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize(
    ("expected", "printed", "verdict"),
    [
        ("a   b\n c", "a b c\n", True),
        ("a ... d", "a b c d", True),
        ("...\nb", "anything\n b", True),
        ("a", "a b", False),
        ("a.c", "abc", False),
    ],
)
def test_the_comparison_is_loose_only_where_it_says(expected, printed, verdict):
    assert agrees(expected, printed) is verdict


def test_a_command_over_two_lines_is_one_command():
    block = Block("console", (), "$ alloc solve x \\\n    --json\n{}\n$ echo $?\n0\n", 1)
    assert list(commands(block)) == [("alloc solve x --json", "{}\n"), ("echo $?", "0\n")]


@pytest.mark.parametrize(
    "body",
    [
        "$ alloc solve missing.json\n",
        "$ alloc models list\nnothing like it\n",
        "$ rm -r important\n",
    ],
)
def test_a_broken_example_fails(body):
    with pytest.raises(AssertionError):
        Page("page.md").run(Block("console", (), body, 1))
