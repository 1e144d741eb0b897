"""Policy files: ONNX networks that say what they are.

A policy file is an ONNX model whose ``metadata_props`` hold one JSON document under the key
``alloc_policy``: schema version, feature spec, operator set and model card. It stays an ordinary
ONNX file that every tool can open.

Reading is safe: the size is looked at before the contents, the contents before a session, and what
does not keep the rules (`alloc.schedulers.learned.onnx_rules`) is refused in one sentence with
nothing executed from it.
"""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from alloc.documents.files import write_bytes
from alloc.errors import InstanceError
from alloc.schedulers.learned.feature_spec import (
    FeatureSpec,
    Strict,
    TensorSpec,
    first_problem,
    shown,
)
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.model_card import ModelCard
from alloc.schedulers.naming import SUFFIX

if TYPE_CHECKING:
    from onnx import ModelProto

KEY = "alloc_policy"
"""Key of the document in the metadata of the ONNX model."""

SCHEMA_VERSION = 1
"""Version of the document."""

MAX_BYTES = 64 * 2**20
"""Largest policy file that is read unless the caller allows more, bytes."""

MAX_DOCUMENT = 2**20
"""Largest document, characters."""


class PolicyDocument(Strict):
    """The document in a policy file, in this version of its layout: spec, operator set and card."""

    schema_version: Literal[1] = 1
    spec: FeatureSpec
    opset: int = Field(ge=1)
    card: ModelCard


@dataclass(frozen=True)
class PolicyFile:
    """A policy that was read and passed every check: where from, its document, hash and bytes."""

    path: Path
    document: PolicyDocument
    sha256: str
    model: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.document.card.name

    @property
    def spec(self) -> FeatureSpec:
        """What the network is shown and answers."""
        return self.document.spec

    @property
    def card(self) -> ModelCard:
        """Where it comes from."""
        return self.document.card


def write_policy(
    path: str | PathLike[str], onnx_model: ModelProto, spec: FeatureSpec, card: ModelCard
) -> PolicyFile:
    """Write a policy file, as a whole or not at all, and return it as it reads back.

    Parameters
    ----------
    path
        Where to; the name must end in ``.onnx``.
    onnx_model
        The network. It is not changed; other metadata in it is kept.
    spec, card
        What it says of itself.

    Raises
    ------
    InstanceError
        If the network breaks a rule of policy files or does not fit its spec.
    AllocError
        If the file cannot be written.
    """
    policy = build_policy(path, onnx_model, spec, card)
    write_bytes(policy.path, policy.model)
    return policy


def build_policy(
    path: str | PathLike[str], onnx_model: ModelProto, spec: FeatureSpec, card: ModelCard
) -> PolicyFile:
    """Return the policy that `write_policy` would write, without writing it.

    Parameters
    ----------
    path
        Name that the file would have; its last part ends in `SUFFIX`.
    onnx_model
        The network; it is copied.
    spec
        What the network is shown, and what it answers.
    card
        Where it comes from and how good it is.
    """
    from alloc.schedulers.learned.onnx_rules import check_model

    target = Path(path)
    if target.suffix != SUFFIX:
        raise InstanceError(
            f"{target}: the name of a policy file must end in {SUFFIX}, so that it can be told "
            "from the name of a scheduler."
        )
    opset = check_model(onnx_model, spec, str(target))
    document = PolicyDocument(spec=spec, opset=opset, card=card)
    copy = type(onnx_model)()
    copy.CopyFrom(onnx_model)
    kept = {entry.key: entry.value for entry in copy.metadata_props if entry.key != KEY}
    del copy.metadata_props[:]
    for key, value in {**kept, KEY: document.model_dump_json()}.items():
        copy.metadata_props.add(key=key, value=value)
    # Deterministic: the same policy is the same file.
    return parse_policy(copy.SerializeToString(deterministic=True), target)


