"""How the long runs judge and keep what they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.accounting import assert_each_once
from tests.chaos.memory import growth
from tests.chaos.records import DOCUMENT, record, table


def test_growth_compares_the_last_quarter_with_the_second() -> None:
    assert growth([1, 10, 100, 20]) == 2.0
    with pytest.raises(ValueError, match="too few samples"):
        growth([1, 2, 3])


def test_a_result_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    document = tmp_path / "results.md"
    document.write_text("above\n<!-- load: begin -->\nold\n<!-- load: end -->\nbelow\n")
    record("load", table(["a", "b"], [[1, 2]]), document)
    assert document.read_text() == (
        "above\n<!-- load: begin -->\n| a | b |\n| --- | --- |\n| 1 | 2 |\n<!-- load: end -->\nbelow\n"
    )
    with pytest.raises(ValueError, match="0 places for the results of chaos"):
        record("chaos", "", document)


@pytest.mark.parametrize("name", ["chaos", "load"])
def test_the_document_has_a_place_for_each_result(name: str, tmp_path: Path) -> None:
    copy = tmp_path / DOCUMENT.name
    copy.write_text(DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    record(name, "a result", copy)
    assert "a result" in copy.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("found", "complaint"),
    [(["a"], "missing"), (["a", "b", "b"], "more than once"), (["a", "b", "c"], "of nobody")],
)
def test_the_books_do_not_balance_by_chance(found: list[str], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_each_once("effect", found, ["a", "b"])
