"""Requests about files: the bodies of ``inspect-files`` and ``read-files``.

Files come as their contents; no field is a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from alloc.server.requests import Request, TimeLimit

# More files than tell of one cluster and its jobs, longer names than messages have room for, and
# more columns than a map of a table names.
_MAX_FILES = 20
_MAX_NAME = 200
_MAX_COLUMNS = 100

Role = Literal["table", "slurm", "slurm-nodes", "slurm-accounts", "kubernetes", "swf", "topology"]
"""What a file is."""

ROLES: Mapping[str, str] = {
    "table": "jobs, one a row: CSV, TSV or Parquet",
    "slurm": "jobs of Slurm: squeue --json, sacct --json or sacct --parsable2",
    "slurm-nodes": "nodes of Slurm: scontrol show nodes --json",
    "slurm-accounts": "accounts of Slurm: sacctmgr show associations --parsable2",
    "kubernetes": "a dump of Kubernetes: kubectl get nodes,pods,... -A -o json",
    "swf": "a log in the Standard Workload Format",
    "topology": "the cluster: any topology file that alloc reads",
}
"""What files can be, in words."""


class UploadedFile(Request):
    """A file: its name and its content."""

    name: str = Field(
        min_length=1, max_length=_MAX_NAME, description="Its name, which messages use."
    )
    content: str = Field(description="Its text, or its bytes in base64.")
    encoding: Literal["text", "base64"] = Field(
        "text", description="base64 for what is no text, such as gzip and Parquet."
    )
    role: Role | None = Field(None, description="What it is; by default told by its content.")


class InspectFilesRequest(Request):
    """Say what uploaded files are, and which column of a job table is what."""

    files: list[UploadedFile] = Field(
        min_length=1, max_length=_MAX_FILES, description="The files, the jobs and their cluster."
    )
    columns: Annotated[dict[str, str], Field(max_length=_MAX_COLUMNS)] = Field(
        {}, description="Columns of a job table by what they are; the others are guessed."
    )
    time_limit_s: TimeLimit = 60.0


class ReadFilesRequest(InspectFilesRequest):
    """Make an instance, or a cluster, of uploaded files."""

    options: Annotated[dict[str, str | int | float | bool], Field(max_length=_MAX_COLUMNS)] = Field(
        {}, description="Options of the reader; inspect-files lists them."
    )
    host_type: str | None = Field(
        None,
        max_length=_MAX_NAME,
        description="Machine of all hosts, such as dgx-h100, where a topology file tells none.",
    )
