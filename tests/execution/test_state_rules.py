"""The state model: which vectors are legal, stated here once more, by hand, from the specification.

In the database `_ff_broken_state_rule` names each rule, `_ff_state_is_legal` is a quick form that raises, and
`_ff_row_is_legal`, which the table's constraint calls, knows the vectors of the hot paths by itself. A row
that two of them judged differently would either be refused without a reason or be stored although a rule is
broken.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.support.cluster import Cluster, Connection

Vector = dict[str, Any]

UUID: Final = "00000000-0000-4000-8000-000000000001"

BLOCKING_OF_ELIGIBILITY: Final = {
    "eligible_now": ["waiting_for_worker"],
    "not_eligible_until_time": ["waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay"],
    "blocked_by_dependencies": ["waiting_for_children"],
    "blocked_by_budget": ["waiting_for_budget"],
    "blocked_by_quota": ["waiting_for_quota"],
    "blocked_by_route": ["waiting_for_capable_worker", "waiting_for_locality_match"],
    "blocked_by_lane_state": ["paused_by_policy"],
    "blocked_by_operator": ["paused_by_operator", "paused_by_flow_cancel"],
}
BLOCKING_OF_SUSPENDED: Final = [
    "waiting_for_signal",
    "waiting_for_approval",
    "waiting_for_callback",
    "waiting_for_tool_result",
    "waiting_for_budget",
    "paused_by_operator",
    "paused_by_policy",
]
PENDING: Final = [
    "pending_first_attempt",
    "pending_retry_attempt",
    "pending_replay_attempt",
    "attempt_interrupted",
]
ENDED: Final = ["attempt_terminal", "pending_first_attempt", "pending_replay_attempt", "none"]
PUBLIC_STATE_OF_ELIGIBILITY: Final = {
    "eligible_now": "waiting",
    "not_eligible_until_time": "delayed",
    "blocked_by_dependencies": "waiting_children",
    "blocked_by_budget": "rate_limited",
    "blocked_by_quota": "rate_limited",
    "blocked_by_route": "waiting",
    "blocked_by_lane_state": "waiting",
    "blocked_by_operator": "waiting",
}
OUTCOMES: Final = {
    "success": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "skipped": "skipped",
}

#: phase, ownership, eligibility, blocking, outcome, attempt, and the public state that follows
LEGAL_STATES: Final = [
    *(
        ("runnable", "unowned", eligibility, blocking, "none", attempt, public_state)
        for eligibility, public_state in PUBLIC_STATE_OF_ELIGIBILITY.items()
        for blocking, attempt in itertools.product(BLOCKING_OF_ELIGIBILITY[eligibility], PENDING)
    ),
    ("active", "leased", "not_applicable", "none", "none", "running_attempt", "active"),
    *(
        ("active", lost, "not_applicable", "waiting_for_worker", "none", "attempt_interrupted", "active")
        for lost in ("lease_expired_reclaimable", "lease_revoked")
    ),
    *(
        ("suspended", "unowned", "not_applicable", blocking, "none", "attempt_interrupted", "suspended")
        for blocking in BLOCKING_OF_SUSPENDED
    ),
    *(
        ("terminal", "unowned", "not_applicable", "none", outcome, attempt, public_state)
        for (outcome, public_state), attempt in itertools.product(OUTCOMES.items(), ENDED)
    ),
]
STATE_FIELDS: Final = ("phase", "ownership", "eligibility", "blocking", "outcome", "attempt_state")
COUNTERS: Final = ("retries", "replays", "reclaims", "open_reservations")

#: The parameters of both forms without their p_, in their order.
PARAMETERS: Final = {
    "phase": "flowfabric.ff_lifecycle_phase",
    "ownership": "flowfabric.ff_ownership_state",
    "eligibility": "flowfabric.ff_eligibility_state",
    "blocking": "flowfabric.ff_blocking_reason",
    "outcome": "flowfabric.ff_terminal_outcome",
    "attempt_state": "flowfabric.ff_attempt_state",
    "lease_id": "uuid",
    "worker_id": "text",
    "worker_instance_id": "text",
    "lease_expires_at_ms": "bigint",
    "terminal_at_ms": "bigint",
    "delay_until_ms": "bigint",
    "suspension_id": "uuid",
    "priority": "integer",
    "lease_epoch": "bigint",
    "total_attempts": "integer",
    "retries": "integer",
    "replays": "integer",
    "reclaims": "integer",
    "open_reservations": "integer",
}
#: The columns of the row that they come from.
ROW_COLUMNS: Final = {
    "phase": "lifecycle_phase",
    "ownership": "ownership_state",
    "eligibility": "eligibility_state",
    "blocking": "blocking_reason",
    "outcome": "terminal_outcome",
    "lease_id": "current_lease_id",
    "worker_id": "current_worker_id",
    "worker_instance_id": "current_worker_instance_id",
    "suspension_id": "current_suspension_id",
    "lease_epoch": "current_lease_epoch",
    "total_attempts": "total_attempt_count",
    "retries": "retry_count",
    "replays": "replay_count",
    "reclaims": "lease_reclaim_count",
    "open_reservations": "open_reservation_count",
}
COLUMNS: Final = ", ".join(f"{name} {kind}" for name, kind in PARAMETERS.items())
DECLARATION: Final = ", ".join(f"p_{name} {kind}" for name, kind in PARAMETERS.items())
ARGUMENTS: Final = ", ".join(f"v.{name}" for name in PARAMETERS)

#: The vector v as a row of the table.
ROW: Final = "jsonb_populate_record(null::flowfabric.ff_exec_core, jsonb_build_object({}))".format(
    ", ".join(f"'{ROW_COLUMNS.get(name, name)}', v.{name}" for name in PARAMETERS)
)

#: The verdicts on each vector of a JSON array: the rule that it breaks, or NULL.
VERDICTS: Final = f"""
    create function pg_temp.quick_verdict(p_row flowfabric.ff_exec_core, {DECLARATION}) returns text
    language plpgsql as $$
    declare
        v_detail text;
    begin
        if p_row is null then
            if flowfabric._ff_state_is_legal({", ".join(f"p_{name}" for name in PARAMETERS)}) then
                return null;
            end if;
        elsif flowfabric._ff_row_is_legal(p_row) then
            return null;
        end if;
        return 'returned instead of raising';
    exception when sqlstate 'ZX002' then
        get stacked diagnostics v_detail = pg_exception_detail;
        return coalesce(v_detail::jsonb ->> 'invariant', 'raised without a rule');
    end $$;
    create function pg_temp.verdicts(p_vectors jsonb) returns table (of_row text, quick text, named text)
    language sql as $$
        select pg_temp.quick_verdict({ROW}, {ARGUMENTS}), pg_temp.quick_verdict(null, {ARGUMENTS}),
            flowfabric._ff_broken_state_rule({ARGUMENTS})
        from jsonb_array_elements(p_vectors) with ordinality as e (vector, item)
        cross join lateral jsonb_to_record(e.vector) as v ({COLUMNS})
        order by e.item
    $$
