"""The client says exactly what the database offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
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


def test_both_clients_offer_the_same_besides_the_functions() -> None:
    def parameters(client: type) -> dict[str, dict[str, object]]:
        inherited = {name: getattr(client, name) for name in dir(client) if name not in vars(client)}
        return {
            name: {each.name: each.default for each in inspect.signature(member).parameters.values()}
            for name, member in inherited.items()
            if inspect.isfunction(member) and not name.startswith("_")
        } | {"__init__": {each.name: each.default for each in inspect.signature(client).parameters.values()}}

    assert parameters(Client) == parameters(AsyncClient)
    own = {"__init__", "close", "events", "iter_executions", "tail_stream", "transaction", "wait"}
    assert parameters(Client).keys() == own


def test_no_method_hides_what_every_client_has() -> None:
    inherited = {name for base in Client.__mro__[1:] for name in vars(base) if not name.startswith("_")}
    assert not inherited & vars(Client).keys()


def test_importing_the_client_loads_neither_the_worker_nor_the_command_line() -> None:
    program = "import sys; from flowfabric_client import Client, Flow; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"flowfabric_client.client", "flowfabric_client.flow"} <= loaded
    unwanted = (
        "flowfabric_client.worker",
        "flowfabric_client.install",
        "flowfabric_client.dev",
        "click",
        "rich",
    )
    assert not loaded & set(unwanted)


def test_the_programs_in_the_documentation_use_what_there_is() -> None:
    text = (ROOT / "docs" / "client.md").read_text()
    programs = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.M | re.S)
    assert len(programs) > 5
    for _, program in programs:
        compile(textwrap.dedent(program), "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    used = set(re.findall(r"\b(?:client|tx)\.(\w+)\(", text))
    assert used <= set(dir(Client))


def test_every_public_function_has_a_method(db: Connection) -> None:
    names = db.execute(
        "select proname from pg_proc where pronamespace = 'flowfabric'::regnamespace"
        " and prokind = 'f' and proname like 'ff\\_%'"
    ).fetchall()
    assert {f"ff_{name}" for name in vars(Client) if not name.startswith("_")} == {name for (name,) in names}
