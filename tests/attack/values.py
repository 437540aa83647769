"""Random values of every parameter type, in the text form of the type: at a boundary, or hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

_MAX_BIGINT = 2**63 - 1
#: What clients of every language hold exactly, and where the engine ends most of its ranges.
_MAX_EXACT = 2**53 - 1
#: The longest duration and the last instant that the engine takes.
_LONGEST_MS = 31_536_000_000_000
_LAST_MS = 253_402_300_799_999

BOUNDARIES: dict[str, list[Any]] = {
    "smallint": [0, 1, -1, 255, 256, 32767, -32768],
    "integer": [0, 1, -1, 100, 1000, 10_001, 2**31 - 1, -(2**31)],
    "bigint": [
        *[0, 1, -1, 86_400_000, 86_400_001, _LONGEST_MS, _LONGEST_MS + 1, _LAST_MS, _LAST_MS + 1],
        *[_MAX_EXACT, _MAX_EXACT + 1, 2**62, _MAX_BIGINT, -_MAX_BIGINT - 1],
    ],
    "double precision": ["NaN", "Infinity", "-Infinity", 0, -0.0, 1, 1e308, 5e-324, -1, 0.5],
}

#: What would run, or be read as something else, where a text is pasted into a statement or a pattern.
HOSTILE_TEXTS = [
    "",
    " ",
    "'",
    "''",
    '"',
    "\\\\",
    "\\",
    "\\'",
    "$$",
    "$_$",
    "$1",
    "%",
    "%s",
    "%I%L",
    "_",
    ";",
    "--",
    "/*",
    "{}",
    "[]",
    "null",
    "NULL",
    "{fp:0}:00000000-0000-0000-0000-000000000000",
    "{fp:99999}:00000000-0000-4000-8000-000000000001",
    "{fp:1}:zzzzzzzz-0000-4000-8000-000000000001",
    "{fp:-1}:00000000-0000-4000-8000-000000000001",
    "'; drop table attack_marker; --",
    "$$; drop table attack_marker; --",
    "'||(select pg_catalog.pg_sleep(0))||'",
    "pg_catalog.pg_class",
    "\n",
    "\r\n\t\b\f\x01\x1b\x7f",
    "\u00a0\u2028\u3000",
    "\u202e\u0000".replace("\u0000", ""),
    "é\u0301\u1e9e\u0130",
    "\U0010ffff\U0001f4a9",
    "\ufffd\ufeff",
    "1e400",
    "NaN",
    "infinity",
    "-infinity",
    "9223372036854775808",
    "-1-1",
    "0-0",
    "-",
    "+",
    "(+",
    "0.1.2",
    "a:b:c",
    "a.b",
    "a." * 50,
    "ab" * 129,
    "x" * 513,
    "x" * 8193,
    "x" * 70_000,
    "é" * 300,
]

_JSON_NUMBERS = [
    0,
    -1,
    1.5,
    1e308,
    10**30,
    -(10**30),
    _MAX_BIGINT,
    _MAX_BIGINT + 1,
    _MAX_EXACT + 1,
    _LONGEST_MS,
    _LAST_MS,
    _LAST_MS + 1,
    2**31,
    1e-300,
]


def text_literal(value: str | None) -> str:
    """One element of an array, in the array's text form."""
    if value is None:
        return "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array_literal(elements: list[str | None], lower_bound: int = 1) -> str:
    """A one-dimensional array in its text form."""
    body = "{" + ",".join(map(text_literal, elements)) + "}"
    if lower_bound == 1 or not elements:
        return body
    return f"[{lower_bound}:{lower_bound + len(elements) - 1}]={body}"


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "uuid": UUID,
    "boolean": bool,
    "bytea": bytes,
    "jsonb": (dict, str),
    "smallint": int,
    "integer": int,
    "bigint": int,
    "double precision": float,
}


def fits(value: Any, sql_type: str) -> bool:
    """Whether an ordinary Python value can stand for a type of Postgres."""
    if sql_type.endswith("[]"):
        return isinstance(value, list) and all(fits(item, sql_type[:-2]) for item in value)
    return value is None or isinstance(value, _PYTHON_TYPES[sql_type])


