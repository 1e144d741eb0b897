"""Sources: what INSTANCE and SOLUTION on the command line stand for."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alloc.cli.clusters import Cluster
from alloc.errors import InstanceError, nearest
from alloc.serialisation import Documented

if TYPE_CHECKING:
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.right_sizing.problem import PlanningProblem

T = TypeVar("T")
D = TypeVar("D", bound=Documented)

_NO_CLUSTER = "is {}, and --topology gives the cluster of an instance; leave it out."

STDIN, STDIN_NAME = "-", "standard input"


def read_instance(reference: str, cluster: Cluster | None = None) -> "Instance":
    """Return the instance that a file, a stored id or ``-`` (standard input) stands for.

    Parameters
    ----------
    reference
        The file, the id, or ``-``.
    cluster
        What takes the place of its own cluster, which a file then need not have.

    Raises
    ------
    InstanceError
        If there is no such file or id, the document is malformed, or jobs run or ask for what the
        cluster does not have.
    """
    if _is_document(reference):
        from alloc.problems.allocation.instance import Instance

        return read_as(reference, Instance) if cluster is None else _read_on(reference, cluster)
    from alloc.instances import load

    known = stored_ids()
    _require_stored(reference, known, "instance", "`alloc instances list` lists the ids")
    return on_cluster(load(reference), cluster)


def on_cluster(problem: "Instance", cluster: Cluster | None) -> "Instance":
    """Return an instance on another cluster, which its description then names.

    Parameters
    ----------
    problem
        The instance.
    cluster
        A topology and its file; None leaves the instance as it is.

    Raises
    ------
    InstanceError
        If jobs run or ask for what the cluster does not have.
    """
    if cluster is None:
        return problem
    topology, file = cluster
    described = {
        **problem.description,
        "gpus": f"{topology.num_gpus} on {topology.num_hosts} hosts",
        "cluster": f"topology file {Path(file).name}",
    }
    return problem.replace(topology=topology, description=described)


def _read_on(reference: str, cluster: Cluster) -> "Instance":
    """Read a document of an instance with another cluster in the place of its own, if it has one.

    Its own is not looked at: what the jobs ask for need not fit there.
    """
    from alloc.documents.encoding import encode_part
    from alloc.documents.formats import format_of
    from alloc.documents.heads import require_head
    from alloc.documents.kinds import title_of
    from alloc.documents.parsing import parse_file
    from alloc.documents.reading import require_kind

    name = name_of(reference)
    raw = parse_file(_read_bytes(Path(reference)), reference, name)
    try:
        kind = require_kind(raw)
        if kind != "instance":
            raise InstanceError(_NO_CLUSTER.format(title_of(kind)))
        document = require_head(raw, kind)
        document = {**document, "topology": encode_part(cluster.topology)}
        return on_cluster(format_of("instance").decode(document), cluster)
    except InstanceError as error:
        raise InstanceError(f"{name}: {error}") from None


def read_planning_problem(reference: str) -> "PlanningProblem":
    """Return the planning problem that a file, a stored id or ``-`` (standard input) stands for.

    Raises
    ------
    InstanceError
        If there is no such file or id, or the document is malformed.
    """
    if _is_document(reference):
        from alloc.problems.right_sizing.problem import PlanningProblem

        return read_as(reference, PlanningProblem)
    from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids

    known = stored_planning_ids()
    _require_stored(reference, known, "planning problem", f"known: {', '.join(known)}")
    return load_stored_planning(reference)


def is_sample(reference: str) -> bool:
    """Return whether a planning problem is one of those stored here, and no file of the user's."""
    return not _is_document(reference)


def read_as(reference: str, record_class: type[D]) -> D:
    """Return what a file or ``-`` (standard input) holds; what is wrong is said with its name.

    Parameters
    ----------
    reference
        The file, or ``-``.
    record_class
        What it has to hold.

    Raises
    ------
    InstanceError
        If there is no such file, or its document is malformed or another.
    """
    return _read(reference, record_class.from_json, record_class.load)


def _read(reference: str, parse: Callable[[str | bytes], T], load: Callable[[str], T]) -> T:
    if reference != STDIN:
        return load(reference)
    try:
        return parse(_read_stdin())
    except InstanceError as error:
        raise InstanceError(f"{STDIN_NAME}: {error}") from None


def _is_document(reference: str) -> bool:
    """Ids have no extension; a file of that name goes first."""
    path = Path(reference)
    is_path = path.suffix in {".json", ".yaml", ".yml", ".gz"} or path.exists()
    return reference == STDIN or is_path


def _require_stored(reference: str, known: Sequence[str], what: str, cure: str) -> None:
    if reference not in known:
        raise InstanceError(
            f'"{reference}": is neither a file nor the id of a stored {what}'
            f"{nearest(reference, known) or ';'} {cure}."
        )


