"""Fabrics: whole clusters from a few parameters.

Every fabric has one outermost domain, named for the tier of switches that joins everything, so that
any two hosts meet in some domain. Switches of that tier, and others that hold no hosts, are plain
nodes of the graph; a leaf or an NVLink domain is a switch and a domain at once. Numbers in ids are
padded with zeros, so that ids sort in the order of the hosts.

A host with NICs (devices ``nic0``, ``nic1`` ... in its type) is plugged in by its NICs; a host
without has one link of its own. Bandwidths are in GB/s in one direction.
"""

from __future__ import annotations

from alloc.errors import InstanceError
from alloc.topology.host import Domain, Host, HostType, NetworkLink
from alloc.topology.machines import (
    GB200_NVLINK_GB_PER_S,
    TRAYS_PER_NVL72,
    gb200_compute_tray,
    nics_of,
)
from alloc.topology.topology import Topology
from alloc.units import require_positive

DEFAULT_PORT_GB_PER_S = 12.5
"""Rate of the network link of a host type that names no NICs: 100 Gb/s."""


def leaf_spine(
    host_type: HostType,
    num_leaves: int,
    hosts_per_leaf: int,
    num_spines: int,
    *,
    oversubscription: float | None = None,
    uplink_gb_per_s: float | None = None,
    port_gb_per_s: float | None = None,
    name: str = "leaf-spine",
) -> Topology:
    """Return a two-level fat tree: hosts under leaves, every leaf linked to every spine switch.

    Parameters
    ----------
    host_type
        The kind of all hosts.
    num_leaves, hosts_per_leaf, num_spines
        Sizes, 1 or more.
    oversubscription
        Bandwidth from a leaf's hosts over bandwidth of its uplinks, more than 0. None is 1, a
        fabric that does not block, unless `uplink_gb_per_s` is given.
    uplink_gb_per_s
        Bandwidth of each link between a leaf and a spine switch, GB/s, instead of
        `oversubscription`.
    port_gb_per_s
        Rate of a host's port, GB/s: of each of its NICs, or of its one link when its type names no
        NICs. None takes the rate in the host type, or `DEFAULT_PORT_GB_PER_S`.
    name
        Name of the topology.

    Returns
    -------
    Topology
        Levels ``("spine", "leaf")``: one domain ``spine``, below it the leaves.

    Raises
    ------
    InstanceError
        If a parameter is out of range, or both `oversubscription` and `uplink_gb_per_s` are given.

    References
    ----------
    Al-Fares, Loukissas, Vahdat. A scalable, commodity data center network architecture. SIGCOMM
    2008. doi:10.1145/1402958.1402967.

    Examples
    --------
    >>> from alloc.topology.machines import dgx_h100
    >>> cluster = leaf_spine(dgx_h100(), num_leaves=4, hosts_per_leaf=8, num_spines=4)
    >>> cluster.num_hosts, cluster.num_gpus
    (32, 256)
    """
    where = f'fabric "{name}"'
    _require_counts(
        where, num_leaves=num_leaves, hosts_per_leaf=hosts_per_leaf, num_spines=num_spines
    )
    ports = _ports(where, host_type, port_gb_per_s)
    from_hosts = hosts_per_leaf * sum(ports.values())
    uplink = _uplink(where, from_hosts, num_spines, oversubscription, uplink_gb_per_s)
    spines = _ids("spine-switch", num_spines)
    leaves = _ids("leaf", num_leaves)
    hosts = _hosts(host_type, leaves, hosts_per_leaf)
    links = [NetworkLink(leaf, spine, uplink) for leaf in leaves for spine in spines]
    links += _host_links(hosts, ports)
    domains = (Domain("spine", "spine"), *(Domain(leaf, "leaf", "spine") for leaf in leaves))
    return Topology(name, (host_type,), hosts, ("spine", "leaf"), domains, tuple(links))


