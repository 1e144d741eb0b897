"""What the project says of itself agrees with its tree."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from needs import not_run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from alloc.release import DISTRIBUTION, alloc_version

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
    """For tools that look at files; `test_distribution` holds that a checkout needs none."""
    link = ROOT / "alloc" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..", name)


def test_the_version_has_one_source():
    declared = PYPROJECT["project"]["version"]
    assert alloc_version() == declared
    assert PYPROJECT["project"]["name"] == DISTRIBUTION
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == declared


def test_the_lock_leaves_pytorch_out():
    """Its files differ by accelerator; `make install-learn` adds the one configured here."""
    lock = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
    assert not re.search(r"^(torch|ray)==", lock, re.MULTILINE)


def test_what_training_needs_beside_pytorch_is_locked():
    """Next to the lock, and at its versions: both are installed into one environment."""
    folder = ROOT / "requirements"
    release = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    lock, learn = (
        set(release.findall((folder / f"{name}.txt").read_text(encoding="utf-8")))
        for name in ("lock", "learn")
    )
    both = {name for name, _ in lock} & {name for name, _ in learn}
    assert {pin for pin in learn if pin[0] in both} == {pin for pin in lock if pin[0] in both}
    wanted = {*PYPROJECT["project"]["optional-dependencies"]["learn"]}
    told = (folder / "learn.in").read_text(encoding="utf-8").splitlines()
    assert {line for line in wanted if line.startswith("onnxscript")} <= set(told)
    locked = {name for name, _ in lock | learn}
    assert {Requirement(line).name for line in wanted} - locked == {"torch"}


def test_what_only_ci_tests_needs_nothing_that_is_not_locked():
    """`make install-extras` installs no more than it names, so what that needs is elsewhere."""
    needed = set()
    for name in ("ray", "stable-baselines3", "sb3-contrib"):
        with suppress(PackageNotFoundError):
            needed |= {
                canonicalize_name(wanted.name)
                for wanted in map(Requirement, requires(name) or ())
                if wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            }
    pins = set()
    for lock in ("lock", "learn", "extras"):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
        pins |= set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    assert needed - pins <= {"torch"}
    assert {"ray", "stable-baselines3", "sb3-contrib"} <= pins


def test_the_base_install_has_no_pytorch_and_no_server():
    base = " ".join(PYPROJECT["project"]["dependencies"])
    assert not re.search(r"torch|gymnasium|fastapi|uvicorn|ray|distributed|polars|pandas", base)


def tracked_lines() -> Iterator[tuple[str, int, str]]:
    """Yield every line of every tracked file, with the file's name and the line's number."""
    if not (ROOT / ".git").exists():
        # An unpacked source archive: there, what is tracked cannot be known.
        not_run("this tree is not a git checkout, and nothing else says which files are tracked.")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        path = ROOT / name
        # A file deleted and not yet committed is still listed; a link's target is its own entry.
        if path.is_symlink() or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            yield name, number, line


@pytest.mark.long
def test_no_tracked_file_names_an_index_or_a_folder_of_one_machine():
    # Put together here, so that this file does not match itself.
    hosts = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "deb" + "ian.org"]
    folders = ["/" + "work/", "/" + "opt/", "/" + "root/", "/" + "home/", "fi" + "le:///"]
    pattern = re.compile(
        "|".join([*map(re.escape, hosts), *(rf"(?<![\w.~)}}/-]){f}" for f in folders)])
    )
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, number, line in tracked_lines()
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.long
def test_nobody_is_told_to_install_the_stranger_of_the_same_name():
    """`alloc` on the public index is another project: what installs this one names a checkout."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    # An extra of the name, wherever a sentence is broken, and the bare name after `pip install`.
    stranger = re.compile(rf"alloc\[({'|'.join(extras)})\]|pip install (-\S+ )*[\"'`]?alloc\b")
    told, wrong = set(), []
    for name, number, line in tracked_lines():
        if name not in ("pyproject.toml", "tests/packaging/test_tree.py"):
            told.update(re.findall(r"pip install \"\.\[(\w+)\]\"", line))
            if stranger.search(line):
                wrong.append(f"{name}:{number}: {line.strip()[:100]}")
    assert wrong == []
    assert {"server", "client", "learn"} <= told <= set(extras)
    assert "not on the public package index" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_continuous_integration_begins_with_the_commands_of_the_readme():
    """A newcomer's machine has Python and make: no PyTorch, no PostgreSQL, no browser."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition("## Two commands")[2].split("```")[1]
    commands = re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    ran = re.findall(r"^ *((?:bare )?make [a-z][a-z-]*)", script, re.MULTILINE)
    assert ran[: len(commands)] == [f"bare make {name}" for name in commands]
    assert script.index("bare make test") < script.index("apt-get") < script.index("install-extras")


@pytest.mark.parametrize("lock", ["lock", "server", "learn", "extras", "docs", "lowest"])
def test_a_lock_holds_hashed_releases_and_nothing_else(lock):
    # No address of an index or folder, no option, no direct reference: each is one machine's own.
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    shape = re.compile(
        r"#.*|    #.*|    --hash=sha256:[0-9a-f]{64}( \\)?|[a-z0-9-]+==[^ ]+( ; .+)? \\"
    )
    assert [line for line in lines if not shape.fullmatch(line)] == []
    assert not any("://" in line for line in lines)


def test_what_is_locked_is_installed_as_locked():
    """Not what it needs: a release that came after the lock would be looked at, and refused."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert makefile.count("--require-hashes") == 1
    assert "\nLOCKED := install --no-compile --no-deps --require-hashes -r\n" in makefile
    for lock in ("LOCK", "LEARN", "EXTRA", "SITE", "LOWEST"):
        assert f"$(PIP) $(LOCKED) $({lock})\n" in makefile


def test_the_oldest_versions_are_those_that_are_declared():
    """`make test-lowest` runs what pyproject.toml promises, not what was true of an older one."""
    lowest = (ROOT / "requirements" / "lowest.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lowest, re.MULTILINE))
    extras = PYPROJECT["project"]["optional-dependencies"]
    lines = [*PYPROJECT["project"]["dependencies"], *extras["dev"], *extras["server"]]
    for wanted in map(Requirement, lines):
        if wanted.name == DISTRIBUTION:
            continue
        [floor] = [Version(s.version) for s in wanted.specifier if s.operator == ">="]
        pin = Version(pinned[wanted.name.lower()])
        # The first release of that series: 2.9 may begin with 2.9.1, and 6.8 with 6.8.0.
        assert pin.release[: len(floor.release)] == floor.release, f"{wanted}: {pin}"
