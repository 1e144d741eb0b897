"""A certificate names its instance once somebody asks, and is otherwise as any other."""

import copy
import dataclasses
import gc
import pickle
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import alloc
from alloc.certificate import Certificate
from alloc.errors import InstanceError
from alloc.instances import load
from alloc.problems.allocation.instance import Affinity, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.topology.host import Domain, GpuLink, Host, HostType, NetworkLink
from alloc.workload import PlacementRules, Slice, Spread, TaskGroup


def is_named(problem):
    """Return whether the fingerprint of a problem has been worked out."""
    return "fingerprint" in vars(problem)


def solved():
    instance = load("elastic-tiny/01")
    return instance, alloc.solve(instance, "round")


def test_a_solve_hashes_nothing():
    instance, result = solved()
    assert result.certificate.verified
    assert not is_named(instance)
    found = result.certificate.fingerprint
    assert is_named(instance)
    assert found == instance.fingerprint == load("elastic-tiny/01").fingerprint


@pytest.mark.parametrize(
    "asked",
    [
        lambda c: c,
        lambda c: c.replace(limit="time").replace(limit=None),
        copy.copy,
        copy.deepcopy,
        lambda c: pickle.loads(pickle.dumps(c)),
        lambda c: Certificate(**{name: getattr(c, name) for name in c.__dataclass_fields__}),
    ],
    ids=["itself", "replaced", "copied", "copied deeply", "sent", "made"],
)
def test_every_copy_is_about_the_instance(asked):
    instance, result = solved()
    certificate = asked(result.certificate)
    assert certificate.fingerprint == instance.fingerprint
    assert certificate == result.certificate
    assert hash(certificate) == hash(result.certificate)
    assert repr(certificate) == repr(result.certificate)
    assert instance.fingerprint in repr(certificate)


def test_a_replaced_certificate_hashes_nothing():
    instance, result = solved()
    changed = result.certificate.replace(limit="time")
    assert changed.replace(fingerprint="ab").fingerprint == "ab"
    assert not is_named(instance)
    assert changed.fingerprint == instance.fingerprint


def test_certificates_of_two_instances_differ():
    _, one = solved()
    other = alloc.solve(load("elastic-tiny/02"), "round").certificate
    seconds = one.certificate.seconds
    assert other.replace(objective=1.0, bound=1.0, seconds=seconds) != one.certificate


@pytest.mark.long
def test_the_instance_is_let_go_once_it_is_named():
    instance, result = solved()
    held = weakref.ref(instance)
    assert result.certificate.fingerprint
    del instance
    gc.collect()
    assert held() is None


def test_what_is_sent_is_the_name_alone():
    instance, result = solved()
    assert len(pickle.dumps(result.certificate)) < 1000 < len(pickle.dumps(instance))


def test_what_may_change_is_named_at_once():
    flow = np.array([[0.0, 1.0], [1.0, 0.0]])
    problem = QuadraticAssignment("two", flow, flow)
    certificate = alloc.solve(problem).certificate
    assert is_named(problem)
    assert certificate.fingerprint == problem.fingerprint


def test_other_names_are_refused():
    _, result = solved()
    with pytest.raises(AttributeError, match='no "finger_print"'):
        result.certificate.finger_print  # noqa: B018


def full_instance():
    """Return an instance with every part that an instance can have."""
    links = (GpuLink("gpu0", "gpu1", "nvlink", 25.0),)
    kind = HostType("box", 2, "v100", 8000, 64000, links, {"nvme_gib": 100})
    topology = alloc.Topology(
        "two hosts",
        (kind,),
        (Host("h0", "box", "d0"), Host("h1", "box", "d0")),
        ("leaf",),
        (Domain("d0", "leaf"),),
        (NetworkLink("h0", "d0", 1.0), NetworkLink("h1", "d0", 1.0)),
        {"licence_x": 4},
    )
    table = (alloc.Configuration((TaskGroup("worker", 1, 1000, 100, 100),), 1.0),)
    rules = PlacementRules(slices=(Slice("leaf", 1),), spread=(Spread("host", 1),))
    jobs = (
        alloc.Job("a", 0.0, 10.0, table, tenant="us"),
        alloc.Job("b", 0.0, 10.0, table, deadline_s=90.0, due_date_s=80.0, placement=rules),
    )
    ran = Assignment("a", 0, (TaskPlacement("h0", "worker", 1, (0,)),))
    return alloc.Instance(
        "full",
        topology,
        jobs,
        slot_s=10.0,
        horizon_s=100.0,
        tenants=(Tenant("us", 2000),),
        running=(ran,),
        affinities=(Affinity("apart", "host", ("a", "b")),),
        moves=Moves(1),
    )


def paths_of(value, path=()):
    """Yield where each part of a dataclass is, as names of fields and positions in tuples."""
    inner: list[tuple[Any, Any]]
    if dataclasses.is_dataclass(value):
        inner = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    else:
        inner = list(enumerate(value)) if type(value) is tuple else []
    if path:
        yield path, value
    for name, part in inner:
        yield from paths_of(part, (*path, name))


def changed(value, path, new):
    """Return a copy of a dataclass with another part at a path."""
    if not path:
        return new
    name, *rest = path
    if isinstance(name, int):
        return (*value[:name], changed(value[name], rest, new), *value[name + 1 :])
    return dataclasses.replace(value, **{name: changed(getattr(value, name), rest, new)})


def test_nothing_that_can_change_is_taken_for_immutable():
    whole = full_instance()
    assert whole.is_immutable
    kinds, let_in = set(), 0
    for path, value in paths_of(whole):
        if path[0] == "description" or dataclasses.is_dataclass(value):
            continue
        new: Any
        if type(value) is tuple:
            new = list(value)
        elif isinstance(value, Mapping):
            new = dict(value)
        elif isinstance(value, int | float):
            new = np.array(value)
        else:
            new = [value]
        kinds.add(type(new))
        try:
            instance = changed(whole, path, new)
        except (InstanceError, TypeError, AttributeError):
            continue  # refused, for example by arithmetic with an array
        kept = instance
        for name in path:
            kept = kept[name] if isinstance(name, int) else getattr(kept, name)
        let_in += kept is new
        assert kept is not new or not instance.is_immutable or is_refused(instance), path
    assert kinds == {list, dict, np.ndarray}
    assert let_in > 10


def is_refused(instance):
    """Return whether a gang is of lists, so that no method can look it up."""
    try:
        return not [one.gang for job in instance.jobs for one in job.configurations]
    except TypeError:
        return True


def test_a_list_is_named_before_it_changes():
    instance = load("elastic-tiny/01")
    jobs = list(instance.jobs)
    listed = changed(instance, ["jobs"], jobs)
    result = alloc.solve(listed, "round")
    jobs.pop()
    assert result.certificate.fingerprint == instance.fingerprint


def test_a_table_of_the_certificate_shows_the_name():
    pytest.importorskip("pandas")
    instance, result = solved()
    row = result.to_pandas("certificate").iloc[0]
    assert row["fingerprint"] == instance.fingerprint
    assert "_problem" not in row
