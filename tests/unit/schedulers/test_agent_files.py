"""Trained agents from elsewhere as they are: ONNX, PyTorch, Stable-Baselines3."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from policy_files import SPEC, card, priority_model

from alloc.comparison import Entry, compare
from alloc.errors import BackendUnavailableError, InstanceError, SimulationError
from alloc.instances import load
from alloc.schedulers import make_scheduler
from alloc.schedulers.describing import describe_scheduler
from alloc.schedulers.learned import write_policy
from alloc.schedulers.learned.agent import agent_scheduler
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.module_content import content_of_module
from alloc.schedulers.learned.shapes import spec_of_shapes, spec_of_spaces
from alloc.schedulers.learned.window_features import ENCODINGS, WindowFeatures
from alloc.simulation import simulate

INSTANCE = load("elastic-tiny/04")


def linear(
    shape: list[Any], answers: list[Any], weights: np.ndarray, flat: bool
) -> onnx.ModelProto:
    """Return a network of one product, named as some exporter may name it."""
    nodes = [helper.make_node("Flatten", ["x"], ["flat"])] if flat else []
    nodes.append(helper.make_node("MatMul", ["flat" if flat else "x", "w"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, answers)],
        [numpy_helper.from_array(weights.astype(np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def window_network(window: int, batch: Any = "b", rows: int = 6) -> onnx.ModelProto:
    """Return a network that likes the bundles of the first jobs best."""
    actions = 3 * window + 1
    weights = np.random.default_rng(7).standard_normal((rows * window, actions))
    return linear([batch, rows, window], [batch, actions], weights, flat=True)


# What shapes tell.


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("window", [1, 7, 40])
@pytest.mark.parametrize("max_tasks", [1, 8, 16])
def test_the_spaces_of_the_window_environment_tell_its_features(
    encoding: str, window: int, max_tasks: int
) -> None:
    features = WindowFeatures(window, max_tasks, encoding)
    # Raw task counts are in the bounds; scaled ones must be given.
    raw = encoding == "released" and max_tasks > 1
    given: dict[str, Any] = {} if raw else {"max_tasks": max_tasks}
    if encoding != "released":
        given["encoding"] = encoding
    spec = spec_of_spaces(*features.bounds(), features.num_actions, None, given, "a.zip")
    assert spec.kind == "dl2-window/1"
    assert spec.parameters["window"] == window
    assert spec.parameters["encoding"] == encoding
    assert spec.parameters["max_tasks"] == max_tasks


def test_an_encoding_is_told_by_its_bounds() -> None:
    features = WindowFeatures(encoding="rescaled")
    spec = spec_of_spaces(*features.bounds(), features.num_actions, None, {}, "a.zip")
    assert spec.parameters["encoding"] == "rescaled"
    low, high = features.bounds()
    with pytest.raises(InstanceError, match="bounds are not those of encoding released"):
        spec_of_spaces(low, high, features.num_actions, None, {"encoding": "released"}, "a.zip")
    with pytest.raises(InstanceError, match="bounds are not those"):
        spec_of_spaces(low - 1, high, features.num_actions, None, {}, "a.zip")


def test_the_space_of_gangs_tells_the_number_of_domains() -> None:
    spec = spec_of_shapes((9, 11), 10, None, {"level": "pod"}, "a.zip")
    assert spec.kind == "gang-domain/1"
    assert (spec.parameters["domains"], spec.parameters["level"]) == (8, "pod")


@pytest.mark.parametrize(
    ("shape", "actions", "kind", "given", "sentence"),
    [
        ((84, 84, 4), 6, None, {}, r"sees \(84, 84, 4\) .* which no environment of alloc has"),
        ((6, 20), 60, None, {}, "which no environment"),
        ((6, 20), 61, "dl2-window/1", {"window": 21}, "give the parameters it was trained with"),
        ((6, 20), 60, "dl2-window/1", {}, "chooses from 60 actions, .* has 61"),
        ((6, 20), 61, "gang-domain/1", {}, r"sees \(6, 20\), and kind gang-domain/1"),
        ((6, 20), 61, None, {"encodin": "paper"}, 'did you mean "encoding"'),
        ((6, 20), 61, "dl2-windw/1", {}, "unknown kind"),
    ],
)
def test_shapes_that_fit_nothing_are_refused(
    shape: tuple[int, ...], actions: int, kind: Any, given: Any, sentence: str
) -> None:
    with pytest.raises(InstanceError, match=sentence):
        spec_of_shapes(shape, actions, kind, given, "a.zip")


# ONNX.


@pytest.mark.parametrize("batch", ["b", 1])
def test_a_plain_onnx_file_is_a_policy_of_its_shapes(tmp_path: Path, batch: Any) -> None:
    path = tmp_path / "My Net.onnx"
    onnx.save(window_network(20, batch), path)
    made = make_scheduler(str(path))
    assert (made.name, made.needs) == ("my-net", "estimate")
    run = simulate(INSTANCE, made)
    assert run.verified
    found = describe_scheduler(str(path))
    assert [option.name for option in found.options] == ["sample", "kind"]


def test_a_plain_file_decides_as_the_policy_file_of_the_same_network(tmp_path: Path) -> None:
    write_policy(tmp_path / "with-card.onnx", priority_model(left_h=-1.0), SPEC, card())
    onnx.save(priority_model(left_h=-1.0), tmp_path / "plain.onnx")
    instance = load("elastic-small/04")
    schedules = [
        simulate(instance, str(tmp_path / name)).schedule
        for name in ("with-card.onnx", "plain.onnx")
    ]
    assert schedules[0] == schedules[1]


def test_plain_files_stand_in_the_table(tmp_path: Path) -> None:
    onnx.save(window_network(20), tmp_path / "a.onnx")
    onnx.save(window_network(40), tmp_path / "b.onnx")
    rows = compare(
        [INSTANCE],
        ["fifo", str(tmp_path / "a.onnx"), Entry(str(tmp_path / "b.onnx"), {"max_tasks": 8})],
        time_limit_s=5,
    ).rows
    assert [(row.scheduler, row.error) for row in rows] == [
        ("optimum", None),
        ("fifo", None),
        ("a", None),
        ("b", None),
    ]


def test_what_a_plain_file_cannot_be_is_said(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    weights = np.ones((8, 1))
    onnx.save(linear([5, 8], [5], weights[:, 0], flat=False), path)
    with pytest.raises(
        InstanceError, match="exported for exactly 5 jobs; export it with that axis"
    ):
        make_scheduler(str(path))
    onnx.save(window_network(20, 4), path)
    with pytest.raises(InstanceError, match="exported for exactly 4 batch"):
        make_scheduler(str(path))
    onnx.save(window_network(20, rows=9), path)
    with pytest.raises(InstanceError, match=r"sees \(9, 20\) and answers with 61 actions"):
        make_scheduler(str(path))
    write_policy(path, priority_model(left_h=-1.0), SPEC, card())
    with pytest.raises(InstanceError, match=r'has no option "window"; a policy file states itself'):
        make_scheduler(str(path), window=20)


# PyTorch.


def net(window: int = 20) -> Any:
    import torch

    torch.manual_seed(window)
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(6 * window, 16),
        torch.nn.Dropout(0.5),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 3 * window + 1),
    )


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_decides_alike_in_every_file(tmp_path: Path) -> None:
    import torch

    module, shown = net().eval(), torch.zeros(1, 6, 20)
    torch.save(module, tmp_path / "net.pt")
    script = torch.jit.trace(module, shown)
    script.save(tmp_path / "script.pth")
    torch.jit.freeze(script).save(tmp_path / "frozen.pth")  # it has no mode
    torch.export.save(torch.export.export(module, (shown,)), tmp_path / "program.pt2")
    files = ("net.pt", "script.pth", "frozen.pth", "program.pt2")
    runs = [simulate(INSTANCE, str(tmp_path / name)) for name in files]
    runs.append(simulate(INSTANCE, module.train()))
    assert module.training  # as it was, though it is asked without dropout
    module[2].eval()
    runs.append(simulate(INSTANCE, module))
    assert module.training
    assert not module[2].training
    assert all(run.schedule == runs[0].schedule for run in runs)
    assert runs[0].verified


@pytest.mark.torch
def test_modules_are_compared_and_known_by_their_weights(tmp_path: Path) -> None:
    import torch

    torch.save(net(), tmp_path / "mine.pt")
    torch.save(net(40), tmp_path / "wide.pt")
    rows = compare(
        [INSTANCE],
        [str(tmp_path / "mine.pt"), Entry(str(tmp_path / "wide.pt"), {"window": 40}), net()],
        time_limit_s=5,
    ).rows
    assert [(r.scheduler, r.error) for r in rows[1:]] == [
        ("mine", None),
        ("wide(window=40)", None),
        ("Sequential", None),
    ]
    before = Entry.of(net()).options["content"]
    other = net()
    assert Entry.of(other).options["content"] == before
    with torch.no_grad():
        other[1].bias += 1
    assert Entry.of(other).options["content"] != before


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_of_the_same_weights_are_known_by_their_parts() -> None:
    """A store must not take the results of one activation, or temperature, for another's."""
    import torch

    class Warm(torch.nn.Module):
        def __init__(self, temperature: float) -> None:
            super().__init__()
            self.net, self.temperature = net(), temperature

        def forward(self, shown: Any) -> Any:
            return self.net(shown) / self.temperature

    def content(module: Any) -> str:
        return str(Entry.of(module).options["content"])

    assert content(Warm(1.0)) == content(Warm(1.0)) == content(Warm(1.0).train())
    assert content(Warm(1.0)) != content(Warm(2.0))
    others = [torch.nn.Sequential(*net(), last) for last in (torch.nn.ReLU(), torch.nn.Tanh())]
    assert content(others[0]) != content(others[1])
    scripts = [torch.jit.trace(each.eval(), torch.zeros(1, 6, 20)) for each in others]
    assert content_of_module(scripts[0]) != content_of_module(scripts[1])
    assert content_of_module(net().half()) != content_of_module(net().bfloat16())


