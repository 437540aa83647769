"""Commands that look: every one of them for people and for scripts, with filters and pages."""

from __future__ import annotations

import pytest

from flowfabric_client import rows
from flowfabric_client.client import Client
from tests.cli.support import (
    UNKNOWN_EXECUTION,
    UNKNOWN_UUID,
    CommandLine,
    create,
    failed,
    flow,
    running,
)
from tests.conftest import Clock
from tests.support.cluster import Connection
from tests.suspension.support import install_key, lease, single, suspend


def test_executions_are_listed_by_filter_and_page(flowfabric: CommandLine, client: Client) -> None:
    waiting = sorted(create(client, lane_id="mail", tags={"app.order": "42"}) for _ in range(3))
    broken = failed(client)

    assert {row["execution_id"] for row in flowfabric.json("executions", "list")["items"]} == {
        *waiting,
        broken,
    }
    assert broken in flowfabric.text("executions", "list", "--state", "failed")
    assert waiting[0] not in flowfabric.text("executions", "list", "--phase", "terminal")

    filters = ("executions", "list", "--lane", "mail", "--tag", "app.order=42", "--namespace", "default")
    page = flowfabric.json(*filters, "--limit", "2")
    assert [row["execution_id"] for row in page["items"]] == waiting[:2]
    assert "has_more" not in page["items"][0]
    rest = flowfabric.json(*filters, "--limit", "2", "--after", page["next"])
    assert [row["execution_id"] for row in rest["items"]] == waiting[2:]
    assert rest["next"] is None

    result = flowfabric.run(*filters, "--limit", "2")
    assert f"There are more: --after '{waiting[1]}'" in result.stderr
    assert "There are no such executions." in flowfabric.text("executions", "list", "--lane", "empty")


def test_a_filter_that_few_executions_pass_is_followed_to_the_end(
    flowfabric: CommandLine, client: Client, db: Connection
) -> None:
    client.register_lane("many")
    # More than one call reads; ids that begin with f come last.
    db.execute(
        """
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
            attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id,
            execution_kind)
        select
            255, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'runnable', 'unowned',
            'eligible_now', 'waiting_for_worker', 'pending_first_attempt', 1, 1, 1, 'default', 'many', 'test'
        from generate_series(1, 12000) as n"""
    )
    rare = [
        create(client, lane_id="rare", execution_id=f"{{fp:{number}}}:f0000000-0000-4000-8000-000000000001")
        for number in (1, 255)
    ]
    filters = ("executions", "list", "--lane", "rare")
    assert [row["execution_id"] for row in flowfabric.json(*filters)["items"]] == rare
    page = flowfabric.json(*filters, "--limit", "1")
    assert [row["execution_id"] for row in page["items"]] == rare[:1]
    assert "next_after" not in page["items"][0]
    page = flowfabric.json(*filters, "--limit", "1", "--after", page["next"])
    assert [row["execution_id"] for row in page["items"]] == rare[1:]
    assert "There are no such executions." in flowfabric.text("executions", "list", "--lane", "none")


def test_an_execution_is_shown_with_payload_result_and_attempts(
    flowfabric: CommandLine, client: Client, clock: Clock
) -> None:
    handle = running(client, payload=b'{"to": "Ada"}', tags={"app.order": "42"})
    client.update_progress(**handle.arguments(), progress_pct=40, progress_message="half")
    clock.advance(200_000)
    shown = flowfabric.text("executions", "show", handle.execution_id)
    for fact in (
        handle.execution_id,
        "active",
        "40% half",
        '{"to": "Ada"}',
        "app.order",
        "ada-1",
        "3m 20s ago",
    ):
        assert fact in shown

    client.complete_execution(**handle.arguments(), result=b"\xff\x00")
    found = flowfabric.json("executions", "show", handle.execution_id)
    assert found["public_state"] == "completed"
    assert found["payload"] == '{"to": "Ada"}'
    assert found["result"] == {"base64": "/wA="}
    assert found["attempts"][0]["attempt_state"] == "ended_success"
    assert found["waitpoints"] == []
    assert "2 bytes that are no text" in flowfabric.text("executions", "show", handle.execution_id)


