"""docs/policies.md: its programs run as they are printed, and its table has the fields of the engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flowfabric_client import Client, Handle
from tests.support.cluster import Connection

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "policies.md").read_text()
VALUES = {
    "capabilities": "texts",
    "duration": "duration",
    "fraction": "number from 0 to 1",
    "number": "number",
    "object": "object",
    "text": "text",
    "texts": "texts",
}


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return found


def test_the_table_has_the_fields_of_the_engine(db: Connection) -> None:
    table = re.findall(r"^\| `([\w.]+)` \| (.+?) \|.*\|$", PAGE.split("## Retries")[0], re.M)
    engine = db.execute("select path, kind, legal_values from flowfabric._ff_policy_keys()").fetchall()
    assert table == [
        (".".join(path), VALUES[kind] if legal is None else " or ".join(f"`{word}`" for word in legal))
        for path, kind, legal in engine
    ]


def test_the_programs_run_and_those_in_sql_do_the_same(
    database: str, db: Connection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWFABRIC_DSN", database)
    names: dict[str, Any] = {}
    with Client(database) as client:
        client.create_execution("claimed first", priority=9)
        for program in blocks("python"):
            exec(program, names)
        names["client"].close()
        assert capsys.readouterr().out == "retries -> retry_policy.max_retries\n"

        small, large, failure = blocks("sql")
        for program in (small, large):
            db.execute(program.encode())
        policies = db.execute(
            "select e.execution_kind, p.policy from flowfabric.ff_exec_core as e"
            " join flowfabric.ff_exec_payload as p using (partition_key, execution_id)"
            " where p.policy is not null order by 1"
        ).fetchall()
        assert [kind for kind, _ in policies] == ["ask_model"] * 2 + ["send_mail"] * 2
        assert policies[0] == policies[1]
        assert policies[2] == policies[3]

        client.create_execution("claimed next", priority=9)
        (claim,) = client.claim_next(["default"], "mail", "mail-1")
        for name, value in Handle.of(claim).arguments().items():
            failure = re.sub(rf":'?{name}\b'?", f"'{value}'", failure)
        row = db.execute(failure.encode()).fetchone()
        assert row is not None
        assert row[0] == "retry_scheduled"


def test_the_delays_of_the_page_are_those_of_the_engine(db: Connection) -> None:
    delays = re.search(r"\| `exponential` \|.*\| ([\d, ]+) s \|", PAGE)
    assert delays is not None
    computed = db.execute(
        "select array_agg(flowfabric._ff_retry_delay_ms(%s, n)) from generate_series(0, 7) as n",
        ['{"backoff": {"type": "exponential"}}'],
    ).fetchone()
    assert computed == ([int(seconds) * 1000 for seconds in delays[1].split(", ")],)


def test_every_reason_of_a_refusal_is_on_the_page(db: Connection) -> None:
    source = db.execute(
        "select string_agg(prosrc, '') from pg_proc"
        " where proname in ('_ff_policy_error', '_ff_policy_value_fault')"
    ).fetchone()
    assert source is not None
    reasons = set(re.findall(r"'reason', '(\w+)'|then '(\w+)'", source[0]))
    line = PAGE.split("| `reason` |")[1].split("\n")[0]
    assert {first or second for first, second in reasons} == set(re.findall(r"`(\w+)`", line))