def to_text(value: Any, sql_type: str) -> str | None:
    """An ordinary Python value in the text form of its type."""
    if value is None:
        return None
    if sql_type.endswith("[]"):
        return array_literal([to_text(element, sql_type[:-2]) for element in value])
    match sql_type:
        case "jsonb":
            return json.dumps(value)
        case "bytea":
            return "\\x" + str(value.hex())
        case _:
            return str(value)


class Values:
    """Draws values, always the same ones for a seed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._scalars: dict[str, Callable[[], str]] = {
            "text": self.text,
            "uuid": self.uuid,
            "boolean": lambda: random.choice(["true", "false"]),
            "bytea": self.bytea,
            "jsonb": lambda: json.dumps(self.json()),
            **{kind: lambda kind=kind: self._number(kind) for kind in BOUNDARIES},  # type: ignore[misc]
        }

    def draw(self, sql_type: str) -> str | None:
        """A value of a type, NULL now and then."""
        if self.random.random() < 0.1:
            return None
        element = sql_type.removesuffix("[]")
        return self._scalars[element]() if element == sql_type else self.array(self._scalars[element])

    def text(self) -> str:
        if self.random.random() < 0.8:
            return self.random.choice(HOSTILE_TEXTS)
        return "".join(chr(self.random.choice([*range(1, 128), 233, 8232, 128169])) for _ in range(8))

    def uuid(self) -> str:
        return str(UUID(int=self.random.choice([0, 2**128 - 1, self.random.getrandbits(128)])))

    def bytea(self) -> str:
        return "\\x" + self.random.randbytes(self.random.choice([0, 1, 40, 5_000, 70_000])).hex()

    def json(self, depth: int = 0) -> Any:
        """A JSON value: any of its kinds, nested, with hostile keys and numbers."""
        kind = self.random.choice(
            ["scalar", "scalar", "array", "object", "deep"] if depth < 3 else ["scalar"]
        )
        if kind == "scalar":
            texts = [text for text in HOSTILE_TEXTS if len(text) < 1000]
            return self.random.choice([None, True, False, *_JSON_NUMBERS, *texts])
        if kind == "array":
            return [self.json(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == "deep":
            value: Any = self.json(3)
            for _ in range(self.random.choice([20, 400])):
                value = [value] if self.random.random() < 0.5 else {"members": value}
            return value
        return {self.text()[:100]: self.json(depth + 1) for _ in range(self.random.randrange(4))}

    def damaged(self, document: Any) -> Any:
        """A JSON document with one of its parts replaced, renamed or taken away."""
        if isinstance(document, dict | list) and document and self.random.random() < 0.8:
            copy: Any = document.copy()
            places: list[Any] = list(copy) if isinstance(copy, dict) else list(range(len(copy)))
            place = self.random.choice(places)
            what = self.random.random()
            if what < 0.15:
                del copy[place]
            elif what < 0.25 and isinstance(copy, dict):
                copy[self.text()[:100]] = copy.pop(place)
            elif what < 0.3 and isinstance(copy, list):
                copy.append(copy[place])
            else:
                copy[place] = self.damaged(copy[place])
            return copy
        return self.json(2)

    def array(self, element: Callable[[], str]) -> str:
        """An array: empty, with gaps, beginning elsewhere than at 1, nested, or too long."""
        shape = self.random.choice(["empty", "plain", "gaps", "shifted", "nested", "long"])
        if shape == "empty":
            return "{}"
        if shape == "nested":
            row = [element(), element()]
            return "{" + ",".join(array_literal(list(row)) for _ in range(2)) + "}"
        if shape == "long":
            return array_literal([min((element() for _ in range(4)), key=len)] * 1001)
        elements: list[str | None] = [element() for _ in range(self.random.randrange(1, 4))]
        if shape == "gaps":
            elements[self.random.randrange(len(elements))] = None
        return array_literal(elements, self.random.choice([0, -3, 5]) if shape == "shifted" else 1)

    def _number(self, sql_type: str) -> str:
        return str(self.random.choice(BOUNDARIES[sql_type]))
