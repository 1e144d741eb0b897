"""The container file keeps what it promises: locked, without rights, one volume, no secrets."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and line[0] != "#"]


def instructions(name):
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def test_it_runs_as_a_user_without_rights_and_writes_to_one_volume():
    (user,) = instructions("USER")
    assert user not in ("root", "0")
    assert LINES.index(f"USER {user}") < LINES.index('CMD ["serve"]')
    assert instructions("VOLUME") == ["/data"]
    assert instructions("HEALTHCHECK")
    assert "ALLOC_DATABASE=/data/" in TEXT


def test_what_is_installed_is_locked_and_comes_from_no_named_place():
    installs = [
        line for line in instructions("RUN") for line in line.split("&&") if "pip install" in line
    ]
    assert len(installs) == 2
    assert all("--no-deps" in line for line in installs)
    assert ["--require-hashes" in line for line in installs] == [True, False]
    assert "://" not in TEXT.replace("http://127.0.0.1", "")
    assert all(re.fullmatch(r"python:3\.1\d-slim( AS \w+)?", base) for base in instructions("FROM"))


def test_what_is_copied_is_there_and_no_secret_is_baked_in():
    for line in instructions("COPY"):
        sources = line.split()[:-1]
        if sources[0].startswith("--from"):
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
    assert not re.search(r"token|password|secret", TEXT, re.IGNORECASE)


def test_the_lock_of_the_server_is_part_of_the_whole_lock():
    """One version of everything, in the container as in continuous integration."""
    pins = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    whole = dict(pins.findall((ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")))
    server = dict(pins.findall((ROOT / "requirements" / "server.txt").read_text(encoding="utf-8")))
    assert {"fastapi", "uvicorn", "setuptools", "highspy"} <= server.keys()
    assert not {"torch", "pytest", "gymnasium"} & server.keys()
    assert server.items() <= whole.items()
