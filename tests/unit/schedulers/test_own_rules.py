"""A scheduler of one's own: a class, an object or a function, named by where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alloc.comparison import Entry, compare
from alloc.errors import InstanceError, SimulationError
from alloc.instances import load
from alloc.schedulers import Decision, make_scheduler, registry, scheduler_of
from alloc.schedulers.describing import describe_scheduler
from alloc.schedulers.state import ClusterState
from alloc.simulation import simulate

INSTANCE = load("elastic-tiny/04")

RULES = '''
"""Rules of a user."""

from alloc.schedulers import Decision


def shortest(state, power: float = 1.0):
    """Serve the job with the least work left first.

    Parameters
    ----------
    power
        What the work is raised to.
    """
    return sorted(state.jobs, key=lambda job: job.work_left**power)


def told(state):
    return [job.id for job in state.jobs]


told.needs = "estimate"
told.information = "order of arrival"
told.name = "told-in-order"


class Idle:
    """Start nothing.

    Parameters
    ----------
    patience
        Of no use.
    """

    name = "idle"
    needs = "none"
    information = "nothing"

    def __init__(self, patience: int = 3):
        self.patience = patience

    def reset(self):
        pass

    def decide(self, state):
        return Decision()


class Half:
    name = "half"

    def decide(self, state):
        return None


class Odd(Idle):
    needs = "all"


class Choosy(Idle):
    def __init__(self, taste):
        self.taste = taste


class Deaf(Idle):
    def decide(self):
        return Decision()


class Explodes(Idle):
    def __init__(self):
        self.x = {}["x"]


class Quits(Idle):
    def __init__(self):
        raise SystemExit(0)


class Mapped(dict):
    decide = Idle.decide


class Unresettable(Idle):
    def reset(self):
        raise OSError("no disk")


def by_name(*, state):
    return []


ready = Idle()
three = 3


def fifo(state):
    return state.jobs


def two(state, now):
    return []


async def later(state):
    return []


def made():
    return Idle(5)


def makes_nothing():
    return 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a file of rules; imports leave no trace."""
    (tmp_path / "rules.py").write_text(RULES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("rules", "broken", "package", "helper")):
            del sys.modules[name]


# Named by their place.


@pytest.mark.parametrize("place", ["./rules.py:shortest", "rules.py:shortest", "rules:shortest"])
def test_a_function_is_named_by_its_file_or_module(folder: Path, place: str) -> None:
    made = make_scheduler(place)
    assert (made.name, made.needs) == ("shortest", "none")
    assert "not declared" in made.information
    run = simulate(INSTANCE, made)
    assert run.verified
    # The order of SRTF by work, in which each takes all it can use.
    assert run.completion_s == simulate(INSTANCE, place).completion_s


def test_a_function_may_say_what_a_scheduler_says_of_itself(folder: Path) -> None:
    made = make_scheduler("./rules.py:told")
    assert (made.name, made.needs) == ("told-in-order", "estimate")
    assert made.information == "order of arrival"


def test_classes_objects_and_makers_are_named_too(folder: Path) -> None:
    for place, options, patience in (
        ("Idle", {"patience": 4}, 4),
        ("ready", {}, 3),
        ("made", {}, 5),
    ):
        made: Any = make_scheduler(f"rules.py:{place}", **options)
        assert made.patience == patience
    assert make_scheduler("rules.py:Idle").name == "idle"


def test_a_file_imports_what_lies_beside_it(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "helper_of_rules.py").write_text("KEY = 'arrival_s'\n")
    (folder / "below" / "mine.py").write_text(
        "from helper_of_rules import KEY\n"
        "def mine(state): return sorted(state.jobs, key=lambda job: getattr(job, KEY))\n"
    )
    assert simulate(INSTANCE, "below/mine.py:mine").verified


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    assert make_scheduler("rules.py:Idle").information == "nothing"
    (folder / "rules.py").write_text(RULES.replace('"nothing"', '"a little"'))
    assert make_scheduler("rules.py:Idle").information == "a little"


def test_what_it_does_is_told_from_its_docstring(folder: Path) -> None:
    found = describe_scheduler("./rules.py:shortest")
    assert found.title == "Serve the job with the least work left first."
    (option,) = found.options
    assert (option.name, option.default, option.values) == ("power", "1", "number")
    assert option.meaning == "What the work is raised to."
    assert describe_scheduler("rules:Idle").options[0].meaning == "Of no use."
    assert describe_scheduler("rules:told").title == "without a docstring"


