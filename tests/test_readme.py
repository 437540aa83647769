"""The README's programs run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from tests.support.cluster import Connection

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    return str(found)


def test_the_python_program_ships_the_order(database: str, db: Connection) -> None:
    db.execute("create table orders (id integer primary key, shipped boolean default false)")
    exec(block("python"), {"dsn": database})
    assert db.execute("select shipped from orders where id = 42").fetchone() == (True,)
    states = db.execute("select state::text from flowfabric.ff_v_execution").fetchall()
    assert states == [("completed",)]


def test_the_sql_creates_and_claims(db: Connection) -> None:
    created, claimed = block("sql").split("\n\n")
    db.execute(created.encode())
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        (row,) = cursor.execute(claimed.encode()).fetchall()
    assert row["payload"] == b'{"order": 43}'
    assert row["lease_epoch"] == 1
