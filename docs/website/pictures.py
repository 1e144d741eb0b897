"""What the site shows beside the text: pictures drawn by a page's own lines, and flow charts."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from pathlib import Path

_BLOCK = re.compile(r"^```(python|mermaid)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r'save_figure\(.*"([\w-]+)", \["svg"\]\)')
_ARROW = re.compile(r"\s*(\w+) -->\|([^|]+)\| (\w+)")
_WHITE = '<rect width="100%" height="100%" fill="white"/>'
"""What a picture stands on, so that its dark text is read on a dark page too."""


def with_pictures(text: str, folder: Path, place: str) -> str:
    """Return a page with the pictures that its Python lines save, and its flow charts as tables.

    Parameters
    ----------
    text
        The page, Markdown.
    folder
        The folder of all pages; pictures land in its ``images``.
    place
        Where the page stands in it, to name the pictures and to link to them.

    Returns
    -------
    str
        The text. A block that ends with ``save_figure(figure, NAME, ["svg"])`` is followed by the
        picture; other pages' Python is not run.
    """
    stem = place.removesuffix(".md").replace("/", "-")
    images = folder / "images" / stem
    if _SAVED.search(text):
        images.mkdir(parents=True)
        _run(text, images)
    up = "../" * place.count("/")

    def shown(match: re.Match[str]) -> str:
        if match[1] == "mermaid":
            return as_table(match[2])
        heading = re.findall(r"^#+ (.+)$", text[: match.start()], re.MULTILINE)[-1]
        pictures = [
            f"\n\n![{heading}]({up}images/{stem}/{name}.svg)" for name in _SAVED.findall(match[2])
        ]
        return match[0] + "".join(pictures)

    return _BLOCK.sub(shown, text)


def _run(text: str, images: Path) -> None:
    """Run a page's Python blocks in a folder, keep what they draw, and put it on white."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(images):
        for match in _BLOCK.finditer(text):
            if match[1] == "python":
                exec(compile(match[2], images.name, "exec"), namespace)
    for path in images.iterdir():
        if path.suffix != ".svg":
            path.unlink()  # a file that the page hands to the command line
            continue
        drawn = path.read_text(encoding="utf-8")
        end = drawn.index(">", drawn.index("<svg")) + 1
        path.write_text(drawn[:end] + _WHITE + drawn[end:], encoding="utf-8")


def as_table(chart: str) -> str:
    """Return a Mermaid flow chart as a table: the site needs no script, and a reader no picture.

    Parameters
    ----------
    chart
        Lines such as ``a -->|calls| b``; others, but the first, are refused.

    Returns
    -------
    str
        A Markdown table with a row for each box that arrows leave.

    Raises
    ------
    ValueError
        If a line is no arrow.
    """
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for line in chart.strip().splitlines()[1:]:
        arrow = _ARROW.fullmatch(line)
        if arrow is None:
            raise ValueError(f"expected an arrow `a -->|calls| b` and got {line.strip()!r}.")
        begin, name, end = arrow.groups()
        leaving[begin].append(f"`{end}` ({name})")
    rows = [f"| `{begin}` | {', '.join(ends)} |" for begin, ends in leaving.items()]
    return "\n".join(["| room | what it calls first in other rooms |", "|---|---|", *rows])
