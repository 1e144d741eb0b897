"""Wrong topology files."""

from __future__ import annotations

from wrong_inputs import TREE, case

TOP = "instances import table jobs.csv -o out.json --topology"


def tree(name: str, text: str, says: str, more: str = "--host-type dgx-h100") -> None:
    """Add a topology file of Slurm."""
    case(f"topology: {name}", f"{TOP} wrong.conf {more}", says, wrong__conf=text)


tree("no such machine", TREE, 'there is no machine "dgx-h1000"', "--host-type dgx-h1000")
tree(
    "no machine at all", TREE, "wrong.conf: does not say what its hosts are (GPUs, CPU, memory)", ""
)
tree(
    "machine of unknown hosts",
    TREE,
    'wrong.conf: host_type says nothing about host "gpu1"',
    "--host-type node[1-2]=dgx-h100",
)
tree("a machine without a name", TREE, '--host-type "gpu1=" names no machine', "--host-type gpu1=")
tree(
    "a host under two switches",
    "SwitchName=l1 Nodes=a,b\nSwitchName=l2 Nodes=b\n",
    'wrong.conf, line 2: node "b" lies in "l2" and also in "l1" (line 1)',
)
tree(
    "a switch twice",
    "SwitchName=l1 Nodes=a\nSwitchName=l1 Nodes=b\n",
    'wrong.conf, line 2: switch "l1" is named twice, first on line 1',
)
tree(
    "a switch that is not",
    "SwitchName=l1 Nodes=a\nSwitchName=s Switches=l1,l2\n",
    'wrong.conf, line 2: switch "s" contains "l2", which is not defined',
)
tree(
    "switches in a circle",
    "SwitchName=l Nodes=n1\nSwitchName=a Switches=b,l\nSwitchName=b Switches=a\n",
    'wrong.conf, line 3: switch "b" contains "a" contains "b": a circle',
)
tree(
    "a range backwards",
    "SwitchName=l1 Nodes=n[9-1]\n",
    'wrong.conf, line 1: the range 9-1 in "n[9-1]" runs backwards',
)
tree(
    "an open bracket",
    "SwitchName=l1 Nodes=n[1-2\n",
    'wrong.conf, line 1: "n[1-2" is not a list of names: a bracket is not',
)
tree(
    "a range of a billion",
    "SwitchName=l1 Nodes=n[1-1000000000]\n",
    'wrong.conf, line 1: "n[1-1000000000]" stands for more than 1,000,000 names',
)
tree("nothing", "", "wrong.conf: is empty; give a topology file.")
tree("comments alone", "# nothing yet\n", "wrong.conf: its topology format is not recognised")
tree("another file", "hello, world\n", "wrong.conf: its topology format is not recognised")
tree(
    "a switch without hosts",
    "SwitchName=l1\n",
    'wrong.conf, line 1: switch "l1" has neither nodes nor switches',
)
case(
    "topology: no such file",
    f"{TOP} none.conf --host-type dgx-h100",
    "none.conf: there is no such file",
)
case(
    "topology: JSON cut short",
    f"{TOP} wrong.json",
    "wrong.json, line 1: is not JSON (Expecting value, column 32)",
    wrong__json='{"kind": "topology", "hosts": [',
)
case(
    "topology: JSON of another kind",
    f"{TOP} inference.json",
    "inference.json: its topology format is not recognised",
)
case(
    "topology: a number",
    f"{TOP} wrong.json",
    "wrong.json: its topology format is not recognised",
    wrong__json="5",
)
case(
    "topology: hosts unknown to it",
    "place queue.json --topology tree.conf --host-type dgx-h100",
    'queue.json: job "llama": runs on host "node00", which is not in the',
)
case(
    "topology: of a problem without a cluster",
    "solve inference.json --topology tree.conf --host-type dgx-h100",
    "inference.json: is an inference problem, and --topology gives the cluster",
)
