"""The pictures of docs/architecture.md, drawn from the code: run ``python docs/pictures.py``.

The rooms come from the import contract in pyproject.toml. The ways of a solve, a comparison and a
plan are traced: a tiny one is run, and the first call from one room into another is an arrow. A
test holds the page to what this module returns.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import alloc
from alloc.comparison import compare
from alloc.instances import load
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning import ReplaySettings, plan

HERE = Path(__file__).parent
PAGE = HERE / "architecture.md"
GROUND = {
    "errors",
    "units",
    "fingerprint",
    "serialisation",
    "processes",
    "progress",
    "release",
    "alloc",
}
"""Rooms that everything uses: their arrows would hide the others."""
Arrow = tuple[str, str]


def rooms() -> Iterator[tuple[str, ...]]:
    """Yield the floors of the house, top to bottom: the rooms of each."""
    contract = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["tool"]["importlinter"]
    for floor in contract["contracts"][0]["layers"]:
        yield tuple(re.findall(r"\w+", floor))


def picture_of_rooms() -> str:
    """Return the floors as a table: room, and the first sentence of its docstring."""
    lines = ["| floor | room | what it holds |", "|---|---|---|"]
    for number, floor in enumerate(rooms()):
        for room in floor:
            text = import_module(f"alloc.{room}").__doc__ or ""
            lines.append(f"| {number} | `{room}` | {text.strip().splitlines()[0]} |")
    return "\n".join(lines)


def calls_between_rooms(run: Callable[[], object]) -> dict[Arrow, str]:
    """Run something; return the first public function that each room calls in each other."""
    found: dict[Arrow, str] = {}
    public: dict[CodeType, bool] = {}

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in public:  # asked a million times of a thousand functions
            name = code.co_qualname
            public[code] = _room(frame) is not None and not re.search(r"<|(^|\.)_", name)
        if not public[code]:
            return
        room, name = _room(frame), code.co_qualname
        assert room is not None
        caller = frame.f_back
        while caller is not None and _room(caller) is None:
            caller = caller.f_back
        begin = "you" if caller is None else _room(caller)
        if begin is not None and begin != room and not {begin, room} & GROUND:
            found.setdefault((begin, room), name)

    # Once before: what is imported at the first call would else be traced too.
    run()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def _room(frame: FrameType) -> str | None:
    parts = str(frame.f_globals.get("__name__", "")).split(".")
    return (parts[1] if len(parts) > 1 else "alloc") if parts[0] == "alloc" else None


def picture_of_calls(run: Callable[[], object]) -> str:
    """Return the calls between rooms as a Mermaid flow chart, downward by floor."""
    height = {room: k for k, floor in enumerate(rooms()) for room in floor}
    arrows = calls_between_rooms(run)
    lines = ["```mermaid", "flowchart TD"]
    lines += [
        f"    {begin} -->|{name}| {end}"
        for (begin, end), name in sorted(
            arrows.items(), key=lambda item: (height.get(item[0][0], -1), height[item[0][1]], item)
        )
        # What calls back upward, such as a clock that is asked for the time, is no step of the way.
        if height.get(begin, -1) <= height[end]
    ]
    return "\n".join([*lines, "```"])


def pictures() -> dict[str, str]:
    """Return every picture of the page by its name."""
    instance = load("elastic-tiny/01")
    problem = load_stored_planning("planning-tiny")
    # With FIFO a recursion stands in for the simulator, inside planning.
    replay = ReplaySettings("srtf", jobs=20, replications=2, regimes=1)
    return {
        "rooms": picture_of_rooms(),
        "solve": picture_of_calls(lambda: alloc.solve(instance)),
        "compare": picture_of_calls(lambda: compare([instance], ["fifo", "srtf"])),
        "plan": picture_of_calls(lambda: plan(problem, replay=replay, max_iterations=1)),
    }


def page_with(drawn: dict[str, str], page: str) -> str:
    """Return the page with its pictures drawn anew, each between its two marks."""
    for name, picture in drawn.items():
        pattern = rf"(<!-- picture: {name} -->\n).*?(<!-- end of picture -->)"
        page = re.sub(
            pattern, lambda match, p=picture: f"{match[1]}{p}\n{match[2]}", page, flags=re.S
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(page_with(pictures(), PAGE.read_text()))
