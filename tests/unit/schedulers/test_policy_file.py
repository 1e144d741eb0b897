"""Policy files: what is written reads back, and what breaks a rule is refused in one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from policy_files import (
    SPEC,
    card,
    model_of,
    priority_model,
    spoil,
    spoil_document,
    write_short_first,
)

from alloc.errors import AllocError, InstanceError
from alloc.schedulers.learned import read_policy, write_policy
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.policy_file import MAX_BYTES, build_policy


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Return a policy file that is in order."""
    path = tmp_path / "short-first.onnx"
    write_short_first(path)
    return path


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be executed from a file that is being read."""

    def open_session(*arguments: object, **options: object) -> None:
        raise AssertionError("a session was made while a file was being checked")

    import onnxruntime

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)


def test_a_policy_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """The file is all there is: spec, card, weights and hash come back from it."""
    path = tmp_path / "p.onnx"
    written = write_policy(path, priority_model(left_h=-1.0), SPEC, card())
    found = read_policy(path)
    assert found == written
    assert (found.spec, found.card, found.name) == (SPEC, card(), "short-first")
    assert found.document.opset == 17
    assert found.model == path.read_bytes()


def test_the_same_policy_is_the_same_file(tmp_path: Path) -> None:
    """Stored results are found by the hash of the file."""
    first, second = (
        build_policy(tmp_path / f"{k}.onnx", priority_model(), SPEC, card()) for k in "ab"
    )
    assert first.sha256 == second.sha256


def test_other_metadata_is_kept(tmp_path: Path) -> None:
    """The file stays an ordinary ONNX file, with what other tools wrote into it."""
    model = priority_model()
    model.metadata_props.add(key="author", value="somebody")
    write_policy(tmp_path / "p.onnx", model, SPEC, card())
    again = onnx.load(str(tmp_path / "p.onnx"))
    assert {e.key for e in again.metadata_props} == {"author", "alloc_policy"}
    onnx.checker.check_model(again, full_check=True)
    assert len(model.metadata_props) == 1


def test_a_file_of_two_gigabytes_is_refused_from_its_size(tmp_path: Path) -> None:
    """Not a byte of it is read: the file here is a hole that no memory would hold."""
    path = tmp_path / "huge.onnx"
    with path.open("wb") as stream:
        stream.truncate(2**31)
    with pytest.raises(InstanceError, match=r"huge.onnx: has 2,048 MiB, and .* up to 64 MiB"):
        read_policy(path)


def test_the_largest_size_is_the_callers_choice(good: Path) -> None:
    assert good.stat().st_size < MAX_BYTES
    with pytest.raises(InstanceError, match="policies are read up to 0 MiB"):
        read_policy(good, max_bytes=good.stat().st_size - 1)
    assert read_policy(good, max_bytes=good.stat().st_size).name == "short-first"


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Opening it would hang until somebody writes."""
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(InstanceError, match=r"pipe\.onnx: is not a plain file"):
        read_policy(tmp_path / "pipe.onnx")


def test_missing_files_and_folders_are_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=r"no\.onnx: there is no such file"):
        read_policy(tmp_path / "no.onnx")
    with pytest.raises(InstanceError, match="is a folder; name a policy file in it"):
        read_policy(tmp_path)
    with pytest.raises(InstanceError, match="cannot be read"):
        read_policy("nul\0l.onnx")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "holds no ONNX graph"),
        (b"PK\x03\x04 a zip archive", "is not a whole ONNX file|holds no ONNX graph"),
        (b"\xff" * 1000, "is not a whole ONNX file"),
        (b"\x00" * 1000, "is not a whole ONNX file"),
    ],
)
def test_what_is_no_onnx_file_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "garbage.onnx"
    path.write_bytes(data)
    with pytest.raises(InstanceError, match=sentence):
        read_policy(path)


def test_half_a_file_is_refused(good: Path) -> None:
    """A copy that broke off must not run with half its weights."""
    data = good.read_bytes()
    for length in range(0, len(data) - 1, 17):
        good.write_bytes(data[:length])
        with pytest.raises(InstanceError, match=r"short-first\.onnx: .*\.$"):
            read_policy(good)


def test_an_onnx_file_without_a_document_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "plain.onnx"
    path.write_bytes(priority_model().SerializeToString())
    with pytest.raises(InstanceError, match=r'no document "alloc_policy" .* with write_policy'):
        read_policy(path)


