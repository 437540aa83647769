"""Write the Python client and docs/reference.md from an installed database, or check that they are current.

The database knows every public function: its parameters, their types and defaults, the fields of its result
and what it is for. From that come flowfabric_client/rows.py, _calls.py, client.py and aio.py and
docs/reference.md, so a function, its two methods and its description cannot drift apart:

    python tools/generate_client.py            write what has changed, from a private server
    python tools/generate_client.py --check    write nothing; exit with 1 if a file is out of date

What a catalogue cannot know (which fields may be NULL, which calls may be repeated) is stated below.
"""

from __future__ import annotations

import argparse
import keyword
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import namedtuple_row

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flowfabric_client"
NOTE = "Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost."

# Fields that may be NULL, by result type; every other field always has a value.
NULLABLE: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "ff_admission": "retry_after_ms",
        "ff_appended_frame": "summary_version",
        "ff_applied_edge": "group_state child_public_state",
        "ff_attempt_listing": """
            suspended_at_ms resumed_at_ms ended_at_ms failure_reason failure_category
            retry_reason reclaim_reason replay_reason replay_requested_by
            previous_attempt_index replayed_from_attempt_index stream_closed_at_ms
            stream_closed_reason frame_count""",
        "ff_backlog_drain": "flow_id",
        "ff_budget_dimension": "hard_limit soft_limit",
        "ff_budget_status": """
            reset_interval_ms last_breach_at_ms last_breach_dim last_reset_at_ms
            next_reset_at_ms""",
        "ff_cancellation": "cancelled_from",
        "ff_capability_flag": "note",
        "ff_claimed_execution": """
            payload payload_encoding policy flow_id deadline_at_ms attempt_timeout_at_ms""",
        "ff_dependency_dispatch": "flow_id",
        "ff_edge_group_listing": "k on_satisfied satisfied_at_ms impossible_at_ms",
        "ff_edge_resolution": "group_state",
        "ff_edge_snapshot": "data_passing_ref resolved_outcome applied_at_ms resolved_at_ms",
        "ff_ended_suspension": """
            signal_id signal_name signal_category source_type source_identity correlation_id
            payload payload_encoding accepted_at_ms""",
        "ff_event": """
            more stream event_id partition_key occurred_at_ms namespace instance_tag
            execution_id flow_id event_type outcome lane_id attempt_index attempt_id lease_id
            lease_epoch old_lease_epoch worker_id worker_instance_id reason signal_id
            signal_name waitpoint_id source_type source_identity effect details""",
        "ff_event_stream_lag": """
            newest_occurred_at_ms oldest_running_xact oldest_running_pid
            oldest_running_since_ms""",
        "ff_event_wait": "until_ms",
        "ff_execution_context": "payload_encoding policy",
        "ff_execution_info": """
            started_at_ms terminal_at_ms current_attempt_index flow_id blocking_detail
            failure_reason cancellation_reason cancelled_by""",
        "ff_execution_item": "execution_id code sqlstate detail public_state",
        "ff_execution_listing": """
            execution_id namespace lane_id execution_kind public_state priority created_at_ms
            flow_id next_after""",
        "ff_execution_outcome": "public_state",
        "ff_execution_result": "result result_encoding",
        "ff_execution_snapshot": """
            flow_id creator_identity quota_policy_id blocking_detail started_at_ms
            terminal_at_ms delay_until_ms deadline_at_ms attempt_timeout_at_ms
            current_attempt_id current_attempt_index lease_id worker_id worker_instance_id
            lease_acquired_at_ms lease_expires_at_ms lease_last_renewed_at_ms lease_is_expired
            lease_expired_at_ms lease_revoked_at_ms lease_revoke_reason current_suspension_id
            current_waitpoint_id progress_pct progress_message progress_updated_at_ms
            failure_reason cancellation_reason cancelled_by last_capability_mismatch_at_ms""",
        "ff_expired_lease_listing": """
            execution_id lease_id lease_epoch attempt_id attempt_index worker_id
            worker_instance_id lease_expires_at_ms ownership_state next_after_expires_at_ms
            next_after_partition_key next_after_execution_id""",
        "ff_expiry": "expired_from public_state",
        "ff_expiry_mark": "reason",
        "ff_explanation": "public_state since_ms until_ms what_to_do detail",
        "ff_failure": "delay_until_ms next_attempt_index",
        "ff_failure_item": "code sqlstate detail public_state delay_until_ms next_attempt_index",
        "ff_flow_cancellation": "cancel_reason",
        "ff_flow_snapshot": "cancelled_at_ms terminal_at_ms cancel_reason cancellation_policy",
        "ff_grant": "grant_key grant_id expires_at_ms",
        "ff_invariant_finding": "execution_id",
        "ff_key_rotation": "previous_kid",
        "ff_key_seeding": "same_secret",
        "ff_kid_listing": "expires_at_ms",
        "ff_lane_listing": "state_changed_at_ms state_reason",
        "ff_lane_state_change": "previous_state",
        "ff_lease_history_row": """
            lease_id lease_epoch old_lease_epoch attempt_index attempt_id worker_id
            worker_instance_id reason""",
        "ff_observed_signal": """
            signal_category source_type source_identity correlation_id payload
            payload_encoding""",
        "ff_queue_stat": "oldest_eligible_created_at_ms",
        "ff_reclaim": """
            lease_id lease_epoch lease_expires_at_ms lease_renewal_deadline_ms attempt_id
            attempt_index attempt_type worker_instance_id lease_ttl_ms handle_kind""",
        "ff_reclaimed_execution": """
            lease_id lease_epoch lease_expires_at_ms lease_renewal_deadline_ms attempt_id
            attempt_index attempt_type handle_kind worker_instance_id lease_ttl_ms payload
            payload_encoding tags policy flow_id started_at_ms deadline_at_ms
            attempt_timeout_at_ms""",
        "ff_renewal_item": "code sqlstate detail lease_expires_at_ms lease_renewal_deadline_ms lease_epoch",
        "ff_reservation": """
            reservation_key dimensions amounts dimension current_usage reserved_usage
            limit_value action""",
        "ff_resumption": "delay_until_ms",
        "ff_revocation": "reason lease_id lease_epoch",
        "ff_scanner_failure_listing": "skip_until_ms last_error",
        "ff_scanner_listing": """
            last_run_at_ms last_duration_ms last_processed last_skipped last_errors last_error
            overdue_ms""",
        "ff_scanner_run": "processed skipped errors more duration_ms last_error",
        "ff_setting_change": "previous_value",
        "ff_sibling_dispatch": "flow_id downstream_execution_id",
        "ff_signal_delivery": "effect",
        "ff_state_outcome": "public_state",
        "ff_stream_entry": """
            entry_id frame_type frame_ts_ms payload encoding source mode correlation_id
            summary_version ttl_ms closed_at_ms closed_reason""",
        "ff_stream_snapshot": """
            attempt_id closed_at_ms closed_reason last_entry_id last_frame_at_ms expires_at_ms
            ema_rate_hz maxlen_applied_last""",
        "ff_submitted_member": "public_state",
        "ff_suspended_waitpoint": "suspension_id ordinal waitpoint_id waitpoint_key waitpoint_token",
        "ff_suspension_listing": "timeout_at_ms",
        "ff_usage_report": "dimension current_usage limit_value action",
        "ff_waitpoint_listing": "activated_at_ms expires_at_ms next_cursor",
        "ff_work_wait": "until_ms",
        "ff_worker_heartbeat": "next_expiry_ms draining drain_reason",
        "ff_worker_listing": "drain_reason",
    }.items()
}

