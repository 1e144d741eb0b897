"""Learned policies as schedulers: the network decides, and what it says is held to its spec."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from policy_files import SPEC, card, model_of, priority_model

from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.errors import (
    BackendUnavailableError,
    InstanceError,
    SimulationError,
    UnsupportedFeatureError,
)
from alloc.schedulers.learned import (
    PolicyScheduler,
    write_policy,
)
from alloc.schedulers.learned.kinds import feature_spec
from alloc.simulation import simulate
from alloc.topology import flat_cluster


@pytest.mark.parametrize("slot_s", [100.0, None])
def test_the_network_decides(path: Path, queue: Instance, slot_s: float | None) -> None:
    """Weights of -1 on the remaining time: shortest first, which is optimal on one machine."""
    run = simulate(queue.replace(slot_s=slot_s), PolicyScheduler(path))
    assert run.completion_s == {"job-100": 100.0, "job-200": 300.0, "job-400": 700.0}
    assert run.verified


def test_other_weights_decide_otherwise(tmp_path: Path, queue: Instance) -> None:
    """It is the file that decides, and not a rule behind it."""
    write_policy(tmp_path / "long.onnx", priority_model(left_h=1.0), SPEC, card("long-first"))
    run = simulate(queue, PolicyScheduler(tmp_path / "long.onnx"))
    assert run.completion_s == {"job-400": 400.0, "job-200": 600.0, "job-100": 700.0}


def test_equal_priorities_go_by_arrival(tmp_path: Path, queue: Instance) -> None:
    """Ties must not depend on a sort's mood."""
    write_policy(tmp_path / "flat.onnx", priority_model(), SPEC, card("flat"))
    run = simulate(queue, PolicyScheduler(tmp_path / "flat.onnx"))
    assert run.completion_s == {"job-400": 400.0, "job-100": 500.0, "job-200": 700.0}


def test_stopping_at_a_misfit_is_a_parameter_of_the_spec(tmp_path: Path, queue: Instance) -> None:
    """Two GPUs: the job of two blocks the queue only where `skip` is off."""
    two = (Configuration((TaskGroup("worker", 2, 1000),), 1.0),)
    first = Job("wide", 0.0, 100.0, two, preemptible=False)
    jobs = (queue.jobs[0], first, queue.jobs[1])
    wide = queue.replace(jobs=jobs, topology=flat_cluster("two GPUs", HostType("box", 2, "gpu"), 1))
    ends = {}
    for skip in (True, False):
        spec = feature_spec("job-priority/1", skip=skip)
        policy = write_policy(
            tmp_path / f"{skip}.onnx", priority_model(), spec, card(f"s-{skip}".lower())
        )
        ends[skip] = simulate(wide, PolicyScheduler(policy)).completion_s["job-100"]
    assert ends == {True: 100.0, False: 600.0}


def test_it_describes_itself_by_its_card(path: Path) -> None:
    """The table of a comparison says what the model card says."""
    policy = PolicyScheduler(path)
    assert policy.name == "short-first"
    assert policy.information == "remaining time at the fastest rate"
    assert policy.needs == "estimate"
    assert policy.title == "The shortest job first"


def test_knowledge_it_needs_is_asked_for(path: Path, queue: Instance) -> None:
    with pytest.raises(UnsupportedFeatureError, match="short-first needs"):
        simulate(queue, PolicyScheduler(path), knowledge="none")


def test_a_policy_pickles_with_and_without_a_session(path: Path, queue: Instance) -> None:
    """Comparisons send it to other processes; sessions do not travel."""
    policy = PolicyScheduler(path)
    fresh = pickle.loads(pickle.dumps(policy))
    first = simulate(queue, policy)
    path.unlink()
    used = pickle.loads(pickle.dumps(policy))
    for copy in (fresh, used):
        assert simulate(queue, copy).completion_s == first.completion_s


def test_sampling_asks_for_a_kind_that_can(path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="short-first decides on all jobs at once"):
        PolicyScheduler(path, sample=True)


