"""Policies by path and by name: the shelf, comparisons, and what else may call itself so."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from policy_files import SPEC, card, priority_model, write_short_first

from alloc import Instance
from alloc.comparison import Entry, compare
from alloc.comparison.cells import Cell
from alloc.comparison.settings import Settings
from alloc.errors import (
    AllocError,
    InstanceError,
)
from alloc.instances import load
from alloc.schedulers import make_scheduler, registry, scheduler_names, shelf
from alloc.schedulers.learned import (
    PolicyScheduler,
    read_policy,
    write_policy,
)
from alloc.schedulers.shelf import (
    add_policy,
    added_policies,
    policy_path,
    remove_policy,
    shipped_policies,
    user_folder,
)
from alloc.simulation import simulate


@pytest.fixture(autouse=True)
def own_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the tests off the shelf of whoever runs them."""
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


def test_listing_schedulers_opens_no_file(path: Path) -> None:
    """Names are asked for at every tab key; onnx and its runtime would take a second each time."""
    code = (
        "import sys; from alloc.schedulers import scheduler_names; print(*scheduler_names());"
        "print([m for m in ('onnx', 'onnxruntime', 'pydantic', 'torch') if m in sys.modules])"
    )
    add_policy(path, ())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=os.environ
    )
    names, loaded = done.stdout.splitlines()
    assert "short-first" in names.split()
    assert loaded == "[]"


def test_a_path_is_a_name_of_a_scheduler(path: Path, queue: Instance) -> None:
    """Wherever a scheduler is named, the path of a policy file will do."""
    run = simulate(queue, make_scheduler(str(path)))
    assert run.scheduler == "short-first"
    with pytest.raises(InstanceError, match=r'has no option "sampel"; did you mean "sample"\?'):
        make_scheduler(str(path), sampel=True)
    with pytest.raises(InstanceError, match=r"no\.onnx: there is no such file"):
        make_scheduler("no.onnx")


def test_a_policy_cannot_pass_for_a_rule(tmp_path: Path) -> None:
    """A file that calls itself drf would put its numbers under DRF's name in a table."""
    write_short_first(tmp_path / "x.onnx", "drf")
    with pytest.raises(InstanceError, match=r'x\.onnx: calls itself "drf", which is another'):
        make_scheduler(str(tmp_path / "x.onnx"))
    with pytest.raises(InstanceError, match="there is a scheduler of that name; give it another"):
        add_policy(tmp_path / "x.onnx", scheduler_names())


def test_a_comparison_takes_paths(path: Path) -> None:
    """The row has the policy's own name; two processes give what one does."""
    instance = load("elastic-tiny/01")
    rows = {
        jobs: {
            row.scheduler: (row.objective, row.error)
            for row in compare([instance], ["fifo", str(path)], time_limit_s=5, jobs=jobs).rows
        }
        for jobs in (1, 2)
    }
    assert set(rows[1]) == {"optimum", "fifo", "short-first"}
    assert rows[1] == rows[2]
    assert all(error is None for _, error in rows[1].values())


def test_a_retrained_policy_is_never_mistaken_for_a_stored_one(path: Path, queue: Instance) -> None:
    """The file's content is part of the key in the store; its path is not."""

    def key(name: str) -> str:
        return Cell(queue, Entry.of(name), 0, Settings()).key

    first = key(str(path))
    moved = path.with_name("moved.onnx")
    moved.write_bytes(path.read_bytes())
    assert key(str(moved)) == first
    write_policy(path, priority_model(left_h=-2.0), SPEC, card())
    assert key(str(path)) != first


def test_an_added_policy_is_known_by_name(path: Path, queue: Instance, own_shelf: Path) -> None:
    added = add_policy(path, scheduler_names())
    assert added.name == "short-first"
    assert user_folder() == own_shelf
    assert "short-first" in scheduler_names()
    assert policy_path("short-first") == own_shelf / "short-first.onnx"
    path.unlink()
    assert simulate(queue, make_scheduler("short-first")).completion_s["job-100"] == 100.0
    assert Entry.of("short-first").scheduler is not None
    assert remove_policy("short-first") == own_shelf / "short-first.onnx"
    assert "short-first" not in scheduler_names()
    with pytest.raises(InstanceError, match='unknown scheduler "short-first"'):
        make_scheduler("short-first")


def test_names_on_the_shelf_are_unique(path: Path) -> None:
    add_policy(path, scheduler_names())
    with pytest.raises(InstanceError, match="`alloc policies remove short-first` removes the old"):
        add_policy(path, scheduler_names())
    with pytest.raises(InstanceError, match=r'no policy "short-frist" was added; did you mean'):
        remove_policy("short-frist")
    with pytest.raises(InstanceError, match=r'there is no policy "short"; did you mean "short-f'):
        policy_path("short")


def test_only_a_policy_gets_on_the_shelf(tmp_path: Path, own_shelf: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InstanceError, match=r"bad\.onnx: "):
        add_policy(tmp_path / "bad.onnx", ())
    assert not own_shelf.exists()


def test_a_file_put_there_under_another_name_is_refused(path: Path, own_shelf: Path) -> None:
    """The list would show one name and the table another."""
    own_shelf.mkdir()
    path.rename(own_shelf / "other.onnx")
    with pytest.raises(InstanceError, match=r'other\.onnx: calls itself "short-first"'):
        make_scheduler("other")


def test_the_shelf_follows_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ALLOC_POLICIES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "alloc" / "policies"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert user_folder() == tmp_path / "home" / ".local" / "share" / "alloc" / "policies"
    assert added_policies() == {}


@pytest.mark.parametrize("name", sorted(shipped_policies()))
def test_shipped_policies_are_small_and_sound(name: str) -> None:
    """They are in everybody's wheel: named as their files, at most 100 kB, with a whole card."""
    policy = read_policy(shipped_policies()[name])
    assert policy.name == name
    assert len(policy.model) < 100_000
    assert policy.card.seeds
    assert policy.card.curve
    assert policy.card.limits
    with pytest.raises(InstanceError, match="is part of alloc and stays"):
        remove_policy(name)
    assert name in registry.SCHEDULERS


def test_a_policy_in_the_package_is_a_line_of_the_registry(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer ships a policy by putting its file into the folder; nothing else is to be done."""
    monkeypatch.setattr(shelf, "_SHIPPED", tmp_path)
    [(name, where)] = shelf.shipped_entries().items()
    assert name == "short-first"
    module, _, attribute = where.partition(":")
    maker = getattr(importlib.import_module(module), attribute)
    assert maker().name == "short-first"
    assert maker.features == PolicyScheduler(path).features
    assert [origin for *_, origin in shelf.shelf()] == ["shipped"]
    with pytest.raises(InstanceError, match="is part of alloc and stays"):
        remove_policy("short-first")
    with pytest.raises(AttributeError, match="policy:nothing"):
        getattr(shelf, "policy:nothing")


def test_a_shelf_that_cannot_be_made_is_a_sentence(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that is read-only, for one."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "file" / "shelf"))
    with pytest.raises(AllocError, match=r"cannot be made for the user's .*ALLOC_POLICIES"):
        add_policy(path, ())


def test_the_shelf_is_in_order_of_names(path: Path, own_shelf: Path) -> None:
    """Of names, and not of files: a dash comes before the dot of the ending."""
    own_shelf.mkdir()
    for name in ("b", "b-2", "a"):
        (own_shelf / f"{name}.onnx").write_bytes(path.read_bytes())
    assert list(added_policies()) == ["a", "b", "b-2"]
    assert list(shipped_policies()) == sorted(shipped_policies())
