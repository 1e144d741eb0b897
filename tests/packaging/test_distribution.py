"""The wheel and the sdist: complete, and at work far from the checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from alloc.release import alloc_version

pytestmark = pytest.mark.long  # all begin with building the wheel
ROOT = Path(__file__).parents[2]
SHIPPED_FAMILIES = ["elastic-tiny", "elastic-small"]


def build(source: Path, kind: str, to: Path) -> Path:
    """Build without fetching anything: the build backend is the locked one."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", to, source],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=300,
    )
    [made] = to.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Copy what is packaged: in the checkout an earlier build/ would leak into the wheel."""
    copy = tmp_path_factory.mktemp("source") / "alloc"
    copy.mkdir()
    for name in ["alloc", "models", "instances"]:
        shutil.copytree(
            ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ["pyproject.toml", "LICENSE", "README.md"]:
        shutil.copy(ROOT / name, copy)
    return copy


SHIPPED_SUFFIXES = {".py", ".pyi", ".typed", ".j2", ".css", ".js", ".svg", ".onnx"}


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(n for n in archive.namelist() if ".dist-info/" not in n)


def test_the_wheel_holds_the_whole_tree(wheel):
    expected = {
        "alloc/instances/manifest.json",
        "alloc/schedulers/learned/policies/decima-tree.json",
    }
    for top, inside in [
        ("alloc", "alloc"),
        ("models", "alloc/models"),
        ("instances", "alloc/instances"),
    ]:
        for path in (ROOT / top).rglob("*"):
            name = Path(inside, path.relative_to(ROOT / top)).as_posix()
            if path.suffix in SHIPPED_SUFFIXES:
                expected.add(name)
    for family in SHIPPED_FAMILIES:
        files = list((ROOT / "instances" / "data" / family).glob("*.json"))
        assert files, f"instances/data/{family} holds no instance"
        expected.update(f"alloc/instances/data/{family}/{path.name}" for path in files)
    assert contents(wheel) == sorted(expected)


def test_the_wheel_is_small(wheel):
    with zipfile.ZipFile(wheel) as archive:
        data = [f.compress_size for f in archive.infolist() if "instances/data/" in f.filename]
    # Larger families of instances stay in the checkout.
    assert sum(data) < 50_000
    # The code takes 2.62 MB, since every parameter is explained, and the trained policies 0.37 MB.
    assert wheel.stat().st_size < 3_100_000


def test_the_sdist_builds_the_same_wheel(source, wheel, tmp_path):
    sdist = build(source, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert contents(build(unpacked, "wheel", tmp_path / "wheel")) == contents(wheel)


def test_the_sdist_holds_what_the_tests_need(source, tmp_path):
    """Distributions run the tests from it; a checkout is not to be had there."""
    junk = shutil.ignore_patterns("__pycache__")
    whole = ["tests", "docs", "benchmarks", "examples", "requirements", ".ci"]
    for name in filter(lambda name: (ROOT / name).exists(), whole):
        shutil.copytree(ROOT / name, tmp_path / "tree" / name, ignore=junk)
    # Without what building the wheel left there.
    left = shutil.ignore_patterns("build", "*.egg-info")
    shutil.copytree(source, tmp_path / "tree", symlinks=True, dirs_exist_ok=True, ignore=left)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git" and not path.name.startswith(".coverage"):
            shutil.copy(path, tmp_path / "tree")
    sdist = build(tmp_path / "tree", "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
        assert not any(member.issym() for member in archive.getmembers())
    there = {
        path.relative_to(tmp_path / "tree").as_posix()
        for path in (tmp_path / "tree").rglob("*")
        if path.is_file()
    }
    links = {f"alloc/{top}" for top in ("models", "instances")}
    missing = {name for name in there - inside if not name.startswith(tuple(links))}
    assert missing == set()
    assert {"tests/conftest.py", "Makefile", "requirements/lock.txt", "docs/faq.md"} <= inside


def test_a_checkout_without_links_can_be_installed_for_editing(source, tmp_path):
    """Git on Windows, and some archives, make text files of links; the package map is enough."""
    copy = tmp_path / "copy"
    shutil.copytree(source, copy, symlinks=True)
    for name in ("models", "instances"):
        (copy / "alloc" / name).unlink()
        (copy / "alloc" / name).write_text(f"../{name}")
    python = third_party_only(tmp_path / "environment")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    quick = ["install", "--no-deps", "--no-index", "--no-build-isolation", "--editable", copy]
    subprocess.run([*pip, "--python", python, *quick], check=True, timeout=300)
    printed = subprocess.run(
        [
            python,
            "-c",
            "import alloc.models, alloc.instances as i; print(i.load('elastic-tiny/01'))",
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert printed.returncode == 0, printed.stderr
    assert "Instance(" in printed.stdout


def third_party_only(folder: Path) -> Path:
    """Make an environment that sees this one's third-party packages; return its Python.

    The path file adds this environment's folder to `sys.path`, behind its own. Python reads no path
    files there, so the finder of the editable install never wakes.
    """
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "third-party.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory) -> Path:
    """Make an environment that holds the wheel and sees this one's third-party packages."""
    folder = tmp_path_factory.mktemp("clean")
    python = third_party_only(folder)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = ["--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run([*pip, *install], check=True, timeout=300)
    return folder


@pytest.fixture
def run(clean, tmp_path):
    """Run a program of the clean environment in a folder outside the checkout."""

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [clean / "bin" / program, *arguments],
            cwd=tmp_path,
            # PYTHONPATH could lead back to the checkout.
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_every_module_comes_from_the_wheel(run, clean):
    printed = run(
        "python",
        "-c",
        "import alloc, alloc.models, alloc.instances;"
        "print(alloc.__file__, alloc.models.__file__, alloc.instances.__file__, sep='\\n')",
    )
    assert [clean in Path(line).parents for line in printed.splitlines()] == [True] * 3


@pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.torch)])
def test_every_module_of_the_wheel_can_be_imported(run, wheel, trains):
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in contents(wheel)
        if name.endswith(".py") and not name.endswith("__main__.py")
    ]
    chosen = [name for name in modules if name.startswith("alloc.learning.") is trains]
    assert chosen
    run("python", "-c", f"import importlib\nfor name in {chosen}: importlib.import_module(name)")


def test_the_installed_program_tells_its_version(run):
    assert alloc_version() in run("alloc", "--version")


def test_the_installed_program_lists_the_shipped_instances(run):
    listed = run("alloc", "instances", "list", "--json")
    assert "elastic-tiny/01" in json.dumps(json.loads(listed))


def test_the_installed_program_solves_a_shipped_instance(run):
    printed = run("alloc", "solve", "elastic-tiny/01", "--time-limit", "30", "--json")
    certificate = json.loads(printed)["certificate"]
    assert certificate["status"] == "optimal"
    assert certificate["verified"] is True
