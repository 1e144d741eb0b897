"""Sources: what INSTANCE and SOLUTION on the command line stand for."""

import sys
from pathlib import Path

from alloc.certificate import Result
from alloc.errors import InstanceError, nearest
from alloc.instance import Instance
from alloc.solution import Solution


def read_instance(reference: str) -> Instance:
    """Return the instance that a file, a stored id or ``-`` (standard input) stands for.

    Raises
    ------
    InstanceError
        If there is no such file or id, or the document is malformed.
    """
    from alloc.documents import load_instance, parse_instance

    if reference == "-":
        return parse_instance(sys.stdin.buffer.read())
    if _is_path(reference):
        return load_instance(reference)
    from alloc.instances import load

    known = stored_ids()
    if reference not in known:
        raise InstanceError(
            f'"{reference}": is neither a file nor the id of a stored instance'
            f"{nearest(reference, known) or ';'} `alloc instances list` lists the ids."
        )
    return load(reference)


def _is_path(reference: str) -> bool:
    """Ids have no extension; a file of that name goes first."""
    return Path(reference).suffix in {".json", ".gz"} or Path(reference).exists()


def stored_ids() -> list[str]:
    """Return the ids of the stored instances."""
    from alloc.instances import manifest

    return [entry.id for entry in manifest()]


def read_answer(path: Path) -> Solution | Result:
    """Read a solution or a result, whichever the file holds.

    Raises
    ------
    InstanceError
        If the file holds neither, or is malformed.
    """
    from alloc.documents.files import read_bytes
    from alloc.documents.parsing import parse_json

    raw = parse_json(read_bytes(path), str(path))
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind == "result":
        from alloc.documents import load_result

        return load_result(path)
    if kind == "solution":
        from alloc.documents import load_solution

        return load_solution(path)
    raise InstanceError(
        f'{path}: is no answer; expected a document of kind "solution" or "result", and its kind '
        f"is {kind!r}."
    )
