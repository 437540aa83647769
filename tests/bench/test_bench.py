"""The benchmark's harness: small runs of it, whose numbers mean nothing and are not looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from bench import docs, instructions
from bench.cli import main
from bench.results import Key, Results
from bench.scenarios import SCENARIOS, Scale
from bench.systems import FLOOR, SYSTEMS
from bench.systems._flowfabric_seed import SAMPLE, copy_execution


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run of two scenarios, of this engine and the floor."""
    file = tmp_path_factory.mktemp("bench") / "report.json"
    options = ["--quick", "--repeats", "1", "--unflushed", "--json", str(file)]
    names = ["--scenario", "batch,signal", "--only", "floor,flowfabric"]
    done = CliRunner().invoke(main, [*options, *names], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def rows(report: dict[str, Any], scenario: str) -> dict[str, dict[str, Any]]:
    (found,) = [entry for entry in report["scenarios"] if entry["name"] == scenario]
    return {row["system"]: row for row in found["rows"]}


def test_a_run_measures_every_system_it_was_asked_for(report: dict[str, Any]) -> None:
    assert report["failures"] == []
    for scenario in ("batch", "signal"):
        assert rows(report, scenario).keys() == {"floor", "flowfabric"}


def test_the_report_compares_with_the_floor(report: dict[str, Any]) -> None:
    for scenario in ("batch", "signal"):
        assert rows(report, scenario)["floor"]["to_floor"] == 1
        assert rows(report, scenario)["flowfabric"]["to_floor"] > 0


def test_the_report_says_what_a_batch_cost(report: dict[str, Any]) -> None:
    median = rows(report, "batch")["flowfabric"]["median"]
    assert median["per_second"] > 0
    assert median["client_cpu_us"] > 0
    assert median["wal_bytes"] > 1000


def test_the_report_names_machine_versions_and_settings(report: dict[str, Any]) -> None:
    assert report["machine"]["cores"] >= 1
    assert report["systems"].keys() == {"floor", "flowfabric"}
    assert report["postgres"].keys() >= {"version", "fsync", "synchronous_commit", "shared_buffers"}


def test_results_go_between_the_markers_of_the_page(report: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{docs.BEGIN}\nold\n{docs.END}\nafter\n", encoding="utf-8")
    docs.update(report, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{docs.BEGIN}\n")
    assert text.endswith(f"{docs.END}\nafter\n")
    assert "old" not in text
    assert "| **flowfabric** |" in text


def test_a_page_without_markers_is_refused(report: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to replace\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no lines"):
        docs.update(report, page)


def test_the_page_of_the_project_has_its_markers() -> None:
    text = docs.PAGE.read_text(encoding="utf-8")
    assert 0 < text.index(docs.BEGIN) < text.index(docs.END)


@pytest.mark.parametrize(("option", "known"), [("--only", SYSTEMS), ("--scenario", SCENARIOS)])
def test_an_unknown_name_is_a_sentence(option: str, known: dict[str, object]) -> None:
    done = CliRunner().invoke(main, [option, "nobody"])
    assert done.exit_code == 2
    assert f"{option} does not know nobody" in done.output
    assert all(name in done.output for name in known)


def test_ratios_are_medians_of_the_ratios_within_a_repeat() -> None:
    results = Results()
    key, base = Key("single", "1 client", "flowfabric"), Key("single", "1 client", FLOOR)
    # The machine was twice as slow in the second repeat, and a stranger disturbed the third.
    for repeat, (ours, floors) in enumerate([(50.0, 100.0), (25.0, 50.0), (10.0, 100.0)]):
        results.add(key, repeat, {"per_second": ours})
        results.add(base, repeat, {"per_second": floors})
    assert results.ratio(key, base, "per_second") == 0.5
    assert results.median(key, "per_second") == 25.0


def test_a_system_without_an_answer_has_no_ratio() -> None:
    results = Results()
    key = Key("single", "1 client", "flowfabric")
    results.add(key, 0, {"per_second": 50.0})
    assert results.ratio(key, Key("single", "1 client", FLOOR), "per_second") is None


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_cases_of_a_scenario_have_names_of_their_own(name: str, quick: bool) -> None:
    names = [case.name for case in SCENARIOS[name].cases(Scale(quick))]
    assert names
    assert len(set(names)) == len(names)


def test_copied_executions_are_as_the_engine_leaves_them(db: psycopg.Connection[Any]) -> None:
    """Also after the first sample, which is all that the benchmark itself has the engine check."""
    created = db.execute("select execution_id from flowfabric.ff_create_execution('bench')").fetchone()
    assert created is not None
    count = SAMPLE + 100
    copy_execution(db, created[0], count)
    assert db.execute("select count(*) from flowfabric.ff_exec_core").fetchone() == (count + 1,)
    assert db.execute("select * from flowfabric.ff_check_invariants()").fetchall() == []
    claimed = db.execute(
        "select * from flowfabric.ff_claim_next('{default}', 'bench', 'bench-1', p_max => 100)"
    ).fetchall()
    assert len(claimed) == 100


def test_instructions_are_counted_from_one_answer_to_the_next(tmp_path: Path) -> None:
    """Without valgrind, which not every machine has: what it is told, and how its files are read."""
    program = tmp_path / "postgres"
    script = instructions.wrapper(program, tmp_path)
    assert f"--dump-before=ReadyForQuery --callgrind-out-file={tmp_path}/calls.%p" in script
    assert script.count(str(program)) == 2
    assert instructions.total("events: Ir\nsummary: 1165503\n\nfn=(1) main\n") == 1_165_503
    with pytest.raises(ValueError, match="no sum"):
        instructions.total("events: Ir\n")
