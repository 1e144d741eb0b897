"""``alloc instances``: stored instances, generators, trace readers and the format."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import (
    print_json,
    print_text,
    progress,
    require_writable,
    save,
    show,
)
from alloc.cli.door import say
from alloc.cli.failures import FailuresOption, with_failures_of
from alloc.cli.settings import parse_settings, split_settings
from alloc.cli.sources import on_cluster, read_problem
from alloc.cli.topology import HostTypeOption, TopologyOption

if TYPE_CHECKING:
    from alloc.instances.catalogue import Entry
    from alloc.problems.allocation.instance import Instance

app = typer.Typer(help="Stored instances, generators and trace readers.", no_args_is_help=True)

NewFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"{options.OUTPUT} By default it goes to standard output.",
        show_default=False,
    ),
]


@app.command("list")
def list_instances(
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only this family.",
            autocompletion=completion.complete_library_family,
            show_default=False,
        ),
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """List the library: instances of every kind, with the best value and bound that are known.

    What `alloc bench` has kept for this user counts, too.
    """
    from alloc.errors import InstanceError, nearest
    from alloc.instances import families, manifest
    from alloc.instances.best_known import BestKnown, best_known_path, read_best_known

    known = families(None)
    if family is not None and family not in known:
        raise InstanceError(
            f'there is no family "{family}"{nearest(family, known, ".")} Known: {", ".join(known)}.'
        )
    own = best_known_path()
    better = read_best_known(own) if own.exists() else BestKnown()
    entries = [better.over(e) for e in manifest(None) if family in (None, e.family)]
    if json:
        print_json([entry.to_dict() for entry in entries])
        return
    from alloc.cli.tables import table

    rows = [
        (
            entry.id,
            ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in entry.size.items()),
            f"{entry.sense} {entry.objective}" + (f", {entry.unit}" if entry.unit else ""),
            entry.best and entry.best.value,
            entry.bound and entry.bound.value,
            _how_far(entry),
        )
        for entry in entries
    ]
    show(table(("id", "size", "objective", "best known", "bound", "gap"), rows))


def _how_far(known: "Entry") -> str:
    from alloc.cli.tables import percent

    if known.best is None:
        return "not yet solved"
    if known.proved and known.bound is not None:
        return "solver's claim" if known.bound.proof == "claimed" else "proved"
    return percent(known.gap)


@app.command("show")
def show_instance(instance: options.ProblemArgument, json: options.JsonOption = False) -> None:
    """Say what is in an instance."""
    problem = read_problem(instance)
    if json:
        print_text(problem.to_json())
        return
    from alloc.cli.tables import facts
    from alloc.problems.allocation.instance import Instance

    show(facts(_facts(problem) if isinstance(problem, Instance) else _facts_of_other(problem)))


def _facts_of_other(problem: Any) -> list[tuple[str, object]]:
    from alloc.families import family_of

    family = family_of(problem)
    return [
        ("name", problem.name),
        ("question", family.title),
        ("kind", family.kind),
        ("fingerprint", problem.fingerprint),
    ]


def _facts(problem: "Instance") -> list[tuple[str, object]]:
    topology, jobs, parts = problem.topology, problem.jobs, problem.unfolded.jobs
    kinds = sorted({job.elasticity for job in jobs})
    arrivals = [job.arrival_s for job in jobs]
    return [
        ("name", problem.name),
        ("cluster", f"{topology.name}: {topology.num_hosts} hosts, {topology.num_gpus} GPUs"),
        ("GPU types", ", ".join(sorted({t for t in topology.gpu_types if t})) or None),
        ("jobs", f"{len(jobs)} ({', '.join(kinds)})"),
        *([("stages", len(parts))] if "stages" in problem.features else []),
        ("configurations", sum(len(part.configurations) for part in parts)),
        ("arrivals", f"{min(arrivals):g} s to {max(arrivals):g} s"),
        ("deadlines", sum(job.deadline_s is not None for job in jobs)),
        ("slot", "none: continuous time" if problem.slot_s is None else f"{problem.slot_s:g} s"),
        ("horizon", "open" if problem.horizon_s is None else f"{problem.horizon_s:g} s"),
        ("tenants with quota", len(problem.tenants)),
        ("outages of hosts", len(problem.outages)),
        *([("time to move a GPU", f"{problem.move_s:g} s")] if problem.move_s else []),
        ("fingerprint", problem.fingerprint),
        *problem.description.items(),
    ]


@app.command("generate")
def generate_instance(
    name: Annotated[str, typer.Argument(metavar="NAME", help=options.NAME, show_default=False)],
    num_jobs: Annotated[int, typer.Option(metavar="N", help="Number of jobs.", min=1)] = 10,
    num_hosts: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Number of hosts: of two GPUs for elastic jobs, of eight for gangs.",
            min=1,
        ),
    ] = 6,
    generator: Annotated[
        str,
        typer.Option(
            metavar="elastic|gangs",
            help="What is generated: elastic jobs with workers and parameter servers, in slots, or "
            "rigid gangs in continuous time.",
            autocompletion=lambda: ["elastic", "gangs"],
        ),
    ] = "elastic",
    seed: options.SeedOption = 0,
    option: options.PairsOption = None,
    failures: FailuresOption = None,
    output: NewFile = None,
) -> None:
    """Generate an instance of elastic training jobs, or of rigid gangs.

    Every other parameter of alloc.instances.generate_elastic, or generate_gangs, is set with
    --option, for example --option arrivals_per_slot=2 --option weights=classes.
    """
    import inspect

    from alloc.errors import InstanceError, nearest
    from alloc.instances import generate_elastic, generate_gangs

    generators: dict[str, Callable[..., Instance]] = {
        "elastic": generate_elastic,
        "gangs": generate_gangs,
    }
    if generator not in generators:
        raise InstanceError(f'--generator is "{generator}"; choose elastic or gangs.')
    generate = generators[generator]
    given = parse_settings(option or [], "--option")
    known = set(inspect.signature(generate).parameters) - {
        "name",
        "num_jobs",
        "num_hosts",
        "seed",
    }
    for key in given:
        if key not in known:
            raise InstanceError(
                f'--option: the generator has no parameter "{key}"{nearest(key, known) or ";"} '
                f"Known: {', '.join(sorted(known))}."
            )
    require_writable(output)
    made = generate(name, num_jobs=num_jobs, num_hosts=num_hosts, seed=seed, **given)
    _deliver(with_failures_of(made, failures), output)


@app.command("import")
def import_instance(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind of file; `alloc instances readers` lists the kinds and their options.",
            autocompletion=completion.complete_reader,
            show_default=False,
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file.", show_default=False)],
    option: options.PairsOption = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=COLUMN,...",
            help="Which column of a job table is what, for example id=JobID,arrival=Submit; the "
            "others are told by their names. May be repeated.",
            show_default=False,
        ),
    ] = None,
    week: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Week N of an itp or philly trace, on a cluster for a load of 0.9 where no size "
            "is given.",
            show_default=False,
        ),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    output: NewFile = None,
    quiet: options.QuietOption = False,
) -> None:
    """Make an instance of one's own jobs or of a published trace.

    Every row that is not in it is accounted for, and every guess and assumption is said.
    """
    require_writable(output)
    from alloc.instances.readers import read_instance as read_trace

    pairs = [*(option or []), *([f"map={','.join(map)}"] if map else [])]
    given: dict[str, Any] = split_settings(pairs, "--option")
    cluster = read_cluster(topology, host_type)
    if cluster is not None:
        given["topology"] = cluster.topology
    if week is not None:
        from alloc.instances.weeks import week_options

        given = week_options(kind, path, week, given)
    with progress(f"reading {path}", quiet):
        made, account = read_trace(kind, path, **given)
    say(str(account))
    _deliver(on_cluster(made, cluster), output)


@app.command("readers")
def list_readers(json: options.JsonOption = False) -> None:
    """List the kinds of files that can be imported, with their options."""
    from alloc.instances.readers import READERS

    if json:
        print_json(
            [
                {
                    "kind": reader.kind,
                    "summary": reader.summary,
                    "path": reader.path_help,
                    "options": [
                        {
                            "name": o.name,
                            "type": o.type.__name__,
                            "help": o.help,
                            "default": o.default,
                            "required": o.required,
                            "choices": list(o.choices),
                        }
                        for o in reader.options
                    ],
                }
                for reader in READERS.values()
            ]
        )
        return
    from alloc.cli.tables import table

    for reader in READERS.values():
        rows = [
            (
                o.name,
                "|".join(o.choices) or o.type.__name__,
                o.help,
                _default(o.default, o.required),
            )
            for o in reader.options
        ]
        show(f"{reader.kind}: {reader.summary}", f"PATH: {reader.path_help}")
        show(table(("option", "value", "meaning", "default"), rows))


def _default(value: object, required: bool) -> str | None:
    if required:
        return "required"
    return None if value is None else str(value).lower()


@app.command("schema")
def print_schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="instance, solution, result, topology, planning, plan, operation, "
            "operation_plan, operation_report, inference_problem, inference_report, "
            "quota_problem or quota_report.",
            autocompletion=completion.complete_document_kind,
        ),
    ] = "instance",
) -> None:
    """Print the JSON Schema of a kind of document."""
    from alloc.documents import json_schema

    print_json(json_schema(kind))


def _deliver(made: "Instance", output: Path | None) -> None:
    if output is None:
        print_text(made.to_json())
        return
    save(made.to_json, output)
    jobs = f"{len(made.jobs)} job{'' if len(made.jobs) == 1 else 's'}"
    say(f"{output}: {jobs} on {made.topology.num_gpus} GPUs.")
