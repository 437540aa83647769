"""A call of one database function, before anybody has decided how to send it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from psycopg.types.json import Jsonb

T = TypeVar("T")
JsonObject = Mapping[str, Any]
EMPTY_OBJECT: JsonObject = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of one database function."""

    function: str
    sql: str
    params: Mapping[str, Any] = field(repr=False)
    row: type[T] | None
    """The class of the rows; None for a function that returns one value."""
    repeatable: bool
    """Whether the call may be sent again when its answer was lost."""


def json_param(value: JsonObject | str | None) -> Jsonb | None:
    """A JSON parameter; None stays NULL."""
    return None if value is None else Jsonb(value if isinstance(value, str | dict) else dict(value))


def list_param(name: str, values: Sequence[T]) -> list[T]:
    """An array parameter. One text or one object is a mistake: it would count as its characters or keys."""
    if isinstance(values, str | bytes | bytearray | Mapping):
        kind = type(values).__name__
        raise TypeError(f"{name} is a list of values; one {kind} was given: write [{values!r:.80}]")
    return list(values)
