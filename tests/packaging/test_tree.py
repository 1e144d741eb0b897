"""What the project says of itself agrees with its tree."""

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_with_code_is_a_listed_package():
    # An unlisted package works in an editable install and is missing from the wheel.
    folders = set()
    for top, package in [
        ("alloc", "alloc"),
        ("models", "alloc.models"),
        ("instances", "alloc.instances"),
    ]:
        for path in (ROOT / top).rglob("*.py"):
            # rglob does not follow the links alloc/models and alloc/instances.
            folders.add(".".join([package, *path.parent.relative_to(ROOT / top).parts]))
    assert sorted(folders) == sorted(PYPROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("name", ["models", "instances"])
def test_links_lead_to_the_top_level_folders(name):
    link = ROOT / "alloc" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..", name)


def test_the_version_has_one_source():
    declared = PYPROJECT["project"]["version"]
    assert version("alloc") == declared
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == declared


def test_the_lock_holds_hashed_releases_and_nothing_else():
    # No address of an index or folder, no option, no direct reference: each is one machine's own.
    lines = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8").splitlines()
    shape = re.compile(
        r"#.*|    #.*|    --hash=sha256:[0-9a-f]{64}( \\)?|[a-z0-9-]+==[^ ]+( ; .+)? \\"
    )
    assert [line for line in lines if not shape.fullmatch(line)] == []
    assert not any("://" in line for line in lines)


def test_the_lock_leaves_pytorch_out():
    """Its files differ by accelerator; `make install-learn` adds the one configured here."""
    lock = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
    assert not re.search(r"^(torch|ray)==", lock, re.MULTILINE)


def test_the_base_install_has_no_pytorch_and_no_server():
    base = " ".join(PYPROJECT["project"]["dependencies"])
    assert not re.search(r"torch|gymnasium|fastapi|uvicorn|ray", base)


def test_no_tracked_file_names_an_index_or_a_folder_of_one_machine():
    if not (ROOT / ".git").exists():
        pytest.skip(
            "NOT CHECKED: this tree is no git checkout, so nothing says which files are tracked"
        )
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    # Put together here, so that this file does not match itself.
    hosts = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "deb" + "ian.org"]
    folders = ["/" + "work/", "/" + "opt/", "/" + "root/", "/" + "home/", "fi" + "le:///"]
    pattern = re.compile(
        "|".join([*map(re.escape, hosts), *(rf"(?<![\w.~)}}/-]){f}" for f in folders)])
    )
    found = []
    for name in filter(None, tracked):
        path = ROOT / name
        # A file deleted and not yet committed is still listed; a link's target is its own entry.
        if path.is_symlink() or not path.is_file():
            continue
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
        ):
            if pattern.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []
