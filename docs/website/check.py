"""The check of the built site: links lead somewhere, and no page loads anything from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
    ("form", "action"),
    ("use", "href"),
    ("image", "href"),
}
"""Attributes by which a page loads or sends something by itself; `a` waits for a click."""
_REMOTE_STYLE = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")
_REMOTE_SCRIPT = re.compile(
    r"(?:import\s*\(?|fetch\(|importScripts\(|\.src\s*=)\s*[\"'`]((?:https?:)?//[^\"'`]+)"
)


class _Reader(HTMLParser):
    """What a page refers to, and the anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif (tag, name.removeprefix("xlink:")) in _LOADING:
                self.loaded.append(value)
            elif name == "srcset":
                self.loaded += [part.split()[0] for part in value.split(",") if part.strip()]
            elif tag == "a" and name == "href":
                self.linked.append(value)
            elif name == "style":
                self.loaded += _REMOTE_STYLE.findall(value)


def problems(site: Path) -> list[str]:
    """Return what is wrong with a built site, a line each.

    Parameters
    ----------
    site
        Its folder.

    Returns
    -------
    list of str
        Pages and files that name another host to load from, and links or anchors that lead
        nowhere. Links to other hosts are not followed: nothing here uses the network.
    """
    pages: dict[Path, _Reader] = {}
    wrong: list[str] = []
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if "_downloads" in path.parts or path.suffix not in (".html", ".css", ".js", ".svg"):
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix in (".html", ".svg"):
            pages[path] = reader = _Reader()
            reader.feed(text)
            wrong += [f"{name}: loads {url}" for url in reader.loaded if _is_remote(url)]
        remote = _REMOTE_STYLE.findall(text) if path.suffix != ".js" else []
        wrong += [f"{name}: loads {url}" for url in remote + _REMOTE_SCRIPT.findall(text)]
    for path, reader in pages.items():
        for link in dict.fromkeys([*reader.linked, *reader.loaded]):
            fault = _fault(link, path, pages)
            if fault:
                wrong.append(f"{path.relative_to(site).as_posix()}: {fault}: {link}")
    return wrong


def _is_remote(url: str) -> bool:
    split = urlsplit(url)
    return bool(split.netloc) and split.scheme != "data"


def _fault(link: str, page: Path, pages: dict[Path, _Reader]) -> str | None:
    """Return why a link of a page leads nowhere, or None."""
    split = urlsplit(link)
    if split.scheme or split.netloc:
        return None
    target = (page.parent / unquote(split.path)).resolve() if split.path else page
    if not target.is_file():
        return "there is no such file"
    if split.fragment and target in pages and unquote(split.fragment) not in pages[target].anchors:
        return "there is no such anchor"
    return None
