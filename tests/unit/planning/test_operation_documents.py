"""Operation as JSON documents and from scheduling instances."""

import json
import math

import pytest
from hypothesis import given, settings
from operation_strategies import operation_problems

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances.operation import generate_operation, node_world, own_node_types
from alloc.planning.operation import (
    load_operation,
    load_operation_plan,
    load_operation_report,
    operate,
    operation_from_instance,
    operation_policies,
    parse_operation,
    parse_operation_plan,
    write_operation,
    write_operation_plan,
    write_operation_report,
)
from alloc.problems.allocation.instance import Affinity, Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.problems.operation.problem import OperationProblem, RunningJob
from alloc.solving.outcome import Settings, timed_log
from alloc.solving.solver import solve_within
from alloc.topology import Host, HostType, Topology, flat_cluster
from alloc.verification.operation import verify_operation
from alloc.workload import Configuration, Job, TaskGroup

PROBLEM = generate_operation(num_nodes=3, num_jobs=4, kind="own", stops=True)


@settings(max_examples=60, deadline=None)
@given(operation_problems())
def test_decisions_survive_the_round_trip(problem: OperationProblem):
    """Same problem, same fingerprint: a server's cache and a file on disk agree."""
    again = parse_operation(write_operation(problem))
    assert again == problem
    assert again.fingerprint == problem.fingerprint


def test_plans_and_results_survive_the_round_trip(tmp_path):
    result = operate(PROBLEM)
    write_operation(PROBLEM, tmp_path / "p.json.gz")
    write_operation_plan(result.result.solution, tmp_path / "plan.json")
    write_operation_report(result, tmp_path / "r.json")
    assert load_operation(tmp_path / "p.json.gz") == PROBLEM
    assert load_operation_plan(tmp_path / "plan.json") == result.result.solution
    assert load_operation_report(tmp_path / "r.json") == result
    heuristic = operate(PROBLEM, "greedy")
    write_operation_report(heuristic, tmp_path / "h.json")
    assert load_operation_report(tmp_path / "h.json") == heuristic


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("jobs", 0, "due_date"), 5, 'job "job-0": unknown field "due_date"; did you mean "due_d'),
        (("types", 0, "price"), [1], 'node type "k80x4": unknown field "price"; did you mean'),
        (("pools", 0, "count"), "x", 'node pool "slow": count is "x"; give a whole number'),
        (("jobs", 1, "duration_s", "k80x4"), 3, 'job "job-1": duration_s.*give a list'),
        (("jobs", 0, "stops", 0, "probability"), 7, 'job "job-0": an early stop after 0.25'),
        (("jobs", 0, "stops", 0, "chance"), 7, r'job "job-0", stops\[0\]: unknown field "chance"'),
        (("accounting",), "first-complete", 'did you mean "first-completion"'),
        (("power_cap_w",), -5, "power_cap_w is -5; it must be more than 0"),
        (("running",), [{"job": "job-0"}], 'running job "job-0".*field "node" is missing'),
        (("kind",), "operations", 'did you mean "operation"'),
    ],
)
def test_a_wrong_document_is_refused_in_one_sentence(path, value, sentence):
    document = json.loads(write_operation(PROBLEM))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(InstanceError, match=sentence):
        parse_operation(json.dumps(document))


def test_a_wrong_plan_and_a_wrong_file_are_refused(tmp_path):
    text = '{"schema_version": 1, "kind": "operation_plan", "nodes": [{"node": "n", "typ": "t"}]}'
    with pytest.raises(InstanceError, match='node "n": unknown field "typ"; did you mean "type"'):
        parse_operation_plan(text)
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InstanceError, match=r'x.json: the operation document has no "kind"'):
        load_operation(tmp_path / "x.json")


def test_a_decision_without_a_limit_can_be_written():
    """Its time was the limit less what was left of it: not a number, and no document holds that."""
    settings = Settings(math.inf)
    log, report = timed_log(settings, None)
    found = solve_within(PROBLEM, settings, report)
    assert 0 <= found.certificate.seconds < math.inf
    assert "nan" not in log[0]
    assert json.loads(found.to_json())["certificate"]["status"] == "optimal"


def test_policies_are_listed_with_titles():
    titles = operation_policies()
    assert {"edf", "hierarchical", "greedy", "andreas", "path-relinking", "sts"} < set(titles)
    assert all(titles.values())


def worker(gpus, rate, cpu=1000):
    return Configuration((TaskGroup("worker", gpus, 1000, cpu),), rate)


HOST = HostType("v", num_gpus=4, gpu_type="v100-sxm-16gb", cpu_milli=16_000, memory_mib=65_536)


HOSTS = [host.id for host in flat_cluster("c", HOST, 3).hosts]


def instance(*jobs, **changes):
    return Instance("i", flat_cluster("c", HOST, 3), jobs, **changes)


