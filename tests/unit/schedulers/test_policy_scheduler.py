"""Learned policies as schedulers: the network decides, and takes part in everything by name."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from policy_files import SPEC, card, model_of, priority_model, write_short_first

from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.comparison import Entry, compare
from alloc.comparison.cells import Cell
from alloc.comparison.settings import Settings
from alloc.errors import (
    AllocError,
    BackendUnavailableError,
    InstanceError,
    SimulationError,
    UnsupportedFeatureError,
)
from alloc.instances import load
from alloc.schedulers import make_scheduler, registry, scheduler_names, shelf
from alloc.schedulers.learned import (
    FeatureSpec,
    PolicyFile,
    PolicyScheduler,
    kind_names,
    kinds,
    policy_kind,
    read_policy,
    write_policy,
)
from alloc.schedulers.learned.kinds import LogitsActor, choose
from alloc.schedulers.shelf import (
    add_policy,
    added_policies,
    policy_path,
    remove_policy,
    shipped_policies,
    user_folder,
)
from alloc.simulation import metrics_of, simulate
from alloc.topology import flat_cluster


@pytest.fixture(autouse=True)
def own_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the tests off the shelf of whoever runs them."""
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a policy that serves the shortest job first."""
    path = tmp_path / "short-first.onnx"
    write_short_first(path)
    return path


@pytest.fixture
def queue() -> Instance:
    """Return jobs of 400 s, 100 s and 200 s that arrive together at one GPU, in slots of 100 s."""
    one_gpu = (Configuration((TaskGroup("worker", 1, 1000),), 1.0),)
    jobs = tuple(
        Job(f"job-{work:g}", 0.0, work, one_gpu, preemptible=False)
        for work in (400.0, 100.0, 200.0)
    )
    cluster = flat_cluster("one GPU", HostType("box", 1, "gpu"), 1)
    return Instance("a queue", cluster, jobs, slot_s=100.0)


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
        spec = FeatureSpec.of("job-priority/1", skip=skip)
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


def test_listing_schedulers_opens_no_file(path: Path) -> None:
    """Names are asked for at every tab key; onnx and its runtime would take a second each time."""
    code = (
        "import sys; from alloc.schedulers import scheduler_names; print(*scheduler_names());"
        "print([m for m in ('onnx', 'onnxruntime', 'pydantic', 'torch') if m in sys.modules])"
    )
    add_policy(path, ())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=os.environ
    )
    names, loaded = done.stdout.splitlines()
    assert "short-first" in names.split()
    assert loaded == "[]"


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


# By path.


def test_a_path_is_a_name_of_a_scheduler(path: Path, queue: Instance) -> None:
    """Wherever a scheduler is named, the path of a policy file will do."""
    run = simulate(queue, make_scheduler(str(path)))
    assert run.scheduler == "short-first"
    with pytest.raises(InstanceError, match=r'has no option "sampel"; did you mean "sample"\?'):
        make_scheduler(str(path), sampel=True)
    with pytest.raises(InstanceError, match=r"no\.onnx: there is no such file"):
        make_scheduler("no.onnx")


def test_a_policy_cannot_pass_for_a_rule(tmp_path: Path) -> None:
    """A file that calls itself drf would put its numbers under DRF's name in a table."""
    write_short_first(tmp_path / "x.onnx", "drf")
    with pytest.raises(InstanceError, match=r'x\.onnx: calls itself "drf", which is another'):
        make_scheduler(str(tmp_path / "x.onnx"))
    with pytest.raises(InstanceError, match="there is a scheduler of that name; give it another"):
        add_policy(tmp_path / "x.onnx", scheduler_names())


def test_a_comparison_takes_paths(path: Path) -> None:
    """The row has the policy's own name; two processes give what one does."""
    instance = load("elastic-tiny/01")
    rows = {
        jobs: {
            row.scheduler: (row.objective, row.error)
            for row in compare([instance], ["fifo", str(path)], time_limit_s=5, jobs=jobs).rows
        }
        for jobs in (1, 2)
    }
    assert set(rows[1]) == {"optimum", "fifo", "short-first"}
    assert rows[1] == rows[2]
    assert all(error is None for _, error in rows[1].values())


def test_a_retrained_policy_is_never_mistaken_for_a_stored_one(path: Path, queue: Instance) -> None:
    """The file's content is part of the key in the store; its path is not."""

    def key(name: str) -> str:
        return Cell(queue, Entry.of(name), 0, Settings()).key

    first = key(str(path))
    moved = path.with_name("moved.onnx")
    moved.write_bytes(path.read_bytes())
    assert key(str(moved)) == first
    write_policy(path, priority_model(left_h=-2.0), SPEC, card())
    assert key(str(path)) != first


# By name.


