"""Nodes and licences of Slurm's ``slurm.conf``: what hosts and the cluster offer, by name.

Names are those of Slurm's trackable resources: ``Gres=nvme:2`` is ``gres/nvme`` of the host,
``Licenses=matlab:4`` is ``license/matlab`` of the cluster. GPUs are GPUs.

References
----------
SchedMD. slurm.conf(5), gres.conf(5). https://slurm.schedmd.com/gres.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from alloc.errors import InstanceError
from alloc.instances.readers.report import ReportLog
from alloc.instances.topologies.hostlist import expand_hostlist
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.products import type_of_product
from alloc.topology import HostType
from alloc.units import MILLI

KEYS = ("nodename", "licenses")
"""Keys that such a line has, in small letters."""
_DEFAULT = "DEFAULT"
# A count may have a suffix; 1,024 to the power of its position, as in gres.conf.
_COUNT = re.compile(r"([0-9]{1,9})([KMGTP]?)", re.IGNORECASE)
_SUFFIXES = " KMGTP"
_CORES = ("boards", "sockets", "corespersocket", "threadspercore")


@dataclass
class SlurmNodes:
    """What the lines of nodes and licences say.

    Parameters
    ----------
    log
        Counts what is not read.

    Attributes
    ----------
    host_types
        The type of each node by name.
    licences
        The cluster's own resources.
    """

    log: ReportLog
    host_types: dict[str, HostType] = field(default_factory=dict)
    licences: dict[str, int] = field(default_factory=dict)
    _default: dict[str, str] = field(default_factory=dict)

    def read(self, values: Mapping[str, str], where: Place) -> None:
        """Read a line.

        Parameters
        ----------
        values
            Its values by key in small letters.
        where
            Its place in the file.

        Raises
        ------
        InstanceError
            If an amount cannot be read, a node is said twice or has GPUs of two types.
        """
        if "licenses" in values:
            for name, _, count in _items(values["licenses"], where):
                key = f"license/{name}"
                self.licences[key] = self.licences.get(key, 0) + count
            return
        if values["nodename"].upper() == _DEFAULT:
            self._default = {**self._default, **values}
            return
        # What a line says of its cores counts before the CPUs of all nodes.
        less = {"cpus"} if "cpus" not in values and {*values} & {*_CORES} else set()
        defaults = {key: value for key, value in self._default.items() if key not in less}
        kind = self._host_type({**defaults, **values}, where)
        for name in expand_hostlist(values["nodename"], where):
            if name in self.host_types:
                raise where.error(f"node {shown(name)} is said again; say it once.")
            self.host_types[name] = kind

    def _host_type(self, values: Mapping[str, str], where: Place) -> HostType:
        gpus: dict[str, int] = {}
        named: dict[str, int] = {}
        for name, kind, count in _items(values.get("gres", ""), where):
            if kind is not None and kind.lower() == "no_consume":
                self.log.alter("Gres that is never used up (no_consume) is not read", name)
            elif name == "gpu":
                gpus[kind or "generic"] = gpus.get(kind or "generic", 0) + count
            else:
                named[f"gres/{name}"] = named.get(f"gres/{name}", 0) + count
        if len(gpus) > 1:
            raise where.error(
                f"Gres names GPUs of types {', '.join(sorted(gpus))}; a host has GPUs of one type."
            )
        gpu, number = next(iter(gpus.items()), (None, 0))
        gpu_type = gpu if gpu in (None, "generic") else type_of_product(str(gpu), None)
        cores = 1
        for key in _CORES:
            cores *= _whole(values.get(key, "1"), key, where)
        cpus = _whole(values["cpus"], "CPUs", where) if "cpus" in values else cores
        memory = _whole(values.get("realmemory", "1"), "RealMemory", where)
        named = {name: amount for name, amount in sorted(named.items()) if amount}
        name = f"{number}x{gpu_type}" if number else "cpu"
        name += f"-{cpus}c-{memory}mib" + "".join(f"-{n}:{a}" for n, a in named.items())
        try:
            return HostType(
                name, number, gpu_type if number else None, cpus * MILLI, memory, resources=named
            )
        except InstanceError as error:
            raise where.error(str(error)) from None


def _items(text: str, where: Place) -> Iterator[tuple[str, str | None, int]]:
    """Yield name, type and count of each item of a list of GRES or licences."""
    # Sockets or indices of devices, in brackets, may hold commas.
    for item in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        name, *rest = item.strip().split(":")
        count = 1
        if rest and (found := _COUNT.fullmatch(rest[-1])) is not None:
            count = int(found[1]) * 1024 ** _SUFFIXES.index(found[2].upper() or " ")
            rest.pop()
        if not name or len(rest) > 2 or not all(rest):
            raise where.error(
                f"cannot read {shown(item)}; write name, name:count or name:type:count, for "
                "example gpu:a100:4."
            )
        never = any(part.lower() == "no_consume" for part in rest)
        yield name, "no_consume" if never else (rest[0] if rest else None), count


def _whole(text: str, key: str, where: Place) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise where.error(f"{key} is {shown(text)}; give a whole number.")
    return int(text)