def fat_tree(
    host_type: HostType,
    num_pods: int,
    leaves_per_pod: int,
    hosts_per_leaf: int,
    spines_per_pod: int,
    num_cores: int,
    *,
    leaf_oversubscription: float = 1.0,
    pod_oversubscription: float = 1.0,
    port_gb_per_s: float | None = None,
    name: str = "fat-tree",
) -> Topology:
    """Return a three-level fat tree: leaves and spine switches in pods, core switches above.

    In a pod every leaf is linked to every spine switch. Core switches come in as many groups as a
    pod has spine switches: spine switch s of every pod is linked to all of group s.

    Parameters
    ----------
    host_type
        The kind of all hosts.
    num_pods, leaves_per_pod, hosts_per_leaf, spines_per_pod, num_cores
        Sizes, 1 or more; `num_cores` is a multiple of `spines_per_pod`.
    leaf_oversubscription, pod_oversubscription
        Bandwidth into a leaf from below over that of its uplinks, and the same of a pod.
    port_gb_per_s
        Rate of a host's port, as in `leaf_spine`.
    name
        Name of the topology.

    Returns
    -------
    Topology
        Levels ``("core", "pod", "leaf")``: one domain ``core``, below it the pods.

    Raises
    ------
    InstanceError
        If a parameter is out of range or the core switches cannot be dealt out evenly.

    References
    ----------
    Al-Fares, Loukissas, Vahdat. A scalable, commodity data center network architecture. SIGCOMM
    2008. doi:10.1145/1402958.1402967.
    """
    where = f'fabric "{name}"'
    _require_counts(
        where,
        num_pods=num_pods,
        leaves_per_pod=leaves_per_pod,
        hosts_per_leaf=hosts_per_leaf,
        spines_per_pod=spines_per_pod,
        num_cores=num_cores,
    )
    if num_cores % spines_per_pod:
        raise InstanceError(
            f"{where}: num_cores is {num_cores}, which {spines_per_pod} spine switches in a pod "
            "cannot share evenly; make it a multiple of spines_per_pod."
        )
    require_positive(pod_oversubscription, where, "pod_oversubscription")
    ports = _ports(where, host_type, port_gb_per_s)
    from_hosts = hosts_per_leaf * sum(ports.values())
    leaf_up = _uplink(where, from_hosts, spines_per_pod, leaf_oversubscription, None)
    cores_per_spine = num_cores // spines_per_pod
    core_up = leaves_per_pod * leaf_up / pod_oversubscription / cores_per_spine

    pods = _ids("pod", num_pods)
    leaves = _ids("leaf", num_pods * leaves_per_pod)
    spines = _ids("spine-switch", num_pods * spines_per_pod)
    cores = _ids("core-switch", num_cores)
    domains = [Domain("core", "core"), *(Domain(pod, "pod", "core") for pod in pods)]
    links = []
    for p, pod in enumerate(pods):
        pod_spines = spines[p * spines_per_pod : (p + 1) * spines_per_pod]
        for leaf in leaves[p * leaves_per_pod : (p + 1) * leaves_per_pod]:
            domains.append(Domain(leaf, "leaf", pod))
            links += [NetworkLink(leaf, spine, leaf_up) for spine in pod_spines]
        for s, spine in enumerate(pod_spines):
            group = cores[s * cores_per_spine : (s + 1) * cores_per_spine]
            links += [NetworkLink(spine, core, core_up) for core in group]
    hosts = _hosts(host_type, leaves, hosts_per_leaf)
    links += _host_links(hosts, ports)
    levels = ("core", "pod", "leaf")
    return Topology(name, (host_type,), hosts, levels, tuple(domains), tuple(links))