def test_a_suspended_execution_is_shown_with_its_waitpoints_and_no_token(
    flowfabric: CommandLine, db: Connection
) -> None:
    install_key(db)
    (waitpoint,) = suspend(db, lease(db), single())
    shown = flowfabric.text("executions", "show", waitpoint.execution_id)
    assert str(waitpoint.waitpoint_id) in shown
    assert waitpoint.waitpoint_token not in shown
    found = flowfabric.json("executions", "show", waitpoint.execution_id)
    assert found["waitpoints"][0]["waitpoint_key"] == "wpk:approval"


def test_flows_are_listed_and_shown(flowfabric: CommandLine, client: Client) -> None:
    ids = sorted([flow(client), flow(client)], key=lambda flow_id: (client.flow_partition(flow_id), flow_id))
    page = flowfabric.json("flows", "list", "--limit", "1")
    assert page["items"][0]["flow_id"] == page["next"] == str(ids[0])
    assert str(ids[1]) in flowfabric.text("flows", "list", "--after", page["next"])

    shown = flowfabric.text("flows", "show", str(ids[0]))
    assert "Members" in shown
    assert "Joins" in shown
    found = flowfabric.json("flows", "show", str(ids[0]))
    assert found["summary"]["members_waiting_children"] == 1
    assert {member["execution_kind"] for member in found["members"]} == {"pack", "ship"}
    assert found["joins"][0]["total_deps"] == 1
    assert found["next_member"] is None


def test_lanes_are_listed_and_counted(flowfabric: CommandLine, client: Client) -> None:
    create(client, lane_id="mail")
    running(client, lane_id="mail")
    assert [row["lane_id"] for row in flowfabric.json("lanes", "list")["items"]] == ["mail"]
    assert "mail" in flowfabric.text("lanes", "list")
    found = flowfabric.json("lanes", "show", "mail")
    assert (found["lane_state"], found["waiting"], found["active"]) == ("active", 1, 1)
    assert "oldest waiting" in flowfabric.text("lanes", "show", "mail")


def test_workers_are_listed_and_shown_with_their_leases(
    flowfabric: CommandLine, client: Client, clock: Clock
) -> None:
    client.register_worker("ada", "ada-1", lanes=["mail"], capabilities=["gpu"], liveness_ttl_ms=600_000)
    client.register_worker("ada", "ada-2", liveness_ttl_ms=1000)
    handle = running(client)
    page = flowfabric.json("workers", "list", "--limit", "1")
    assert page["next"] == "default ada-1"
    rest = flowfabric.json("workers", "list", "--after", page["next"])
    assert [row["worker_instance_id"] for row in rest["items"]] == ["ada-2"]

    clock.advance(5000)
    assert "ada-2" not in flowfabric.text("workers", "list")
    assert "lapsed" in flowfabric.text("workers", "list", "--all")
    shown = flowfabric.text("workers", "show", "ada-1")
    for fact in ("live", "gpu", handle.execution_id):
        assert fact in shown
    assert flowfabric.json("workers", "show", "ada-1")["leases"][0]["execution_id"] == handle.execution_id


def test_budgets_are_listed_by_dimension_and_paged_by_budget(flowfabric: CommandLine, client: Client) -> None:
    for name in ("a", "b"):
        client.create_budget(
            name, "tenant", "7", dimensions=["cents", "tokens"], hard_limits=[0, 400], soft_limits=[0, 0]
        )
    client.report_usage_and_check("a", ["tokens"], [100], source="operator_override")
    page = flowfabric.json("budgets", "list", "--limit", "1")
    assert [(row["budget_id"], row["dimension"]) for row in page["items"]] == [
        ("a", "cents"),
        ("a", "tokens"),
    ]
    assert page["next"] == "a"
    rest = flowfabric.json("budgets", "list", "--after", "a")
    assert {row["budget_id"] for row in rest["items"]} == {"b"}
    assert "25%" in flowfabric.text("budgets", "list")
    assert flowfabric.json("budgets", "show", "a")["dimensions"][1]["current_value"] == 100
    assert "tenant 7" in flowfabric.text("budgets", "show", "a")


