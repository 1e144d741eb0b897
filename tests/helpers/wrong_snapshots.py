"""Wrong output of squeue, scontrol, sacctmgr and kubectl."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from wrong_inputs import EXAMPLES, case, changed


# Snapshots of Slurm.
def squeue(
    name: str,
    change: Callable[[Any], object],
    says: str,
    more: str = "--nodes slurm-nodes.json",
    *,
    counted: bool = False,
) -> None:
    """Add a changed output of squeue."""
    case(
        f"squeue: {name}",
        f"snapshot slurm wrong.json {more} -o out.json",
        says,
        counted=counted,
        wrong__json=changed("squeue.json", change),
    )


def first(name: str, value: object) -> Callable[[Any], object]:
    """Return a change of a field of the first job."""
    return lambda document: document["jobs"][0].__setitem__(name, value)


def waiting(name: str, value: object) -> Callable[[Any], object]:
    """Return a change of a field of the first job that waits."""

    def change(document: Any) -> None:
        pending = (job for job in document["jobs"] if job["job_state"] == ["PENDING"])
        next(pending)[name] = value

    return change


squeue("no list of jobs", lambda d: {"meta": {}}, 'wrong.json: has no list "jobs"')
squeue("jobs that are no list", lambda d: {"jobs": 5}, 'wrong.json: has no list "jobs"')
squeue(
    "no job",
    lambda d: {"jobs": []},
    'wrong.json: its list "jobs" is empty, and with no job there is nothing to',
)
squeue(
    "a job that is a number",
    lambda d: d["jobs"].append(7),
    "1 x is no object (line 9: job 7)",
    counted=True,
)
squeue(
    "a job without an id",
    lambda d: d["jobs"][0].pop("job_id"),
    "1 x job_id is missing or appears before (line 1: job None)",
    counted=True,
)
squeue(
    "an id twice",
    lambda d: d["jobs"][1].__setitem__("job_id", d["jobs"][0]["job_id"]),
    "1 x job_id is missing or appears before (line 2: job 1001)",
    counted=True,
)
squeue(
    "a state that is not",
    first("job_state", ["DREAMING"]),
    "1 x is neither running nor waiting: DREAMING (1001)",
    counted=True,
)
squeue(
    "a running job without nodes", first("nodes", ""), "1 x runs on no node (1001)", counted=True
)
squeue(
    "a node that is not",
    first("nodes", "gpu99"),
    "1 x runs on nodes that the topology has not (1001 (gpu99))",
    counted=True,
)
squeue(
    "nodes that are no list of hosts",
    first("nodes", "gpu[1-"),
    '1 x job 1001: "gpu[1-" is not a list of names: a bracket is not closed, or',
    counted=True,
)
squeue(
    "resources in words",
    first("tres_alloc_str", "many GPUs"),
    "1 x tres_alloc_str is not a count of GPUs such as 4, gpu:a100:4 or",
    counted=True,
)
squeue(
    "GPUs below zero",
    first("tres_alloc_str", "cpu=32,node=1,gres/gpu=-8"),
    "1 x tres_alloc_str is not a count of GPUs such as 4, gpu:a100:4 or",
    counted=True,
)
squeue(
    "more than a node has",
    first("tres_alloc_str", "cpu=32,node=1,gres/gpu=80"),
    "1 x larger than the cluster of 32 GPUs (1001 (1 x 80 GPUs))",
    counted=True,
)
squeue(
    "a partition that no node is in",
    waiting("partition", "moon"),
    "1 x can never start on what is left of the nodes: 1 worker needs 1",
    counted=True,
)
squeue(
    "a time that is text",
    waiting("submit_time", "yesterday"),
    "1 x submit_time is no time; it is read as the first that waits (1041)",
    counted=True,
)
squeue(
    "neither nodes nor topology",
    lambda d: None,
    "wrong.json: a queue does not say what the cluster is",
    more="",
)
squeue(
    "a host type without a topology",
    lambda d: None,
    "Invalid value: --host-type is of --topology",
    more="--host-type dgx-h100",
)
squeue(
    "an option given twice",
    lambda d: None,
    "Invalid value: nodes is given twice",
    more="--nodes slurm-nodes.json -O nodes=x",
)
squeue(
    "no file of nodes", lambda d: None, "none.json: there is no such file", more="--nodes none.json"
)
squeue(
    "jobs for nodes", lambda d: None, 'squeue.json: has no list "nodes"', more="--nodes squeue.json"
)
squeue(
    "a tree of other hosts",
    lambda d: None,
    "queue.json: tells itself what its hosts are",
    more="--nodes slurm-nodes.json --topology queue.json",
)
squeue(
    "accounts that are none",
    lambda d: None,
    "squeue.json: has no columns Account and GrpTRES",
    more="--nodes slurm-nodes.json --accounts squeue.json",
)
squeue(
    "no accounts",
    lambda d: None,
    "none.txt: there is no such file.",
    more="--nodes slurm-nodes.json --accounts none.txt",
)
case(
    "squeue: cut short",
    "snapshot slurm wrong.json --nodes slurm-nodes.json",
    "wrong.json ends too early, at line 49, column 5",
    wrong__json=(EXAMPLES / "squeue.json").read_text()[:900],
)
case(
    "squeue: text",
    "snapshot slurm wrong.txt --nodes slurm-nodes.json",
    "wrong.txt: is neither JSON nor text with bars",
    wrong__txt="JOBID PARTITION NAME USER ST TIME NODES\n1 gpu x ana R 1:00 1\n",
)
case(
    "nodes: cut short",
    "snapshot slurm squeue.json --nodes wrong.json",
    "wrong.json ends too early, at line 41, column 4",
    wrong__json=(EXAMPLES / "slurm-nodes.json").read_text()[:700],
)
case(
    "nodes: none",
    "snapshot slurm squeue.json --nodes wrong.json",
    "wrong.json: holds no node that can be read",
    wrong__json='{"nodes": []}',
)
case(
    "accounts: a quota in words",
    "snapshot slurm squeue.json --nodes slurm-nodes.json --accounts wrong.txt -o out.json",
    "1 x grptres is not a count of GPUs such as 4, gpu:a100:4 or gres/gpu=4",
    wrong__txt="Account|User|GrpTRES\nvision||gres/gpu=lots\n",
    counted=True,
)
case(
    "accounts: a column missing",
    "snapshot slurm squeue.json --nodes slurm-nodes.json --accounts wrong.txt -o out.json",
    "wrong.txt: has no columns Account and GrpTRES",
    wrong__txt="Account|User\nvision|\n",
)


# Snapshots of Kubernetes.
def kubectl(
    name: str, change: Callable[[Any], object], says: str, more: str = "", *, counted: bool = False
) -> None:
    """Add a changed output of kubectl."""
    case(
        f"kubectl: {name}",
        f"snapshot kubernetes wrong.json {more} -o out.json".replace("  ", " "),
        says,
        counted=counted,
        wrong__json=changed("kubernetes.json", change),
    )


def of(kind: str, change: Callable[[Any], object], k: int = 0) -> Callable[[Any], object]:
    """Return a change of one resource of a kind."""

    def apply(document: Any) -> None:
        change([item for item in document["items"] if item["kind"] == kind][k])

    return apply


def without(kind: str) -> Callable[[Any], object]:
    """Return a dump without the resources of a kind."""
    return lambda d: {**d, "items": [i for i in d["items"] if i["kind"] != kind]}


def requesting(name: str, value: str) -> Callable[[Any], object]:
    """Return a change of what the first pod of a team requests."""

    def change(document: Any) -> None:
        pods = (i for i in document["items"] if i["kind"] == "Pod")
        pod = next(p for p in pods if p["metadata"].get("namespace", "").startswith("team"))
        pod["spec"]["containers"][0]["resources"] = {"requests": {name: value}}

    return change


def pod(change: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return a change of the first pod of a team."""

    def apply(document: Any) -> None:
        pods = (i for i in document["items"] if i["kind"] == "Pod")
        change(next(p for p in pods if p["metadata"].get("namespace", "").startswith("team")))

    return apply