def test_two_documents_are_one_too_many(good: Path) -> None:
    """Which of them would be believed?"""
    bad = spoil(good, lambda m: m.metadata_props.append(m.metadata_props[0]))
    with pytest.raises(InstanceError, match='with 2 documents "alloc_policy"'):
        read_policy(bad)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda d: d.update(schema_version=2),
            "has schema version 2, and this alloc reads version 1",
        ),
        (lambda d: d.pop("schema_version"), "has schema version None"),
        (lambda d: d.update(opset=18), "says opset 18, and its graph has 17"),
        (lambda d: d.pop("card"), '"card": field required'),
        (lambda d: d.update(cardd={}), r'"cardd" is not known; did you mean "card"\?'),
        (lambda d: d["card"].update(titel=""), r'"card.titel" .*; did you mean "title"\?'),
        (
            lambda d: d["card"].update(name="Not A Name"),
            '"card.name": is not a name of a policy: give',
        ),
        (lambda d: d["card"].update(name="../../etc"), '"card.name": is not a name of a policy'),
        (
            lambda d: d["card"].update(name="trailing\n"),
            '"card.name": is not a name of a policy: give',
        ),
        (lambda d: d["card"].update(name="a.onnx"), '"card.name": .* its end it is a path'),
        (lambda d: d["card"].update(title="\x1b[2J"), '"card.title": holds control characters'),
        (
            lambda d: d["card"].update(seed=1, hours=1),
            r'"card.seed" is not known; .* \(1 more problem\)',
        ),
        (lambda d: d["card"].update(training_hours=-1), '"card.training_hours": .* or equal to 0'),
        (lambda d: d["card"].update(date="soon"), '"card.date"'),
        (lambda d: d["card"]["curve"].append({"step": 1}), '"card.curve.3.value": field required'),
        (
            lambda d: d["spec"].update(kind="job-prioritty/1"),
            'unknown kind of policy "job-prioritty/1"; did you mean "job-priority/1"',
        ),
        (
            lambda d: d["spec"]["parameters"].update(skp=True),
            r'kind "job-priority/1": "skp" is not known; did you mean "skip"\?',
        ),
        (
            lambda d: d["spec"]["parameters"].update(time_scale_h=0),
            'kind "job-priority/1": "time_scale_h": input should be greater than 0',
        ),
        (
            lambda d: d["spec"]["inputs"][0].update(shape=["jobs", 9]),
            r"states the inputs jobs float32 \[jobs, 9\], and kind .* has jobs float32 \[jobs, 8\]",
        ),
        (
            lambda d: d["spec"]["outputs"][0].update(dtype="float64"),
            r"states the outputs priority float64 \[jobs\], and kind",
        ),
    ],
)
def test_a_wrong_document_is_refused(good: Path, change: Change, sentence: str) -> None:
    """Each field is held to its meaning, and a slip gets the nearest name."""
    bad = spoil_document(good, change)
    with pytest.raises(InstanceError, match=sentence) as caught:
        read_policy(bad)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_document_that_is_no_json_or_endless_is_refused(good: Path) -> None:
    def document(text: str) -> Callable[[onnx.ModelProto], None]:
        return lambda m: setattr(m.metadata_props[0], "value", text)

    for text in ("{", "[" * 100_000, '{"schema_version": 1' + "0" * 5000 + "}"):
        with pytest.raises(InstanceError, match="its document is not JSON"):
            read_policy(spoil(good, document(text)))
    with pytest.raises(InstanceError, match="has schema version None"):
        read_policy(spoil(good, document("[1]")))
    with pytest.raises(InstanceError, match="at most 1,048,576 are read"):
        read_policy(spoil(good, document(" " * 2**21)))


def weights_of(model: onnx.ModelProto, values: np.ndarray) -> None:
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "weights"))


def nan_weights(model: onnx.ModelProto) -> None:
    weights_of(model, np.array([0, 0, np.nan, 0, 0, 0, 0, 0], np.float32))


def infinite_weights(model: onnx.ModelProto) -> None:
    weights_of(model, np.array([0, 0, np.inf, 0, 0, 0, 0, 0], np.float32))


def wrong_length(model: onnx.ModelProto) -> None:
    weights_of(model, np.zeros(9, np.float32))