def read_policy(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> PolicyFile:
    """Read a policy file and check all of it; nothing in it is executed.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Largest file that is read, bytes.

    Raises
    ------
    InstanceError
        If there is no such file, it is larger, or it breaks a rule of policy files.
    """
    source = Path(path)
    return parse_policy(read_whole(source, max_bytes), source)


def parse_policy(data: bytes, path: Path) -> PolicyFile:
    """Return the policy in the bytes of a file; see `read_policy`.

    Parameters
    ----------
    data
        The whole file.
    path
        Where it was read, for messages.
    """
    from alloc.schedulers.learned.onnx_rules import check_model

    where = str(path)
    model = parse_model(data, where)
    document = _parse_document(model, where)
    _require_true_spec(document.spec, where)
    opset = check_model(model, document.spec, where)
    if opset != document.opset:
        raise InstanceError(
            f"{where}: its document says opset {document.opset}, and its graph has {opset}; write "
            "it again with write_policy."
        )
    return PolicyFile(path, document, hashlib.sha256(data).hexdigest(), data)


def read_whole(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file of at most that many; what is wrong with it is one sentence.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Largest size, bytes.
    """
    try:
        # The size is looked at first: nothing of a file that is too large is read.
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InstanceError(f"{path}: is a folder; name a policy file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise InstanceError(f"{path}: is not a plain file; name a policy file.")
        if status.st_size > max_bytes:
            raise _too_large(path, status.st_size, max_bytes)
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except FileNotFoundError:
        raise InstanceError(
            f"{path}: there is no such file; `alloc policies list` lists the policies there are."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        if isinstance(error, InstanceError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InstanceError(f"{path}: cannot be read ({reason}).") from None
    if len(data) > max_bytes:  # it grew in the meantime
        raise _too_large(path, len(data), max_bytes)
    return data


def _too_large(path: Path, size: int, max_bytes: int) -> InstanceError:
    return InstanceError(
        f"{path}: has {size / 2**20:,.0f} MiB, and policies are read up to "
        f"{max_bytes / 2**20:,.0f} MiB; make the network smaller."
    )


def parse_model(data: bytes, where: str) -> ModelProto:
    """Return the ONNX model in the bytes of a file; nothing of it is looked at yet.

    Parameters
    ----------
    data
        The whole file.
    where
        Its name, for the message.
    """
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):
        raise InstanceError(
            f"{where}: is not a whole ONNX file; copy or export it again."
        ) from None
    if not model.HasField("graph"):
        raise InstanceError(f"{where}: holds no ONNX graph; copy or export it again.")
    return model


def _parse_document(model: ModelProto, where: str) -> PolicyDocument:
    texts = [entry.value for entry in model.metadata_props if entry.key == KEY]
    if len(texts) != 1:
        found = "no document" if not texts else f"{len(texts)} documents"
        raise InstanceError(
            f'{where}: is an ONNX network with {found} "{KEY}" in its metadata; give it a feature '
            "spec and a model card with write_policy."
        )
    if len(texts[0]) > MAX_DOCUMENT:
        raise InstanceError(
            f"{where}: its document has {len(texts[0]):,} characters, and at most "
            f"{MAX_DOCUMENT:,} are read; shorten the model card."
        )
    try:
        raw = json.loads(texts[0])
    except (ValueError, RecursionError):
        raise InstanceError(
            f"{where}: its document is not JSON; write it again with write_policy."
        ) from None
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InstanceError(
            f"{where}: its document has schema version {shown(version, 50)}, and this alloc reads "
            f"version {SCHEMA_VERSION}; update alloc or write the policy again."
        )
    try:
        return PolicyDocument.model_validate_json(texts[0])
    except ValidationError as error:
        raise InstanceError(
            f"{where}: its document: {first_problem(error, PolicyDocument)}"
        ) from None


def _require_true_spec(spec: FeatureSpec, where: str) -> None:
    """Hold the tensors that a spec states to those that its kind asks for."""
    try:
        true = feature_spec(spec.kind, **spec.parameters)
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    for side in ("inputs", "outputs"):
        stated, asked = getattr(spec, side), getattr(true, side)
        if stated != asked:
            raise InstanceError(
                f"{where}: its feature spec states the {side} {_texts(stated)}, and kind "
                f'"{spec.kind}" with its parameters has {_texts(asked)}; make the spec with '
                "alloc.schedulers.learned.feature_spec."
            )


def _texts(tensors: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"{tensor.name} {tensor.text}" for tensor in tensors[:10])