kubectl("no nodes", without("Node"), "wrong.json: holds no node, and so no cluster")
kubectl("no items", lambda d: {"kind": "List"}, "wrong.json: holds no node, and so no cluster")
kubectl(
    "items that are no list",
    lambda d: {"kind": "List", "items": 5},
    'wrong.json: is a List without "items"',
)
kubectl(
    "another kind of document",
    lambda d: {"kind": "instance"},
    "wrong.json: holds no node, and so no cluster",
)
kubectl(
    "nothing runs or waits",
    lambda d: {**d, "items": [i for i in d["items"] if i["kind"] in ("Node", "Topology")]},
    "wrong.json: holds no pod and no workload that runs or waits, so there is",
)
kubectl(
    "an item that is a number",
    lambda d: d["items"].append(7),
    "1 x is no resource (7)",
    counted=True,
)
kubectl(
    "an item of an unknown kind",
    lambda d: d["items"].append({"kind": "Unicorn", "metadata": {"name": "u"}}),
    "1 x Unicorn is not read (u)",
    counted=True,
)
kubectl(
    "a node without a name",
    of("Node", lambda n: n["metadata"].pop("name")),
    "1 x runs on nodes that are not in the dump; what it holds is taken off its",
    counted=True,
)
kubectl(
    "a node twice",
    lambda d: d["items"].append(copy.deepcopy(next(i for i in d["items"] if i["kind"] == "Node"))),
    "1 x Node appears before (gpu-0)",
    counted=True,
)
kubectl(
    "a node without amounts",
    of("Node", lambda n: n.pop("status")),
    "1 x runs on nodes that are not in the dump; what it holds is taken off its",
    counted=True,
)
kubectl(
    "amounts that are none",
    of("Node", lambda n: n["status"]["allocatable"].__setitem__("cpu", "plenty")),
    'wrong.json: status.allocatable.cpu is "plenty"',
)
kubectl(
    "a pod without requests",
    pod(lambda p: p["spec"]["containers"][0].__setitem__("resources", {})),
    "1 x Pod asks for nothing and is taken to need nothing (team-a/pretrain-0)",
    counted=True,
)
kubectl(
    "a pod without containers",
    pod(lambda p: p["spec"].__setitem__("containers", [])),
    "1 x Pod asks for nothing and is taken to need nothing (team-a/pretrain-0)",
    counted=True,
)
kubectl(
    "a pod on a node that is not",
    pod(lambda p: p["spec"].__setitem__("nodeName", "nowhere")),
    "1 x runs on nodes that are not in the dump; what it holds is taken off its",
    counted=True,
)
kubectl(
    "GPUs in words",
    requesting("nvidia.com/gpu", "four"),
    '1 x asks for nvidia.com/gpu "four", which is no quantity (line 42: Pod',
    counted=True,
)
kubectl(
    "GPUs in parts",
    requesting("nvidia.com/gpu", "1.5"),
    '1 x asks for nvidia.com/gpu "1.5", which is no whole number (line 42: Pod',
    counted=True,
)
kubectl(
    "more GPUs than a node has",
    requesting("nvidia.com/gpu", "80"),
    "1 x Node holds more than is allocatable on it; it is read as full (gpu-0:",
    counted=True,
)
kubectl(
    "CPU that is no quantity",
    requesting("cpu", "two"),
    '1 x asks for cpu "two", which is no quantity (line 42: Pod',
    counted=True,
)
kubectl(
    "a quota that is no quantity",
    of(
        "ClusterQueue",
        lambda q: q["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].__setitem__(
            "nominalQuota", "lots"
        ),
    ),
    '1 x ClusterQueue: quota of cpu is "lots", which is no quantity (team-a)',
    counted=True,
)
kubectl(
    "levels that no node has",
    lambda d: None,
    'wrong.json: no node has the label "rack"',
    "--levels rack,zone",
)
kubectl(
    "levels twice",
    lambda d: None,
    "Invalid value: levels is given twice",
    "--levels example.com/rack -O levels=x",
)
kubectl(
    "no such set of labels", lambda d: None, 'wrong.json: labels is "gcp-gke"', "-O labels=gcp-gke"
)
kubectl(
    "a step of nothing",
    lambda d: None,
    "memory_step_mib is 0; give 1 or more.",
    "-O memory_step_mib=0",
)
kubectl(
    "an unknown option",
    lambda d: None,
    'reader "kubernetes" has no option "gpu_typ"',
    "-O gpu_typ=h100",
)
kubectl(
    "shares in words", lambda d: None, 'shares is "maybe"; give true or false.', "-O shares=maybe"
)
kubectl(
    "a second file that is not", lambda d: None, "none.json: there is no such file", "none.json"
)
kubectl(
    "a second file that is text",
    lambda d: None,
    "jobs.csv: is not JSON (line 1: Expecting value)",
    "jobs.csv",
)
case(
    "kubectl: cut short",
    "snapshot kubernetes wrong.json",
    "wrong.json: ends on line 96, in the middle: it was cut short",
    wrong__json=(EXAMPLES / "kubernetes.json").read_text()[:2000],
)
case(
    "kubectl: YAML",
    "snapshot kubernetes wrong.yaml",
    "wrong.yaml: is not JSON (line 1: Expecting value)",
    wrong__yaml="apiVersion: v1\nkind: List\nitems: [\n",
)
case(
    "kubectl: a table",
    "snapshot kubernetes wrong.txt",
    "wrong.txt: is not JSON (line 1: Expecting value)",
    wrong__txt="NAME STATUS ROLES AGE\ngpu-0 Ready <none> 3d\n",
)
case(
    "kubectl: nothing",
    "snapshot kubernetes wrong.json",
    "wrong.json: is not JSON (line 1: Expecting value)",
    wrong__json="",
)
