"""What breaks a client that was made for an older contract, and what does not."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.upgrade.contract import Contract, broken_promises

OLD: Contract = {
    "ff_do": {
        "is_procedure": False,
        "returns_set": False,
        "parameters": [
            {"name": "p_id", "type": "text", "has_default": False},
            {"name": "p_ttl_ms", "type": "bigint", "has_default": True},
        ],
        "columns": [{"name": "outcome", "type": "text"}],
        "roles": ["flowfabric_worker"],
    }
}


def changed(path: str, value: Any) -> Contract:
    new = deepcopy(OLD)
    *way, last = path.split(".")
    place: Any = new["ff_do"]
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    if last == "+":
        place.append(value)
    elif last == "-":
        place.pop()
    else:
        place[last] = value
    return new


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("returns_set", True, "ff_do: returns_set is now True"),
        ("parameters.0.name", "p_key", "ff_do: p_id text became p_key text"),
        ("parameters.0.type", "uuid", "ff_do: p_id text became p_id uuid"),
        ("parameters.1.has_default", False, "ff_do: p_ttl_ms has lost its default"),
        ("parameters.-", None, "ff_do: p_ttl_ms is gone"),
        (
            "parameters.+",
            {"name": "p_why", "type": "text", "has_default": False},
            "ff_do: p_why is new and has no default",
        ),
        ("columns.-", None, "ff_do no longer returns [{'name': 'outcome', 'type': 'text'}]"),
        ("roles", ["flowfabric_admin"], "ff_do may no longer be called by flowfabric_worker"),
    ],
)
def test_a_change_that_breaks_clients_is_named(path: str, value: Any, reason: str) -> None:
    assert [*broken_promises(OLD, changed(path, value))] == [reason]


def test_a_function_that_is_gone_is_named() -> None:
    assert [*broken_promises(OLD, {})] == ["ff_do is gone"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parameters.+", {"name": "p_why", "type": "text", "has_default": True}),
        ("parameters.0.has_default", True),
        ("columns.+", {"name": "detail", "type": "jsonb"}),
        ("roles", ["flowfabric_operator", "flowfabric_worker"]),
    ],
)
def test_a_change_that_breaks_nobody_is_allowed(path: str, value: Any) -> None:
    assert [*broken_promises(OLD, changed(path, value))] == []