# Functions that return no row when there is nothing to tell, and never more than one.
POINT_READS = frozenset(
    {
        "ff_describe_edge",
        "ff_describe_execution",
        "ff_describe_flow",
        "ff_dispatch_dependencies",
        "ff_dispatch_sibling_cancels",
        "ff_drain_cancel_backlog",
        "ff_get_execution_result",
        "ff_get_quota_policy",
        "ff_read_execution_info",
        "ff_read_flow_summary",
        "ff_read_summary",
        "ff_read_waitpoint_token",
        "ff_stream_status",
    }
)

# Scalar functions that answer NULL for something unknown.
NULLABLE_SCALARS = frozenset(
    {
        "ff_get_execution_namespace",
        "ff_get_execution_tag",
        "ff_get_flow_tag",
        "ff_read_execution_state",
        "ff_resolve_execution_flow_id",
    }
)

# Volatile functions whose call may be sent again when its answer was lost: repeating them changes nothing, or
# the client recognises its own earlier success. What is stable only reads, and is always repeatable.
REPEATABLE = frozenset(
    {
        "ff_read_waitpoint_token",
        "ff_list_pending_waitpoints",
        "ff_seed_waitpoint_hmac_secret",
        "ff_rotate_waitpoint_hmac_secret",
        "ff_record_signal_auth_failure",
        "ff_deliver_approval_signal",
        "ff_ack_cancel_member",
        "ff_boot_check",
        "ff_cancel_execution",
        "ff_close_waitpoint",
        "ff_commit_event_cursor",
        "ff_complete_execution",
        "ff_create_budget",
        "ff_create_flow",
        "ff_create_quota_policy",
        "ff_delete_event_cursor",
        "ff_deregister_worker",
        "ff_describe_execution",
        "ff_dispatch_dependencies",
        "ff_dispatch_sibling_cancels",
        "ff_doctor",
        "ff_drain_cancel_backlog",
        "ff_drain_worker",
        "ff_due_scanners",
        "ff_event_lag",
        "ff_event_position",
        "ff_expire_execution",
        "ff_expire_suspension",
        "ff_fail_execution",
        "ff_get_budget_status",
        "ff_get_budget_usage",
        "ff_get_quota_policy",
        "ff_heartbeat_worker",
        "ff_initialize",
        "ff_list_expired_leases",
        "ff_list_scanners",
        "ff_list_worker_leases",
        "ff_list_workers",
        "ff_lock_tick_loop",
        "ff_mark_lease_expired_if_due",
        "ff_mark_worker_dead",
        "ff_metrics",
        "ff_mint_execution_id",
        "ff_mint_solo_execution_id",
        "ff_now_ms",
        "ff_observe_signals",
        "ff_ping",
        "ff_project_flow_summaries",
        "ff_project_flow_summary",
        "ff_promote_delayed",
        "ff_promote_due",
        "ff_prune_events",
        "ff_queue_stats",
        "ff_read_attempt_stream",
        "ff_read_events",
        "ff_read_flow_summary",
        "ff_reconcile_dependencies",
        "ff_reconcile_quota",
        "ff_reconcile_sibling_cancel_group",
        "ff_reconcile_sibling_cancels",
        "ff_register_lane",
        "ff_register_worker",
        "ff_release_admission",
        "ff_release_reservation",
        "ff_renew_lease",
        "ff_renew_leases",
        "ff_scan_attempt_timeouts",
        "ff_scan_budget_resets",
        "ff_scan_claim_floors",
        "ff_scan_eligible",
        "ff_scan_event_notify",
        "ff_scan_execution_deadlines",
        "ff_scan_expired_leases",
        "ff_scan_future_times",
        "ff_scan_pending_waitpoint_expiry",
        "ff_scan_stream_ttl",
        "ff_scan_suspension_timeouts",
        "ff_scan_unblock",
        "ff_set_event_cursor",
        "ff_set_execution_tags",
        "ff_set_flow_tags",
        "ff_set_lane_state",
        "ff_set_partition_count",
        "ff_set_scanner",
        "ff_set_setting",
        "ff_settle_reservation",
        "ff_sweep_dedup",
        "ff_sweep_expired_grants",
        "ff_sweep_workers",
        "ff_tick",
        "ff_trim_retention",
        "ff_wait_for_events",
        "ff_wait_for_work",
        "ff_why",
    }
)
# Repeatable only with something that makes the repeat a duplicate.
REPEATABLE_IF = {
    "ff_buffer_signal_for_pending_waitpoint": "signal_id is not None or idempotency_key is not None",
    "ff_create_execution": "execution_id is not None or idempotency_key is not None",
    "ff_deliver_signal": "signal_id is not None or idempotency_key is not None",
    "ff_record_spend": "idempotency_key is not None",
    "ff_report_usage_and_check": "dedup_key is not None",
    "ff_reserve_budget": "reservation_key is not None",
    "ff_submit_flow": 'flow.get("flow_id") is not None',
    "ff_suspend_execution": "idempotency_key is not None",
}

