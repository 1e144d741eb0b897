"""The pages of the site: those of docs/, two of the root, and those that are made from the code.

The pages stay plain Markdown, whose links lead from file to file. They are copied to a folder of
their own, where links that leave docs/ are led to what is copied, and the made pages join them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from website.commands import command_pages
from website.pictures import with_pictures
from website.reference import reference_pages

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
FRONT = DOCS / "index.md"
MADE = {
    "api/index.rst": "[Python](api/index.rst): every public function and type, from its docstring.",
    "cli/index.md": "[Command line](cli/index.md): every command with its options.",
}
"""First pages of what is made from the code, with their lines in the front page's last list."""
_RENAMED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
"""Files of the root that are pages of the site."""
_LINK = re.compile(r"(?<=\]\()(?!https?://|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCED = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def sources() -> dict[str, Path]:
    """Return the Markdown files of the site by their place in it."""
    found = {
        path.relative_to(DOCS).as_posix(): path
        for path in sorted(DOCS.rglob("*.md"))
        if path.parent.name != "website"
    }
    return found | {place: ROOT / name for name, place in _RENAMED.items()}


def navigation() -> dict[str, list[str]]:
    """Return the places of the pages that the front page lists, by the headings of its lists."""
    sections: dict[str, list[str]] = {}
    for part in re.split(r"^## ", FRONT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        links = re.findall(r"\]\(([^)#\s]+\.md)\)", body)
        sections[heading] = [_place(DOCS / link) for link in links]
    return sections


def _place(path: Path) -> str:
    """Return where a file of the project stands in the site."""
    name = Path(os.path.normpath(path)).relative_to(ROOT).as_posix()
    return _RENAMED.get(name, name.removeprefix("docs/"))


def stage(folder: Path) -> None:
    """Write every page of the site into a folder, with the files that pages link to.

    Parameters
    ----------
    folder
        Where; what was there is removed first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(DOCS / "images", folder / "images")
    made = {**command_pages(), **reference_pages()}
    for place, path in sources().items():
        text = with_local_links(path, folder)
        if path == FRONT:
            text = _front(text)
        made[place] = with_pictures(text, folder, place)
    for place, text in made.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def with_local_links(path: Path, folder: Path) -> str:
    """Return a page's text with every link leading to what is staged.

    Parameters
    ----------
    path
        The page.
    folder
        Where it is staged; files that are linked to, and no pages, are copied there.

    Returns
    -------
    str
        The text. What stands in fenced blocks is left alone.
    """
    here = Path(_place(path)).parent

    def local(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(path.parent / match[1]))
        place = _place(target)
        if target.is_dir():
            place += "/index.md"
            _copy_folder(target, folder / place)
        elif target.suffix != ".md":
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, folder / place)
        return os.path.relpath(place, here).replace(os.sep, "/") + (match[2] or "")

    parts = _FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(p if p.startswith("```") else _LINK.sub(local, p) for p in parts)


def _copy_folder(source: Path, page: Path) -> None:
    """Copy the files of a folder, and write a page that lists them."""
    name = _place(source)
    files = [path for path in sorted(source.iterdir()) if path.is_file() and path.suffix != ".pyc"]
    page.parent.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copyfile(path, page.parent / path.name)
    lines = [f"- [{path.name}]({path.name})" for path in files]
    page.write_text(
        "\n".join(["---", "orphan: true", "---", f"# Files in {name}", "", *lines, ""]),
        encoding="utf-8",
    )


def _front(text: str) -> str:
    """Return the front page with the made pages in its last list, and the lists as navigation."""
    text = text.rstrip() + "\n" + "".join(f"- {line}\n" for line in MADE.values())
    sections = navigation()
    sections[list(sections)[-1]] += MADE
    seen: set[str] = set()
    trees = []
    for heading, places in sections.items():
        new = [place for place in dict.fromkeys(places) if place not in seen]
        seen.update(new)
        body = "\n".join(place.rpartition(".")[0] for place in new)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{body}\n```\n")
    return text + "\n" + "\n".join(trees)
