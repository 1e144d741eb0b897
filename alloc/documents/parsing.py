"""Parsing: from text to plain JSON values, whatever the text is."""

from __future__ import annotations

import codecs
import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

from alloc.documents import files
from alloc.errors import InstanceError

YAML_ENDINGS = (".yaml", ".yml")
"""Endings of the names of files that are read as YAML, before ``.gz``."""

MAX_YAML_VALUES = 1_000_000
"""Most values of a YAML document, with its aliases unfolded: what people write has fewer, and each
takes ten times as long to read as in JSON."""

# As JSON writes them, and with a sign or without a digit before the point. Names such as 0012 and
# 1_000 are none.
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]+|(?<=[0-9])\.?)(?:[eE][-+]?[0-9]+)?")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")

_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse JSON strictly: no key twice in an object, whole characters only.

    The words NaN and Infinity, which are no JSON, become floats here: the models refuse them and
    know the job and the field.

    Parameters
    ----------
    text
        The document, bytes as UTF-8.
    where
        What messages call it.
    """
    if len(text) > files.MAX_BYTES:
        raise files.too_large(where, len(text))
    decoded = _decode(text, where)
    data = text.encode() if isinstance(text, str) else text
    if files.count_values(data) > files.MAX_VALUES:
        raise files.too_many_values(where)
    if files.is_mostly_empty(data):
        raise files.mostly_empty(where)
    if not decoded.strip():
        raise InstanceError(f"{where} is empty; write a JSON object.")
    try:
        raw = _STRICT.decode(decoded)
    except json.JSONDecodeError as error:
        raise InstanceError(f"{where} {_json_problem(error)}") from None
    except RecursionError:
        raise InstanceError(
            f"{where} nests brackets too deeply; no document of alloc needs more than 8 levels."
        ) from None
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise InstanceError(
            f"{where} holds a whole number of thousands of digits; numbers end at 1.8e308."
        ) from None
    if _HALF_CHARACTER.search(decoded):
        _refuse_half_characters(raw, where)
    return raw


def parse_yaml(text: str | bytes, where: str) -> Any:
    """Parse YAML strictly, to the values that JSON has: no key twice, no tags.

    Without quotes, ``null``, ``true``, ``false`` and numbers are what they are in JSON; every other
    scalar is text, ``no`` and ``2024-05-31`` too.

    Parameters
    ----------
    text
        One YAML document.
    where
        What it is, for messages.

    Raises
    ------
    InstanceError
        If it is none; the message names the line.
    """
    if len(text) > files.MAX_BYTES:
        raise files.too_large(where, len(text))

    def error(line: int | None, sentence: str) -> InstanceError:
        return InstanceError(f"{where}{'' if line is None else f', line {line}'}: {sentence}")

    from alloc.documents.yaml_events import YamlReader  # most documents are JSON

    found = YamlReader(_decode(text, where), error, describe, MAX_YAML_VALUES, _scalar).documents
    if not found or found == [None]:
        raise InstanceError(f"{where} is empty; write fields and their values.")
    if len(found) > 1:
        raise InstanceError(f"{where} is {len(found)} YAML documents; keep one of them.")
    return found[0]


def parse_file(data: bytes, path: str | PathLike[str], where: str) -> Any:
    """Parse what was read from a file: YAML where its name ends in ``.yaml``, else JSON.

    Parameters
    ----------
    data
        What it holds, unpacked.
    path
        Its name; an ending ``.gz`` does not count.
    where
        What it is, for messages.

    Raises
    ------
    InstanceError
        If it is malformed.
    """
    name = Path(path).name.removesuffix(".gz").lower()
    return (parse_yaml if name.endswith(YAML_ENDINGS) else parse_json)(data, where)


def _scalar(text: str) -> Any:
    """Return the value of a YAML scalar without quotes."""
    if _WHOLE.fullmatch(text):
        try:
            return int(text)
        except ValueError:  # Python's limit on the digits of an integer
            return text
    if _DECIMAL.fullmatch(text):
        return float(text)
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return text


def describe(value: Any) -> str:
    """Return a JSON value in words short enough for a sentence."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**64:
        return f"a whole number of {len(str(abs(value)))} digits"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > 60:
        text = text[:57] + "..." + ('"' if isinstance(value, str) else "")
    return text.encode("utf-8", "backslashreplace").decode()


def _decode(text: str | bytes, where: str) -> str:
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InstanceError(f"{where} holds half a character; save it as UTF-8.") from None
        return text.removeprefix("\ufeff")
    files.require_plain(text, where)
    for mark, encoding in _OTHER_ENCODINGS:
        if text.startswith(mark):
            raise InstanceError(f"{where} is {encoding}; save it as UTF-8.")
    try:
        return bytes(text).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"{where} is not UTF-8: byte 0x{text[error.start]:02x} at position {error.start}; "
            "save it as UTF-8."
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that appears twice; JSON readers would silently keep the last value."""
    if not pairs:  # of which a hostile document has many
        return {}
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                owner = found.get("id", found.get("name"))
                of = f" of {describe(owner)}" if isinstance(owner, str) else ""
                raise InstanceError(f"the field {describe(key)}{of} appears twice; keep one.")
            seen.add(key)
    return found


_STRICT = json.JSONDecoder(object_pairs_hook=_object)
"""Made once: `json.loads` makes one a text."""


def _json_problem(error: json.JSONDecodeError) -> str:
    place = f"at line {error.lineno}, column {error.colno}"
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"ends too early, {place}; it was cut off, so copy or write it again."
    return f"is not valid JSON: {error.msg[0].lower()}{error.msg[1:]} {place}; correct it there."


def _refuse_half_characters(raw: Any, where: str) -> None:
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise InstanceError(
            f"{where} holds half a character (a lone \\ud800 to \\udfff); write the character "
            "itself, in UTF-8."
        ) from None