def external_weights(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def text_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(
        helper.make_tensor("weights", TensorProto.STRING, [1], [b"text"])  # type: ignore[list-item]
    )


def fewer_numbers_than_said(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1000


def terabytes(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [2**40]


def custom_operator(model: onnx.ModelProto) -> None:
    model.opset_import.add(domain="com.microsoft", version=1)


def custom_domain_of_a_node(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "evil.example"


def unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Teleport"


def branches(model: onnx.ModelProto) -> None:
    graph = helper.make_graph([], "then", [], [])
    node = helper.make_node("If", ["jobs"], ["x"], then_branch=graph, else_branch=graph)
    model.graph.node.insert(0, node)


def functions(model: onnx.ModelProto) -> None:
    model.functions.add(name="f", domain="local")


def random_numbers(model: onnx.ModelProto) -> None:
    model.graph.node.insert(0, helper.make_node("RandomNormal", [], ["x"], shape=[1]))


def explodes(model: onnx.ModelProto) -> None:
    """Ask for 2^40 numbers in a hundred bytes."""
    model.graph.initializer.append(numpy_helper.from_array(np.array([2**20, 2**20]), "much"))
    model.graph.node.insert(0, helper.make_node("ConstantOfShape", ["much"], ["x"]))


def not_a_number_in_an_attribute(model: onnx.ModelProto) -> None:
    model.graph.node.insert(0, helper.make_node("LeakyRelu", ["jobs"], ["x"], alpha=float("nan")))


def other_output(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = "scores"
    model.graph.output[0].name = "scores"


def doubles(model: onnx.ModelProto) -> None:
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    weights_of(model, np.zeros(8, np.float64))


def fixed_number_of_jobs(model: onnx.ModelProto) -> None:
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 20


def extra_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def opset(version: int) -> Callable[[onnx.ModelProto], None]:
    return lambda model: setattr(model.opset_import[0], "version", version)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (nan_weights, r'weights "weights" holds NaN or infinity; the training diverged'),
        (infinite_weights, r'weights "weights" holds NaN or infinity'),
        (wrong_length, "is not a valid network"),
        (external_weights, r'keeps weights "weights" in another file; save the network'),
        (text_weights, r'weights "weights" is of type string'),
        (fewer_numbers_than_said, r'weights "weights" cannot be read'),
        (terabytes, "is of size 1099511627776, and tensors have at most 67,108,864 elements"),
        (custom_operator, 'uses custom operators of "com.microsoft"'),
        (custom_domain_of_a_node, 'uses custom operators of "evil.example"'),
        (unknown_operator, "is not a valid network .*Teleport"),
        (branches, r"has control flow \(If\), which policies must not"),
        (functions, "defines functions of its own"),
        (random_numbers, r"draws random numbers \(RandomNormal\)"),
        (explodes, r'tensor "x" is of size 1048576 x 1048576'),
        (not_a_number_in_an_attribute, "LeakyRelu alpha holds NaN or infinity"),
        (other_output, 'has the outputs "scores", and its feature spec asks for "priority"'),
        (doubles, r'input "jobs" is float64 \[jobs, 8\], and its .* asks for float32 \[jobs, 8\]'),
        (
            fixed_number_of_jobs,
            r'input "jobs" is float32 \[20, 8\], and .* asks for float32 \[jobs',
        ),
        (extra_input, 'has the inputs "jobs", "more", and its feature spec asks for "jobs"'),
        (opset(9), "uses opset 9, and opsets 13 to 21 are read; export the network again"),
        (opset(99), "uses opset 99, and opsets 13 to 21 are read"),
        (lambda m: setattr(m, "ir_version", 99), "has IR version 99, and versions 7 to 10 are"),
        (lambda m: m.training_info.add(), "holds graphs for training"),
        (lambda m: m.graph.sparse_initializer.add(), "has sparse weights"),
        (lambda m: m.ClearField("opset_import"), "names 0 versions of the standard operators"),
        (lambda m: m.ClearField("graph"), "holds no ONNX graph"),
    ],
)
def test_a_network_that_breaks_a_rule_is_refused(
    good: Path, change: Callable[[onnx.ModelProto], Any], sentence: str
) -> None:
    """Before any session is made, in one sentence that names the file and the rule."""
    bad = spoil(good, change)
    with pytest.raises(InstanceError, match=sentence) as caught:
        read_policy(bad)
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_writing_refuses_what_reading_would(tmp_path: Path) -> None:
    """A trainer hears of a mistake when it writes, and no half-made file is left."""
    model = priority_model()
    nan_weights(model)
    with pytest.raises(InstanceError, match="holds NaN or infinity"):
        write_policy(tmp_path / "p.onnx", model, SPEC, card())
    with pytest.raises(
        InstanceError, match=r"p\.bin: the name of a policy file must end in \.onnx"
    ):
        write_policy(tmp_path / "p.bin", priority_model(), SPEC, card())
    with pytest.raises(AllocError, match="cannot be written"):
        write_policy(tmp_path / "no" / "p.onnx", priority_model(), SPEC, card())
    assert list(tmp_path.iterdir()) == []


def test_a_mask_filled_with_minus_infinity_is_no_diverged_weight(tmp_path: Path) -> None:
    """Single infinite numbers are how exporters write masks."""
    nodes = [
        helper.make_node("MatMul", ["jobs", "weights"], ["all"]),
        helper.make_node("IsNaN", ["all"], ["never"]),
        helper.make_node("Where", ["never", "low", "all"], ["priority"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones(8, np.float32), "weights"),
        numpy_helper.from_array(np.array(-np.inf, np.float32), "low"),
    ]
    assert write_policy(tmp_path / "p.onnx", model_of(nodes, weights), SPEC, card())


def test_the_features_of_a_spec_follow_from_its_kind() -> None:
    """Nobody types shapes: a spec made by hand could contradict its kind."""
    spec = feature_spec("dl2-window/1", window=4)
    assert spec.inputs[0].shape == ("batch", 6, 4)
    assert spec.outputs[0].shape == ("batch", 13)
    assert spec.inputs[0].text == "float32 [batch, 6, 4]"
    with pytest.raises(InstanceError, match='kind "dl2-window/1": "window": field required'):
        feature_spec("dl2-window/1")
    with pytest.raises(InstanceError, match=r'"windw" is not known; did you mean "window"\?'):
        feature_spec("dl2-window/1", windw=4)
    with pytest.raises(InstanceError, match=r'unknown kind .*did you mean "dl2-window/1"'):
        feature_spec("dl2-window/2")