def test_an_output_that_is_not_finite_stops_the_run(tmp_path: Path, queue: Instance) -> None:
    """A NaN would be sorted somewhere, and nobody would notice."""
    nodes = [
        helper.make_node("MatMul", ["jobs", "weights"], ["zero"]),
        helper.make_node("Div", ["zero", "zero"], ["priority"]),
    ]
    weights = [numpy_helper.from_array(np.zeros(8, np.float32), "weights")]
    policy = write_policy(tmp_path / "nan.onnx", model_of(nodes, weights), SPEC, card("nan"))
    with pytest.raises(SimulationError, match="policy nan: its output priority holds NaN"):
        simulate(queue, PolicyScheduler(policy))


def test_what_onnx_runtime_cannot_run_is_a_sentence(tmp_path: Path, queue: Instance) -> None:
    """A shape that fits only some numbers of jobs passes every check of the file."""
    nodes = [
        helper.make_node("MatMul", ["jobs", "weights"], ["all"]),
        helper.make_node("Add", ["all", "two"], ["priority"]),
    ]
    weights = [
        numpy_helper.from_array(np.zeros(8, np.float32), "weights"),
        numpy_helper.from_array(np.zeros(2, np.float32), "two"),
    ]
    policy = write_policy(tmp_path / "two.onnx", model_of(nodes, weights), SPEC, card("two"))
    with pytest.raises(SimulationError, match="policy two: ONNX Runtime could not run it"):
        simulate(queue, PolicyScheduler(policy))


def test_an_output_of_another_shape_is_found_when_it_appears(tmp_path: Path) -> None:
    """Exporters leave axes of outputs open; the answer itself is held to the spec."""
    from alloc.schedulers.learned.network import OnnxNetwork

    nodes = [
        helper.make_node("MatMul", ["jobs", "weights"], ["all"]),
        helper.make_node("Unsqueeze", ["all", "front"], ["priority"]),
    ]
    weights = [
        numpy_helper.from_array(np.zeros(8, np.float32), "weights"),
        numpy_helper.from_array(np.zeros(1, np.int64), "front"),
    ]
    model = model_of(nodes, weights)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    network = OnnxNetwork(model.SerializeToString(), SPEC, "odd")
    with pytest.raises(
        SimulationError, match=r"policy odd: output priority must be float32 \[jobs\], and"
    ):
        network({"jobs": np.zeros((3, 8), np.float32)})
    with pytest.raises(
        SimulationError, match=r"policy odd: input jobs must be float32 \[jobs, 8\]"
    ):
        network({"jobs": np.zeros((3, 8))})
    with pytest.raises(SimulationError, match="policy odd: got no input jobs"):
        network({})


@pytest.mark.long
def test_a_policy_runs_without_pytorch(path: Path) -> None:
    """The base install has no PyTorch and no Gymnasium; shipped policies must run in it."""
    code = (
        "import sys\n"
        "for missing in ('torch', 'gymnasium'):\n"
        "    sys.modules[missing] = None\n"
        "from alloc.instances import load\n"
        "from alloc.schedulers import make_scheduler\n"
        "from alloc.simulation import simulate\n"
        "print(simulate(load('elastic-tiny/01'), make_scheduler(sys.argv[1])).verified)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "True", done.stderr


def test_a_missing_onnx_runtime_is_named(
    path: Path, queue: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        BackendUnavailableError, match="short-first needs onnxruntime, which cannot"
    ):
        simulate(queue, PolicyScheduler(path))


def test_a_graph_that_onnx_runtime_refuses_is_a_sentence(tmp_path: Path) -> None:
    """It knows more of a graph than the checker does, and says so when the session opens."""
    from alloc.schedulers.learned.network import OnnxNetwork

    model = priority_model()
    model.graph.node[0].op_type = "Teleport"
    with pytest.raises(InstanceError, match=r"policy odd: ONNX Runtime .* refuses it \(.*Teleport"):
        OnnxNetwork(model.SerializeToString(), SPEC, "odd")