# Where the legal values of a parameter are that has neither a closed list nor an enum type of its name.
VALUE_SOURCES: dict[tuple[str, str], LiteralString] = {
    ("ff_set_setting", "name"): "select name as value from flowfabric._ff_known_settings()",
    ("ff_set_scanner", "scanner"): "select scanner as value from flowfabric.ff_scanner order by run_order",
    ("ff_tick", "scanners"): "select scanner as value from flowfabric.ff_scanner order by run_order",
    (
        "ff_wait_for_events",
        "streams",
    ): "select stream as value from flowfabric._ff_channels() where stream <> ''",
}

# Parameters that docs/policies.md describes, and the document that may contain a policy.
POLICIES = frozenset({"policy", "policies", "retry_policy", "retry_policies", "attempt_policy", "flow"})

# JSON fields that hold a list of objects; every other one is an object.
JSON_LISTS = frozenset({("ff_event_stream_lag", "consumers")})

# JSON parameters that may also be a bare string, such as the condition "OperatorOnly".
JSON_TEXTS = frozenset({"resume_condition"})

# Fields that let their holder act: they are left out when a row is printed or logged.
SECRETS = frozenset({"grant_key", "waitpoint_token"})

SCALARS = {
    "boolean": "bool",
    "bytea": "bytes",
    "bigint": "int",
    "double precision": "float",
    "integer": "int",
    "jsonb": "JsonObject",
    "smallint": "int",
    "text": "str",
    "timestamp with time zone": "datetime",
    "uuid": "UUID",
    "void": "None",
    "xid8": "str",
}


