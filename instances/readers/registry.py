"""The registry of trace readers: what the command line offers under ``alloc instances import``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import get_args

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.assembly import Deadlines
from alloc.instances.readers.cells import UNITS_S
from alloc.instances.readers.itp import itp_instance
from alloc.instances.readers.job_columns import GPU_UNITS, KEYS
from alloc.instances.readers.job_table import table_instance
from alloc.instances.readers.openb import openb_instance
from alloc.instances.readers.options import Option
from alloc.instances.readers.philly import philly_instance
from alloc.instances.readers.report import ReadReport
from alloc.instances.readers.slurm.jobs import slurm_instance
from alloc.instances.readers.swf import swf_instance
from alloc.plugins import loaded
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology


@dataclass(frozen=True)
class Reader:
    """A kind of trace that can be read.

    Parameters
    ----------
    kind
        Unique name.
    summary
        One sentence for people.
    path_help
        What the path names.
    options
        What can be set.
    build
        ``build(path, **options)`` makes the instance.
    takes_topology
        Whether `build` also takes a `alloc.topology.Topology` as ``topology``.
    """

    kind: str
    summary: str
    path_help: str
    options: tuple[Option, ...]
    build: Callable[..., tuple[Instance, ReadReport]]
    takes_topology: bool = False

    def option(self, name: str) -> Option:
        """Return the option of that name.

        Raises
        ------
        InstanceError
            If there is none.
        """
        known = {option.name: option for option in self.options}
        if name not in known:
            raise InstanceError(
                f'reader "{self.kind}" has no option "{name}"{nearest(name, known) or "."} '
                f"Its options are {', '.join(known)}."
            )
        return known[name]


def _window() -> tuple[Option, ...]:
    return (
        Option("length_s", float, "Length of the window, seconds; by default to the end."),
        Option("max_jobs", int, "Keep only the first so many jobs of the window."),
        Option("slot_s", float, "Length of a slot, seconds; by default time is continuous."),
        Option("name", str, "Name of the instance."),
    )


def _cluster() -> tuple[Option, ...]:
    return (
        Option("cluster_gpus", int, "Size of the cluster, GPUs."),
        Option("num_hosts", int, "Size of the cluster, hosts."),
        Option("load", float, "Size the cluster so that GPU time asked for over GPU time is this."),
        Option("gpus_per_host", int, "GPUs of each host.", 8),
        Option("restart_cost_s", float, "Seconds lost when a job resumes or changes.", 0.0),
    )


def _own() -> tuple[Option, ...]:
    """Return the options of `alloc.instances.readers.own_jobs.Common`."""
    return (
        *_cluster(),
        *_window(),
        Option("deadlines", str, "What deadlines become.", "soft", choices=get_args(Deadlines)),
        Option("preemptible", bool, "Whether jobs may be paused.", True),
    )


_UNIT_HELP = "Unit of {} that are plain numbers; by default s, or as the column's name ends."
_START_S = Option("start_s", float, "Start of the window, seconds on the clock of the trace.")


def _openb(
    path: str | PathLike[str], *, nodes: str | PathLike[str], **options: object
) -> tuple[Instance, ReadReport]:
    """Put the pod list first, which is what the path of a reader names."""
    return openb_instance(nodes, path, **options)  # type: ignore[arg-type]


def _kubernetes(path: str | PathLike[str], **options: object) -> tuple[Instance, ReadReport]:
    """Load the reader when it is used: it needs the topology formats, which need this room."""
    from alloc.instances.readers.kubernetes import kubernetes_instance

    return kubernetes_instance(path, **options)  # type: ignore[arg-type]


READERS: dict[str, Reader] = {
    reader.kind: reader
    for reader in (
        Reader(
            "table",
            "Job tables of your own: CSV, TSV or Parquet, with any column names.",
            "The job table; its columns are told by --map, or by their names.",
            (
                Option(
                    "map",
                    str,
                    "Which column is what, for example id=JobID,arrival=Submit; a column may be "
                    f"{', '.join(KEYS)}.",
                ),
                Option("timezone", str, "Zone of times that name none, such as Europe/Berlin."),
                Option("time_unit", str, _UNIT_HELP.format("times"), choices=(*UNITS_S,)),
                Option("duration_unit", str, _UNIT_HELP.format("durations"), choices=(*UNITS_S,)),
                Option("gpu_unit", str, "Unit of GPU counts.", choices=(*GPU_UNITS,)),
                Option("states", str, "Keep only jobs that ended in these states, with commas."),
                Option("delimiter", str, "comma, tab, bar or semicolon; by default told."),
                Option("start", str, "Start of the window, as the table writes times."),
                *_own(),
            ),
            table_instance,
            takes_topology=True,
        ),
        Reader(
            "slurm",
            "Slurm's accounting (sacct --parsable2 or --json), or its queue (squeue --json).",
            "What sacct or squeue printed; a queue needs --topology.",
            (
                Option("timezone", str, "Zone of the times of --parsable2."),
                Option("states", str, "Keep only jobs that ended in these states, with commas."),
                Option("start", str, "Start of the window, as the file writes times."),
                Option("nodes", str, "Of a queue: scontrol show nodes --json.", is_path=True),
                Option(
                    "accounts",
                    str,
                    "Of a queue: sacctmgr show associations --parsable2, for quotas.",
                    is_path=True,
                ),
                *_own(),
            ),
            slurm_instance,
            takes_topology=True,
        ),
        Reader(
            "kubernetes",
            "A moment of Kubernetes, from kubectl: nodes, pods, Kueue's and Volcano's queues.",
            "What kubectl get nodes,pods,workloads,clusterqueues ... -A -o json printed.",
            (
                Option(
                    "more",
                    str,
                    "More files of the dump, or manifests of jobs, with commas.",
                    is_path=True,
                ),
                Option("levels", str, "Node labels that are levels, outermost first, with commas."),
                Option("labels", str, "Set of labels that says where nodes stand, or none."),
                Option("gpu_type", str, "GPU type of nodes without a label for it."),
                Option("memory_step_mib", int, "Free memory is rounded down to this, MiB.", 1024),
                Option(
                    "shares",
                    bool,
                    "Pods that share GPUs are jobs, for --formulation sharing.",
                    False,
                ),
                Option("preemptible", bool, "Whether jobs may be paused and moved.", True),
                Option("restart_cost_s", float, "Seconds lost when a job resumes or moves.", 0.0),
                Option("slot_s", float, "Length of a slot, seconds; by default none."),
                Option("name", str, "Name of the instance."),
            ),
            _kubernetes,
        ),
        Reader(
            "swf",
            "Logs in the Standard Workload Format (18 fields).",
            "The log.",
            (
                Option("gpus_per_processor", float, "GPUs that a processor of it stands for.", 1.0),
                Option(
                    "tenant",
                    str,
                    "Field that becomes the tenant.",
                    "user",
                    choices=("user", "group", "queue", "partition"),
                ),
                _START_S,
                *_own(),
            ),
            swf_instance,
            takes_topology=True,
        ),
        Reader(
            "itp",
            "ITP job tables, Microsoft 2021, raw or in ElasticFlow's variant.",
            "The job table: job_id, submission_time, duration, num_gpu ...",
            (
                *_cluster(),
                _START_S,
                *_window(),
                Option(
                    "scaling",
                    str,
                    "Folder of measured scaling tables (ElasticFlow's or Pollux'): jobs become "
                    "elastic.",
                    is_path=True,
                ),
                Option(
                    "elasticity",
                    str,
                    "What elastic jobs may do.",
                    "malleable",
                    choices=("malleable", "moldable"),
                ),
                Option(
                    "deadlines",
                    str,
                    "What the deadlines of the variant become.",
                    "soft",
                    choices=get_args(Deadlines),
                ),
                Option("preemptible", bool, "Whether jobs may be paused.", True),
            ),
            itp_instance,
            takes_topology=True,
        ),
        Reader(
            "philly",
            "The Philly job table, Microsoft 2017, by virtual cluster.",
            "The job table: timestamp, duration, num_gpus, gpu_time, cluster.",
            (
                Option("vc", str, "Virtual cluster, for example 103959; by default all."),
                Option("vcs", str, "Table of the hosts of each virtual cluster.", is_path=True),
                Option("machines", str, "Machine list, for the whole cluster.", is_path=True),
                *_cluster(),
                Option("start", str, "Start of the window, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS."),
                *_window(),
                Option("preemptible", bool, "Whether jobs may be paused.", True),
            ),
            philly_instance,
            takes_topology=True,
        ),
        Reader(
            "openb",
            "openb pod and node lists, Alibaba 2023, with GPU shares and GPU type constraints.",
            "The pod list: name, cpu_milli, memory_mib, num_gpu, gpu_milli ...",
            (
                Option("nodes", str, "The node list.", required=True, is_path=True),
                Option("snapshot", bool, "All pods ask at time 0, for one slot.", False),
                Option("gpu_pods_only", bool, "Leave out pods without GPUs.", False),
                Option("num_hosts", int, "Take so many evenly spaced hosts of the list."),
                _START_S,
                *_window(),
                Option("preemptible", bool, "Whether pods may be paused.", False),
            ),
            _openb,
        ),
    )
}
"""Readers by kind."""

# A package announces a `Reader`, and every door knows it.
READERS |= loaded("alloc.readers", Reader, READERS)


def read_instance(
    kind: str, path: str | PathLike[str], /, **options: object
) -> tuple[Instance, ReadReport]:
    """Read a trace of a registered kind as an instance.

    Parameters
    ----------
    kind
        Name in `READERS`.
    path
        The file that the reader's ``path_help`` describes.
    options
        The reader's options, as values or as text; None counts as not given. And ``topology``, the
        cluster instead of one that the reader makes, for readers that take one.

    Returns
    -------
    Instance, ReadReport
        The instance, and an account of every row that is not in it.

    Raises
    ------
    InstanceError
        If kind, option or value is unknown, or the reader refuses.
    """
    if kind not in READERS:
        raise InstanceError(
            f'unknown kind of trace "{kind}"{nearest(kind, READERS) or "."} '
            f"Known: {', '.join(READERS)}."
        )
    reader = READERS[kind]
    topology = options.pop("topology", None)
    given = {
        name: reader.option(name).convert(value)
        for name, value in options.items()
        if value is not None
    }
    missing = [o.name for o in reader.options if o.required and o.name not in given]
    if missing:
        raise InstanceError(
            f'reader "{kind}" needs the option {", ".join(missing)}: '
            f"{reader.option(missing[0]).help}"
        )
    if topology is not None:
        if not reader.takes_topology:
            raise InstanceError(
                f'reader "{kind}" reads its cluster from files of its own; leave the topology out.'
            )
        if not isinstance(topology, Topology):
            raise InstanceError(
                f"topology is a {type(topology).__name__}; give --topology FILE on the command "
                "line, or what alloc.instances.topologies.read_topology returns."
            )
        given["topology"] = topology
    return reader.build(path, **given)
