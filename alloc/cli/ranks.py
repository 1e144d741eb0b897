"""``alloc ranks``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli import options
from alloc.cli.console import print_json, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_certificate
from alloc.cli.topology import FormatOption, HostTypeOption, read_file
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.cli.sheets import Sheet
    from alloc.problems.rank_mapping import RankMapping
    from alloc.result import Result
    from alloc.topology import Topology
    from alloc.topology.communication import Fabric
    from alloc.workload.parallelism import Parallelism


def ranks_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The topology file, plain or .gz; - for standard input.",
            show_default=False,
        ),
    ],
    tensor: Annotated[int, typer.Option(metavar="N", help="Tensor-parallel degree.", min=1)] = 1,
    pipeline: Annotated[int, typer.Option(metavar="N", help="Pipeline stages.", min=1)] = 1,
    data: Annotated[int, typer.Option(metavar="N", help="Data-parallel degree.", min=1)] = 1,
    expert: Annotated[
        int, typer.Option(metavar="N", help="Expert-parallel degree; it divides --data.", min=1)
    ] = 1,
    layers: Annotated[int, typer.Option(metavar="N", help="Transformer layers.", min=1)] = 32,
    hidden: Annotated[int, typer.Option(metavar="N", help="Hidden size.", min=1)] = 4096,
    sequence: Annotated[
        int, typer.Option(metavar="N", help="Sequence length, tokens.", min=1)
    ] = 4096,
    micro_batch: Annotated[
        int, typer.Option(metavar="N", help="Sequences in a micro-batch.", min=1)
    ] = 1,
    micro_batches: Annotated[
        int, typer.Option(metavar="N", help="Micro-batches of a pipeline in a step.", min=1)
    ] = 1,
    vocabulary: Annotated[
        int, typer.Option(metavar="N", help="Tokens in the vocabulary.", min=0)
    ] = 0,
    experts_per_token: Annotated[
        int,
        typer.Option(metavar="N", help="Experts that a token goes to; 0 for a dense model.", min=0),
    ] = 0,
    data_hidden: Annotated[
        float,
        typer.Option(
            metavar="FRACTION",
            help="Fraction of the gradients' all-reduce that is overlapped with the backward pass.",
        ),
    ] = 0.0,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Hosts of the placement, all of their GPUs; by default all hosts.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="GPUs of the placement, such as host-0/gpu3, instead of --hosts.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="OBJECTIVE",
            help=f"{options.OBJECTIVE} step: the time of a step (trees); transfer: that of all "
            "traffic on the links.",
            autocompletion=lambda: ["step", "transfer"],
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="auto|ring|tree",
            help="How all-reduces run.",
            autocompletion=lambda: ["auto", "ring", "tree"],
        ),
    ] = "auto",
    latency: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=SECONDS", help="Measured latency of a level.", show_default=False
        ),
    ] = None,
    bandwidth: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=GB/S",
            help="Measured bandwidth of a GPU towards others that it meets on a level.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,
    host_type: HostTypeOption = None,
    option: options.PairsOption = None,
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
) -> ExitCode:
    """Map the ranks of a large training job onto the GPUs of its placement.

    Exact on a tree of domains; on GPUs wired pair by pair a search with a proved bound. Beside the
    answer stands the naive order: rank 0 on the first GPU, and so on.
    """
    require_writable(output)
    from alloc.problems.rank_mapping import value_mapping
    from alloc.result import Limits
    from alloc.solving import solve
    from alloc.solving.rank_mapping.method import rank_problem
    from alloc.workload.parallelism import transformer_parallelism

    job = transformer_parallelism(
        layers=layers,
        hidden=hidden,
        sequence=sequence,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        expert=expert,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        vocabulary=vocabulary,
        experts_per_token=experts_per_token,
        data_hidden=data_hidden,
    )
    topology, _ = read_file(file, format, None, host_type, None, False, option)
    if not topology.links and topology.num_hosts > 1 and not bandwidth:
        say(
            "the topology states no links between hosts: every GPU is taken to get its share of "
            "its host's NICs; give what was measured with --bandwidth LEVEL=GB/S."
        )
    problem = rank_problem(
        topology,
        job,
        _gpus_of(topology, hosts, gpus),
        algorithm=algorithm,  # type: ignore[arg-type]
        latency_s=_numbers(latency, "--latency"),
        bandwidth_gb_per_s=_numbers(bandwidth, "--bandwidth"),
    )
    answer = solve(problem, objective=objective, limits=Limits(seconds=time_limit, seed=seed))
    naive = value_mapping(job, problem.fabric, range(job.num_ranks), problem.algorithm)
    document = _as_json(job, problem.fabric, answer, naive)
    if output is not None:
        save(lambda path: _write(document, path), output)
    if json:
        print_json(document)
    else:
        show(_facts(job, problem.fabric, answer), _times(answer, naive), _mapping(job, answer))
    return code_of_certificate(answer.certificate)


def _gpus_of(topology: "Topology", hosts: str | None, gpus: str | None) -> list[str] | None:
    if hosts is not None and gpus is not None:
        raise InstanceError("--hosts and --gpus are both given; give one of them.")
    if gpus is not None:
        return [gpu.strip() for gpu in gpus.split(",")]
    if hosts is None:
        return None
    from alloc.errors import nearest

    found = []
    for name in (host.strip() for host in hosts.split(",")):
        if name not in topology.host_index:
            raise InstanceError(
                f'topology "{topology.name}" has no host "{name}"'
                f"{nearest(name, topology.host_index, ';')} `alloc topology show` lists the hosts."
            )
        kind = topology.host_type(topology.hosts[topology.host_index[name]])
        found += [f"{name}/gpu{g}" for g in range(kind.num_gpus)]
    return found


def _numbers(pairs: list[str] | None, option: str) -> dict[str, float]:
    """Return LEVEL=NUMBER pairs; names of levels are kept as they are typed."""
    found = {}
    for pair in pairs or []:
        level, _, text = pair.partition("=")
        try:
            found[level.strip()] = float(text)
        except ValueError:
            raise InstanceError(
                f'{option} "{pair}": write LEVEL=NUMBER, for example leaf=50.'
            ) from None
    return found


def _as_json(
    job: "Parallelism", fabric: "Fabric", answer: "Result[RankMapping]", naive: "RankMapping"
) -> dict[str, object]:
    from dataclasses import asdict

    from alloc.workload.parallelism import GROUP_KINDS

    mapping, certificate = answer.require_solution(), answer.certificate
    return {
        "ranks": job.num_ranks,
        "degrees": {kind: job.size(kind) for kind in GROUP_KINDS},
        "objective_name": certificate.objective_name,
        "objective": answer.objective,
        "bound": answer.bound,
        "gap": answer.gap,
        "status": answer.status,
        "limit": certificate.limit,
        "method": certificate.backend.removeprefix("alloc "),
        "seconds": certificate.seconds,
        "time": {**asdict(mapping.time), "step_s": mapping.time.step_s},
        "transfer_s": mapping.transfer_s,
        "naive": {
            "time": {**asdict(naive.time), "step_s": naive.time.step_s},
            "transfer_s": naive.transfer_s,
        },
        "fabric": _fabric_as_json(fabric),
        "gpus": list(mapping.gpus),
    }


def _fabric_as_json(fabric: "Fabric") -> dict[str, object]:
    from alloc.topology.communication import CommunicationTree

    if not isinstance(fabric, CommunicationTree):
        return {"kind": "graph"}
    widths, waits = fabric.bandwidth_gb_per_s.tolist(), fabric.latency_s.tolist()
    rows = zip(fabric.levels, widths, waits, strict=True)
    return {
        "kind": "tree",
        "levels": [
            {
                "level": level,
                # JSON has no infinity: a level without links sets no limit.
                "bandwidth_gb_per_s": None if width == float("inf") else width,
                "latency_s": wait,
            }
            for level, width, wait in rows
        ],
    }


def _write(document: dict[str, object], path: Path) -> None:
    import json

    from alloc.documents.files import write_text

    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _facts(job: "Parallelism", fabric: "Fabric", answer: "Result[RankMapping]") -> "Sheet":
    from alloc.cli.tables import facts, number, percent
    from alloc.topology.communication import CommunicationTree

    certificate = answer.certificate
    wiring = "pairs of GPUs"
    if isinstance(fabric, CommunicationTree):
        rows = zip(fabric.levels, fabric.bandwidth_gb_per_s.tolist(), strict=True)
        wiring = ", ".join(f"{level} {number(width)} GB/s" for level, width in rows)
    method = certificate.backend.removeprefix("alloc ")
    stopped = f" ({certificate.limit} limit)" if certificate.limit else ""
    return facts(
        [
            ("ranks", f"{job.num_ranks} on {fabric.num_gpus} GPUs"),
            ("status", answer.status + stopped),
            (f"{certificate.objective_name} time", f"{number(1000 * (answer.objective or 0))} ms"),
            ("bound", f"{number(1000 * answer.bound)} ms, by {method.replace('-', ' ')}"),
            ("gap", percent(answer.gap)),
            ("fabric", wiring),
            ("time", f"{number(round(certificate.seconds, 2))} s"),
        ]
    )


def _times(answer: "Result[RankMapping]", naive: "RankMapping") -> "Sheet":
    from alloc.cli.tables import table

    rows = []
    for name, mapping in (("mapped", answer.require_solution()), ("naive order", naive)):
        t = mapping.time
        parts = (t.tensor_s, t.expert_s, t.data_s, t.pipeline_s, t.step_s)
        rows.append((name, *(1000 * seconds for seconds in parts), mapping.transfer_s))
    columns = ("", "tensor ms", "expert ms", "data ms", "pipeline ms", "step ms", "all traffic s")
    return table(columns, rows, "Communication of a step")


def _mapping(job: "Parallelism", answer: "Result[RankMapping]") -> "Sheet":
    from alloc.cli.tables import MAX_ROWS, table

    rows, mapping = [], answer.require_solution()
    for group in job.groups("tensor")[:MAX_ROWS].tolist():
        stage, data = divmod(group[0] // job.tensor, job.data)
        rows.append((f"{stage}/{data}", _listed([mapping.gpus[rank] for rank in group])))
    more = job.pipeline * job.data - len(rows)
    title = f"and {more} more tensor groups (--json shows all)" if more > 0 else ""
    return table(("stage/data", "GPUs of the tensor group"), rows, title)


def _listed(gpus: list[str]) -> str:
    """Return GPU ids host by host, each host named once."""
    by_host: dict[str, list[str]] = {}
    for gpu in gpus:
        host, _, device = gpu.rpartition("/")
        by_host.setdefault(host, []).append(device.removeprefix("gpu"))
    return "  ".join(f"{host}: {' '.join(slots)}" for host, slots in by_host.items())
