"""``alloc topology``: topology files shown, converted, and the formats that are known."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, print_text, require_writable, show
from alloc.cli.door import say
from alloc.cli.settings import split_settings

if TYPE_CHECKING:
    from rich.tree import Tree

    from alloc.cli.sheets import Sheet
    from alloc.instances.readers.report import ReadReport
    from alloc.topology import Topology
    from alloc.topology.outlines import Branch, LinkOutline, Outline

app = typer.Typer(help="Topology files: show, convert, formats.", no_args_is_help=True)

STDIN = "-"
MAX_BRANCHES = 24
"""Branches under one domain that a person reads; --unfold shows all."""
LONGEST_ID = 40
"""Longest id in a tree; longer ones lose their middle."""

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The topology file, plain or .gz; - for standard input.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the file; by default told from its content.",
        autocompletion=completion.complete_topology_format,
        show_default=False,
    ),
]
LevelsOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Names of the levels, outermost first; of Kubernetes nodes the labels.",
        show_default=False,
    ),
]
HostTypeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[HOSTS=]MACHINE",
        help="What the hosts are, where the file does not say: dgx-h100, 8x-a100-sxm-80gb, or a "
        "file of nvidia-smi or lstopo. With HOSTS= for hosts of that name or pattern; may be "
        "repeated.",
        autocompletion=completion.complete_machine,
        show_default=False,
    ),
]
TopologyOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The cluster, from a topology file, instead of the instance's own.",
        show_default=False,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"{options.NAME} Of the topology.", show_default=False),
]
PiecesOption = Annotated[
    bool, typer.Option("--allow-pieces", help="A tree of switches may fall into pieces.")
]
ReaderPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-O",
        metavar="KEY=VALUE",
        help=f"{options.PAIRS} `alloc topology formats FORMAT` lists those of a format.",
        show_default=False,
    ),
]


@app.command("show")
def show_topology(
    file: FileArgument,
    format: FormatOption = None,
    levels: LevelsOption = None,
    host_type: HostTypeOption = None,
    name: NameOption = None,
    allow_pieces: PiecesOption = False,
    option: ReaderPairs = None,
    unfold: Annotated[
        bool, typer.Option("--unfold", help="Show every domain and host, alike or not.")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it as SVG, in this file.", show_default=False),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it as PNG, in this file.", show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Show a cluster: its numbers and its tree, like parts together; and draw it."""
    for path, ending in ((svg, "svg"), (png, "png")):
        _require_ending(path, ending)
        require_writable(path)
    topology, account = read_file(file, format, levels, host_type, name, allow_pieces, option)
    from alloc.topology.outlines import outline

    numbers = outline(topology)
    if json:
        print_json(_as_json(topology, numbers, account))
    else:
        say(str(account))
        show(_summary(topology, numbers))
        for part in (_levels_table(numbers), _types_table(topology), _links_table(numbers.links)):
            if part is not None:
                show(part)
        show(_tree(topology, fold=not unfold))
    _draw(topology, svg, png)


