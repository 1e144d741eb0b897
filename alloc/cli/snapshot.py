"""``alloc snapshot``: what a cluster does now, from its own commands, as one instance."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.console import print_text, progress, require_writable, save
from alloc.cli.door import say
from alloc.cli.instances import NewFile
from alloc.cli.settings import split_settings
from alloc.cli.topology import HostTypeOption, LevelsOption, TopologyOption, read_file

if TYPE_CHECKING:
    from alloc.instances.readers.report import ReadReport
    from alloc.problems.allocation.instance import Instance
    from alloc.topology import Topology

app = typer.Typer(
    help="A cluster as it stands, from Kubernetes or Slurm, as one instance.", no_args_is_help=True
)


@app.command("kubernetes")
def snapshot_kubernetes(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="What `kubectl get nodes,pods,workloads,clusterqueues,localqueues,"
            "resourceflavors,topologies,podgroups,jobs -A -o json` printed, in one file or several;"
            " and manifests of jobs that are not submitted yet.",
            show_default=False,
        ),
    ],
    levels: LevelsOption = None,
    option: options.PairsOption = None,
    output: NewFile = None,
    quiet: options.QuietOption = False,
) -> None:
    """Make one instance of a cluster of Kubernetes: hosts, what runs, what waits, quotas.

    `alloc explain`, `place` and `defrag` answer from it. What is not read is counted and shown;
    `alloc instances readers` lists the options of kubernetes.
    """
    require_writable(output)
    given: dict[str, Any] = split_settings(option or [], "--option")
    from alloc.instances.readers import read_instance

    with progress(f"reading {files[0]}", quiet):
        made, account = read_instance(
            "kubernetes",
            files[0],
            **_beside(given, {"levels": levels, "more": list(map(str, files[1:])) or None}),
        )
    _deliver(made, account, output)


@app.command("slurm")
def snapshot_slurm(
    queue: Annotated[
        Path,
        typer.Argument(metavar="SQUEUE", help="What `squeue --json` printed.", show_default=False),
    ],
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What `scontrol show nodes --json` printed: states, CPU, memory, partitions.",
            show_default=False,
        ),
    ] = None,
    accounts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What `sacctmgr show associations format=account,user,grptres --parsable2` "
            "printed: limits on GPUs become quotas.",
            show_default=False,
        ),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    option: options.PairsOption = None,
    output: NewFile = None,
    quiet: options.QuietOption = False,
) -> None:
    """Make one instance of a cluster of Slurm: hosts, what runs, what waits, quotas.

    The cluster is that of --nodes, of --topology, or of both. `alloc explain`, `place` and `defrag`
    answer from it; what is not read is counted and shown.
    """
    require_writable(output)
    given = _beside(
        split_settings(option or [], "--option"),
        {"nodes": nodes and str(nodes), "accounts": accounts and str(accounts)},
    )
    if topology is not None:
        given["topology"] = _tree(topology, host_type, given["nodes"])
    elif host_type:
        raise typer.BadParameter("--host-type is of --topology; add it, or leave both out")
    from alloc.instances.readers import read_instance

    with progress(f"reading {queue}", quiet):
        made, account = read_instance("slurm", queue, **given)
    _deliver(made, account, output)


def _tree(file: str, host_type: list[str] | None, nodes: str | None) -> "Topology":
    """Read a topology file whose hosts are those of the command line, or else of the nodes."""
    if host_type or nodes is None:
        found, account = read_file(file, None, None, host_type, None, False, None)
    else:
        from alloc.instances.readers.slurm.nodes import read_slurm_nodes
        from alloc.instances.topologies import read_topology

        known, _ = read_slurm_nodes(nodes)
        found, account = read_topology(
            file, host_type={name: node.kind for name, node in known.items()}
        )
    say(str(account))
    return found


def _beside(given: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pairs of --option with options that have a name of their own, each said once."""
    for name, value in named.items():
        if value is not None and name in given:
            raise typer.BadParameter(f"{name} is given twice; leave --option {name} out")
    return {**named, **given}


def _deliver(made: "Instance", account: "ReadReport", output: Path | None) -> None:
    say(str(account))
    if output is None:
        print_text(made.to_json())
        return
    save(made.to_json, output)
    run = len(made.running)
    say(f"{output}: {run} running and {len(made.jobs) - run} waiting jobs on "
        f"{made.topology.num_gpus} GPUs of {made.topology.num_hosts} hosts.")  # fmt: skip
