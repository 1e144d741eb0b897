"""Whatever is wrong at a door is one sentence with exit code 2, or is counted and shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import wrong_commands  # noqa: F401  # each adds its cases
import wrong_prices  # noqa: F401
import wrong_snapshots  # noqa: F401
import wrong_tables  # noqa: F401
import wrong_topologies  # noqa: F401
from wrong_inputs import CASES, WrongInput, good_files

EVERY = 8
"""One case of so many is tried each time, the others in the long run."""
ALIKE = 12
"""Characters of the answer by which a case tells less than an earlier one of its door."""
GOOD = good_files()


def marked() -> Iterator[Any]:
    """Yield the cases; those answered as an earlier one of their door are slow."""
    seen: set[tuple[str, str]] = set()
    for k, case in enumerate(CASES):
        answer = case.name.partition(":")[0], case.says[:ALIKE]
        mark = pytest.mark.slow if answer in seen else pytest.mark.long
        seen.add(answer)
        yield pytest.param(case, id=case.name, marks=() if k % EVERY == 0 else mark)


def test_there_are_two_hundred_of_them_and_no_two_are_alike() -> None:
    assert len(CASES) >= 200
    assert len({(case.words, tuple(case.files.values())) for case in CASES}) == len(CASES)
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.says for case in CASES)


@pytest.mark.parametrize("case", list(marked()))
def test_a_wrong_input_is_refused_or_counted(case: WrongInput, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {**GOOD, **case.files}.items():
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
    done = run(*case.words)
    said = done.stderr.replace(f"{tmp_path}/", "")
    lines = said.strip().splitlines()
    assert case.says in said
    assert "Traceback" not in said
    if case.counted:
        assert done.exit_code == 0, said
        return
    # A count of what was read may come before it, and nothing after.
    assert done.exit_code == case.code, said
    assert [line.startswith("error: ") for line in lines[:-1]] == [False] * (len(lines) - 1)
    assert lines[-1].startswith("error: ")
    assert case.says in lines[-1]
    assert not (tmp_path / "out.json").exists()
    assert not (tmp_path / "out.yaml").exists()
