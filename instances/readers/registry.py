"""The registry of trace readers: what the command line offers under ``alloc instances import``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.itp import itp_instance
from alloc.instances.readers.openb import openb_instance
from alloc.instances.readers.philly import philly_instance
from alloc.instances.readers.report import ReadReport
from alloc.plugins import loaded
from alloc.problems.allocation.instance import Instance

Value = str | int | float | bool

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Option:
    """An option of a reader.

    Parameters
    ----------
    name
        Name of the keyword, for example ``"slot_s"``.
    type
        `str`, `int`, `float` or `bool`.
    help
        One sentence for people, with the unit.
    default
        What holds when it is not given; None when the reader then decides.
    required
        Whether it must be given.
    choices
        The values allowed, or empty for any.
    is_path
        Whether it names a file or folder.
    """

    name: str
    type: type[str] | type[int] | type[float] | type[bool]
    help: str
    default: Value | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False

    def convert(self, value: object) -> object:
        """Return a value, which may be text, as this option's type.

        Raises
        ------
        InstanceError
            If the text says no such value.
        """
        if not isinstance(value, str):
            return value
        if self.choices and value not in self.choices:
            raise InstanceError(
                f'{self.name} is "{value}"{nearest(value, self.choices) or "."} '
                f"Give one of {', '.join(self.choices)}."
            )
        if self.type is bool:
            return self._switch(value)
        try:
            return self.type(value)
        except ValueError:
            kind = "a whole number" if self.type is int else "a number"
            raise InstanceError(f'{self.name} is "{value}"; give {kind}.') from None

    def _switch(self, value: str) -> bool:
        if value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        raise InstanceError(f'{self.name} is "{value}"; give true or false.')


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
    """

    kind: str
    summary: str
    path_help: str
    options: tuple[Option, ...]
    build: Callable[..., tuple[Instance, ReadReport]]

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


_START_S = Option("start_s", float, "Start of the window, seconds on the clock of the trace.")


def _openb(
    path: str | PathLike[str], *, nodes: str | PathLike[str], **options: object
) -> tuple[Instance, ReadReport]:
    """Put the pod list first, which is what the path of a reader names."""
    return openb_instance(nodes, path, **options)  # type: ignore[arg-type]


READERS: dict[str, Reader] = {
    reader.kind: reader
    for reader in (
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
                    choices=("soft", "hard", "none"),
                ),
                Option("preemptible", bool, "Whether jobs may be paused.", True),
            ),
            itp_instance,
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
    kind: str, path: str | PathLike[str], **options: object
) -> tuple[Instance, ReadReport]:
    """Read a trace of a registered kind as an instance.

    Parameters
    ----------
    kind
        Name in `READERS`.
    path
        The file that the reader's ``path_help`` describes.
    options
        The reader's options, as values or as text; None counts as not given.

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
    return reader.build(path, **given)