def test_quotas_are_listed_and_shown(flowfabric: CommandLine, client: Client) -> None:
    client.create_quota_policy("a", 60, 100, 0)
    client.create_quota_policy("b", 60, 0, 5)
    page = flowfabric.json("quotas", "list", "--limit", "1")
    assert page["next"] == "a"
    assert [row["quota_policy_id"] for row in flowfabric.json("quotas", "list", "--after", "a")["items"]] == [
        "b"
    ]
    assert "1m" in flowfabric.text("quotas", "list")
    assert flowfabric.json("quotas", "show", "b")["active_concurrency_cap"] == 5
    assert "0 of 100" in flowfabric.text("quotas", "show", "a")


def test_why_explains(flowfabric: CommandLine, client: Client) -> None:
    execution_id = create(client)
    client.set_lane_state("default", "paused", reason="night")
    assert flowfabric.json("why", execution_id)["verdict"] == client.why(execution_id).verdict
    shown = flowfabric.text("why", execution_id)
    assert client.why(execution_id).summary in shown
    assert "what to do" in shown


def test_what_does_not_exist_ends_with_3(flowfabric: CommandLine) -> None:
    for args in (
        ("executions", "show", UNKNOWN_EXECUTION),
        ("flows", "show", UNKNOWN_UUID),
        ("lanes", "show", "mail"),
        ("workers", "show", "ada-1"),
        ("workers", "drain", "ada-1"),
        ("workers", "forget", "ada-1"),
        ("budgets", "show", "a"),
        ("budgets", "reset", "a"),
        ("quotas", "show", "a"),
        ("why", UNKNOWN_EXECUTION),
        ("cancel", UNKNOWN_EXECUTION),
        ("cancel", UNKNOWN_UUID),
        ("replay", UNKNOWN_EXECUTION),
        ("priority", UNKNOWN_EXECUTION, "1"),
        ("signal", UNKNOWN_EXECUTION, "approved", "--as-operator"),
    ):
        message = flowfabric.error(*args, exit_code=3)
        assert message.startswith("Error: ")
        assert message.count("\n") == 1
        assert flowfabric.json(*args, exit_code=3)["error"] in message


def test_doctor_prints_what_the_engine_finds(flowfabric: CommandLine) -> None:
    assert "critical scanners: No scanner has ever run.\n  " in flowfabric.text("doctor", exit_code=1)
    found = flowfabric.json("doctor", "--all", exit_code=1)["findings"]
    assert {"critical", "ok"} <= {finding["severity"] for finding in found}
    assert all(finding["what_to_do"] for finding in found if finding["severity"] != "ok")


def test_doctor_ends_by_severity(flowfabric: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for severity, failing in (
        ("critical", {"critical", "warning", "notice"}),
        ("warning", {"warning", "notice"}),
        ("notice", {"notice"}),
        ("ok", set()),
    ):
        finding = rows.Finding("version", severity, "Something.", "Nothing.", {})
        monkeypatch.setattr(Client, "doctor", lambda self, include_ok, found=finding: [found])
        for fail_on in ("critical", "warning", "notice"):
            expected = 1 if fail_on in failing else 0
            assert flowfabric.run("doctor", "--fail-on", fail_on).exit_code == expected
        assert flowfabric.run("doctor").exit_code == (1 if "warning" in failing else 0)

    monkeypatch.setattr(Client, "doctor", lambda self, include_ok: [])
    assert flowfabric.text("doctor") == "Nothing found: all is well.\n"
    assert flowfabric.json("doctor") == {"findings": []}
