"""Standard Workload Format: logs of the Parallel Workloads Archive and of simulators.

A line is a job of 18 numbers; -1 stands for what is not known. Lines that begin with ``;`` are
comments, some of which are named fields of the header.

References
----------
S. Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP
1999; D. Feitelson, "The Standard Workload Format", cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Unpack

from alloc.errors import InstanceError
from alloc.instances.readers.cells import number_of
from alloc.instances.readers.job_table import stem
from alloc.instances.readers.jobs import MAX_DURATION_S, MAX_GPUS, TracedJob
from alloc.instances.readers.own_jobs import Common, own_instance
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import UnreadableRowError, table_lines
from alloc.problems.allocation.instance import Instance
from alloc.units import require_positive

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time used",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""The fields of a line, in order."""

_TENANTS = ("user", "group", "queue", "partition")
_HEADER = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*)")
# A job that ran in parts has a line for the whole, and lines of these states for its parts.
_PART = (2, 3, 4)


def swf_instance(
    path: str | PathLike[str],
    *,
    gpus_per_processor: float = 1.0,
    tenant: str = "user",
    start_s: float | None = None,
    **common: Unpack[Common],
) -> tuple[Instance, ReadReport]:
    """Make an instance of a log in the Standard Workload Format.

    Parameters
    ----------
    path
        The log, plain or gzip.
    gpus_per_processor
        GPUs that a processor of the log stands for: 1 for a log of GPUs, 0.125 for one of cores
        with eight to a GPU. Jobs hold whole GPUs, rounded up.
    tenant
        Field that becomes the tenant: user, group, queue or partition.
    start_s
        Start of the window, seconds on the clock of the log; None: the first submission.
    common
        What all readers of one's own jobs can be told: see
        `alloc.instances.readers.own_jobs.Common`. Without a topology or a size the cluster has
        the hosts that the processors need which the header's MaxProcs names.

    Returns
    -------
    Instance, ReadReport
        Jobs that hold their allocated processors (or the requested ones, where those are not known)
        for their run time; and every line that is not in it with the reason.

    Raises
    ------
    InstanceError
        If the file cannot be read, an option makes no sense, or no job is left.
    """
    if tenant not in _TENANTS:
        raise InstanceError(f'tenant is "{tenant}"; give one of {", ".join(_TENANTS)}.')
    if not 0 < gpus_per_processor <= 1000:
        raise InstanceError(
            f"gpus_per_processor is {gpus_per_processor:g}; give more than 0 and at most 1000."
        )
    log = ReportLog()
    name = Path(path).name
    log.files.append(name)
    header: dict[str, str] = {}
    jobs: list[TracedJob] = []
    seen: set[str] = set()
    for line, text in table_lines(path):
        if text.lstrip().startswith(";"):
            if found := _HEADER.match(text.strip()):
                header.setdefault(found[1].lower(), found[2].strip())
            continue
        try:
            job = _job(text.split(), gpus_per_processor, tenant, seen, log)
        except (UnreadableRowError, InstanceError) as reason:
            log.skip(str(reason), line, text)
            continue
        log.rows_read += 1
        if job is not None:
            jobs.append(job)
    log.notes.append(
        f"A processor of the log is read as {gpus_per_processor:g} GPU"
        f"{'' if gpus_per_processor == 1 else 's'}."
    )
    sized = _sized(common, header, gpus_per_processor, log)
    computer = header.get("computer", "")
    source = {
        "source": f"log {name} in the Standard Workload Format, a file of the user"
        + (f"; its header names the computer {computer[:200]}" if computer else ""),
        "processors": log.notes[0],
    }
    return own_instance(jobs, log, sized, name=stem(name), source=source, start_s=start_s)


def _job(
    fields: Sequence[str], gpus: float, tenant: str, seen: set[str], log: ReportLog
) -> TracedJob | None:
    if len(fields) != len(FIELDS):
        raise UnreadableRowError(f"has {len(fields)} fields instead of {len(FIELDS)}")
    values = {name: number_of(text, name) for name, text in zip(FIELDS, fields, strict=True)}
    id = fields[0]
    if values["status"] in _PART:
        log.drop("a part of a job, whose whole has a line of its own", id)
        return None
    if id in seen:
        raise UnreadableRowError("job number appears before")
    seen.add(id)
    processors = values["allocated processors"]
    if processors <= 0:
        processors = values["requested processors"]
    if values["run time"] <= 0 or processors <= 0:
        log.drop("did not run, or it is not known how long and on how many processors", id)
        return None
    if values["run time"] > MAX_DURATION_S:
        raise UnreadableRowError("run time is more than a century")
    if processors * gpus > MAX_GPUS:
        raise UnreadableRowError(f"asks for more than {MAX_GPUS} GPUs")
    owner = values[tenant]
    return TracedJob(
        id=id,
        submit_s=values["submit time"],
        duration_s=values["run time"],
        # Up to whole GPUs, less the noise of the product.
        num_gpus=max(1, math.ceil(processors * gpus - 1e-9)),
        tenant=f"{tenant}-{owner:g}" if owner >= 0 else None,
    )


def _sized(common: Common, header: dict[str, str], gpus: float, log: ReportLog) -> Common:
    """Return what the user chose, with the size that the header names where nothing says one."""
    given = ("topology", "cluster_gpus", "num_hosts", "load")
    named = re.match(r"[0-9]{1,9}(?![0-9])", header.get("maxprocs", ""))
    if named is None or any(common.get(key) is not None for key in given):
        return common
    per_host = common.get("gpus_per_host", 8)
    require_positive(per_host, "cluster", "gpus_per_host")
    # Up to whole hosts, less the noise of the product: a job may hold all processors.
    hosts = max(1, math.ceil(int(named[0]) * gpus / per_host - 1e-9))
    log.notes.append(f"The cluster has room for the processors of the header: MaxProcs {named[0]}.")
    return {**common, "num_hosts": hosts}