def stored_ids() -> list[str]:
    """Return the ids of the stored instances."""
    from alloc.instances.listing import ids

    return [*ids("instance")]


def expanded(references: Iterable[str]) -> list[str]:
    """Return the references with the name of a family replaced by its instances."""
    found: list[str] = []
    for reference in references:
        if Path(reference).suffix or Path(reference).exists() or "/" in reference:
            found.append(reference)
            continue
        from alloc.instances import families

        found += families().get(reference, (reference,))
    return found


def read_any(reference: str) -> Any:
    """Return what a file or ``-`` (standard input) holds, whatever document of alloc it is.

    Raises
    ------
    InstanceError
        If there is no such file, or the document is malformed.
    """
    from alloc.documents.reading import load, parse

    return _read(reference, parse, load)


def read_problem(reference: str, cluster: Cluster | None = None) -> Any:
    """Return the problem of any family that a file, a stored id or ``-`` stands for.

    Parameters
    ----------
    reference
        The file, the id, or ``-``.
    cluster
        What takes the place of an instance's own cluster.

    Raises
    ------
    InstanceError
        If there is no such file or id, the document is malformed or is no problem's, or it is not
        an instance and a cluster is given.
    """
    if not _is_document(reference):
        from alloc.instances import load_problem
        from alloc.instances.listing import listing

        others = {known.id: known for known in listing().values() if known.kind != "instance"}
        if reference not in others and not _is_planning_example(reference):
            return read_instance(reference, cluster)
        if cluster is not None:
            kind = others[reference].kind if reference in others else "planning"
            from alloc.documents.kinds import title_of

            raise InstanceError(f'"{reference}": {_NO_CLUSTER.format(title_of(kind))}')
        return load_problem(reference) if reference in others else read_planning_problem(reference)
    if cluster is not None:
        return read_instance(reference, cluster)
    from alloc.documents.formats import format_of_type
    from alloc.documents.kinds import title_of
    from alloc.families import FAMILIES

    found = read_any(reference)
    if not any(family.takes(found) for family in FAMILIES.values()):
        kinds = dict.fromkeys(family.kind for family in FAMILIES.values())
        raise InstanceError(
            f"{name_of(reference)}: is {title_of(format_of_type(type(found)).kind)}, and a problem "
            f"was expected; give one of: {', '.join(kinds)}."
        )
    return found


def _is_planning_example(reference: str) -> bool:
    if "/" in reference:  # the id of a stored problem; the examples take long to load
        return False
    from alloc.instances.stored_planning import EXAMPLES

    return reference in EXAMPLES


def read_answer(path: Path) -> Any:
    """Read a solution or a result of any family, whichever the file (``-``: standard input) holds.

    Of a report that holds a result, that.

    Raises
    ------
    InstanceError
        If it holds none of them, or is malformed.
    """
    from alloc.documents.formats import format_of
    from alloc.documents.heads import require_head
    from alloc.documents.parsing import parse_file
    from alloc.documents.reading import require_kind
    from alloc.families import FAMILIES, kind_of_class

    name = name_of(path)
    raw = parse_file(_read_bytes(path), path, name)
    try:
        kind = require_kind(raw) if isinstance(raw, dict) and "kind" in raw else None
    except InstanceError as error:
        raise InstanceError(f"{name}: {error}") from None
    reports = [kind_of_class(f.report) for f in FAMILIES.values() if f.report]
    if kind not in ("result", *reports, *(f.solution_kind for f in FAMILIES.values())):
        raise InstanceError(
            f'{name}: is not an answer; expected a document of kind "solution" or "result", or '
            f"another family's solution, and its kind is {kind!r}."
        )
    try:
        answer = format_of(kind).decode(require_head(raw, kind))
    except InstanceError as error:
        raise InstanceError(f"{name}: {error}") from None
    return answer.result if kind in reports else answer


def name_of(reference: object) -> str:
    """Return what a file, or standard input, is called in messages."""
    return STDIN_NAME if str(reference) == STDIN else str(reference)


def solution_of(answer: Any, path: Path) -> Any:
    """Return the solution that was read from a file, alone or in a result.

    Parameters
    ----------
    answer
        A solution, or a result.
    path
        The file that it was read from.

    Raises
    ------
    InstanceError
        If the result has none.
    """
    from alloc.result import Result

    if not isinstance(answer, Result):
        return answer
    if answer.solution is None:
        raise InstanceError(
            f"{name_of(path)}: holds no solution, its status is {answer.certificate.status}; "
            "give a result with one."
        )
    return answer.solution


def _read_bytes(path: Path) -> bytes:
    from alloc.documents.files import read_bytes

    return _read_stdin() if str(path) == STDIN else read_bytes(path)


def _read_stdin() -> bytes:
    from alloc.documents import MAX_BYTES

    # One byte more than is allowed is enough to be refused.
    return sys.stdin.buffer.read(MAX_BYTES + 1)
