"""Node labels: which labels of a Kubernetes node say where in the network it stands.

There is no standard label for racks, so each cloud and tool has its own. A set of labels is chosen
by name, or told from the nodes where only one fits; else the user gives the labels.

References
----------
Topograph, "Node labels and annotations"; Google Kubernetes Engine, "Topology-aware scheduling";
Amazon EC2, "Instance topology"; Oracle Kubernetes Engine, node labels; CoreWeave, "InfiniBand and
RoCE labels"; Kubernetes, "Well-known labels"; NVIDIA GPU feature discovery.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import nearest
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.tree import tier_names

HOSTNAME = "kubernetes.io/hostname"
"""The label that names the node itself; as a level it is the host."""

CLIQUE = "nvidia.com/gpu.clique"
"""NVLink domain and partition of a node whose NVLinks leave it: ``<ClusterUUID>.<CliqueID>``."""

NVLINK_LEVEL = "nvlink-domain"
"""Level of the domains in which GPUs of several hosts are joined by NVLink."""

NO_LABELS = "none"
"""Name of the choice of no labels: a flat cluster."""


@dataclass(frozen=True)
class LabelSet:
    """Labels of one origin.

    Parameters
    ----------
    name
        Unique name.
    origin
        Who sets them, for people.
    labels
        Label and level, outermost first.
    family
        A pattern of labels with a number, in place of `labels`, where their count varies.
    leaf_is_lowest
        Whether the lowest number of the family is the level next to the host.
    nvlink
        Labels of NVLink domains, outermost first, where the set has its own.
    local_names
        Whether a value is unique only within the domain above it.
    """

    name: str
    origin: str
    labels: tuple[tuple[str, str], ...] = ()
    family: re.Pattern[str] | None = None
    leaf_is_lowest: bool = True
    nvlink: tuple[str, ...] = ()
    local_names: bool = False

    def levels(self, known: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return label and level, outermost first, of those labels that some node has."""
        if self.family is None:
            present = set(known)
            return tuple(pair for pair in self.labels if pair[0] in present)
        numbered = {int(m[1]): label for label in known if (m := self.family.fullmatch(label))}
        order = sorted(numbered, reverse=self.leaf_is_lowest)
        return tuple(zip((numbered[n] for n in order), tier_names(len(order)), strict=True))


LABEL_SETS: Mapping[str, LabelSet] = {
    known.name: known
    for known in (
        LabelSet(
            "topograph",
            "Topograph",
            family=re.compile(r"fabric\.topograph\.run/tier-(\d{1,2})"),
            nvlink=("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"),
        ),
        LabelSet(
            "topograph-0",
            "Topograph before version 1",
            labels=tuple(
                (f"network.topology.nvidia.com/{tier}", tier) for tier in ("core", "spine", "leaf")
            ),
            nvlink=("network.topology.nvidia.com/accelerator",),
        ),
        LabelSet(
            "gcp",
            "Google Kubernetes Engine",
            labels=(
                ("cloud.google.com/gce-topology-block", "block"),
                ("cloud.google.com/gce-topology-subblock", "subblock"),
            ),
        ),
        LabelSet(
            "aws",
            "Amazon Elastic Kubernetes Service",
            family=re.compile(r"topology\.k8s\.aws/network-node-layer-(\d{1,2})"),
            leaf_is_lowest=False,
        ),
        LabelSet(
            "oci",
            "Oracle Kubernetes Engine",
            labels=(
                ("oci.oraclecloud.com/host.network_block_id", "network-block"),
                ("oci.oraclecloud.com/host.rack_id", "rack"),
            ),
        ),
        LabelSet(
            "coreweave",
            "CoreWeave Kubernetes Service",
            labels=tuple(
                (f"backend.coreweave.cloud/{level}", level)
                for level in ("fabric", "superpod", "leafgroup")
            ),
            nvlink=("ds.coreweave.com/nvlink.domain",),
            # Superpods and leaf groups are numbered.
            local_names=True,
        ),
        LabelSet(
            "zones",
            "Kubernetes: region and zone",
            labels=(
                ("topology.kubernetes.io/region", "region"),
                ("topology.kubernetes.io/zone", "zone"),
            ),
        ),
    )
}
"""Label sets by name."""

# Every cloud sets them, so they decide only where there is nothing finer.
_LAST_RESORT = "zones"


def choose_labels(name: str | None, known: Sequence[str], file: Place) -> LabelSet | None:
    """Return the label set of a name, or the one that the nodes have.

    Parameters
    ----------
    name
        A name in `LABEL_SETS`; ``"none"``; or None for whichever set the nodes have labels of.
    known
        The labels that any node has a value for.
    file
        For messages.

    Returns
    -------
    LabelSet or None
        None for a flat cluster.

    Raises
    ------
    InstanceError
        If there is no such set, no node has its labels, or none or several fit.
    """
    if name == NO_LABELS:
        return None
    if name is not None and name not in LABEL_SETS:
        choices = (*LABEL_SETS, NO_LABELS)
        raise file.error(
            f"labels is {shown(name)}{nearest(name, choices) or ';'} known are "
            f"{', '.join(choices)}, "
            "or name the labels themselves with levels."
        )
    if name is not None:
        chosen = LABEL_SETS[name]
        if not chosen.levels(known):
            raise file.error(
                f"no node has a label of the set {name} ({chosen.origin}){_has(known)}"
            )
        return chosen
    found = [known_set for known_set in LABEL_SETS.values() if known_set.levels(known)]
    if len(found) > 1:
        found = [known_set for known_set in found if known_set.name != _LAST_RESORT]
    if len(found) > 1:
        names = " and ".join(known_set.name for known_set in found)
        raise file.error(
            f"the nodes have labels of {names}; say which with labels, for example "
            f"labels={found[0].name}."
        )
    if not found:
        raise file.error(f"no node has a label of a set that alloc knows{_has(known)}")
    return found[0]


def own_levels(
    labels: Sequence[str], known: Sequence[str], file: Place
) -> tuple[tuple[str, str], ...]:
    """Return label and level of the labels that a user gave, outermost first.

    A level is named by the last part of its label where that tells them apart.

    Parameters
    ----------
    labels
        The labels that the user gave, outermost first.
    known
        The labels of the nodes.
    file
        The file, for messages.

    Raises
    ------
    InstanceError
        If a label is given twice, or no node has it.
    """
    labels = [label for label in labels if label != HOSTNAME]
    for k, label in enumerate(labels):
        if label in labels[:k]:
            raise file.error(f"levels names {shown(label)} twice; name every label once.")
        if label not in known:
            raise file.error(
                f"no node has the label {shown(label)}{nearest(label, known) or _has(known)}"
            )
    short = [label.rpartition("/")[2] for label in labels]
    unique = len(set(short)) == len(short) and not {"host", "gpu"} & set(short)
    return tuple(zip(labels, short if unique else labels, strict=True))


def _has(known: Sequence[str]) -> str:
    """Return the end of a sentence that says which labels there are."""
    useful = [label for label in known if re.search(r"topology|rack|block|zone|region", label)]
    if not useful:
        return '; name the labels with levels, or say labels="none" for a flat cluster.'
    more = ", ..." if len(useful) > 8 else ""
    return (
        "; name labels with levels, outermost first, or say labels=none for a flat cluster. They "
        f"have {', '.join(useful[:8])}{more}."
    )
