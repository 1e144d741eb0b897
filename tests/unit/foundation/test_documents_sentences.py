"""Bad documents are refused in one sentence that names owner, field, value and cure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from week_document import INSTANCE, WORKER

from alloc.documents import format_of, json_schema
from alloc.errors import InstanceError

Change = Callable[[dict[str, Any]], Any]


def job(**fields: Any) -> Change:
    """Change fields of job train-17."""
    return lambda document: document["jobs"][0].update(fields)


def group(**fields: Any) -> Change:
    """Change fields of the task group that job train-17 has through its set."""
    return lambda document: document["configuration_sets"]["resnet"][0]["tasks"][0].update(fields)


def inline(**fields: Any) -> Change:
    """Change fields of the task group that job eval-3 lists itself."""
    return lambda document: document["jobs"][1]["configurations"][0]["tasks"][0].update(fields)


def configuration(**fields: Any) -> Change:
    """Change fields of the configuration of job eval-3."""
    return lambda document: document["jobs"][1]["configurations"][0].update(fields)


def host_type(**fields: Any) -> Change:
    """Change fields of the only host type."""
    return lambda document: document["topology"]["host_types"][0].update(fields)


def topology(**fields: Any) -> Change:
    """Change fields of the topology."""
    return lambda document: document["topology"].update(fields)


def root(**fields: Any) -> Change:
    """Change fields of the instance."""
    return lambda document: document.update(fields)


def renamed(old: str, new: str) -> Change:
    """Misspell a field of job train-17."""
    return lambda document: document["jobs"][0].update({new: document["jobs"][0].pop(old)})


def without(field: str) -> Change:
    """Drop a field of job train-17."""
    return lambda document: document["jobs"][0].pop(field)


RUN = {"job": "eval-3", "configuration": 0}
RESNET = 'job "train-17", configuration set "resnet", configurations[0]'

STRUCTURE: dict[str, tuple[Change, str]] = {
    "misspelled field": (
        renamed("arrival_s", "arival_s"),
        'job "train-17": unknown field "arival_s"; did you mean "arrival_s"?',
    ),
    "misspelled optional field": (
        job(dedline_s=30),
        'job "train-17": unknown field "dedline_s"; did you mean "deadline_s"?',
    ),
    "unknown field": (
        job(colour="red"),
        'job "train-17": unknown field "colour"; known fields: id, arrival_s, work, '
        "configurations, weight, deadline_s, due_date_s, tenant, elasticity, preemptible, "
        "restart_cost_s, work_done, model, placement, refusable, checkpoint_s, stages.",
    ),
    "missing field": (
        without("arrival_s"),
        'job "train-17": field "arrival_s" is missing; add it (arrival, seconds since the start',
    ),
    "missing work": (
        without("work"),
        'job "train-17": work is 0; it must be more than 0.',
    ),
    "missing id": (without("id"), 'jobs[0]: field "id" is missing; add it (unique name'),
    "several errors": (
        job(colour=1, work="10", weight=True),
        "placement, refusable, checkpoint_s, stages. (and 2 more)",
    ),
    "number in quotes": (job(work="10"), 'job "train-17": work is "10"; give a number without'),
    "boolean for a number": (job(work=True), 'job "train-17": work is true; give a number.'),
    "boolean for a count": (
        group(count=True),
        f'{RESNET}, task group "worker": count is true; give a whole number.',
    ),
    "null": (job(weight=None), 'job "train-17": weight is null; give a number.'),
    "number for text": (job(id=17), "jobs[0]: id is 17; give text in quotes."),
    "fraction for a count": (
        inline(count=2.5),
        'job "eval-3", configurations[0], task group "worker": count is 2.5; give a whole number.',
    ),
    "unknown choice": (
        job(elasticity="maleable"),
        'job "train-17": elasticity is "maleable", which is unknown; did you mean "malleable"? '
        "known: malleable, moldable, rigid.",
    ),
    "choice without a near one": (
        job(elasticity="fixed"),
        'elasticity is "fixed", which is unknown; known: malleable, moldable, rigid.',
    ),
    "number for a boolean": (
        job(preemptible=1),
        'job "train-17": preemptible is 1; give true or false.',
    ),
    "quoted boolean": (
        job(preemptible="false"),
        'preemptible is "false"; give true or false without quotes.',
    ),
    "unknown set": (
        job(configurations="resnt"),
        'job "train-17": configurations names the set "resnt", which is not in configuration_sets; '
        'did you mean "resnet"?',
    ),
    "set that is nowhere": (
        job(configurations="bert"),
        'names the set "bert", which is not in configuration_sets; define it there, or list',
    ),
    "configurations of another type": (
        job(configurations=3),
        'job "train-17": configurations is 3; give the name of one of configuration_sets, or a',
    ),
    "misspelled field of a set": (
        lambda d: d["configuration_sets"]["resnet"][0].update(rat=1),
        f'{RESNET}: unknown field "rat"; did you mean "rate"?',
    ),
    "misspelled field of a set that no job uses": (
        lambda d: d["configuration_sets"].update(spare=[{"tasks": [WORKER], "rat": 1}]),
        'configuration set "spare", configurations[0]: unknown field "rat"; did you mean "rate"?',
    ),
    "set that is not a list": (
        lambda d: d["configuration_sets"].update(resnet=3),
        'instance "week": configuration_sets["resnet"] is 3; give a list.',
    ),
    "job that is not an object": (lambda d: d["jobs"].append(3), "jobs[2] is 3; give an object."),
    "list that is an object": (root(jobs={}), 'instance "week": jobs is an object; give a list.'),
    "unknown field of the instance": (
        root(slot=3),
        'instance "week": unknown field "slot"; did you mean "slot_s"?',
    ),
    "text that is a number": (
        root(description={"seed": 3}),
        'instance "week": description["seed"] is 3; give text in quotes.',
    ),
    "unknown field of a host": (
        lambda d: d["topology"]["hosts"][0].update(typ="dgx"),
        'host "host-0": unknown field "typ"; did you mean "type"?',
    ),
    "unknown field of the topology": (
        topology(level=["leaf"]),
        'topology "lab": unknown field "level"; did you mean "levels"?',
    ),
    "missing field of a device link": (
        host_type(links=[{"a": "gpu0", "b": "gpu1", "kind": "nvlink"}]),
        'host type "dgx", links[0]: field "bandwidth_gb_per_s" is missing',
    ),
    "wrong type in a fabric link": (
        topology(links=[{"a": "host-0", "b": "leaf-0", "bandwidth_gb_per_s": "25"}]),
        'topology "lab", links[0]: bandwidth_gb_per_s is "25"; give a number without quotes.',
    ),
    "unknown field of a tenant": (
        lambda d: d["tenants"][0].update(quota=1),
        'tenant "red": unknown field "quota"; known fields: name, gpu_quota_milli, cohort, '
        "borrowing_milli.",
    ),
    "misspelled placement rule": (
        job(placement={"requird": "leaf"}),
        'job "train-17", placement: unknown field "requird"; did you mean "required"?',
    ),
    "slices that do not divide": (
        job(placement={"slices": [{"level": "leaf", "size": 3}, {"level": "host", "size": 2}]}),
        'job "train-17": slices: 2 tasks per host do not divide the 3 per leaf',
    ),
    "misspelled field of an affinity": (
        root(affinities=[{"kind": "apart", "levl": "leaf", "jobs": ["train-17", "eval-3"]}]),
        'affinities[0]: unknown field "levl"; did you mean "level"?',
    ),
    "affinity of no kind": (
        root(affinities=[{"kind": "apar", "level": "leaf", "jobs": ["train-17", "eval-3"]}]),
        'did you mean "apart"? known: together, apart.',
    ),
    "misspelled field of moves": (
        root(moves={"bugdet": 3}),
        'moves: unknown field "bugdet"; did you mean "budget"?',
    ),
    "missing field of a running task": (
        root(running=[{**RUN, "tasks": [{"host": "host-0", "role": "worker"}]}]),
        'running job "eval-3" (running[0]), tasks[0]: field "count" is missing',
    ),
    "number too large for any model": (
        group(count=10**30),
        "count is a whole number of 31 digits, which does not fit 64 bits; give a smaller number.",
    ),
    "number too large for a float": (
        job(work=10**400),
        'job "train-17": work is a whole number of 401 digits, which is too large',
    ),
    "NaN": (job(work=float("nan")), 'job "train-17": work is NaN; give a finite number'),
    "infinity": (
        job(deadline_s=float("inf")),
        'job "train-17": deadline_s is infinite or too large; give a finite number',
    ),
    "long text": (job(work="x" * 500), 'work is "' + "x" * 56 + '..."; give a number'),
}  # fmt: skip

MEANING: dict[str, tuple[Change, str]] = {
    "Unix time": (
        job(arrival_s=1.7e12),
        'job "train-17": arrival_s is 1.7e+12 s, more than a century; times are seconds since the '
        "start of the instance, so convert milliseconds and subtract Unix epochs first.",
    ),
    "negative time": (job(arrival_s=-1), 'job "train-17": arrival_s is -1; it must be 0 or more.'),
    "no work": (job(work=0), 'job "train-17": work is 0; it must be more than 0.'),
    "negative weight": (job(weight=-2), 'job "train-17": weight is -2; it must be more than 0.'),
    "finished job": (
        job(work_done=10),
        'job "train-17": work_done 10 is not less than its work 10; leave finished jobs out.',
    ),
    "deadline before arrival": (
        job(arrival_s=4000, deadline_s=3600),
        'job "train-17": deadline_s 3600 is not after its arrival 4000; a job must arrive before '
        "its deadline.",
    ),
    "empty id": (job(id=""), "a job has an empty id; give every job a unique id."),
    "duplicate id": (
        job(id="eval-3"),
        'instance "week": job "eval-3" appears twice; job ids must be unique.',
    ),
    "no configurations": (
        job(configurations=[]),
        'job "train-17": has no configurations; give at least one way to run it.',
    ),
    "rigid with a choice": (
        job(elasticity="rigid", configurations=[{"tasks": [WORKER], "rate": k} for k in (1, 2)]),
        'job "train-17": is rigid but has 2 configurations; keep one or call it moldable.',
    ),
    "never finishes": (
        configuration(rate=0),
        'job "eval-3": no configuration has a rate above 0; it never finishes.',
    ),
    "negative rate": (
        configuration(rate=-1),
        'job "eval-3", configurations[0]: configuration 1 worker: rate is -1; it must be 0 or',
    ),
    "no tasks": (
        configuration(tasks=[]),
        'job "eval-3", configurations[0]: a configuration has no tasks; give at least one',
    ),
    "role twice": (
        configuration(tasks=[WORKER, WORKER]),
        'job "eval-3", configurations[0]: a configuration names a role twice (worker, worker); '
        "merge the task groups.",
    ),
    "empty role": (inline(role=""), 'job "eval-3", configurations[0]: a task group has an empty'),
    "no task": (
        group(count=0),
        f'{RESNET}: task group "worker": count is 0; it must be 1 or more.',
    ),
    "count in thousandths": (
        group(count=4_000_000),
        f'{RESNET}: task group "worker": count is 4000000, more than a million; counts are whole',
    ),
    "GPUs counted": (
        group(gpu_milli=1),
        f'{RESNET}: task group "worker": gpu_milli is 1, less than 1 % of a GPU; the unit is a '
        "thousandth, so write 1000 for 1 GPU(s).",
    ),
    "cores counted": (
        inline(cpu_milli=8),
        'task group "worker": cpu_milli is 8, less than 1 % of a core; the unit is a thousandth, '
        "so write 8000 for 8 core(s).",
    ),
    "memory in bytes": (
        inline(memory_mib=64 * 2**30),
        'job "eval-3", configurations[0]: task group "worker": memory_mib is 68719476736 MiB, more '
        "than 64 TiB; the unit is MiB, so divide bytes by 1,048,576.",
    ),
    "negative memory": (inline(memory_mib=-1), "memory_mib is -1; it must be 0 or more."),
    "cores in millionths": (
        inline(cpu_milli=4_000_000_000),
        "cpu_milli is 4000000000, more than a million cores; the unit is a thousandth of one.",
    ),
    "one GPU and a half": (
        group(gpu_milli=1500),
        f'{RESNET}: task group "worker": gpu_milli is 1500; above one GPU only whole GPUs can be '
        "asked for, so round to a multiple of 1000.",
    ),
    "more than the cluster": (
        inline(count=8),
        'job "eval-3": fits the empty cluster in none of its configurations (8 worker needs 8 GPU '
        "of 4 GPU); add hosts, shrink the job or drop it.",
    ),
    "task larger than a host": (
        inline(gpu_milli=3000, count=1, cpu_milli=70000),
        'job "eval-3": fits the empty cluster in none',
    ),
    "GPU type that is not there": (
        configuration(gpu_type="h100"),
        'job "eval-3": fits the empty cluster in none of its configurations (the cluster has no '
        'GPU of type "h100")',
    ),
    "level that is not there": (
        configuration(within="laef"),
        'its level "laef" is not in the topology; did you mean "leaf"?',
    ),
    "empty cluster": (topology(hosts=[]), 'topology "lab": has no hosts; a cluster needs at least'),
    "no jobs": (root(jobs=[]), 'instance "week": has no jobs; there is nothing to allocate.'),
    "no slot": (root(slot_s=0), 'instance "week": slot_s is 0; it must be more than 0.'),
    "slot too short": (
        root(slot_s=1e-6),
        'instance "week": slot_s is 1e-06 s, less than a millisecond; slots are given in seconds.',
    ),
    "slot in nanoseconds": (root(slot_s=1.2e12), 'instance "week": slot_s is 1.2e+12 s, more than'),
    "horizon": (root(horizon_s=-5), 'instance "week": horizon_s is -5; it must be more than 0.'),
    "quota in GPUs": (
        lambda d: d["tenants"][0].update(gpu_quota_milli=8),
        'tenant "red": gpu_quota_milli is 8, less than 1 % of a GPU; the unit is a thousandth, so '
        "write 8000 for 8 GPU(s).",
    ),
    "negative quota": (
        lambda d: d["tenants"][0].update(gpu_quota_milli=-1),
        'tenant "red": gpu_quota_milli is -1; it must be 0 or more.',
    ),
    "tenant twice": (
        lambda d: d["tenants"].append(d["tenants"][0]),
        'instance "week": a tenant appears twice; tenant names must be unique.',
    ),
    "running job that is not there": (
        root(running=[{**RUN, "job": "eval-33"}]),
        'instance "week": running names job "eval-33", which is not in jobs; did you mean "eval-3"',
    ),
    "running job twice": (root(running=[RUN, RUN]), 'running names job "eval-3" twice; keep one.'),
    "running configuration that is not there": (
        root(running=[{**RUN, "configuration": 1}]),
        'job "eval-3": runs in configuration 1, but has 1; count them from 0.',
    ),
    "running tasks of a role that is not there": (
        root(running=[{**RUN, "tasks": [{"host": "host-0", "role": "wroker", "count": 1}]}]),
        'job "eval-3": runs tasks of role "wroker", which its configuration 0 does not have; did '
        'you mean "worker"?',
    ),
    "running on a host that is not there": (
        root(running=[{**RUN, "tasks": [{"host": "host-1", "role": "worker", "count": 1}]}]),
        'job "eval-3": runs on host "host-1", which is not in the topology; did you mean "host-0"?',
    ),
    "GPUs of no type": (
        host_type(gpu_type=None),
        'host type "dgx": has 4 GPUs of no type; set gpu_type, for example "generic".',
    ),
    "negative GPUs": (host_type(num_gpus=-1), 'host type "dgx": num_gpus is -1; it must be 0 or'),
    "GPUs in thousandths": (
        host_type(num_gpus=8_000_000),
        'host type "dgx": num_gpus is 8000000, more than a million; counts are whole things',
    ),
    "link without bandwidth": (
        host_type(links=[{"a": "gpu0", "b": "gpu1", "kind": "nvlink", "bandwidth_gb_per_s": 0}]),
        'host type "dgx", link gpu0-gpu1: bandwidth_gb_per_s is 0; it must be more than 0.',
    ),
    "unknown host type": (
        lambda d: d["topology"]["hosts"][0].update(type="hgx-h100"),
        'host "host-0" is of type "hgx-h100", which is not defined; define it in host_types.',
    ),
    "unknown domain": (
        lambda d: d["topology"]["hosts"][0].update(domain="leaf-1"),
        'host "host-0" stands in domain "leaf-1", which is not defined; did you mean "leaf-0"?',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), STRUCTURE.values(), ids=STRUCTURE)
def test_structure(change: Change, sentence: str) -> None:
    """What JSON Schema would refuse too is said in the reader's words, with the owner's name."""
    _refused(change, sentence)


@pytest.mark.parametrize(("change", "sentence"), MEANING.values(), ids=MEANING)
def test_meaning(change: Change, sentence: str) -> None:
    """Confused units and impossible demands keep their sentence on the way through a document."""
    _refused(change, sentence)


def _refused(change: Change, sentence: str) -> None:
    document = json.loads(json.dumps(INSTANCE))
    change(document)
    with pytest.raises(InstanceError, match=re.escape(sentence)) as caught:
        format_of("instance").parse(json.dumps(document))
    assert "\n" not in str(caught.value)


def test_the_unchanged_document_is_read() -> None:
    """Without this, every test above could be about a mistake in the document they share."""
    instance = format_of("instance").parse(json.dumps(INSTANCE))
    assert instance.jobs[0].configurations[0].rate == 2.0


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (job(work=10.0), 10.0),
        (job(work=10), 10.0),
        (group(count=1.0), 1),
    ],
    ids=["float", "whole number for a float", "1.0 for a count"],
)
def test_whole_numbers_may_be_written_either_way(change: Change, value: float) -> None:
    """JSON has one kind of number; many writers print 1.0 for 1 and the other way round."""
    document = json.loads(json.dumps(INSTANCE))
    change(document)
    first = format_of("instance").parse(json.dumps(document)).jobs[0]
    found = first.work if value == 10.0 else first.configurations[0].tasks[0].count
    assert found == value
    assert type(found) is type(value)


def test_topology_documents_are_checked_alike() -> None:
    """A topology by itself has the same parts as inside an instance."""
    document = {"schema_version": 1, "kind": "topology", **INSTANCE["topology"]}
    assert format_of("topology").parse(json.dumps(document)).num_gpus == 4
    document["host"] = document.pop("hosts")
    with pytest.raises(InstanceError, match=r'topology "lab": unknown field "host"; did you mean'):
        format_of("topology").parse(json.dumps(document))


def test_unknown_schemas_are_refused() -> None:
    """The command line passes on what the user typed."""
    with pytest.raises(InstanceError, match='unknown kind of document "instances"; did you mean'):
        json_schema("instances")


def test_of_a_list_that_is_wrong_everywhere_the_first_item_is_reported() -> None:
    """A table in another format has an error in each of its jobs; only the first one matters."""
    wrong = {"id": "x", "submit": 1, "gpus": 2, "duration": 3}
    with pytest.raises(InstanceError, match=r'^job "x": unknown field "submit".* \(and 3 more\)$'):
        format_of("instance").parse(json.dumps({**INSTANCE, "jobs": [wrong] * 10_000}))