def rail_optimised(
    host_type: HostType,
    num_scalable_units: int,
    hosts_per_unit: int,
    rails: int = 8,
    *,
    num_spines: int = 4,
    oversubscription: float = 1.0,
    port_gb_per_s: float | None = None,
    name: str = "rail-optimised",
) -> Topology:
    """Return a rail-optimised fabric: NIC i of every host of a unit goes to rail switch i.

    Two GPUs of the same rank in a unit are one switch apart. Every rail switch is linked to every
    spine switch.

    Parameters
    ----------
    host_type
        The kind of all hosts; it names exactly `rails` NICs.
    num_scalable_units, hosts_per_unit, rails, num_spines
        Sizes, 1 or more.
    oversubscription
        Bandwidth into a rail switch from its hosts over that of its uplinks, more than 0.
    port_gb_per_s
        Rate of each NIC, GB/s; None takes the rates in the host type.
    name
        Name of the topology.

    Returns
    -------
    Topology
        Levels ``("spine", "scalable-unit")``: one domain ``spine``, below it the units.

    Raises
    ------
    InstanceError
        If a parameter is out of range or the NICs of the host do not match the rails.

    References
    ----------
    NVIDIA DGX SuperPOD reference architecture, DGX H100: scalable units of 32 systems with 8 rails.
    """
    where = f'fabric "{name}"'
    _require_counts(
        where,
        num_scalable_units=num_scalable_units,
        hosts_per_unit=hosts_per_unit,
        rails=rails,
        num_spines=num_spines,
    )
    nics = nics_of(host_type)
    if len(nics) != rails:
        raise InstanceError(
            f'{where}: rails is {rails}, but host type "{host_type.name}" names {len(nics)} NICs; '
            "a rail takes one NIC of every host, so make the two equal."
        )
    ports = _ports(where, host_type, port_gb_per_s)
    spines = _ids("spine-switch", num_spines)
    units = _ids("unit", num_scalable_units)
    hosts = _hosts(host_type, units, hosts_per_unit)
    links = []
    for u, unit in enumerate(units):
        members = hosts[u * hosts_per_unit : (u + 1) * hosts_per_unit]
        for switch, (nic, rate) in zip(_ids(f"{unit}-rail", rails), ports.items(), strict=True):
            up = _uplink(where, hosts_per_unit * rate, num_spines, oversubscription, None)
            links += [NetworkLink(switch, spine, up) for spine in spines]
            links += [NetworkLink(f"{host.id}/{nic}", switch, rate) for host in members]
    domains = (
        Domain("spine", "spine"),
        *(Domain(unit, "scalable-unit", "spine") for unit in units),
    )
    levels = ("spine", "scalable-unit")
    return Topology(name, (host_type,), hosts, levels, domains, tuple(links))


def nvl72_cluster(
    num_racks: int,
    num_spines: int = 4,
    *,
    trays_per_rack: int = TRAYS_PER_NVL72,
    oversubscription: float = 1.0,
    port_gb_per_s: float | None = None,
    name: str = "nvl72-cluster",
) -> Topology:
    """Return GB200 NVL72 racks, each one NVLink domain, joined by a leaf-spine network.

    Each GPU is linked to its rack's NVLink switches (one node, the domain) with 900 GB/s in one
    direction. The NICs of a rack go to the rack's leaf switch, which is linked to every spine
    switch.

    Parameters
    ----------
    num_racks, num_spines
        Sizes, 1 or more.
    trays_per_rack
        Compute trays in a rack, of 4 GPUs each: 18 in an NVL72, fewer for a part of one.
    oversubscription
        Bandwidth into a leaf switch from its rack over that of its uplinks, more than 0.
    port_gb_per_s
        Rate of each NIC, GB/s; None takes 50, which is 400 Gb/s.
    name
        Name of the topology.

    Returns
    -------
    Topology
        Levels ``("spine", "nvlink-domain")``: one domain ``spine``, below it the racks.

    Raises
    ------
    InstanceError
        If a parameter is out of range.

    References
    ----------
    NVIDIA GB200 NVL72 data sheet: 72 GPUs, NVLink of 1.8 TB/s a GPU, both directions together.
    """
    where = f'fabric "{name}"'
    _require_counts(
        where, num_racks=num_racks, num_spines=num_spines, trays_per_rack=trays_per_rack
    )
    if trays_per_rack > TRAYS_PER_NVL72:
        raise InstanceError(
            f"{where}: trays_per_rack is {trays_per_rack}, but an NVL72 rack has "
            f"{TRAYS_PER_NVL72} trays; add racks instead."
        )
    tray = gb200_compute_tray()
    ports = _ports(where, tray, port_gb_per_s)
    up = _uplink(where, trays_per_rack * sum(ports.values()), num_spines, oversubscription, None)
    spines = _ids("spine-switch", num_spines)
    racks = _ids("rack", num_racks)
    hosts = _hosts(tray, racks, trays_per_rack)
    links = [NetworkLink(f"{rack}-leaf", spine, up) for rack in racks for spine in spines]
    for host in hosts:
        links += [
            NetworkLink(f"{host.id}/gpu{g}", str(host.domain), GB200_NVLINK_GB_PER_S)
            for g in range(tray.num_gpus)
        ]
        links += [
            NetworkLink(f"{host.id}/{nic}", f"{host.domain}-leaf", rate)
            for nic, rate in ports.items()
        ]
    domains = (
        Domain("spine", "spine"),
        *(Domain(rack, "nvlink-domain", "spine") for rack in racks),
    )
    levels = ("spine", "nvlink-domain")
    return Topology(name, (tray,), hosts, levels, domains, tuple(links))


