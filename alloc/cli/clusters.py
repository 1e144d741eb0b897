"""Clusters from topology files, in the place of an instance's own."""

from typing import TYPE_CHECKING, NamedTuple

from alloc.cli.door import say
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.topology import Topology


class Cluster(NamedTuple):
    """A cluster that takes the place of an instance's own.

    Attributes
    ----------
    topology
        The cluster.
    file
        The file that it was read from.
    """

    topology: "Topology"
    file: str


def read_cluster(file: str | None, host_type: list[str] | None) -> Cluster | None:
    """Return the cluster that --topology and --host-type name, or None if they name none.

    Parameters
    ----------
    file
        The topology file, or None.
    host_type
        What --host-type says, each time that it was given; None if it was not.

    Raises
    ------
    InstanceError
        If the file cannot be read, or hosts are said without a file.
    """
    if file is None:
        if host_type:
            raise InstanceError(
                f'--host-type "{host_type[0]}" says what the hosts of a topology file are; add '
                "--topology FILE, or leave it out."
            )
        return None
    from alloc.cli.topology import read_file  # the commands of topologies, which few solves need

    topology, account = read_file(file, None, None, host_type, None, False, None)
    say(str(account))
    return Cluster(topology, file)
