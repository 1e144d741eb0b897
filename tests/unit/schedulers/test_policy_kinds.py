"""Kinds of policies: what each says of itself, and how logits become decisions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from policy_files import card

from alloc.comparison import Entry
from alloc.errors import (
    UnsupportedFeatureError,
)
from alloc.instances import load
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned import (
    PolicyFile,
    PolicyScheduler,
    kind_names,
    kinds,
    policy_kind,
    write_policy,
)
from alloc.schedulers.learned.kinds import choose, feature_spec
from alloc.simulation import Simulation, metrics_of, simulate


@pytest.mark.parametrize("name", kind_names())
def test_every_kind_describes_itself(name: str) -> None:
    """What `alloc policies kinds` prints, and what a spec is made of."""
    kind = policy_kind(name)
    assert kind.name == name
    assert kind.title
    assert kind.needs in ("none", "estimate", "exact")
    assert kind.parameters.__doc__
    for field in kind.parameters.model_fields:
        assert field in (kind.parameters.__doc__ or "") or field in ("window", "on_overflow")


def test_other_packages_can_announce_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a kind, and cannot take the name of one of ours."""
    from importlib.metadata import EntryPoint

    where = kinds.KINDS["job-priority/1"]
    points = [
        EntryPoint("theirs/1", where, kinds.ENTRY_POINTS),
        EntryPoint("job-priority/1", "nowhere:Nothing", kinds.ENTRY_POINTS),
    ]
    monkeypatch.setattr("alloc.plugins._points", lambda group: tuple(points))
    assert kind_names() == (*kinds.KINDS, "theirs/1")
    assert policy_kind("theirs/1").name == "job-priority/1"
    assert policy_kind("job-priority/1").title


def test_the_largest_allowed_logit_wins_and_ties_go_to_the_first() -> None:
    logits = np.array([1.0, 5.0, 3.0, 3.0], np.float32)
    mask = np.array([True, False, True, True])
    assert choose(logits, mask, None) == 2


def test_draws_follow_the_softmax_of_what_is_allowed() -> None:
    """DL2 samples also when it is validated; a masked action must never be drawn."""
    logits = np.log(np.array([1.0, 100.0, 3.0, 6.0])).astype(np.float32)
    mask = np.array([True, False, True, True])
    rng = np.random.default_rng(5)
    drawn = np.bincount([choose(logits, mask, rng) for _ in range(20_000)], minlength=4) / 20_000
    assert drawn == pytest.approx([0.1, 0.0, 0.3, 0.6], abs=0.015)


def test_one_allowed_action_is_taken_whatever_its_logit() -> None:
    rng = np.random.default_rng(0)
    mask = np.array([False, True, False])
    for logits in ([0.0, -1e30, 0.0], [1e30, 0.0, 1e30]):
        assert choose(np.array(logits, np.float32), mask, rng) == 1
        assert choose(np.array(logits, np.float32), mask, None) == 1


def window_policy(path: Path, **parameters: object) -> PolicyFile:
    """Write a policy of DL2's kind that likes bundles for the first job best, then for the next."""
    spec = feature_spec("dl2-window/1", **parameters)
    rows, columns = spec.inputs[0].shape[1:]
    actions = spec.outputs[0].shape[1]
    logits = np.zeros(int(actions), np.float32)
    logits[2::3] = np.linspace(5.0, 4.0, int(columns), dtype=np.float32)
    logits[-1] = -5.0
    nodes = [
        helper.make_node("ReduceSum", ["window", "axes"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "zero"], ["none"]),
        helper.make_node("Unsqueeze", ["none", "last"], ["column"]),
        helper.make_node("Add", ["column", "bias"], ["logits"]),
    ]
    arrays = {
        "axes": np.array([1, 2]),
        "zero": np.float32(0.0),
        "last": np.array([1]),
        "bias": logits,
    }
    graph = helper.make_graph(
        nodes,
        "window",
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, ["batch", rows, columns])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", actions])],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return write_policy(path, model, spec, card("bundles"))


def test_a_window_policy_runs_step_by_step(tmp_path: Path) -> None:
    """DL2's kind end to end: file, session, window, decision, checker."""
    policy = PolicyScheduler(window_policy(tmp_path / "w.onnx", window=5))
    run = simulate(load("elastic-small/01"), policy)
    assert run.verified
    assert metrics_of(run).num_unfinished == 0


def test_sampling_is_another_row_and_follows_the_seed(tmp_path: Path) -> None:
    policy = window_policy(tmp_path / "w.onnx", window=5)
    drawn = make_scheduler(str(policy.path), sample=True)
    assert drawn.name == "bundles(sample=true)"
    instance = load("elastic-small/01")
    first, again, other = (simulate(instance, drawn, rng=seed).schedule for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert Entry.of(Entry(str(policy.path), {"sample": True})).label == "bundles(sample=true)"


def test_more_jobs_than_a_window_shows_are_invisible_or_refused(tmp_path: Path) -> None:
    """What happens is stated in the spec, not left to chance."""
    instance = load("elastic-small/01")
    blind = PolicyScheduler(window_policy(tmp_path / "a.onnx", window=1))
    assert simulate(instance, blind).verified
    strict = window_policy(tmp_path / "b.onnx", window=1, on_overflow="refuse")
    with pytest.raises(
        UnsupportedFeatureError, match=r"bundles sees 1 jobs at a time, and \d+ are"
    ):
        simulate(instance, PolicyScheduler(strict))


def test_the_actor_hands_the_network_a_batch_of_one() -> None:
    seen: dict[str, np.ndarray] = {}

    def network(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.update(inputs)
        return {"logits": np.arange(13, dtype=np.float32)[None]}

    kind = policy_kind("dl2-window/1")
    decider = kind.make_decider(network, kind.parameters(window=4), name="bundles")
    state = Simulation(load("elastic-small/01"), decider="bundles").next_decision()
    assert state is not None
    decision = decider.decide(state)
    assert seen["window"].shape == (1, 6, 4)
    # The last action has the largest logit: the slot ends with one bundle a job.
    assert {sum(task.count for task in job.tasks) for job in decision.assign} == {2}
