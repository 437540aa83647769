"""Results that are kept: tables between two markers of docs/reliability.md."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.support.cluster import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "reliability.md"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def conditions(server_version: int) -> str:
    """Under what a result was measured."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, PostgreSQL {server_version}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}."
    )


def record(name: str, text: str, document: Path = DOCUMENT) -> None:
    """Put a result in the place of the one before."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before = document.read_text(encoding="utf-8")
    after, places = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}\n{end}", before, flags=re.DOTALL
    )
    if places != 1:
        raise ValueError(f"{document.name} has {places} places for the results of {name}, not one")
    document.write_text(after, encoding="utf-8")
