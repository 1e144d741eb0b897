"""Uploads: files of a request laid out for the readers, and told what they are."""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from alloc.documents.files import read_bytes
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError
from alloc.instances.readers.frames import is_parquet, read_parquet
from alloc.instances.readers.job_columns import Column, Units, choose_columns, parse_map
from alloc.instances.readers.table import (
    find_delimiter,
    is_json,
    read_header,
    table_lines,
)
from alloc.instances.topologies import TOPOLOGY_FORMATS
from alloc.instances.topologies.text import read_text
from alloc.server.problems import blame
from alloc.server.requests_files import UploadedFile

_PREFIX = "alloc-files-"
# A worker that is killed cannot tidy up. No job lives for a day, so what is older is nobody's.
_LEFT_BEHIND_S = 86_400.0
# A name of so many characters has at most 255 bytes in UTF-8, which is what file systems take.
_MAX_NAME = 60
_SWF_FIELDS = 18
_WANTED = ("arrival", "duration", "gpus")
_PODS = {"Pod", "Workload", "PodGroup", "Job"}
"""Kinds of Kubernetes that are jobs or parts of them."""


@dataclass(frozen=True)
class Upload:
    """A file that is laid out.

    Parameters
    ----------
    path
        Where it is, relative to the folder of all: its name.
    role
        What it is, one of `alloc.server.requests_files.ROLES`.
    """

    path: Path
    role: str


@dataclass(frozen=True)
class Columns:
    """What is known of the columns of a job table.

    Parameters
    ----------
    header
        Names of all columns.
    chosen
        Columns by what they are.
    missing
        What every job needs and no column looks like.
    """

    header: tuple[str, ...]
    chosen: Mapping[str, Column]
    missing: tuple[str, ...]


@contextmanager
def laid_out(files: Sequence[UploadedFile]) -> Iterator[list[Upload]]:
    """Write files to a folder of their own, which is the working folder meanwhile.

    So messages name a file as its owner does. Of worker processes only: they do one job at a time.

    Parameters
    ----------
    files
        The files.

    Raises
    ------
    ProblemError
        If a file is not what its encoding or its role says.
    """
    _tidy_up()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, chdir(folder):
        paths: list[Path] = []
        for position, file in enumerate(files):
            with blame(f"/files/{position}/content"):
                path = Path(_plain_name(file.name))
                # The first of a name has it already; and "2-x" may itself be somebody's name.
                while path.exists():
                    path = Path(f"{position + 1}-{path}")
                path.write_bytes(_content(file, path))
                paths.append(path)
        roles = []
        for position, (file, path) in enumerate(zip(files, paths, strict=True)):
            with blame(f"/files/{position}"):
                roles.append(file.role or role_of(path))
        if "kubernetes" in roles:
            # Nodes alone are a cluster; beside pods they are part of the dump.
            roles = [
                "kubernetes" if role == "topology" and file.role is None and is_json(path) else role
                for file, path, role in zip(files, paths, roles, strict=True)
            ]
        yield [Upload(path, role) for path, role in zip(paths, roles, strict=True)]


def role_of(path: Path) -> str:
    """Return what a file is, told by its content.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InstanceError
        If it is JSON or Parquet that cannot be read.
    """
    if is_parquet(path):
        return "table"
    if is_json(path):
        return _role_of_json(parse_json(read_bytes(path), str(path)))
    first = next((text for _, text in table_lines(path)), "")
    if first.startswith(";") or len(first.split()) == _SWF_FIELDS:
        return "swf"
    sign = find_delimiter(path)
    names = {name.strip().lower() for name in first.split(sign)}
    if "grptres" in names:
        return "slurm-accounts"
    if sign in first and len(columns_of(path, {}).missing) <= 1:
        return "table"
    return "topology" if _is_topology(path) else "table"


def columns_of(path: Path, given: Mapping[str, str]) -> Columns:
    """Return which column of a job table is what, also where not all that is needed is known.

    Parameters
    ----------
    path
        The table.
    given
        Columns that the user named, by what they are.

    Raises
    ------
    InstanceError
        If the table has no header, or not a column that the user named.
    """
    given = parse_map(given)
    if is_parquet(path):
        header = tuple(read_parquet(path))
    else:
        header = read_header(path, delimiter=find_delimiter(path))
    # Stands for a column that is still to be named: longer than any name, so nobody has it.
    to_name = "\0" * (1 + max(map(len, (*header, *given.values())), default=0))
    for count in range(len(_WANTED) + 1):
        for missing in combinations([key for key in _WANTED if key not in given], count):
            named = {**given, **dict.fromkeys(missing, to_name)}
            try:
                chosen = choose_columns((*header, to_name), named, Units(), str(path))
            except InstanceError:
                continue
            known = {key: column for key, column in chosen.items() if column.name != to_name}
            return Columns(header, known, missing)
    # Not what is missing is wrong, but what was named: say so.
    return Columns(header, choose_columns(header, given, Units(), str(path)), ())


def _role_of_json(document: Any) -> str:
    if not isinstance(document, dict):
        return "topology"
    if isinstance(document.get("kind"), str) and "schema_version" not in document:
        items = document.get("items")
        items = items if isinstance(items, list) else [document]
        kinds = {str(item.get("kind")) for item in items if isinstance(item, dict)}
        kinds.add(document["kind"].removesuffix("List"))
        return "kubernetes" if kinds & _PODS else "topology"
    if isinstance(document.get("jobs"), list) and "schema_version" not in document:
        return "slurm"
    if isinstance(document.get("nodes"), list) and not document.keys() & {"links", "edges"}:
        return "slurm-nodes"
    return "topology"


def _is_topology(path: Path) -> bool:
    text = read_text(path)
    return any(known.read and known.matches(text) for known in TOPOLOGY_FORMATS.values())


def _content(file: UploadedFile, path: Path) -> bytes:
    if file.encoding == "text":
        return file.content.encode()
    try:
        return base64.b64decode(file.content, validate=True)
    except ValueError:
        raise InstanceError(
            f"{path}: its content is not base64; encode the bytes, or send text as text."
        ) from None


def _plain_name(name: str) -> str:
    """Return the last part of a name, without what file systems or messages cannot bear."""
    last = re.split(r"[/\\]", name)[-1]
    plain = "".join(sign if sign.isprintable() else "_" for sign in last)[-_MAX_NAME:]
    return plain if plain.strip(". ") else "file"


def _tidy_up() -> None:
    """Remove what workers that were killed have left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > _LEFT_BEHIND_S and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