def test_an_instance_becomes_a_decision():
    """Rates become durations by GPUs; what would take more CPU than its share is left out."""
    job = Job(
        "a",
        0.0,
        100.0,
        (worker(1, 1.0), worker(2, 1.6), worker(2, 1.8), worker(4, 3.0, cpu=9000), worker(8, 9.0)),
        weight=3.0,
        due_date_s=500.0,
        work_done=10.0,
        restart_cost_s=20.0,
    )
    later = Job("b", 50.0, 1.0, (worker(1, 1.0),), deadline_s=900.0)
    running = (Assignment("a", 1, (TaskPlacement(HOSTS[1], "worker", 2),)),)
    found = operation_from_instance(
        instance(job, later, running=running),
        price_per_gpu_h={"v": 2.0},
        tardiness_cost_per_h=5.0,
        energy_price_per_kwh=0.2,
    )
    (only,) = found.jobs
    assert only.duration_s == {"v": (90.0, 50.0, None, None)}
    assert (only.due_date_s, only.tardiness_cost_per_h, only.restart_s) == (500.0, 15.0, 20.0)
    (node,) = found.types
    assert node.price_per_h == (8.0,) * 4
    assert node.power_w == (500.0, 800.0, 1100.0, 1400.0)
    assert found.pools[0].count == 3
    assert found.running == (RunningJob("a", "v-1", "v", 2),)
    at_100 = operation_from_instance(instance(job, later), now_s=100.0)
    assert [j.id for j in at_100.jobs] == ["a", "b"]
    assert verify_operation(at_100, operate(at_100).result.solution) == []


@pytest.mark.parametrize(
    ("jobs", "options", "error", "sentence"),
    [
        ((Job("a", 0.0, 1.0, (worker(1, 1.0),)),), {}, InstanceError, "neither due_date_s nor"),
        (
            (Job("a", 0.0, 1.0, (worker(8, 1.0),), due_date_s=9.0),),
            {},
            UnsupportedFeatureError,
            "no jobs across hosts",
        ),
        (
            (Job("a", 0.0, 1.0, (worker(1, 1.0),), due_date_s=9.0),),
            {"price_per_gpu_h": {"w": 1.0}},
            InstanceError,
            'no host type "w" with GPUs',
        ),
    ],
)
def test_instances_without_what_operation_needs_are_refused(jobs, options, error, sentence):
    with pytest.raises(error, match=sentence):
        operation_from_instance(instance(*jobs), **options)


def test_only_whole_gpus_of_one_fitting_host_count():
    """Shares, other GPUs, and more CPU or memory than the GPUs' share of the host fall away."""

    def task(gpus, rate, gpu_type=None, **demand):
        group = TaskGroup("worker", 1, gpus, **demand)
        return Configuration((group,), rate, gpu_type=gpu_type)

    ways = (
        task(500, 9.0),
        task(1000, 8.0, gpu_type="a100-sxm-40gb"),
        task(1000, 7.0, cpu_milli=4001),
        task(1000, 6.0, memory_mib=16_385),
        task(1000, 0.0),
        task(1000, 1.0, cpu_milli=4000, memory_mib=16_384),
    )
    other = HostType("w", num_gpus=1, gpu_type="a100-sxm-40gb", cpu_milli=4000, memory_mib=16_384)
    both = Topology("two", (HOST, other), (Host("h0", "v"), Host("h1", "w")))
    job = Job("a", 0.0, 10.0, ways, due_date_s=99.0, elasticity="moldable")
    found = operation_from_instance(Instance("i", both, (job,)), power_w={"w": (321.0,)})
    assert found.jobs[0].duration_s == {"v": (10.0, None, None, None), "w": (10.0 / 8,)}
    assert found.type("w").power_w == (321.0,)


def test_gpus_without_a_data_sheet_have_no_power():
    home = HostType("h", num_gpus=1, gpu_type="home-made", cpu_milli=4000, memory_mib=4096)
    job = Job("a", 0.0, 10.0, (worker(1, 1.0),), due_date_s=99.0)
    made = operation_from_instance(Instance("i", flat_cluster("c", home, 1), (job,)))
    assert made.types[0].power_w == ()


def test_features_that_operation_does_not_model_are_refused():
    jobs = tuple(Job(name, 0.0, 1.0, (worker(1, 1.0),), due_date_s=9.0) for name in "ab")
    apart = instance(*jobs, affinities=(Affinity("apart", "host", ("a", "b")),))
    with pytest.raises(UnsupportedFeatureError, match="does not model affinities"):
        operation_from_instance(apart)


def test_generated_worlds_repeat_and_refuse_nonsense():
    assert generate_operation(num_nodes=2, num_jobs=3, seed=9) == generate_operation(
        num_nodes=2, num_jobs=3, seed=9
    )
    for call, sentence in (
        (lambda: generate_operation(num_jobs=0), "num_jobs is 0"),
        (lambda: generate_operation(num_nodes=0), "num_nodes is 0"),
        (lambda: generate_operation(slack=(-1.0, 2.0)), "slack is -1"),
        (lambda: node_world("w", 3, "clouds"), 'it is "cloud" or "own"'),
        (lambda: own_node_types(("k81",)), 'unknown machine "k81"'),
    ):
        with pytest.raises(InstanceError, match=sentence):
            call()
