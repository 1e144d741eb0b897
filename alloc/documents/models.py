"""What the models of all documents are made of: their base, and the types of numbers.

The models themselves are made from the dataclasses (`alloc.documents.records`). They say which
fields there are and of what JSON type they are; ranges are checked by the dataclasses, so that a
document and a program hear the same sentence.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from alloc.documents.constants import INFINITIES

_CONTAINERS = ("list", "tuple", "dict")
"""Types of core schemas that hold any number of items."""


def _whole(value: Any) -> Any:
    """Take 4.0 for 4: JSON Schema and many writers of JSON make no difference."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def _infinite(value: Any) -> Any:
    """Take the words for infinity; 1e400, which JSON readers also turn into one, is a mistake."""
    if type(value) is str and value in INFINITIES:
        return INFINITIES[value]
    if type(value) is float and not math.isfinite(value):
        raise PydanticCustomError("quoted_infinity", "Input should be a finite number")
    return value


# 64 bits: what the integer arrays behind the models hold.
Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), BeforeValidator(_whole)]
Extended = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_infinite),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": list(INFINITIES)}]}),
]


def _stop_at_first(schema: Any) -> None:
    """Let every list, tuple and mapping in a schema fail with its first bad item."""
    if isinstance(schema, dict):
        if schema.get("type") in _CONTAINERS:
            schema["fail_fast"] = True
        inner: Any = schema.values()
    elif isinstance(schema, list | tuple):
        inner = schema
    else:
        return
    for value in inner:
        _stop_at_first(value)


class Part(BaseModel):
    """Base of all parts: no unknown fields, no conversions (``"3"`` is not a number), no NaN.

    Of a list or a mapping only the first bad item is reported: a hostile document of 1 MB would
    otherwise make millions of errors, and gigabytes of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, in which containers stop at the first bad item."""
        schema = handler(source)
        _stop_at_first(schema)
        return schema