WRONG = {
    "./rules.py": r"is named \./rules\.py:NAME; say which one: it has shortest, told, Idle",
    "./rulse.py:x": r'no such file; did you mean "rules\.py"\?',
    "./rules.py:shortes": r'has no "shortes"; did you mean "shortest"\? it has shortest, told',
    "rules:": "write module:Name or ./file.py:Name",
    "a b:c": "write module:Name or ./file.py:Name",
    "no_such_module:x": 'there is no module "no_such_module"',
    "rules.py:three": "is int, and no scheduler; name a function of the state, or a class",
    "rules.py:two": r"requires 2 parameters \(state, now\), and a rule is called with one",
    "rules.py:later": "is asynchronous; write def",
    "rules.py:Half": r"it has no needs, no information, no reset; add needs = \"none\"",
    "rules.py:Odd": 'its needs is "all"; write needs = "none"',
    "rules.py:Choosy": r"needs the option taste; give a value as in .*rules\.py:Choosy\(taste=1\)",
    "rules.py:Deaf": r"its decide cannot be called as it must be; write def decide\(self, state\)",
    "rules.py:Explodes": r"cannot be made, KeyError: 'x' \(rules\.py, line \d+, in __init__\)",
    "rules.py:Quits": r"cannot be made, SystemExit: 0 \(rules\.py, line \d+, in __init__\)",
    "rules.py:Mapped": "Python does not know its parameters; write a function around it",
    "rules.py:by_name": "state goes by its name only; leave out the",
    "rules.py:makes_nothing": "is no scheduler, it has no name",
    "rules.py:fifo": 'calls itself "fifo", which is another scheduler of alloc',
    "rules.py:Idle.nothing": r'has no "Idle\.nothing"',
}


@pytest.mark.parametrize("place", WRONG)
def test_what_is_wrong_is_one_sentence_before_work_begins(folder: Path, place: str) -> None:
    with pytest.raises(InstanceError, match=WRONG[place]) as raised:
        compare([INSTANCE], [place])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def f(:\n", r"SyntaxError: .* \(line 1\)"),
        (
            "import no_such_package\n",
            r"ModuleNotFoundError: .*no_such_package.* \(broken\.py, line 1",
        ),
        ("x = 1\n1 / 0\n", r"ZeroDivisionError: division by zero \(broken\.py, line 2"),
        ("raise SystemExit(2)\n", r"SystemExit: 2"),
    ],
)
@pytest.mark.parametrize("place", ["broken.py:f", "broken:f"])
def test_code_that_fails_is_named_with_its_line(
    folder: Path, text: str, sentence: str, place: str
) -> None:
    (folder / "broken.py").write_text(text)
    with pytest.raises(InstanceError, match=sentence):
        make_scheduler(place)


def test_options_are_checked_as_those_of_others(folder: Path) -> None:
    with pytest.raises(InstanceError, match='has no option "pwoer"; did you mean "power"'):
        make_scheduler("rules.py:shortest", pwoer=2)
    with pytest.raises(InstanceError, match='power is "x"; it must be a number'):
        make_scheduler("rules.py:shortest", power="x")


def test_a_place_is_none_of_the_names_that_strangers_may_give(folder: Path) -> None:
    """The server holds names against these: a place would run code."""
    from alloc.server.requests import require_scheduler

    with pytest.raises(InstanceError, match="unknown scheduler"):
        require_scheduler("rules:Idle", registry.scheduler_names())


def test_a_reset_that_fails_is_told(folder: Path) -> None:
    with pytest.raises(SimulationError, match=r"fails when it is reset, OSError: no disk \(rules"):
        simulate(INSTANCE, "rules.py:Unresettable")
    with pytest.raises(InstanceError, match=r"its reset fails, OSError: no disk \(rules"):
        compare([INSTANCE], [make_scheduler("rules.py:Unresettable")])


def test_parameters_that_have_no_name_outside_are_no_options() -> None:
    def rule(state: ClusterState, sign: int = 1, /) -> Any:
        return sorted(state.jobs, key=lambda job: sign * job.weight)

    assert simulate(INSTANCE, rule).verified


def test_a_class_that_returns_no_decision_is_told(folder: Path) -> None:
    class Nothing:
        name, needs, information = "nothing", "none", "nothing"

        def reset(self) -> None: ...

        def decide(self, state: ClusterState) -> Any:
            return None

    with pytest.raises(SimulationError, match="nothing returned NoneType at 0 s; decide must"):
        simulate(INSTANCE, Nothing)


