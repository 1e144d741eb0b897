"""Kinds of hosts for files that say nothing about GPUs: named machines, and the user's choice."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from functools import partial

from alloc.errors import InstanceError, nearest
from alloc.instances.topologies.place import shown
from alloc.topology import (
    GPU_TYPES,
    HostType,
    dgx_a100,
    dgx_h100,
    dl2_server,
    gb200_compute_tray,
    hgx_a100,
    hgx_h100,
    pcie_server,
)

MACHINES: Mapping[str, Callable[[], HostType]] = {
    "dgx-a100": dgx_a100,
    "dgx-a100-80gb": partial(dgx_a100, 80),
    "hgx-a100": hgx_a100,
    "hgx-a100-80gb": partial(hgx_a100, 80),
    "dgx-h100": dgx_h100,
    "hgx-h100": hgx_h100,
    "gb200-compute-tray": gb200_compute_tray,
    "dl2-server": dl2_server,
}
"""Machines by name. ``4x-t4`` and the like, a number and a GPU type, name a server with PCIe."""

HostTypes = HostType | str | Mapping[str, HostType | str]
"""One type for all hosts, or types by host: an id, or a pattern with ``*`` and ``?``."""

_PLAIN_SERVER = re.compile(r"([1-9][0-9]{0,2})x-(.+)")


def machine(name: str) -> HostType:
    """Return the host type of a named machine.

    Parameters
    ----------
    name
        A name in `MACHINES`, or a number of GPUs and their type: ``"4x-t4"`` is
        ``pcie_server(4, "t4")``.

    Raises
    ------
    InstanceError
        If there is no such machine.

    Examples
    --------
    >>> machine("dgx-h100").num_gpus, machine("4x-t4").gpu_type
    (8, 't4')
    """
    if name in MACHINES:
        return MACHINES[name]()
    plain = _PLAIN_SERVER.fullmatch(name)
    if plain is not None and plain[2] in GPU_TYPES:
        return pcie_server(int(plain[1]), plain[2], numa_islands=min(2, int(plain[1])))
    cure = nearest(plain[2], GPU_TYPES) if plain else nearest(name, MACHINES)
    raise InstanceError(
        f"there is no machine {shown(name)}{cure or '.'} Known are {', '.join(MACHINES)}, and a "
        'number with a GPU type, for example "8x-a100-sxm-80gb" or "4x-t4".'
    )


class HostTypeChoice:
    """The user's choice of types for the hosts of a file that does not tell them.

    Parameters
    ----------
    given
        One type or machine name for all hosts; a mapping from host ids, or patterns of them with
        ``*`` and ``?``, to types or machine names, of which the first that fits counts, an exact id
        before any pattern; or None when nothing was chosen.
    file
        The file, for messages.
    told
        What the file itself says of some hosts, by id; what was chosen counts before it.

    Raises
    ------
    InstanceError
        If a machine is unknown or the choice is of another kind.
    """

    def __init__(
        self, given: HostTypes | None, file: str, told: Mapping[str, HostType] | None = None
    ) -> None:
        self._file = file
        self._given = given
        self._told = told or {}
        self._for_all: HostType | None = None
        self._by_id: dict[str, HostType] = {}
        self._by_pattern: list[tuple[str, Callable[[str], object], HostType]] = []
        if given is None:
            return
        if not isinstance(given, Mapping):
            self._for_all = _host_type(given)
            return
        for key, value in given.items():
            kind = _host_type(value)
            if any(sign in key for sign in "*?"):
                pattern = re.compile(fnmatch.translate(key.replace("[", "[[]")))
                self._by_pattern.append((key, pattern.match, kind))
            else:
                self._by_id[key] = kind

    def beside(self, told: Mapping[str, HostType]) -> HostTypeChoice:
        """Return the choice with what the file itself says of hosts that nothing was chosen for."""
        return HostTypeChoice(self._given, self._file, told)

    @property
    def given(self) -> bool:
        """Whether the user chose anything, or the file says it."""
        chosen = self._for_all is not None or bool(self._by_id) or bool(self._by_pattern)
        return chosen or bool(self._told)

    def of(self, host: str) -> HostType:
        """Return the type of a host.

        Raises
        ------
        InstanceError
            If nothing was chosen for it.
        """
        found = self.find(host)
        if found is not None:
            return found
        if not self.given:
            raise InstanceError(
                f"{self._file}: does not say what its hosts are (GPUs, CPU, memory); pass "
                'host_type, a HostType or the name of a machine such as "dgx-h100", or a mapping '
                "from hosts to them."
            )
        known = [*self._told, *self._by_id, *(key for key, _, _ in self._by_pattern)]
        raise InstanceError(
            f"{self._file}: host_type says nothing about host {shown(host)}"
            f"{nearest(host, known) or '.'} Name every host, or add a pattern such as "
            '"*".'
        )

    def find(self, host: str) -> HostType | None:
        """Return the type of a host, or None if nothing was chosen for it."""
        if self._for_all is not None:
            return self._for_all
        if host in self._by_id:
            return self._by_id[host]
        fitting = (kind for _, fits, kind in self._by_pattern if fits(host))
        return next(fitting, self._told.get(host))


def _host_type(value: object) -> HostType:
    if isinstance(value, HostType):
        return value
    if isinstance(value, str):
        return machine(value)
    raise InstanceError(
        f"host_type is a {type(value).__name__}; give a HostType, the name of a machine, or a "
        "mapping from hosts to them."
    )
