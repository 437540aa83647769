"""What the README and the documentation print runs as it is pasted, in order, and a second time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import REPOSITORY, Cluster, Connection
from tests.support.pgtap import find_psql
from tests.support.snippets import Snippet, snippets_of

#: Pages whose snippets are no programs to paste.
LEFT_OUT = {
    "policies.md": "tests/test_policies.py runs it, with an execution to fail, and compares what is stored",
    "reference.md": "generated from the catalogue: signatures",
    "reliability.md": "takes a migration back, which needs the older release; tests/upgrade does it",
}
PAGES = [
    REPOSITORY / "README.md",
    *sorted(page for page in (REPOSITORY / "docs").glob("*.md") if page.name not in LEFT_OUT),
]
SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page)]

#: Every snippet that is not run, by its page and the reason above it. A new one is added here on purpose.
NOT_RUN = {
    ("README.md", "tests/test_demo.py runs the first, and this is part of the second"),
    ("README.md", "the package index is not asked; tests/dev runs the second"),
    ("client.md", "needs a Django project; examples/django_app.py is one, and is tested"),
    ("dba.md", "roles belong to the whole server; tests/dba runs it"),
    ("dba.md", "needs pg_prove; tests/dba runs both"),
    ("dba.md", "takes minutes; tests/zombie runs it"),
    ("testing.md", "the package index is not asked"),
}


def run(page: Path, *, cwd: Path, dsn: str, server: Cluster) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.snippets", page, find_psql(server.bin_dir)],
        cwd=cwd,
        env={
            **os.environ,
            "FLOWFABRIC_DSN": dsn,
            "FLOWFABRIC_TEST_DSN": server.dsn(),
            "PYTHONPATH": str(REPOSITORY),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(s.not_run is None for s in SNIPPETS if s.page == page)],
    ids=lambda page: page.name,
)
def test_a_page_runs_as_pasted_and_again(
    page: Path, production_database: str, server: Cluster, tmp_path: Path
) -> None:
    for _ in range(2):
        run(page, cwd=tmp_path, dsn=production_database, server=server)


def test_what_is_not_run_is_listed_with_its_reason() -> None:
    assert {(s.page.name, s.not_run) for s in SNIPPETS if s.not_run is not None} == NOT_RUN


def test_the_readme_ships_its_order(server: Cluster, database: str, db: Connection, tmp_path: Path) -> None:
    run(REPOSITORY / "README.md", cwd=tmp_path, dsn=database, server=server)
    assert db.execute("select shipped from orders where id = 42").fetchone() == (True,)
    states = db.execute("select state::text from flowfabric.ff_v_execution order by created_at").fetchall()
    assert states == [("completed",), ("active",)]


def test_a_snippet_that_fails_names_its_line(server: Cluster, database: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\nx = 1\n```\n\n<!-- not run: it fails -->\n```python\n1 / 0\n```\n"
    )
    assert run(page, cwd=tmp_path, dsn=database, server=server) == "--- page.md:3\n"
    page.write_text(page.read_text().replace("<!-- not run: it fails -->", "It fails:\n"))
    with pytest.raises(AssertionError, match=r'page.md", line 10, in <module>'):
        run(page, cwd=tmp_path, dsn=database, server=server)


def test_a_snippet_below_a_marker_in_a_list_is_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("- An item:\n\n  <!-- not run: so it is -->\n  ```sql\n  select 1;\n  ```\n")
    assert snippets_of(page) == [Snippet(page, 4, "sql", "select 1;\n", "so it is")]