@dataclass(frozen=True)
class Parameter:
    sql_name: str
    sql_type: str
    default: str | None
    """The default as Python writes it; None if the parameter is required."""

    @property
    def name(self) -> str:
        return f"{self.sql_name}_" if keyword.iskeyword(self.sql_name) else self.sql_name

    @property
    def annotation(self) -> str:
        element = self.sql_type.removesuffix("[]")
        if element == self.sql_type:
            kind = SCALARS[element] + (" | str" if self.sql_name in JSON_TEXTS else "")
        else:
            # A set of names has no gaps; in a batch a NULL element stands for the default.
            gap = "" if self.default is not None and self.default.startswith("(") else " | None"
            kind = f"Sequence[{SCALARS[element]}{gap}]"
        return f"{kind} | None" if self.default == "None" else kind

    @property
    def signature(self) -> str:
        return f"{self.name}: {self.annotation}" + ("" if self.default is None else f" = {self.default}")

    @property
    def value(self) -> str:
        if self.sql_type == "jsonb":
            return f"json_param({self.name})"
        if self.sql_type == "jsonb[]":
            values = f'[json_param(item) for item in list_param("{self.name}", {self.name})]'
            return f"None if {self.name} is None else {values}" if self.default == "None" else values
        if self.sql_type.endswith("[]"):
            values = f'list_param("{self.name}", {self.name})'
            return f"None if {self.name} is None else {values}" if self.default == "None" else values
        return self.name

    @property
    def binding(self) -> str:
        # As text an array takes the driver three times as long, which for a large batch is most of the call.
        form = "b" if self.sql_type.endswith("[]") else "s"
        return f"p_{self.sql_name} => %({self.sql_name}){form}::{self.sql_type}"


@dataclass(frozen=True)
class Function:
    name: str
    parameters: list[Parameter]
    result: str
    """Class of the rows, or the type of a scalar."""
    is_row: bool
    fetch: str
    returns: str
    repeatable: str
    summary: str
    raises: str
    folder: str
    """Folder of the function's file: its area."""
    roles: list[str]
    values: dict[str, list[str]]
    """The legal values of each parameter that has a closed list of them."""
    sql_signature: str
    sql_result: str

    @property
    def method(self) -> str:
        return self.name.removeprefix("ff_")

    def signature(self, *first: str) -> str:
        required = [p.signature for p in self.parameters if p.default is None]
        optional = [p.signature for p in self.parameters if p.default is not None]
        return ", ".join([*first, *required, *(["*", *optional] if optional else [])])

    @property
    def arguments(self) -> str:
        return ", ".join(p.name if p.default is None else f"{p.name}={p.name}" for p in self.parameters)

    def docstring(self, indent: str) -> str:
        return docstring(self.summary, indent, f"Raises: {self.raises}" if self.raises else "")