@app.command("convert")
def convert_topology(
    file: FileArgument,
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT", help="The file to write; - for standard output.", show_default=False
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Format to write; by default as the name of OUTPUT says, .json being alloc's own.",
            autocompletion=completion.complete_written_topology_format,
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,
    levels: LevelsOption = None,
    host_type: HostTypeOption = None,
    name: NameOption = None,
    allow_pieces: PiecesOption = False,
    option: ReaderPairs = None,
    write_option: Annotated[
        list[str] | None,
        typer.Option(
            "--write-option",
            "-W",
            metavar="KEY=VALUE",
            help="Option of the format that is written. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Read a topology file and write it in another format."""
    from alloc.instances.topologies import topology_format, write_topology

    to_stdout = str(output) == STDIN
    if not to_stdout:
        require_writable(output)
    kind = to if to is not None else _format_by_name(output)
    given = split_settings(write_option or [], "--write-option")
    topology_format(kind)
    topology, account = read_file(file, format, levels, host_type, name, allow_pieces, option)
    say(str(account))
    if to_stdout:
        from alloc.instances.topologies import topology_text

        print_text(topology_text(topology, kind, **given))
        return
    write_topology(topology, output, kind, **given)
    hosts, gpus = _count(topology.num_hosts, "host"), _count(topology.num_gpus, "GPU")
    say(f"{output}: {hosts}, {gpus} as {kind}.")


@app.command("formats")
def list_formats(
    format: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show the options of this format.",
            autocompletion=completion.complete_any_topology_format,
            show_default=False,
        ),
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """List the formats that are read and written, or the options of one."""
    from alloc.cli.tables import table
    from alloc.instances.topologies import TOPOLOGY_FORMATS, topology_format

    chosen = [*TOPOLOGY_FORMATS.values()] if format is None else [topology_format(format)]
    if json:
        print_json([_format_as_json(known) for known in chosen])
        return
    rows: list[tuple[object, ...]] = [
        (
            known.kind,
            known.read is not None,
            known.write is not None,
            "in the file" if known.tells_hosts else "--host-type",
            known.summary,
        )
        for known in chosen
    ]
    show(table(("format", "read", "written", "hosts", "what it is"), rows))
    if format is None:
        return
    settings: list[tuple[object, ...]] = [
        (f"{flag} {o.name}", "|".join(o.choices) or o.type.__name__, o.help, _default(o))
        for known in chosen
        for flag, given in (("-O", known.options), ("-W", known.write_options))
        for o in given
    ]
    show(table(("option", "value", "meaning", "default"), settings) if settings else "No options.")


def _format_as_json(known: Any) -> dict[str, object]:
    return {
        "kind": known.kind,
        "summary": known.summary,
        "read": known.read is not None,
        "written": known.write is not None,
        "tells_hosts": known.tells_hosts,
        "options": [_describe(o) for o in known.options],
        "write_options": [_describe(o) for o in known.write_options],
    }


def _describe(option: Any) -> dict[str, object]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "help": option.help,
        "default": option.default,
        "required": option.required,
        "choices": list(option.choices),
    }


def _default(option: Any) -> str | None:
    if option.required:
        return "required"
    return None if option.default is None else str(option.default).lower()


def read_file(
    file: str,
    format: str | None,
    levels: str | None,
    host_type: list[str] | None,
    name: str | None,
    allow_pieces: bool,
    option: list[str] | None,
) -> "tuple[Topology, ReadReport]":
    """Read a topology file as the options of a command say.

    Parameters
    ----------
    file
        The file, or ``-`` for standard input.
    format
        Name of the format; None to tell it from the content.
    levels
        Names of the levels, outermost first, with commas between them; None for the
        format's own.
    host_type
        What --host-type says, each time that it was given; None if it was not.
    name
        Name of the topology; None for that of the file.
    allow_pieces
        Whether parts that are not connected are let pass.
    option
        Options of the format, each KEY=VALUE; None if none was given.
    """
    from alloc.instances.topologies import read_topology

    return read_topology(
        "/dev/stdin" if file == STDIN else file,
        format,
        host_type=_host_types(host_type or []),
        levels=None if levels is None else [level.strip() for level in levels.split(",")],
        name=name,
        allow_pieces=allow_pieces,
        **split_settings(option or [], "--option"),
    )


def _host_types(given: Iterable[str]) -> Any:
    """Return what --host-type says: a machine for all, or machines by host."""
    from alloc.errors import InstanceError

    by_host: dict[str, object] = {}
    for text in given:
        hosts, equals, machine = text.rpartition("=")
        key = hosts if equals else "*"
        if not machine or key in by_host:
            wrong = "names no machine" if not machine else f'says twice what "{key}" is'
            raise InstanceError(
                f'--host-type "{text}" {wrong}; write MACHINE or HOSTS=MACHINE, each hosts once.'
            )
        by_host[key] = _machine(machine)
    # The first pattern that fits counts, so the one that fits all goes last.
    if "*" in by_host:
        by_host["*"] = by_host.pop("*")
    return by_host or None


def _machine(text: str) -> object:
    """Return a machine by name, or the host type in a file."""
    from alloc.instances.topologies import read_host_type

    if not Path(text).is_file():
        return text
    kind, account = read_host_type(text)
    say(str(account))
    return kind


def _format_by_name(output: Path) -> str:
    """Return the format that the name of a file to be written means."""
    from alloc.errors import InstanceError
    from alloc.instances.topologies import TOPOLOGY_FORMATS

    written = [known for known in TOPOLOGY_FORMATS.values() if known.write is not None]
    found = [known.kind for known in written if known.is_named(str(output))]
    if len(found) == 1:
        return found[0]
    among = found or [known.kind for known in written]
    raise InstanceError(
        f"{output}: its name does not say the format; give --to, one of {', '.join(among)}."
    )


def _summary(topology: "Topology", numbers: "Outline") -> "Sheet":
    from alloc.cli.tables import facts, number

    gpus = ", ".join(f"{number(count)} {kind}" for kind, count in numbers.gpus_by_type.items())
    return facts(
        [
            ("topology", topology.name),
            ("hosts", numbers.hosts),
            ("GPUs", f"{number(numbers.gpus)} ({gpus})" if gpus else 0),
            ("levels", " > ".join((*topology.levels, "host"))),
        ]
    )


def _levels_table(numbers: "Outline") -> "Sheet | None":
    from alloc.cli.tables import table

    if not numbers.levels:
        return None
    rows = [
        (x.name, x.domains, _span(x.fewest_hosts, x.most_hosts), x.hosts_outside or None)
        for x in numbers.levels
    ]
    return table(("level", "domains", "hosts in each", "hosts outside"), rows)


def _types_table(topology: "Topology") -> "Sheet":
    from alloc.cli.tables import number, table
    from alloc.topology.outlines import inner_links, outline

    counts = outline(topology).hosts_by_type
    rows: list[tuple[object, ...]] = []
    for kind in topology.host_types:
        if kind.name not in counts:
            continue
        links = [
            f"{name} {' and '.join(number(width) for width in widths[:3])}"
            for name, widths in inner_links(kind).items()
        ]
        rows.append(
            (
                kind.name,
                counts[kind.name],
                f"{kind.num_gpus} x {kind.gpu_type}" if kind.num_gpus else None,
                kind.cpu_milli / 1000,
                kind.memory_mib / 1024,
                ", ".join(links) or None,
            )
        )
    return table(("host type", "hosts", "GPUs", "cores", "GiB", "links inside, GB/s"), rows)


def _links_table(links: "Iterable[LinkOutline]") -> "Sheet | None":
    from alloc.cli.tables import table

    rows = [
        (" - ".join(x.between), x.links, _span(x.least_gb_per_s, x.max_gb_per_s)) for x in links
    ]
    return table(("links", "count", "GB/s each"), rows) if rows else None


def _span(least: float, most: float) -> object:
    from alloc.cli.tables import number

    return least if least == most else f"{number(least)} to {number(most)}"


def _tree(topology: "Topology", fold: bool) -> "Tree":
    from rich.tree import Tree

    from alloc.topology.outlines import branches

    tree = Tree(f"{topology.name}")
    _grow(tree, branches(topology, fold=fold), fold)
    return tree


def _grow(tree: "Tree", parts: "tuple[Branch, ...]", fold: bool) -> None:
    shown = parts[:MAX_BRANCHES] if fold else parts
    for part in shown:
        _grow(tree.add(_label(part)), part.below, fold)
    left = parts[len(shown) :]
    if left:
        hosts = _count(sum(part.hosts * part.count for part in left), "host")
        tree.add(f"and {len(left)} more kinds with {hosts}; --unfold shows them all")


def _label(part: "Branch") -> str:

    first, last = _short(part.ids[0]), _short(part.ids[-1])
    ids = first if part.count == 1 else f"{first}{', ' if part.count == 2 else ' ... '}{last}"
    each = " each" if part.count > 1 else ""
    gpus = _count(part.gpus, "GPU")
    if part.host_type is not None:
        return f"{ids}: {_times(part)}{part.host_type.name}, {gpus}{each}"
    return f"{ids}: {_times(part)}{part.level}, {_count(part.hosts, 'host')}, {gpus}{each}"


def _count(count: int, what: str) -> str:
    from alloc.cli.tables import number

    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def _short(id: str) -> str:
    """Return an id, without its middle where it is a number of many digits rather than a name."""
    return id if len(id) <= LONGEST_ID else f"{id[:12]}..{id[-12:]}"


def _times(part: "Branch") -> str:
    from alloc.cli.tables import number

    return f"{number(part.count)} x " if part.count > 1 else ""


def _as_json(topology: "Topology", numbers: "Outline", account: "ReadReport") -> dict[str, object]:
    from dataclasses import asdict

    return {
        "name": topology.name,
        **asdict(numbers),
        "host_types": [
            {**asdict(kind), "resources": dict(kind.resources)} for kind in topology.host_types
        ],
        "report": account.as_dict(),
    }


def _draw(topology: "Topology", svg: Path | None, png: Path | None) -> None:
    """Draw the cluster, or the inside of its server where there is but one."""
    if svg is None and png is None:
        return
    from alloc.plotting import draw_topology, save_figure

    figure = draw_topology(topology)
    for path, ending in ((svg, "svg"), (png, "png")):
        if path is not None:
            save_figure(figure, path.with_suffix(""), (ending,))
            say(f"{path}: drawn.")


def _require_ending(path: Path | None, ending: str) -> None:
    """Refuse a name that says another format than is drawn."""
    from alloc.errors import InstanceError

    if path is not None and path.suffix != f".{ending}":
        raise InstanceError(f"--{ending} {path}: let the name of the file end in .{ending}.")
