"""Damaged policy files: whatever bytes come, they are refused in a sentence or read as a policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper
from policy_files import SPEC, card, model_of

from alloc.errors import AllocError, InstanceError
from alloc.schedulers.learned.network import OnnxNetwork
from alloc.schedulers.learned.policy_file import build_policy, parse_policy

if TYPE_CHECKING:
    from google.protobuf.message import Message

MUTATIONS = 4000


@pytest.fixture(scope="module")
def whole() -> bytes:
    """Return a policy with many kinds of nodes, attributes and constants."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["jobs", "first"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "scale", "shift"], ["b"], axis=-1),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("ReduceMean", ["c"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Shape", ["c"], ["shape"]),
        helper.make_node("Expand", ["mean", "shape"], ["context"]),
        helper.make_node("Concat", ["c", "context"], ["d"], axis=1),
        helper.make_node("Constant", [], ["slope"], value_float=0.5),
        helper.make_node("PRelu", ["d", "slope"], ["e"]),
        helper.make_node("Gemm", ["e", "last", "bias"], ["f"], alpha=1.0, transB=1),
        helper.make_node("Reshape", ["f", "flat"], ["priority"]),
    ]
    arrays: dict[str, np.ndarray] = {
        "first": rng.standard_normal((8, 4)).astype(np.float32),
        "scale": np.ones(4, np.float32),
        "shift": np.zeros(4, np.float32),
        "last": rng.standard_normal((1, 8)).astype(np.float32),
        "bias": np.zeros(1, np.float32),
        "flat": np.array([-1], np.int64),
    }
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    return build_policy("p.onnx", model_of(nodes, weights), SPEC, card()).model


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a few of them changed, lost, doubled, or swapped with others."""
    spoilt = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(spoilt)))
        length = int(rng.integers(1, 40))
        match int(rng.integers(6)):
            case 0:
                spoilt[at] ^= 1 << int(rng.integers(8))
            case 1:
                spoilt[at] = int(rng.integers(256))
            case 2:
                del spoilt[at : at + length]
            case 3:
                spoilt[at:at] = spoilt[at : at + length]
            case 4:
                spoilt[at:at] = rng.bytes(length)
            case 5:
                other = int(rng.integers(len(spoilt)))
                spoilt[at : at + length] = spoilt[other : other + length]
        if not spoilt:
            break
    return bytes(spoilt)


def outcome(data: bytes) -> str | None:
    """Return the sentence a file is refused with, or None if it is read."""
    try:
        policy = parse_policy(data, Path("p.onnx"))
    except InstanceError as error:
        return str(error)
    # Read: then it keeps every rule, and says so again.
    assert parse_policy(policy.model, Path("p.onnx")) == policy
    return None


def messages_in(message: Message) -> list[Message]:
    """Return a message and all messages within it."""
    found = [message]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts = value if field.is_repeated else [value]
            found += [inner for part in parts for inner in messages_in(part)]
    return found


def disturb(message: Message, rng: np.random.Generator) -> None:
    """Change, drop or double one field of a message; it stays well-formed protobuf."""
    field = message.DESCRIPTOR.fields[int(rng.integers(len(message.DESCRIPTOR.fields)))]
    repeated = field.is_repeated
    if rng.random() < 0.2:
        message.ClearField(field.name)
        return
    if field.type == field.TYPE_MESSAGE:
        if repeated:
            values = getattr(message, field.name)
            if values and rng.random() < 0.5:
                values.append(values[int(rng.integers(len(values)))])
            else:
                values.add()
        else:
            getattr(message, field.name).SetInParent()
        return
    numbers = (0, 1, -1, 2, 7, 8, 11, 127, 2**31 - 1)
    number = int(numbers[int(rng.integers(len(numbers)))])
    value: object
    if field.type == field.TYPE_STRING:
        value = ("jobs", "priority", "", "a", "If", "\x1b[2J", "../x")[int(rng.integers(7))]
    elif field.type == field.TYPE_BYTES:
        value = rng.bytes(int(rng.integers(40)))
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        value = (float("nan"), float("inf"), float(number))[int(rng.integers(3))]
    elif field.type == field.TYPE_UINT64:
        value = abs(number)
    elif field.type == field.TYPE_ENUM:
        known = field.enum_type.values
        value = known[int(rng.integers(len(known)))].number
    else:
        value = number
    if repeated:
        values = getattr(message, field.name)
        if values and rng.random() < 0.7:
            values[int(rng.integers(len(values)))] = value
        else:
            values.append(value)
    else:
        setattr(message, field.name, value)


def refusals_of(files: Iterator[bytes]) -> tuple[int, list[bytes]]:
    """Return how many files are refused, each in a good sentence, and those that are read."""
    refused, read = 0, []
    for data in files:
        sentence = outcome(data)
        if sentence is None:
            read.append(data)
            continue
        refused += 1
        assert sentence.startswith("p.onnx: ")
        assert sentence.isprintable()
        assert len(sentence) < 1500
    return refused, read


def test_thousands_of_damaged_files_raise_nothing_but_our_sentence(whole: bytes) -> None:
    """No damage may crash the reader, hang it, or come out as another library's error."""
    rng = np.random.default_rng(20261121)
    refused, read = refusals_of(damaged(whole, rng) for _ in range(MUTATIONS))
    # A changed letter of the model card is still a policy; most damage is not.
    assert refused > MUTATIONS / 2
    assert read


@pytest.mark.long
def test_well_formed_nonsense_is_refused_or_runs(whole: bytes) -> None:
    """Past the parser, the rules decide; and what they let through cannot break the process.

    What is read may still not run (ONNX Runtime knows more than the checker); that comes out as a
    sentence as well.
    """
    rng = np.random.default_rng(11)

    def files() -> Iterator[bytes]:
        for _ in range(MUTATIONS):
            model = onnx.ModelProto()
            model.ParseFromString(whole)
            for _ in range(int(rng.integers(1, 4))):
                found = messages_in(model)
                disturb(found[int(rng.integers(len(found)))], rng)
            yield model.SerializeToString()

    refused, read = refusals_of(files())
    assert refused > MUTATIONS / 2
    assert len(read) > MUTATIONS / 20
    rows = {"jobs": rng.standard_normal((5, 8)).astype(np.float32)}
    answers = [answer_of(data, rows) for data in read[:200]]
    ran = [answer for answer in answers if not isinstance(answer, str)]
    assert all(answer.ndim == 1 for answer in ran)
    for sentence in answers:
        if isinstance(sentence, str):
            assert sentence.startswith("policy short-first: ")
            assert sentence.isprintable()
    assert ran


def answer_of(
    data: bytes, rows: dict[str, npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32] | str:
    """Return what a policy that was read answers, or the sentence why it cannot."""
    policy = parse_policy(data, Path("p.onnx"))
    try:
        answer = OnnxNetwork(policy.model, policy.spec, policy.name)(rows)
    except AllocError as error:
        return str(error)
    return answer["priority"]


def test_every_truncated_file_is_refused(whole: bytes) -> None:
    """Whatever the length at which a copy broke off."""
    for length in range(len(whole)):
        assert outcome(whole[:length]) is not None


def test_bytes_of_nothing_in_particular_are_refused() -> None:
    rng = np.random.default_rng(7)
    for _ in range(500):
        assert outcome(rng.bytes(int(rng.integers(2000)))) is not None