def gb200_nvl72(name: str = "gb200-nvl72") -> Topology:
    """Return one GB200 NVL72 rack: 18 trays, 72 GPUs in one NVLink domain.

    Examples
    --------
    >>> gb200_nvl72().num_gpus
    72
    """
    return nvl72_cluster(1, 1, name=name)


def _require_counts(where: str, **counts: int) -> None:
    for field, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InstanceError(f"{where}: {field} is {count}; it must be a whole number from 1.")


def _ids(stem: str, count: int) -> list[str]:
    """Return ids that sort as numbers do."""
    width = len(str(count - 1))
    return [f"{stem}-{k:0{width}d}" for k in range(count)]


def _hosts(host_type: HostType, domains: list[str], hosts_per_domain: int) -> tuple[Host, ...]:
    ids = _ids("host", len(domains) * hosts_per_domain)
    return tuple(
        Host(host_id, host_type.name, domains[h // hosts_per_domain])
        for h, host_id in enumerate(ids)
    )


def _ports(where: str, host_type: HostType, port_gb_per_s: float | None) -> dict[str, float]:
    """Return the rate of each port of a host: of its NICs, or of itself (named ``""``)."""
    if port_gb_per_s is not None:
        require_positive(port_gb_per_s, where, "port_gb_per_s")
    rates = nics_of(host_type) or {"": DEFAULT_PORT_GB_PER_S}
    return {port: port_gb_per_s or rate for port, rate in rates.items()}


def _uplink(
    where: str,
    from_below: float,
    num_uplinks: int,
    oversubscription: float | None,
    uplink_gb_per_s: float | None,
) -> float:
    """Return the bandwidth of each of the uplinks of a switch, GB/s."""
    if uplink_gb_per_s is not None:
        if oversubscription is not None:
            raise InstanceError(
                f"{where}: oversubscription and uplink_gb_per_s are both given; "
                "one follows from the other, so give only one."
            )
        require_positive(uplink_gb_per_s, where, "uplink_gb_per_s")
        return uplink_gb_per_s
    ratio = 1.0 if oversubscription is None else oversubscription
    require_positive(ratio, where, "oversubscription")
    return from_below / ratio / num_uplinks


def _host_links(hosts: tuple[Host, ...], ports: dict[str, float]) -> list[NetworkLink]:
    """Plug every port of every host into the domain it stands in."""
    ends = [(f"/{port}" if port else "", rate) for port, rate in ports.items()]
    return [
        NetworkLink(host.id + end, str(host.domain), rate) for host in hosts for end, rate in ends
    ]
