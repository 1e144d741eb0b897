"""A small comparison for reports, and a page taken apart."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from alloc.problems.allocation.instance import Instance
from alloc.schedulers.state import Knowledge
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup


class Broken:
    """A scheduler that fails at its first decision."""

    name = "broken"
    needs: Knowledge = "none"
    information = "nothing"

    def reset(self):
        """Nothing to forget."""

    def decide(self, state):
        raise RuntimeError("out of ideas")


VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = '<script>alert("x")</script>&'


class Page(HTMLParser):
    """A page taken apart: tags must close in order, and nothing may be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [found[name] for name in ("href", "src", "srcset", "data") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def make_instance(name: str, count: int = 4) -> Instance:
    """Jobs of one or two GPUs on one host with two; FIFO and the optimum differ."""
    ways = tuple(
        Configuration((TaskGroup("worker", n, 1000, 1000),), rate)
        for n, rate in ((1, 1.0), (2, 1.6))
    )
    jobs = tuple(Job(f"job-{j}", 5.0 * j, 30.0 - 5.0 * j, ways) for j in range(count))
    cluster = flat_cluster("one host", HostType("host", 2, "a100", 8000, 4096), 1)
    return Instance(name, cluster, jobs, slot_s=10.0, description={"source": "made by hand"})
