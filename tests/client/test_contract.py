"""The client says exactly what the database offers."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import psycopg
import pytest

from flowfabric_client import AsyncClient, Client
from tests.support.cluster import Connection

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_client_is_what_the_catalogue_says(
    production_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    generate_client = importlib.import_module("generate_client")
    with psycopg.connect(production_database) as connection:
        stale = generate_client.outdated(connection)
    sys.modules.pop("generate_client")
    assert not stale, f"run python tools/generate_client.py: {', '.join(path.name for path in stale)}"


def test_both_clients_have_the_same_methods() -> None:
    def signatures(client: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(method))
            for name, method in vars(client).items()
            if not name.startswith("_")
        }

    assert signatures(Client) == signatures(AsyncClient)


def test_every_public_function_has_a_method(db: Connection) -> None:
    names = db.execute(
        "select proname from pg_proc where pronamespace = 'flowfabric'::regnamespace"
        " and prokind = 'f' and proname like 'ff\\_%'"
    ).fetchall()
    assert {f"ff_{name}" for name in vars(Client) if not name.startswith("_")} == {name for (name,) in names}