"""

#: Every combination of the six state columns, each with everything beside it as its phase wants it.
ALL_COMBINATIONS: Final = f"""
    select
        {", ".join(STATE_FIELDS)},
        case phase when 'active' then '{UUID}'::uuid end as lease_id,
        case phase when 'active' then 'w' end as worker_id,
        case phase when 'active' then 'w-1' end as worker_instance_id,
        case phase when 'active' then 1::bigint end as lease_expires_at_ms,
        case phase when 'terminal' then 1::bigint end as terminal_at_ms,
        1::bigint as delay_until_ms,
        case phase when 'suspended' then '{UUID}'::uuid end as suspension_id,
        0 as priority, 1::bigint as lease_epoch, 1 as total_attempts,
        0 as retries, 0 as replays, 0 as reclaims, 0 as open_reservations
    from {", ".join(f"unnest(enum_range(null::{PARAMETERS[name]})) as {name}" for name in STATE_FIELDS)}
"""


def legal_vector(state: tuple[str, ...]) -> Vector:
    """A state with everything beside it as it must be."""
    phase = state[0]
    is_active, is_terminal, is_suspended = phase == "active", phase == "terminal", phase == "suspended"
    return {
        **dict(zip(STATE_FIELDS, state, strict=False)),
        "lease_id": UUID if is_active else None,
        "worker_id": "w" if is_active else None,
        "worker_instance_id": "w-1" if is_active else None,
        "lease_expires_at_ms": 1 if is_active else None,
        "terminal_at_ms": 1 if is_terminal else None,
        "delay_until_ms": 1,
        "suspension_id": UUID if is_suspended else None,
        "priority": 0,
        "lease_epoch": 1,
        "total_attempts": 1,
        **dict.fromkeys(COUNTERS, 0),
    }


def faults(vector: Vector) -> Iterator[tuple[Vector, str]]:
    """The vector with one thing beside the state wrong at a time, and the rule that it then breaks."""
    for name, value in (("lease_id", UUID), ("worker_id", "w"), ("worker_instance_id", "w-1")):
        yield {**vector, name: None if vector[name] else value}, "lease_iff_active"
    yield {**vector, "lease_expires_at_ms": None if vector["lease_expires_at_ms"] else 1}, "lease_iff_active"
    yield {**vector, "terminal_at_ms": None if vector["terminal_at_ms"] else 1}, "terminal_iff_outcome"
    yield {**vector, "suspension_id": None if vector["suspension_id"] else UUID}, "suspended_iff_suspension"
    if vector["eligibility"] == "not_eligible_until_time":
        yield {**vector, "delay_until_ms": None}, "delayed_has_time"
    for name, number in (
        ("priority", -1),
        ("priority", 9001),
        ("lease_epoch", 0),
        ("lease_epoch", -1),
        ("total_attempts", 0),
        ("total_attempts", -1),
        *((counter, -1) for counter in COUNTERS),
    ):
        yield {**vector, name: number}, "numbers_in_range"
    if vector["ownership"] != "leased":
        yield {**vector, "open_reservations": 1}, "numbers_in_range"


def variations(vector: Vector) -> Iterator[Vector]:
    """The vector with other values that are just as legal."""
    yield {**vector, "priority": 9000, "retries": 7, "replays": 7, "reclaims": 7}
    yield {**vector, "lease_epoch": 9, "total_attempts": 2}
    yield {**vector, "lease_epoch": 0, "total_attempts": 0}
    if vector["eligibility"] != "not_eligible_until_time":
        yield {**vector, "delay_until_ms": None}
    if vector["ownership"] == "leased":
        yield {**vector, "open_reservations": 3}


@pytest.fixture(scope="module")
def rules(server: Cluster) -> Iterator[Connection]:
    """A connection that can judge vectors; no test of this module writes anything."""
    with server.database(server.template) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(VERDICTS)
        yield connection


def verdicts(connection: Connection, vectors: list[Vector]) -> list[tuple[str | None, ...]]:
    return connection.execute("select * from pg_temp.verdicts(%s)", [Jsonb(vectors)]).fetchall()


def test_of_all_combinations_exactly_those_of_the_specification_are_legal(db: Connection) -> None:
    # For a fault the quick form asks the other one for its name, which takes 300 us a hundred thousand times.
    # So the other one's answers are kept first, and then it and the raise are emptied, in this database.
    db.execute(
        f"""
        create temporary table vector as
        select {ARGUMENTS}, flowfabric._ff_broken_state_rule({ARGUMENTS}) as named
        from ({ALL_COMBINATIONS}) as v;
        create or replace function flowfabric._ff_broken_state_rule({DECLARATION})
        returns text language plpgsql as $$ begin return null; end $$;
        create or replace function flowfabric._ff_raise(p_code text, p_fn text, p_detail jsonb default '{{}}')
        returns void language plpgsql as $$ begin return; end $$;
        create temporary table judged as
        select
            v.*, flowfabric._ff_state_is_legal({ARGUMENTS}) as quick,
            flowfabric._ff_row_is_legal({ROW}) as of_row
        from vector as v
        """
    )

    assert db.execute("select count(*) from judged").fetchone() == (4 * 4 * 9 * 17 * 6 * 7,)
    for form in ("quick", "of_row"):
        differing = f"select * from judged where {form} is distinct from (named is null)"
        assert db.execute(differing).fetchall() == []
    labels = ", ".join(f"{name}::text" for name in STATE_FIELDS)
    legal = db.execute(f"select {labels} from judged where quick").fetchall()
    assert sorted(legal) == sorted(state[:6] for state in LEGAL_STATES)


@pytest.mark.parametrize("phase", ["runnable", "active", "suspended", "terminal"])
def test_what_is_wrong_beside_a_legal_state_is_named(rules: Connection, phase: str) -> None:
    vectors = [legal_vector(state) for state in LEGAL_STATES if state[0] == phase]
    legal = [*vectors, *(other for vector in vectors for other in variations(vector))]
    assert verdicts(rules, legal) == [(None, None, None)] * len(legal)

    wrong = [fault for vector in vectors for fault in faults(vector)]
    assert verdicts(rules, [vector for vector, _ in wrong]) == [(rule, rule, rule) for _, rule in wrong]


def mutations() -> st.SearchStrategy[Vector]:
    """Vectors that start from a legal state and have up to four columns replaced by anything."""
    labels = {
        "phase": ["runnable", "active", "suspended", "terminal"],
        "ownership": ["unowned", "leased", "lease_expired_reclaimable", "lease_revoked"],
        "eligibility": [*BLOCKING_OF_ELIGIBILITY, "not_applicable"],
        "blocking": sorted({state[3] for state in LEGAL_STATES}),
        "outcome": ["none", *OUTCOMES],
        "attempt_state": sorted({state[5] for state in LEGAL_STATES}),
    }
    numbers = st.sampled_from([-1, 0, 1, 9000, 9001])
    anything: dict[str, st.SearchStrategy[Any]] = {
        **{name: st.sampled_from(values) for name, values in labels.items()},
        **{name: st.sampled_from([None, UUID]) for name in ("lease_id", "suspension_id")},
        **{name: st.sampled_from([None, "", "w"]) for name in ("worker_id", "worker_instance_id")},
        **{name: st.none() | numbers for name in ("lease_expires_at_ms", "terminal_at_ms", "delay_until_ms")},
        **dict.fromkeys(("priority", "lease_epoch", "total_attempts", *COUNTERS), numbers),
    }
    assert anything.keys() == PARAMETERS.keys()
    replaced = st.lists(st.sampled_from(sorted(anything)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: anything[name] for name in names})
    )
    return st.builds(
        lambda state, changes: {**legal_vector(state), **changes}, st.sampled_from(LEGAL_STATES), replaced
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vectors=st.lists(mutations(), min_size=1, max_size=20))
def test_all_forms_of_the_rules_agree(rules: Connection, vectors: list[Vector]) -> None:
    for vector, (of_row, quick, named) in zip(vectors, verdicts(rules, vectors), strict=True):
        assert of_row == quick == named, vector


def test_the_public_state_follows_from_the_state(rules: Connection) -> None:
    derived = rules.execute(
        """
        select flowfabric._ff_public_state(
            (s ->> 0)::flowfabric.ff_lifecycle_phase, (s ->> 4)::flowfabric.ff_terminal_outcome,
            (s ->> 2)::flowfabric.ff_eligibility_state)::text
        from jsonb_array_elements(%s) with ordinality as e (s, item) order by e.item
        """,
        [Jsonb([list(state) for state in LEGAL_STATES])],
    ).fetchall()
    assert [public_state for (public_state,) in derived] == [state[6] for state in LEGAL_STATES]


def test_the_view_for_people_derives_the_same_public_state(db: Connection) -> None:
    """In every combination, the impossible ones too, which the table's constraint would refuse."""
    db.execute(
        """
        alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, namespace, lane_id, execution_kind, lifecycle_phase, ownership_state,
            eligibility_state, blocking_reason, terminal_outcome, attempt_state, created_at_ms,
            last_transition_at_ms, last_mutation_at_ms)
        select
            0, gen_random_uuid(), 'default', 'default', 'test', phase, 'unowned', eligibility, 'none',
            outcome, 'none', 0, 0, 0
        from unnest(enum_range(null::flowfabric.ff_lifecycle_phase)) as phase,
            unnest(enum_range(null::flowfabric.ff_terminal_outcome)) as outcome,
            unnest(enum_range(null::flowfabric.ff_eligibility_state)) as eligibility
        """
    )
    agreement = db.execute(
        """
        select count(*), bool_and(v.state is not distinct from flowfabric._ff_public_state(
            e.lifecycle_phase, e.terminal_outcome, e.eligibility_state))
        from flowfabric.ff_v_execution as v
        join flowfabric.ff_exec_core as e
            on flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) = v.execution_id
        """
    ).fetchone()
    assert agreement == (4 * 6 * 9, True)


def test_the_table_refuses_a_row_that_breaks_a_rule(db: Connection) -> None:
    db.execute("select flowfabric.ff_create_execution('test')")
    with pytest.raises(psycopg.Error) as refused:
        db.execute(
            "update flowfabric.ff_exec_core set lifecycle_phase = 'terminal', terminal_outcome = 'success'"
        )
    assert (refused.value.sqlstate, refused.value.diag.message_primary) == ("ZX002", "invariant_violation")
    detail = json.loads(refused.value.diag.message_detail or "")
    assert detail["invariant"] == "terminal_iff_outcome"
    assert detail["values"] == {
        "lifecycle_phase": "terminal",
        "ownership_state": "unowned",
        "eligibility_state": "eligible_now",
        "blocking_reason": "waiting_for_worker",
        "terminal_outcome": "success",
        "attempt_state": "pending_first_attempt",
        "priority": 0,
        "lease_epoch": 0,
        "total_attempt_count": 0,
    }
