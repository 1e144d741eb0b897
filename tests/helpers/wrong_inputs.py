"""Wrong inputs at every door: the files, the command, and what the answer has to say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class WrongInput:
    """A wrong input.

    Parameters
    ----------
    name
        What is wrong, with the door in front.
    words
        The command; it runs in a folder with the files.
    says
        What the answer has to say: where and what.
    files
        Files by name, beside those of `good_files`.
    counted
        Whether it is read all the same, counted and shown; otherwise it is refused.
    code
        Exit code of what is refused: 1 for a scheduler's own faults at work.
    """

    name: str
    words: tuple[str, ...]
    says: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    counted: bool = False
    code: int = 2


CASES: list[WrongInput] = []
JOBS = "id,submit,duration,gpus\na,0,3600,8\nb,600,1800,4\n"
PRICES = (
    "host,gpu_type,gpus,Purchase EUR,On-demand EUR per hour,life years,power kw\n"
    "8x a100,a100,8,120000,14.00,4,6.5\n"
)
TREE = (
    "SwitchName=leaf1 Nodes=gpu[1-2]\nSwitchName=leaf2 Nodes=gpu[3-4],cpu1\n"
    "SwitchName=spine Switches=leaf[1-2]\n"
)
HISTORY = "id,submit,duration,gpus\n" + "".join(
    f"j{k},{k * 43_200},3600,{1 + k % 8}\n" for k in range(70)
)
"""Five weeks of jobs."""
RULE = "def rule(state):\n    return ()\n"


def good_files() -> dict[str, bytes]:
    """Return the files that are right, by name."""
    found = {name: (EXAMPLES / name).read_bytes() for name in EXAMPLE_FILES}
    texts = {
        "jobs.csv": JOBS,
        "prices.csv": PRICES,
        "tree.conf": TREE,
        "history.csv": HISTORY,
        "rule.py": RULE,
    }
    return found | {name: text.encode() for name, text in texts.items()}


EXAMPLE_FILES = (
    *("kubernetes.json", "kubernetes-new-job.json", "queue.json", "inference.json"),
    *("squeue.json", "slurm-nodes.json", "slurm-accounts.txt"),
)


def case(
    name: str,
    words: str,
    says: str,
    *,
    counted: bool = False,
    code: int = 2,
    **files: str | bytes,
) -> None:
    """Add a case; of a file's name ``__`` is a dot and ``_`` a hyphen."""
    named = {k.replace("__", ".").replace("_", "-"): text for k, text in files.items()}
    CASES.append(WrongInput(name, tuple(words.split()), says, named, counted, code))


def changed(file: str, change: Callable[[Any], object]) -> str:
    """Return a sample after a change of its JSON."""
    document = json.loads((EXAMPLES / file).read_text(encoding="utf-8"))
    answer = change(document)
    return json.dumps(answer if isinstance(answer, dict) else document)