# In a comparison.


def heaviest(state: ClusterState, sign: int = -1) -> Any:
    """Serve the heaviest first."""
    return sorted(state.jobs, key=lambda job: sign * job.weight)


def test_everything_that_stands_for_a_scheduler_is_compared(folder: Path) -> None:
    rows = compare(
        [INSTANCE],
        [
            "fifo",
            "./rules.py:shortest",
            Entry("rules:shortest", {"power": 2}),
            heaviest,
            scheduler_of("las"),
        ],
        time_limit_s=5,
    ).rows
    assert [(row.scheduler, row.error) for row in rows] == [
        ("optimum", None),
        ("fifo", None),
        ("shortest", None),
        ("shortest(power=2)", None),
        ("heaviest", None),
        ("las", None),
    ]


@pytest.mark.long
def test_other_processes_find_it_by_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    compare([INSTANCE], ["fifo", "las"], time_limit_s=5, jobs=2)  # the processes stay there
    monkeypatch.chdir(folder)
    given: list[Any] = [
        "./rules.py:shortest",
        "rules:told",
        Entry("rules.py:Idle", {"patience": 2}),
    ]
    alone = compare([INSTANCE], given, time_limit_s=5)
    together = compare([INSTANCE], given, time_limit_s=5, jobs=2)
    assert [(r.scheduler, r.objective) for r in alone.rows] == [
        (r.scheduler, r.objective) for r in together.rows
    ]
    assert [row.scheduler for row in together.failures] == ["idle(patience=2)"]


def test_kept_results_are_those_of_the_same_code(folder: Path) -> None:
    """A file that was edited is another scheduler; one that was not is taken from the store."""
    stored: list[list[bool]] = []
    for text in (RULES, RULES, RULES + "\n# edited\n"):
        (folder / "rules.py").write_text(text)
        events: list[Any] = []
        compare(
            [INSTANCE],
            ["rules.py:shortest"],
            store=folder / "runs.sqlite",
            time_limit_s=5,
            progress=events.append,
        )
        stored.append([event.stored for event in events if event.kind == "cell"])
    assert stored == [[False], [True], [False]]


def test_two_of_one_file_that_call_themselves_alike_are_two(folder: Path) -> None:
    """A store must not take the results of one for those of the other."""
    (folder / "rules.py").write_text(RULES + "\nclass Other(Idle):\n    pass\n")
    idle, other = Entry.of("rules.py:Idle"), Entry.of("rules.py:Other")
    assert idle.name == other.name
    assert idle.key_options != other.key_options


def test_one_that_reads_another_file_is_known_by_what_it_read(folder: Path) -> None:
    """A retrained agent behind the same few lines of code is another scheduler."""
    own = "\nfrom pathlib import Path\n\nclass Reads(Idle):\n    def __init__(self):\n"
    own += "        self.w = Path('w').read_text()\n"
    own += "\nclass Locked(Idle):\n    def __init__(self):\n        self.f = lambda: 0\n"
    (folder / "rules.py").write_text(RULES + own)
    keys = []
    for weights in ("1", "2", "1"):
        (folder / "w").write_text(weights)
        keys.append(Entry.of("rules.py:Reads").key_options)
    assert keys[0] == keys[2] != keys[1]
    assert Entry.of("rules.py:Locked").key_options  # one that cannot be sent is found by its place


@pytest.mark.long
def test_a_place_has_the_same_key_in_every_process(folder: Path) -> None:
    code = (
        "from alloc.comparison import Entry\n"
        "print([Entry.of(f'./rules.py:{n}').key_options for n in ('shortest', 'Idle', 'ready')])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert "content" in said[0]


def test_a_function_is_known_by_its_code_and_what_it_holds() -> None:
    def made_for(sign: int) -> Any:
        def rule(state: ClusterState) -> Any:
            return sorted(state.jobs, key=lambda job: sign * job.weight)

        return rule

    def content(function: Any) -> Any:
        return Entry.of(function).options["content"]

    assert content(made_for(1)) == content(made_for(1))
    assert content(made_for(1)) != content(made_for(2))
    assert content(heaviest) != content(partial(heaviest, sign=1))


def test_decisions_of_a_scheduler_that_decides_nothing_stall_in_words(folder: Path) -> None:
    assert isinstance(make_scheduler("rules:Idle").decide(None), Decision)
    with pytest.raises(SimulationError, match="scheduler idle stalls"):
        simulate(INSTANCE, "rules:Idle")
