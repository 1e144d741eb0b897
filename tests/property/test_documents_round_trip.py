"""Documents keep everything: what is written reads back equal, and validates against its schema."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from rule_strategies import ruled_instances
from strategies import certificates, instances, results, solutions

from alloc.documents import canonical_json, format_of, json_schema
from alloc.documents.reading import save
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.solution import Assignment
from alloc.result import Result
from alloc.topology import HostType, Topology, flat_cluster
from alloc.topology.topology import HOST
from alloc.workload import (
    Configuration,
    InterferenceTable,
    Job,
    PlacementRules,
    Slice,
    Spread,
    Stage,
    TaskGroup,
    rigid_gang,
)

VALIDATORS = {
    kind: Draft202012Validator(json_schema(kind))
    for kind in ("instance", "solution", "result", "topology")
}
thorough = settings(max_examples=60, deadline=None)


def valid(kind: str, text: str) -> str:
    """Return the text after the published schema has accepted it."""
    VALIDATORS[kind].validate(json.loads(text, parse_constant=pytest.fail))
    return text


@pytest.mark.long
@thorough
@given(
    st.booleans().flatmap(lambda wild: st.one_of(instances(wild=wild), ruled_instances(wild=wild)))
)
def test_instances(instance: Instance) -> None:
    """Also twice: a document written again after reading has no reason to differ."""
    text = valid("instance", save(instance))
    found = format_of("instance").parse(text)
    assert found == instance
    assert found.description == instance.description
    assert save(found) == text
    assert format_of("instance").parse(text.encode()) == instance


@pytest.mark.long
@thorough
@given(st.data(), st.booleans())
def test_solutions_and_results(data: st.DataObject, wild: bool) -> None:
    """A result that does not survive its file is a result lost."""
    instance = data.draw(instances(wild=wild))
    solution = data.draw(solutions(instance, wild=wild))
    assert format_of("solution").parse(valid("solution", save(solution))) == solution
    result = data.draw(results(instance, wild=wild))
    assert format_of("result").parse(valid("result", save(result))) == result
    unsolved = Result(None, data.draw(certificates(wild=wild)), conflict="no job fits")
    assert format_of("result").parse(valid("result", save(unsolved))) == unsolved


@pytest.mark.long
@thorough
@given(st.booleans().flatmap(lambda wild: instances(wild=wild)))
def test_topologies(instance: Instance) -> None:
    """A cluster can be kept by itself and put under other jobs."""
    topology = instance.topology
    assert format_of("topology").parse(valid("topology", save(topology))) == topology


@pytest.mark.long
@thorough
@given(instances(max_jobs=5))
def test_jobs_with_equal_configurations_share_them_after_reading(instance: Instance) -> None:
    """Sharing is what keeps 10,000 jobs small in memory and quick to check."""
    found = format_of("instance").parse(save(instance)).jobs
    for a in found:
        for b in found:
            if a.configurations == b.configurations:
                assert a.configurations is b.configurations


@pytest.mark.long
@thorough
@given(st.one_of(instances(), ruled_instances()))
def test_the_fingerprint_does_not_see_how_the_problem_is_stored(instance: Instance) -> None:
    """Shared or copied configurations, ints or floats, a description: the problem is the same."""
    copied = instance.replace(
        jobs=tuple(
            job.replace(
                configurations=tuple([*job.configurations]), arrival_s=_as_int(job.arrival_s)
            )
            for job in instance.jobs
        ),
        description={"generator": "another"},
    )
    assert copied.fingerprint == instance.fingerprint
    assert format_of("instance").parse(save(instance)).fingerprint == instance.fingerprint
    document = json.loads(save(instance))
    for job in document["jobs"]:
        if isinstance(job["configurations"], str):
            job["configurations"] = document["configuration_sets"][job["configurations"]]
    del document["configuration_sets"]
    assert format_of("instance").parse(json.dumps(document)).fingerprint == instance.fingerprint


def _as_int(value: float) -> float:
    return int(value) if value.is_integer() else value


CHANGES: dict[str, Any] = {
    "name": lambda i: i.replace(name=i.name + "x"),
    "slot": lambda i: i.replace(slot_s=7.0),
    "horizon": lambda i: i.replace(horizon_s=7e6),
    "tenants": lambda i: i.replace(tenants=(*i.tenants, Tenant("new", 1000))),
    "running": lambda i: i.replace(
        running=() if i.running else (Assignment(i.jobs[0].id, 0),)
    ),
    "topology name": lambda i: i.replace(topology=i.topology.replace(name="other")),
    "one host more": lambda i: i.replace(topology=_one_more_host(i.topology)),
    "order of jobs": lambda i: i.replace(jobs=i.jobs[::-1]) if len(i.jobs) > 1 else None,
    "one job less": lambda i: (
        i.replace(jobs=i.jobs[:-1], running=()) if len(i.jobs) > 1 else None
    ),
    # Without running jobs: the other configurations may lack a role that a task of theirs has.
    "order of configurations": lambda i: _with_job(
        i.replace(running=()), configurations=i.jobs[0].configurations[::-1]
    )
    if len(set(i.jobs[0].configurations)) > 1
    and i.jobs[0].configurations != i.jobs[0].configurations[::-1]
    else None,
    "id": lambda i: _with_job(i.replace(running=()), id="renamed"),
    "arrival": lambda i: _with_job(i, arrival_s=i.jobs[0].arrival_s + 0.01),
    "work": lambda i: _with_job(i, work=i.jobs[0].work + 1),
    "weight": lambda i: _with_job(i, weight=i.jobs[0].weight + 1),
    "deadline": lambda i: _with_job(i, deadline_s=12345.0),
    "due date": lambda i: _with_job(i, due_date_s=12345.0),
    "checkpoint": lambda i: _with_job(i, checkpoint_s=12345.0),
    "stages": lambda i: _with_stage(i),
    "refusable": lambda i: None if i.running else _with_job(i, deadline_s=12345.0, refusable=True),
    "tenant": lambda i: _with_job(i, tenant="nobody"),
    "preemptible": lambda i: _with_job(i, preemptible=not i.jobs[0].preemptible),
    "restart cost": lambda i: _with_job(i, restart_cost_s=i.jobs[0].restart_cost_s + 1),
    "work done": lambda i: _with_job(i, work_done=i.jobs[0].work * 0.75),
    "model": lambda i: _with_job(i, model="another"),
    "elasticity": lambda i: _with_job(
        i, elasticity="moldable" if i.jobs[0].elasticity != "moldable" else "malleable"
    ),
    "placement": lambda i: _with_job(i, placement=PlacementRules(required=HOST)),
    "preferred level": lambda i: _with_job(i, placement=PlacementRules(preferred=HOST)),
    "slices": lambda i: _with_job(i, placement=PlacementRules(slices=(Slice(HOST, 1),))),
    "spread": lambda i: _with_job(i, placement=PlacementRules(spread=(Spread(HOST, 9),))),
    "affinities": lambda i: i.replace(affinities=(*i.affinities, Affinity("apart", HOST, _two(i))))
    if len(i.jobs) > 1
    else None,
    "kind of affinity": lambda i: i.replace(
        affinities=(*i.affinities, Affinity("together", HOST, _two(i)))
    )
    if len(i.jobs) > 1
    else None,
    "moves": lambda i: i.replace(moves=Moves(budget=77)),
    "evictions": lambda i: i.replace(moves=Moves(budget=77, evict=True)),
    "cohort": lambda i: i.replace(tenants=(*i.tenants, Tenant("new", 1000, "pool"))),
    "borrowing": lambda i: i.replace(tenants=(*i.tenants, Tenant("new", 1000, "pool", 1000))),
}  # fmt: skip


def _two(instance: Instance) -> tuple[str, ...]:
    return tuple(job.id for job in instance.jobs[:2])


def _with_job(instance: Instance, **changes: Any) -> Instance:
    return instance.replace(jobs=(instance.jobs[0].replace(**changes), *instance.jobs[1:]))


def _with_stage(instance: Instance) -> Instance | None:
    """Return an instance whose first job is one stage, or None where it may not have stages."""
    job = instance.jobs[0]
    if job.refusable or instance.running or instance.affinities:
        return None
    stage = Stage("x", job.work, job.configurations)
    return _with_job(instance, work=0.0, work_done=0.0, configurations=(), stages=(stage,))


def _one_more_host(topology: Topology) -> Topology:
    host = topology.hosts[0]
    return topology.replace(hosts=(*topology.hosts, type(host)("extra", host.type, host.domain)))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(instances())
def test_the_fingerprint_sees_every_field_of_the_problem(instance: Instance) -> None:
    """A certificate names its instance by fingerprint: another problem must never have the same."""
    seen = {instance.fingerprint: "unchanged"}
    for name, change in CHANGES.items():
        changed = change(instance)
        if changed is None or changed == instance:
            continue
        assert seen.setdefault(changed.fingerprint, name) == name
    assert len(seen) > 15


def test_every_field_of_a_job_is_changed_above() -> None:
    """A field added to Job later must be part of the fingerprint too."""
    from dataclasses import fields

    from alloc.workload import Job

    covered = {name.replace(" ", "_").removesuffix("_s") for name in CHANGES}
    fields_of_job = {field.name.removesuffix("_s") for field in fields(Job)} - {"configurations"}
    assert fields_of_job <= covered


def _whole(**fields: Any) -> Instance:
    """Return two jobs that run once, each on a GPU or half of one, on a host of two."""
    ways = (rigid_gang(1), Configuration((TaskGroup("worker", 1, 500),), 1.0))
    once: dict[str, Any] = {"elasticity": "moldable", "preemptible": False, "model": "bert"}
    jobs = tuple(Job(name, 0.0, 60.0, ways, **once) for name in "ab")
    pair = flat_cluster("pair", HostType("box", 2, "v100", 8000, 1024), 1)
    return Instance("base", pair, jobs).replace(**fields)


_TABLE = InterferenceTable("v100", ("bert",), np.ones(1), np.full((1, 1), 0.5))
_WHOLE_GPUS = {"jobs": tuple(j.replace(configurations=(rigid_gang(1),)) for j in _whole().jobs)}
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "name": ({}, {"name": "other"}),
    "topology": ({}, {"topology": _one_more_host(_whole().topology)}),
    "jobs": ({}, _WHOLE_GPUS),
    "slot_s": ({}, {"slot_s": 60.0}),
    "horizon_s": ({}, {"horizon_s": 600.0}),
    "tenants": ({}, {"tenants": (Tenant("red", 1000),)}),
    "running": ({}, {"running": (Assignment("a", 0),)}),
    "affinities": ({}, {"affinities": (Affinity("apart", HOST, ("a", "b")),)}),
    "moves": ({}, {"moves": Moves(budget=1)}),
    "outages": ({}, {"outages": (Outage("host-0", 60.0, 120.0),)}),
    "move_s": (_WHOLE_GPUS, {"move_s": 0.5}),
    "interference": ({"slot_s": 60.0}, {"interference": (_TABLE,)}),
}
"""For each field of an instance what it needs of others, and another value of it."""


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_an_instance_is_kept_and_is_part_of_the_fingerprint(field: str) -> None:
    """Also those that most instances cannot have, as times to move and interference."""
    needed, change = FIELDS[field]
    assert field in change
    base = _whole(**needed)
    changed = base.replace(**change)
    assert changed.fingerprint != base.fingerprint
    again = format_of("instance").parse(valid("instance", save(changed)))
    assert again == changed
    assert getattr(again, field) == change[field]
    assert again.fingerprint == changed.fingerprint


def test_every_field_of_an_instance_is_changed_above() -> None:
    """A field added to Instance later must be kept and be part of the fingerprint too."""
    from dataclasses import fields

    assert {field.name for field in fields(Instance)} - {"description"} == {*FIELDS}


@pytest.mark.parametrize("change", [{"alone": 2.0}, {"beside": 0.25}, {"gpu_type": "a100"}])
def test_the_fingerprint_sees_every_number_of_a_table(change: dict[str, Any]) -> None:
    shapes = {"alone": (1,), "beside": (1, 1)}
    values: dict[str, Any] = {
        k: np.full(shapes[k], v) if k in shapes else v for k, v in change.items()
    }
    base = _whole(slot_s=60.0, interference=(_TABLE,))
    other = base.replace(interference=(dataclasses.replace(_TABLE, **values),))
    assert other.fingerprint != base.fingerprint


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(instances(max_jobs=5))
def test_the_fingerprint_is_the_same_in_every_process(instance: Instance) -> None:
    """Results are matched to instances across machines, so no hash order may come in."""
    program = (
        "import sys; from alloc.documents.reading import parse;"
        "print(parse(sys.stdin.buffer.read()).fingerprint)"
    )
    for seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            input=save(instance).encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert process.stdout.decode().strip() == instance.fingerprint


def test_canonical_json_is_fixed() -> None:
    """Stored fingerprints must stay valid: this one was written down when the format was made."""
    from alloc.topology import HostType, flat_cluster
    from alloc.workload import Job, rigid_gang

    instance = Instance(
        "fixed",
        flat_cluster("two", HostType("t", 2, "v100", 8000, 1024), 2),
        (Job("a", 0.0, 7.5, (rigid_gang(2),)), Job("b", 3, 7, (rigid_gang(2),), weight=2)),
        description={"not": "in it"},
    )
    assert canonical_json(instance) == (
        b'{"configuration_sets":[[{"rate":1,"tasks":[{"count":2,"gpu_milli":1000,"role":"worker"}]}]]'
        b',"jobs":[{"arrival_s":0,"configurations":0,"id":"a","work":7.5},'
        b'{"arrival_s":3,"configurations":0,"id":"b","weight":2,"work":7}],"name":"fixed",'
        b'"topology":{"host_types":[{"cpu_milli":8000,"gpu_type":"v100","memory_mib":1024,"name":"t"'
        b',"num_gpus":2}],"hosts":[{"id":"host-0","type":"t"},{"id":"host-1","type":"t"}],'
        b'"name":"two"}}'
    )
