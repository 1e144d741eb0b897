"""Claims: certificates held against what the solution really has."""

import pytest

from alloc import (
    Configuration,
    HostType,
    Instance,
    InstanceError,
    Job,
    Result,
    Run,
    Schedule,
    TaskGroup,
    TaskPlacement,
)
from alloc.certificate import Certificate
from alloc.topology import flat_cluster
from alloc.verification import check_claims


@pytest.fixture
def result() -> tuple[Instance, Result]:
    """Return one job of 100 s, and a schedule with a weighted JCT of 100 s."""
    one_gpu = Configuration((TaskGroup("worker", 1, 1000),), 1.0)
    job = Job("job", 0.0, 100.0, (one_gpu,))
    instance = Instance("one", flat_cluster("box", HostType("box", 1, "gpu"), 1), (job,))
    host = instance.topology.hosts[0].id
    schedule = Schedule((Run("job", 0, 0.0, 100.0, (TaskPlacement(host, "worker", 1),)),))
    certificate = Certificate(
        status="optimal",
        objective=100.0,
        bound=100.0,
        sense="min",
        objective_name="weighted_jct",
        formulation="malleable",
        backend="test",
        backend_version="0",
        seed=0,
        workers=1,
        seconds=0.0,
        fingerprint=instance.fingerprint,
    )
    return instance, Result(schedule, certificate)


def claims(instance: Instance, result: Result, **changes) -> list[str]:
    changed = Result(result.solution, result.certificate.replace(**changes))
    return [violation.code for violation in check_claims(instance, changed)]


def test_true_claims_pass(result):
    assert claims(*result) == []


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"objective": 99.0, "bound": 99.0}, ["objective"]),
        ({"objective": None}, ["objective"]),
        # Less than the bound of a minimum: then the bound is false.
        ({"bound": 101.0}, ["bound"]),
        ({"bound": 50.0, "status": "feasible"}, []),
        # What rounding explains is no lie.
        ({"objective": 100.0 * (1 + 1e-9), "bound": 100.0 * (1 + 1e-9)}, []),
    ],
)
def test_false_claims_are_violations(result, changes, codes):
    assert claims(*result, **changes) == codes


def test_true_stages_excuse_no_false_certificate(result):
    """What is printed of a result with levels is its certificate, wherever it came from."""
    instance, found = result
    true = found.certificate
    false = true.replace(objective=99.0, bound=99.0)
    codes = [
        [v.code for v in check_claims(instance, found.replace(certificate=one, stages=stages))]
        for one in (true, false)
        for stages in ((true,), (false,), (true, true))
    ]
    assert codes == [[], ["objective"], [], ["objective"], ["objective"], ["objective"]]


def test_without_a_solution_there_is_nothing_to_recompute(result):
    instance, found = result
    assert check_claims(instance, Result(None, found.certificate)) == []


def test_the_result_must_be_for_the_instance(result):
    instance, found = result
    with pytest.raises(InstanceError, match="fingerprint"):
        check_claims(instance.replace(name="another"), found)