def docstring(summary: str, indent: str, rest: str = "") -> str:
    # One line holds six quotes besides the text.
    lines = textwrap.wrap(summary, 110 - len(indent) - 6)
    if rest:
        lines += ["", *textwrap.wrap(rest, 110 - len(indent), subsequent_indent="    ")]
    if len(lines) == 1:
        return f'{indent}"""{lines[0]}"""'
    rest_of_lines = (f"{indent}{line}".rstrip() for line in lines[1:])
    return "\n".join([f'{indent}"""{lines[0]}', *rest_of_lines, f'{indent}"""'])


def class_name(type_name: str) -> str:
    return "".join(part.capitalize() for part in type_name.removeprefix("ff_").split("_"))


CONSTANTS = {"NULL": "None", "true": "True", "false": "False"}


def python_default(expression: str) -> str:
    literal = re.sub(r"::[a-z ]+(\[\])?$", "", expression)
    if literal in CONSTANTS:
        return CONSTANTS[literal]
    if expression.endswith("[]"):
        return repr(tuple(element for element in literal[2:-2].split(",") if element))
    if expression.endswith("::jsonb"):
        return "EMPTY_OBJECT"
    if expression.endswith("::bytea"):
        return repr(bytes.fromhex(literal[3:-1]))
    if literal.startswith("'"):
        return '"' + literal[1:-1].replace("''", "'") + '"'
    return f"{int(literal):_}" if re.fullmatch(r"-?\d+", literal) else str(float(literal))


def file_of(name: str) -> Path:
    return next((ROOT / "plpgsql").rglob(f"{name}.sql"))


def contract_of(path: Path) -> str:
    """The codes that the function's file says it raises."""
    match = re.search(r"^-- Raises: *(.*(?:\n--  +.*)*)", path.read_text(), re.M)
    raises = re.sub(r"\n--\s+", " ", match.group(1)) if match else ""
    return "" if raises.startswith("nothing") else raises


