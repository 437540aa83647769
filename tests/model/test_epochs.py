"""A lease that is over stays over: its epoch never comes back, and no function honours its fence any more.

Random lives of one execution lose the lease and get it again in every way there is. After each step every
fence that was ever issued, apart from the living one, is shown to every function that takes a fence.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any
from uuid import UUID

from hypothesis import example, given, note, seed
from hypothesis import strategies as st

from tests.conftest import Connect
from tests.model.engine import Engine, Refusal, Row
from tests.model.search import SEED, note_seed, searching

START_MS = 1_000_000
#: After several leases lost in a row.
LONGEST_BACKOFF_MS = 300_000
LEASE_TTL_MS = 1000
EXECUTION = f"{{fp:86}}:{UUID(int=1)}"
IT = {"execution_id": EXECUTION}
POOL = {"worker_id": "pool", "worker_instance_id": "pool-1"}
FENCE = ("lease_id", "lease_epoch", "attempt_id")
RETRY = {"max_retries": 1000, "backoff": {"type": "fixed", "delay_ms": 1}}
SUSPENSION = {"resume_condition": "OperatorOnly", "reason_code": "waiting_for_signal"}
BUDGET = {"budget_id": "none", "dimensions": ["tokens"]}

#: Every function that takes a fence, with the rest of its arguments.
LEASE_BOUND: dict[str, Row] = {
    "ff_append_frame": {"frame_type": "stdout"},
    "ff_cancel_execution": {"reason": "stale"},
    "ff_close_waitpoint": {"waitpoint_id": UUID(int=9)},
    "ff_complete_execution": {},
    "ff_complete_executions": {},
    "ff_create_pending_waitpoint": {"waitpoint_key": "wpk:stale", "expires_in_ms": 1},
    "ff_delay_execution": {"delay_until_ms": START_MS},
    "ff_fail_execution": {"retry_policy": RETRY},
    "ff_fail_executions": {},
    "ff_move_to_waiting_children": {},
    "ff_record_spend": {**BUDGET, "deltas": [1]},
    "ff_release_reservation": {"budget_id": "none", "reservation_key": "none"},
    "ff_renew_lease": {},
    "ff_renew_leases": {},
    "ff_report_usage_and_check": {**BUDGET, "deltas": [1]},
    "ff_reserve_budget": {**BUDGET, "amounts": [1]},
    "ff_settle_reservation": {**BUDGET, "actuals": [1], "reservation_key": "none"},
    "ff_suspend_execution": SUSPENSION,
    "ff_update_progress": {"progress_pct": 50},
}
BATCHES = {"ff_complete_executions", "ff_fail_executions", "ff_renew_leases"}

#: How an older fence than the living one is refused: with stale_lease, unless said here.
STALE = {"ff_append_frame": {"stale_owner_cannot_append"}}
#: How every fence is refused while no lease lives: the execution was given back, has ended or lost it.
NOT_HELD = {"execution_not_active", "lease_expired", "lease_revoked"}
LOST = {
    "ff_append_frame": {"stream_closed", "stale_owner_cannot_append"},
    "ff_create_pending_waitpoint": {"execution_not_active", "lease_expired", "no_active_lease"},
}


class Life:
    """One execution and every fence it ever issued."""

    def __init__(self, engine: Engine, *, ids_are_reused: bool) -> None:
        self.engine = engine
        self.ids_are_reused = ids_are_reused
        self.now_ms = START_MS
        self.fences: list[Row] = []
        self.attempt_indexes: list[int] = []
        engine.freeze(START_MS)
        self.ask("ff_rotate_waitpoint_hmac_secret", new_kid="k1", new_secret_hex="00" * 32)
        policy = {"max_replay_count": 1000, "max_reclaim_count": 1000}
        self.ask("ff_create_execution", role="producer", execution_kind="test", policy=policy, **IT)
        self.claim()

    def ask(self, function: str, *, role: str = "operator", **arguments: Any) -> Row:
        """Make a call that must succeed."""
        answer = self.engine.call(function, arguments, role=role)
        note(f"{self.now_ms} {role}: {function}({arguments}) -> {answer}")
        assert not isinstance(answer, Refusal), f"{function}: {answer}"
        return answer[0]

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.engine.freeze(self.now_ms)

    # Getting a lease

    def claim(self) -> None:
        self.ask("ff_issue_claim_grant", role="worker", lane_id="default", **POOL, **IT)
        self.hold("ff_claim_execution", role="worker", **self.ids("lease_id", "attempt_id"))

    def resume(self) -> None:
        self.ask("ff_issue_claim_grant", role="worker", lane_id="default", **POOL, **IT)
        self.hold("ff_claim_resumed_execution", role="worker", **self.ids("lease_id"))

    def reclaim(self) -> None:
        self.pass_time(LONGEST_BACKOFF_MS)
        self.ask("ff_issue_reclaim_grant", role="worker", **POOL, **IT)
        self.hold("ff_reclaim_execution", role="worker", **self.ids("lease_id", "attempt_id"))

    def take(self) -> None:
        self.hold("ff_issue_grant_and_claim", role="operator", **self.ids("lease_id", "attempt_id"))

    def hold(self, function: str, *, role: str, **ids: Any) -> None:
        claim = self.ask(function, role=role, lease_ttl_ms=LEASE_TTL_MS, **POOL, **ids, **IT)
        self.fences.append({name: claim[name] for name in FENCE})
        self.attempt_indexes.append(claim["attempt_index"])

    def ids(self, *names: str) -> Row:
        """Nothing forbids a caller to give the same ids again; the epoch alone then tells leases apart."""
        return {name: UUID(int=0xA) for name in names} if self.ids_are_reused else {}

    # Losing it

    def give_up(self, function: str, **arguments: Any) -> None:
        self.ask(function, role="worker", **IT, **self.fences[-1], **arguments)

    def operate(self, function: str, **arguments: Any) -> None:
        self.ask(function, **IT, **arguments)

    # What must hold

    def check(self, *, is_held: bool) -> None:
        """No fence but the living one is worth anything, in whole or in part; and asking changes nothing."""
        before = self.engine.stored()
        past = self.fences[:-1] if is_held else self.fences
        for fence, attempt_index in zip(past, self.attempt_indexes, strict=False):
            for function in LEASE_BOUND:
                code = self.code_of(function, fence, attempt_index)
                usual = STALE.get(function, {"stale_lease"}) if is_held else LOST.get(function, NOT_HELD)
                assert code in usual, f"{function}: {code}"
            if is_held:
                self.check_mixtures(fence)
        assert self.engine.stored() == before, "a refused call changed what is stored"

    def check_mixtures(self, past: Row) -> None:
        """Some fields of the living fence and some of an older one are no fence either."""
        living = self.fences[-1]
        for choice in product((past, living), repeat=len(FENCE)):
            mixed = {name: source[name] for name, source in zip(FENCE, choice, strict=True)}
            if mixed != living:
                assert self.code_of("ff_complete_execution", mixed, 0) == "stale_lease", f"{mixed}"

    def code_of(self, function: str, fence: Row, attempt_index: int) -> str | None:
        """The code with which a call under a fence is refused, None if it is not."""
        arguments = {**LEASE_BOUND[function]}
        if function in BATCHES:
            arguments |= {"execution_ids": [EXECUTION]}
            arguments |= {f"{name}s": [value] for name, value in fence.items()}
        else:
            arguments |= {**IT, **fence}
        if function == "ff_append_frame":
            arguments["attempt_index"] = attempt_index
        answer = self.engine.call(function, arguments, role="worker")
        if isinstance(answer, Refusal):
            return answer.code
        return str(answer[0]["code"]) if answer[0].get("outcome") == "refused" else None


Step = Callable[[Life], None]

#: How a lease is lost, and how the next one is got.
WAYS: dict[str, tuple[tuple[Step, ...], Step]] = {
    "retry": (
        (
            lambda life: life.give_up("ff_fail_execution", retry_policy=RETRY),
            lambda life: life.pass_time(1),
            lambda life: life.operate("ff_promote_delayed"),
        ),
        Life.claim,
    ),
    "reclaim after expiry": ((lambda life: life.pass_time(LEASE_TTL_MS),), Life.reclaim),
    "reclaim after the expiry was marked": (
        (
            lambda life: life.pass_time(LEASE_TTL_MS),
            lambda life: life.operate("ff_mark_lease_expired_if_due"),
        ),
        Life.reclaim,
    ),
    "reclaim after revocation": ((lambda life: life.operate("ff_revoke_lease"),), Life.reclaim),
    "resume after a delay": (
        (
            lambda life: life.give_up("ff_delay_execution", delay_until_ms=life.now_ms),
            lambda life: life.operate("ff_promote_delayed"),
        ),
        Life.resume,
    ),
    "taken by an operator during a delay": (
        (lambda life: life.give_up("ff_delay_execution", delay_until_ms=life.now_ms + 1),),
        Life.take,
    ),
    "resume after waiting for children": (
        (lambda life: life.give_up("ff_move_to_waiting_children"),),
        Life.resume,
    ),
    "resume after a suspension": (
        (
            lambda life: life.give_up("ff_suspend_execution", **SUSPENSION),
            lambda life: life.operate("ff_resume_execution"),
        ),
        Life.resume,
    ),
    "replay after success": (
        (
            lambda life: life.give_up("ff_complete_execution"),
            lambda life: life.operate("ff_replay_execution", force=True),
        ),
        Life.claim,
    ),
    "replay after failure": (
        (lambda life: life.give_up("ff_fail_execution"), lambda life: life.operate("ff_replay_execution")),
        Life.claim,
    ),
    "replay after cancellation": (
        (
            lambda life: life.give_up("ff_cancel_execution", reason="test"),
            lambda life: life.operate("ff_replay_execution"),
        ),
        Life.claim,
    ),
    "replay after expiry": (
        (lambda life: life.operate("ff_expire_execution"), lambda life: life.operate("ff_replay_execution")),
        Life.take,
    ),
}


def test_epochs_grow_and_every_older_fence_is_refused_everywhere(connect: Connect) -> None:
    engine = Engine(connect(autocommit=False))

    @seed(SEED)
    @searching(examples=20)
    @given(
        ways=st.lists(st.sampled_from([*WAYS]), min_size=1, max_size=6),
        ids_are_reused=st.booleans(),
    )
    @example(ways=[*WAYS], ids_are_reused=True)
    def holds_for(ways: list[str], ids_are_reused: bool) -> None:
        note_seed()
        try:
            life = Life(engine, ids_are_reused=ids_are_reused)
            for way in ways:
                losing, getting = WAYS[way]
                for step in losing:
                    step(life)
                    life.check(is_held=False)
                getting(life)
                life.check(is_held=True)
            epochs = list(range(1, len(ways) + 2))
            assert [fence["lease_epoch"] for fence in life.fences] == epochs
            stored = engine.stored()[EXECUTION]
            issued = [e for e in stored["lease_events"] if e["event_type"] in {"acquired", "reclaimed"}]
            assert [event["lease_epoch"] for event in issued] == epochs
        finally:
            engine.rollback()

    holds_for()


def test_every_function_that_takes_a_fence_is_asked(connect: Connect) -> None:
    functions = connect().execute(
        """
        select p.proname
        from pg_proc as p
        where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, 'ff_')
            and p.proargnames && array['p_lease_epoch', 'p_lease_epochs']"""
    )
    assert {name for (name,) in functions.fetchall()} == LEASE_BOUND.keys()