@pytest.mark.torch
def test_an_agent_around_a_policy_is_asked_itself() -> None:
    """What it does to observations, such as normalising them, must not be left out."""
    import torch

    class Policy(torch.nn.Module):
        def predict(self, observation: Any) -> tuple[int, None]:
            raise AssertionError("the policy was asked behind the agent's back")

    class Normalised:
        policy = Policy()

        def predict(self, observation: Any) -> tuple[int, None]:
            return 2, None

    spec = feature_spec("dl2-window/1", window=5)
    assert simulate(INSTANCE, agent_scheduler(Normalised(), spec, name="n")).verified
    with pytest.raises(SimulationError, match=r'agent "p": fails, AssertionError: the policy was'):
        simulate(INSTANCE, agent_scheduler(Policy(), spec, name="p"))


@pytest.mark.torch
def test_a_module_that_cannot_decide_says_why(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "net.pt"
    torch.save(net(40), path)
    with pytest.raises(InstanceError, match=r"cannot decide as dl2-window/1: .* for example kind="):
        make_scheduler(str(path))
    torch.save(net().state_dict(), path)
    with pytest.raises(InstanceError, match="holds OrderedDict, and no module; save the whole"):
        make_scheduler(str(path))
    path.write_text("weights")
    with pytest.raises(InstanceError, match="cannot be loaded, UnpicklingError"):
        make_scheduler(str(path))
    with pytest.raises(InstanceError, match="there is no such file"):
        make_scheduler(str(tmp_path / "none.pt"))
    poisoned = net()
    with torch.no_grad():
        poisoned[1].weight[:, 21] = float("nan")
    with pytest.raises((InstanceError, SimulationError), match="NaN or infinity"):
        simulate(INSTANCE, poisoned)


# Stable-Baselines3.


def archive(path: Path, module: str, **data: Any) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data", json.dumps({"policy_class": {"__module__": module}, **data}))
    return path


def test_what_is_no_archive_is_said_without_opening_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    with pytest.raises(InstanceError, match="there is no such file; name the archive"):
        make_scheduler(str(path))
    path.write_bytes(b"PK")
    with pytest.raises(InstanceError, match="is no agent that Stable-Baselines3 saved"):
        make_scheduler(str(path))
    archive(path, "my.policies")
    whole = path.read_bytes()
    # Said to be encrypted, in both of its headers.
    central = whole.index(b"PK\x01\x02")
    path.write_bytes(whole[:6] + b"\x01" + whole[7 : central + 8] + b"\x01" + whole[central + 9 :])
    with pytest.raises(InstanceError, match="is no agent that Stable-Baselines3 saved"):
        make_scheduler(str(path))
    path.write_bytes(whole)
    with pytest.raises(InstanceError, match=r"a policy of its own \(my\.policies\).*algorithm"):
        make_scheduler(str(path))
    with pytest.raises(InstanceError, match='algorithm is "MaskedPPO"; did you mean "MaskablePPO"'):
        make_scheduler(str(path), algorithm="MaskedPPO")


def test_without_the_library_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    path = archive(tmp_path / "agent.zip", "sb3_contrib.common.maskable.policies")
    with pytest.raises(BackendUnavailableError, match="pip install sb3-contrib"):
        make_scheduler(str(path))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Agents of every algorithm, hardly trained, and one that places gangs."""
    import gymnasium
    import sb3_contrib
    import stable_baselines3

    import alloc.learning  # registers the environments

    assert alloc.learning
    folder = tmp_path_factory.mktemp("agents")
    on, off = {"n_steps": 32, "batch_size": 32}, {"learning_starts": 8, "buffer_size": 64}
    for trainer, policy, options in (
        (stable_baselines3.PPO, "MlpPolicy", on),
        (stable_baselines3.A2C, "MlpPolicy", {}),
        (stable_baselines3.DQN, "MlpPolicy", off),
        (sb3_contrib.MaskablePPO, "MlpPolicy", on),
        (sb3_contrib.RecurrentPPO, "MlpLstmPolicy", on),
        (sb3_contrib.QRDQN, "MlpPolicy", off),
        (sb3_contrib.TRPO, "MlpPolicy", on),
    ):
        env = gymnasium.make("alloc/ElasticAllocation-v0")
        model = trainer(policy, env, seed=0, device="cpu", **options)
        model.learn(32).save(folder / trainer.__name__)
    env = gymnasium.make("alloc/GangPlacement-v0")
    model = sb3_contrib.MaskablePPO("MlpPolicy", env, seed=0, device="cpu", **on)
    model.learn(32).save(folder / "gangs")
    return folder


@pytest.mark.sb3
@pytest.mark.filterwarnings("ignore")
def test_agents_of_every_algorithm_are_compared_as_they_are(trained: Path) -> None:
    """Also by other processes, which load them themselves."""
    names = ["PPO", "A2C", "DQN", "MaskablePPO", "RecurrentPPO", "QRDQN", "TRPO"]
    given = [str(trained / f"{name}.zip") for name in names]
    alone = compare([INSTANCE], given, time_limit_s=5)
    assert [(row.scheduler, row.error) for row in alone.rows[1:]] == [(n, None) for n in names]
    together = compare([INSTANCE], given, time_limit_s=5, jobs=2)
    assert [r.objective for r in alone.rows] == [r.objective for r in together.rows]


@pytest.mark.sb3
@pytest.mark.filterwarnings("ignore")
def test_a_model_in_memory_decides_as_its_archive_and_leaves_its_optimiser(trained: Path) -> None:
    """Hashing the whole object once crashed on the state of its optimiser."""
    from sb3_contrib import MaskablePPO

    path = trained / "MaskablePPO.zip"
    model = MaskablePPO.load(path)
    assert model.policy.optimizer.state  # what crashed
    assert simulate(INSTANCE, model).schedule == simulate(INSTANCE, str(path)).schedule
    rows = compare([INSTANCE], [model, "fifo"], time_limit_s=5, jobs=2).rows
    assert [(row.scheduler, row.error) for row in rows] == [
        ("optimum", None),
        ("MaskablePPO", None),
        ("fifo", None),
    ]
    entry = Entry.of(model)
    again = pickle.loads(pickle.dumps(entry.scheduler))
    assert Entry.of(again).options == entry.options == Entry.of(MaskablePPO.load(path)).options


@pytest.mark.sb3
@pytest.mark.filterwarnings("ignore")
def test_an_agent_decides_as_it_would_in_its_environment(trained: Path) -> None:
    """The archive's scheduler takes the very steps that the agent takes in the environment."""
    from sb3_contrib import MaskablePPO

    from alloc.learning.environments import ElasticAllocation

    model = MaskablePPO.load(trained / "MaskablePPO.zip")
    env = ElasticAllocation(INSTANCE)
    seen, _ = env.reset()
    over = False
    while not over:
        action, _ = model.predict(seen, action_masks=env.action_masks(), deterministic=True)
        seen, _, terminated, truncated, _ = env.step(int(action))
        over = terminated or truncated
    assert env.result.schedule == simulate(INSTANCE, model).schedule


@pytest.mark.sb3
@pytest.mark.filterwarnings("ignore")
def test_gangs_are_placed_by_an_agent(trained: Path) -> None:
    made = make_scheduler(str(trained / "gangs.zip"), level="leaf")
    assert made.information.endswith("(gang-domain/1)")
    with pytest.raises(InstanceError, match="bounds are not those of encoding rescaled"):
        make_scheduler(str(trained / "PPO.zip"), encoding="rescaled")
    with pytest.raises(InstanceError, match=r"sees \(6, 20\), and kind dl2-window/1 .* shows"):
        make_scheduler(str(trained / "PPO.zip"), encoding="paper", kind="dl2-window/1")
