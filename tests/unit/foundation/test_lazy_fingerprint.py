"""A certificate names its instance once somebody asks, and is otherwise as any other."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import alloc
from alloc.certificate import Certificate
from alloc.instances import load
from alloc.problems.quadratic_assignment import QuadraticAssignment


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