def test_an_added_policy_is_known_by_name(path: Path, queue: Instance, own_shelf: Path) -> None:
    added = add_policy(path, scheduler_names())
    assert added.name == "short-first"
    assert user_folder() == own_shelf
    assert "short-first" in scheduler_names()
    assert policy_path("short-first") == own_shelf / "short-first.onnx"
    path.unlink()
    assert simulate(queue, make_scheduler("short-first")).completion_s["job-100"] == 100.0
    assert Entry.of("short-first").scheduler is not None
    assert remove_policy("short-first") == own_shelf / "short-first.onnx"
    assert "short-first" not in scheduler_names()
    with pytest.raises(InstanceError, match='unknown scheduler "short-first"'):
        make_scheduler("short-first")


def test_names_on_the_shelf_are_unique(path: Path) -> None:
    add_policy(path, scheduler_names())
    with pytest.raises(InstanceError, match="`alloc policies remove short-first` removes the old"):
        add_policy(path, scheduler_names())
    with pytest.raises(InstanceError, match=r'no policy "short-frist" was added; did you mean'):
        remove_policy("short-frist")
    with pytest.raises(InstanceError, match=r'there is no policy "short"; did you mean "short-f'):
        policy_path("short")


def test_only_a_policy_gets_on_the_shelf(tmp_path: Path, own_shelf: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InstanceError, match=r"bad\.onnx: "):
        add_policy(tmp_path / "bad.onnx", ())
    assert not own_shelf.exists()


def test_a_file_put_there_under_another_name_is_refused(path: Path, own_shelf: Path) -> None:
    """The list would show one name and the table another."""
    own_shelf.mkdir()
    path.rename(own_shelf / "other.onnx")
    with pytest.raises(InstanceError, match=r'other\.onnx: calls itself "short-first"'):
        make_scheduler("other")


def test_the_shelf_follows_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ALLOC_POLICIES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "alloc" / "policies"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert user_folder() == tmp_path / "home" / ".local" / "share" / "alloc" / "policies"
    assert added_policies() == {}


@pytest.mark.parametrize("name", sorted(shipped_policies()))
def test_shipped_policies_are_small_and_sound(name: str) -> None:
    """They are in everybody's wheel: named as their files, at most 300 kB, with a whole card."""
    policy = read_policy(shipped_policies()[name])
    assert policy.name == name
    assert len(policy.model) < 300_000
    assert policy.card.seeds
    assert policy.card.curve
    assert policy.card.limits
    with pytest.raises(InstanceError, match="is part of alloc and stays"):
        remove_policy(name)
    assert name in registry.SCHEDULERS


# Kinds.


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
    monkeypatch.setattr(kinds, "entry_points", lambda group: points)
    kinds._announced.cache_clear()
    try:
        assert kind_names() == (*kinds.KINDS, "theirs/1")
        assert policy_kind("theirs/1").name == "job-priority/1"
        assert policy_kind("job-priority/1").title
    finally:
        kinds._announced.cache_clear()


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
    spec = FeatureSpec.of("dl2-window/1", **parameters)
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
    """DL2's kind end to end: file, session, window, decision, judge."""
    policy = PolicyScheduler(window_policy(tmp_path / "w.onnx", window=5))
    run = simulate(load("elastic-small/01"), policy)
    assert run.verified
    assert metrics_of(run).num_unfinished == 0


def test_sampling_is_another_row_and_follows_the_seed(tmp_path: Path) -> None:
    policy = window_policy(tmp_path / "w.onnx", window=5)
    drawn = make_scheduler(str(policy.path), sample=True)
    assert drawn.name == "bundles(sample=True)"
    instance = load("elastic-small/01")
    first, again, other = (simulate(instance, drawn, rng=seed).schedule for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert Entry.of(Entry(str(policy.path), {"sample": True})).label == "bundles(sample=True)"


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
    seen = {}

    def network(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.update(inputs)
        return {"logits": np.array([[0.0, 2.0, 1.0]], np.float32)}

    act = LogitsActor(network, "window", "logits", sample=False)
    assert act(np.zeros((6, 4), np.float32), np.ones(3, bool), np.random.default_rng(0)) == 1
    assert seen["window"].shape == (1, 6, 4)


# What may be missing.


def test_a_policy_in_the_package_is_a_line_of_the_registry(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer ships a policy by putting its file into the folder; nothing else is to be done."""
    monkeypatch.setattr(shelf, "_SHIPPED", tmp_path)
    [(name, where)] = shelf.shipped_entries().items()
    assert name == "short-first"
    module, _, attribute = where.partition(":")
    maker = getattr(importlib.import_module(module), attribute)
    assert maker().name == "short-first"
    assert maker.features == PolicyScheduler(path).features
    assert [origin for *_, origin in shelf.shelf()] == ["shipped"]
    with pytest.raises(InstanceError, match="is part of alloc and stays"):
        remove_policy("short-first")
    with pytest.raises(AttributeError, match="policy:nothing"):
        getattr(shelf, "policy:nothing")


def test_a_shelf_that_cannot_be_made_is_a_sentence(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that is read-only, for one."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "file" / "shelf"))
    with pytest.raises(AllocError, match=r"cannot be made for the user's .*ALLOC_POLICIES"):
        add_policy(path, ())


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