class Catalogue:
    """What an installed database says about its public functions and the types they use."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.enums = {
            row.name: row.labels
            for row in self._rows("""
                select t.typname as name, array_agg(e.enumlabel::text order by e.enumsortorder) as labels
                from pg_type t join pg_enum e on e.enumtypid = t.oid
                where t.typnamespace = 'flowfabric'::regnamespace group by 1 order by 1""")
        }
        self._closed = {
            (row.function, row.parameter): row.values or self.enums[row.enum]
            for row in self._rows("""
                select a.function, a.parameter, v.values, t.typname as enum
                from (
                    select p.proname as function, substr(n.name, 3) as parameter
                    from pg_proc p
                    cross join lateral unnest(p.proargnames, p.proargtypes::oid[]) as n (name, type)
                    where p.pronamespace = 'flowfabric'::regnamespace
                        and n.type in ('text'::regtype, 'text[]'::regtype)
                ) as a
                cross join lateral flowfabric._ff_parameter_values(a.function, a.parameter) as v (values)
                left join pg_type t on t.typnamespace = 'flowfabric'::regnamespace and t.typtype = 'e'
                    and t.typname = 'ff_' || a.parameter
                where v.values is not null or t.oid is not null""")
        }
        self.functions = [
            self._function(row)
            for row in self._rows("""
            select p.oid, p.proname as name, p.proretset as is_set, p.provolatile as volatility,
                t.typname as type_name, t.typtype = 'c' as is_row, format_type(t.oid, null) as result_type,
                obj_description(p.oid, 'pg_proc') as summary,
                pg_get_function_arguments(p.oid) as sql_signature,
                pg_get_function_result(p.oid) as sql_result,
                array(
                    select a.grantee::regrole::text from aclexplode(p.proacl) as a
                    where a.grantee::regrole::text like 'flowfabric\\_%' order by 1
                ) as roles,
                array(
                    select row_to_json(a) from (
                        select n.name, format_type(p.proargtypes[n.i - 1], null) as type,
                            pg_get_function_arg_default(p.oid, n.i::integer) as "default"
                        from unnest(p.proargnames) with ordinality as n (name, i)
                        where n.i <= p.pronargs order by n.i
                    ) as a
                ) as arguments
            from pg_proc p join pg_type t on t.oid = p.prorettype
            where p.pronamespace = 'flowfabric'::regnamespace and p.prokind = 'f' and p.proname like 'ff\\_%'
            order by p.proname""")
        ]
        names = {f"ff_{_snake(f.result)}" for f in self.functions if f.is_row}
        self.rows = {
            row.name: row.fields
            for row in self._rows("""
                select t.typname as name, array_agg(array[a.attname::text, format_type(a.atttypid, null)]
                    order by a.attnum) as fields, obj_description(t.oid, 'pg_type') as comment
                from pg_type t join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0
                where t.typnamespace = 'flowfabric'::regnamespace and t.typtype = 'c'
                group by t.oid, t.typname order by t.typname""")
            if row.name in names
        }
        self.views = self._rows("""
            select c.relname as name, obj_description(c.oid, 'pg_class') as comment,
                array_agg(array[a.attname::text, format_type(a.atttypid, null),
                    col_description(c.oid, a.attnum)] order by a.attnum) as columns
            from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
            where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'v'
                and c.relname like 'ff\\_v\\_%'
            group by c.oid, c.relname order by c.relname""")
        self.row_comments = {
            row.name: row.comment
            for row in self._rows("""
                select t.typname as name, obj_description(t.oid, 'pg_type') as comment from pg_type t
                where t.typnamespace = 'flowfabric'::regnamespace and t.typtype = 'c'""")
        }

    def _rows(self, sql: LiteralString) -> list[Any]:
        with self._connection.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(sql).fetchall()

    def _function(self, row: Any) -> Function:
        if row.summary is None:
            raise SystemExit(f"{row.name} has no comment, which is what its method would say it does")
        parameters = [
            Parameter(
                argument["name"].removeprefix("p_"),
                argument["type"],
                None if argument["default"] is None else python_default(argument["default"]),
            )
            for argument in row.arguments
        ]
        result = class_name(row.type_name) if row.is_row else self._value_type(row.result_type)
        if row.is_set:
            fetch = "_first" if row.name in POINT_READS else "_all"
            returns = f"{result} | None" if fetch == "_first" else f"list[{result}]"
        else:
            fetch, returns = "_one", f"{result} | None" if row.name in NULLABLE_SCALARS else result
        repeatable = REPEATABLE_IF.get(row.name, str(row.volatility != "v" or row.name in REPEATABLE))
        return Function(
            row.name,
            parameters,
            result,
            row.is_row,
            fetch,
            returns,
            repeatable,
            row.summary,
            contract_of(file_of(row.name)),
            file_of(row.name).parent.name,
            [role.removeprefix("flowfabric_") for role in row.roles],
            {p.sql_name: found for p in parameters if (found := self._values(row.name, p.sql_name))},
            row.sql_signature,
            row.sql_result,
        )

    def _values(self, function: str, parameter: str) -> list[str] | None:
        closed: list[str] | None = self._closed.get((function, parameter))
        if closed is None and (source := VALUE_SOURCES.get((function, parameter))):
            closed = [row.value for row in self._rows(source)]
        return closed

    def _value_type(self, sql_type: str) -> str:
        element = sql_type.removesuffix("[]")
        if element.startswith("flowfabric."):
            kind = class_name(element.removeprefix("flowfabric."))
        else:
            kind = "dict[str, Any]" if element == "jsonb" else SCALARS[element]
        return kind if element == sql_type else f"list[{kind}]"

    def _field_type(self, row: str, field: str, sql_type: str) -> str:
        return "list[dict[str, Any]]" if (row, field) in JSON_LISTS else self._value_type(sql_type)

    def render_rows(self) -> str:
        parts = [
            f'"""Rows: a frozen dataclass per result, with the field names of its SQL type.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from dataclasses import dataclass, field",
            "from typing import Any, Literal\nfrom uuid import UUID",
        ]
        for name, labels in self.enums.items():
            words = ", ".join(f'"{label}"' for label in labels)
            parts.append(f"{class_name(name)} = Literal[{words}]")
        for name, fields in self.rows.items():
            nullable = NULLABLE.get(name, frozenset())
            unknown = nullable - {field for field, _ in fields}
            if unknown:
                raise SystemExit(
                    f"NULLABLE names fields that {name} does not have: {', '.join(sorted(unknown))}"
                )
            body = "\n".join(
                f"    {field}: {self._field_type(name, field, sql_type)}"
                + (" | None" if field in nullable else "")
                + (" = field(repr=False)" if field in SECRETS else "")
                for field, sql_type in fields
            )
            parts.append(
                f"@dataclass(frozen=True, slots=True)\nclass {class_name(name)}:\n"
                f"{docstring(self.row_comments[name], ' ' * 4)}\n\n{body}"
            )
        return "\n\n\n".join(parts) + "\n"

    def render_calls(self) -> str:
        parts = [
            f'"""Calls: the SQL of every public function, stated once for both clients.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from collections.abc import Sequence\nfrom datetime import datetime\n"
            "from typing import Any\nfrom uuid import UUID",
            "from flowfabric_client import rows\n"
            "from flowfabric_client._call import EMPTY_OBJECT, Call, JsonObject, json_param, list_param",
            "# Who holds EXECUTE on what, for the login that does not. The admin may call everything.\n"
            "ROLES: dict[str, tuple[str, ...]] = {"
            + "".join(f'"{f.name}": {tuple(f.roles)!r},' for f in self.functions)
            + "}",
        ]
        for f in self.functions:
            bindings = ", ".join(p.binding for p in f.parameters)
            sql = f"{'select * from' if f.is_row else 'select'} flowfabric.{f.name}({bindings})"
            if len(sql) > 95:
                lines = textwrap.wrap(bindings, 90, break_long_words=False, break_on_hyphens=False)
                sql = sql[: sql.index("(") + 1] + "".join(f"\n            {line}" for line in lines) + ")"
            row = f"rows.{f.result}" if f.is_row else "None"
            result = f"rows.{f.result}" if f.is_row else f.result
            # A scalar that may be NULL is still one value.
            if not f.is_row and f.name in NULLABLE_SCALARS:
                result += " | None"
            params = ", ".join(f'"{p.sql_name}": {p.value}' for p in f.parameters)
            parts.append(
                f"def {f.method}({f.signature()}) -> Call[{result}]:\n"
                f'    sql = """\n        {sql}"""\n'
                f'    return Call("{f.name}", sql, {{{params}}}, {row}, {f.repeatable})'
            )
        return "\n\n\n".join(parts) + "\n"

    def render_client(self, asynchronous: bool) -> str:
        name, base, title = (
            ("AsyncClient", "AsyncWatchingSession", "The asynchronous client")
            if asynchronous
            else ("Client", "WatchingSession", "The synchronous client")
        )
        parts = [
            f'"""{title}: one method per public function of the engine, without its `ff_`.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from collections.abc import Sequence\nfrom datetime import datetime\n"
            "from typing import Any\nfrom uuid import UUID",
            "from flowfabric_client import _calls, rows\n"
            f"from flowfabric_client._call import EMPTY_OBJECT, JsonObject\n"
            f"from flowfabric_client._watching import {base}",
        ]
        prefix, wait = ("async def", "await ") if asynchronous else ("def", "")
        methods = [
            f"class {name}({base}):\n"
            f'    """{title}; docs/client.md tells what it can work on, repeat and follow."""'
        ]
        for f in self.functions:
            returns = re.sub(rf"\b{f.result}\b", f"rows.{f.result}", f.returns) if f.is_row else f.returns
            methods.append(
                f"    {prefix} {f.method}({f.signature('self')}) -> {returns}:\n{f.docstring(' ' * 8)}\n"
                f"        {'' if f.returns == 'None' else 'return '}"
                f"{wait}self.{f.fetch}(_calls.{f.method}({f.arguments}))"
            )
        return "\n\n\n".join([*parts, "\n\n".join(methods)]) + "\n"

    def render_reference(self) -> str:
        parts = [
            "# Reference",
            f"<!-- {NOTE} -->",
            "Every public function of schema `flowfabric`, by area, then result types and views. A call uses "
            "named notation (`p_execution_id => ...`). Roles are short for `flowfabric_...`; `admin` may "
            "call everything. "
            "What the codes mean: [errors.md](errors.md). The Python clients have a method of the same name "
            "without `ff_` and `p_`.",
        ]
        for folder in sorted({f.folder for f in self.functions}):
            parts.append(f"## {folder.split('_', 1)[1].capitalize()}")
            for f in self.functions:
                if f.folder != folder:
                    continue
                parameters = re.sub(r"::[a-z ]+(\[\])?", "", f.sql_signature).replace(", p_", ",\n    p_")
                inside = f"\n    {parameters}\n" if parameters else ""
                result = f.sql_result.replace("flowfabric.", "")
                parts.append(f"### `{f.name}`\n\n{f.summary}")
                parts.append(f"```sql\n{f.name}({inside})\nreturns {result}\n```")
                facts = [f"Roles: {', '.join(f.roles)}."]
                if f.raises:
                    facts.append(f"Raises: {f.raises}")
                facts += [
                    f"Values of `p_{name}`: {', '.join(f'`{value}`' for value in values)}."
                    for name, values in f.values.items()
                ]
                if POLICIES & {p.sql_name for p in f.parameters}:
                    facts.append("What a policy may contain: [policies.md](policies.md).")
                parts.append("\n".join(f"- {fact}" for fact in facts))
        parts.append("## Result types")
        for name, fields in self.rows.items():
            columns = ", ".join(f"`{field}` {kind.replace('flowfabric.', '')}" for field, kind in fields)
            parts.append(f"**`{name}`** {self.row_comments[name]}\n{columns}.")
        parts.append(
            "## Views\n\nFor people and dashboards. `flowfabric_reader` and `flowfabric_operator` may select "
            "from them."
        )
        for view in self.views:
            table = "\n".join(
                f"| `{name}` | {kind.replace('flowfabric.', '')} | {comment} |"
                for name, kind, comment in view.columns
            )
            parts.append(
                f"### `{view.name}`\n\n{view.comment}\n\n"
                f"| column | type | meaning |\n| --- | --- | --- |\n{table}"
            )
        return "\n\n".join(parts) + "\n"

    def render_all(self) -> dict[Path, str]:
        sources = {
            PACKAGE / "rows.py": self.render_rows(),
            PACKAGE / "_calls.py": self.render_calls(),
            PACKAGE / "client.py": self.render_client(asynchronous=False),
            PACKAGE / "aio.py": self.render_client(asynchronous=True),
        }
        rendered = {path: _formatted(path, text) for path, text in sources.items()}
        return {**rendered, ROOT / "docs" / "reference.md": self.render_reference()}


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _formatted(path: Path, text: str) -> str:
    """The text as ruff writes it, without imports that this set of functions does not need."""
    for command in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603  our own linter on our own text
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
            cwd=ROOT,
        )
        if not done.stdout:
            raise SystemExit(f"ruff could not read the generated {path.name}: {done.stderr}")
        text = done.stdout
    return text


def outdated(connection: psycopg.Connection[Any]) -> dict[Path, str]:
    """The files that differ from what the database says, with what they should be."""
    return {
        path: text
        for path, text in Catalogue(connection).render_all().items()
        if not path.exists() or path.read_text() != text
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the Python client from an installed database.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file is out of date"
    )
    arguments = parser.parse_args()
    from flowfabric_client import install  # noqa: PLC0415  rows.py may be what has to be repaired
    from flowfabric_client.dev import start_server  # noqa: PLC0415

    with start_server(settings={"fsync": "off"}) as server:
        install.migrate(server.dsn())
        with psycopg.connect(server.dsn()) as connection:
            stale = outdated(connection)
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)} {'is out of date' if arguments.check else 'written'}")
        if not arguments.check:
            path.write_text(text)
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
