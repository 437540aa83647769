"""Random lives of executions: after every call the engine agrees with a model of the specification.

Several workers of two pools, operators and scanners act on a handful of executions, with handles that went
stale long ago, fences with one field wrong, grants of others, and a clock that jumps to the very instants at
which something ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar
from uuid import UUID

from hypothesis import note, seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.conftest import Connect
from tests.model.agreement import answer_differences, plain, stored_differences
from tests.model.engine import Engine, Refusal
from tests.model.model import ADMISSION_BLOCKS, Fence, RefusedError, Row, World, solo_partition
from tests.model.search import SEED, note_seed, searching

T = TypeVar("T")

START_MS = 1_000_000
NAMESPACE = "model"
LANES = ("lane-a", "lane-b")
WORKERS = (("pool-a", "pool-a-1"), ("pool-a", "pool-a-2"), ("pool-b", "pool-b-1"))
MOST_EXECUTIONS = 6

ROLES = {
    "ff_create_execution": "producer",
    "ff_create_executions": "producer",
    "ff_set_execution_tags": "producer",
    "ff_issue_claim_grant": "worker",
    "ff_issue_reclaim_grant": "worker",
    "ff_claim_execution": "worker",
    "ff_claim_resumed_execution": "worker",
    "ff_reclaim_execution": "worker",
    "ff_renew_lease": "worker",
    "ff_renew_leases": "worker",
    "ff_update_progress": "worker",
    "ff_complete_execution": "worker",
    "ff_complete_executions": "worker",
    "ff_fail_execution": "worker",
    "ff_fail_executions": "worker",
    "ff_delay_execution": "worker",
    "ff_move_to_waiting_children": "worker",
    "ff_cancel_execution": "worker",
}
SCANNERS = (
    "ff_promote_due",
    "ff_scan_expired_leases",
    "ff_scan_attempt_timeouts",
    "ff_scan_execution_deadlines",
    "ff_sweep_expired_grants",
)

#: What a caller shows of its lease, made from the latest fence of the execution: mostly that one.
FENCES: dict[str, Callable[[Fence, list[Fence]], Fence]] = {
    "latest": lambda latest, _: latest,
    "one before": lambda latest, issued: issued[-2] if len(issued) > 1 else latest,
    "first": lambda latest, issued: issued[0] if issued else latest,
    "other lease": lambda latest, _: Fence(str(UUID(int=7)), latest.lease_epoch, latest.attempt_id),
    "other epoch": lambda latest, _: Fence(latest.lease_id, (latest.lease_epoch or 0) + 1, latest.attempt_id),
    "other attempt": lambda latest, _: Fence(latest.lease_id, latest.lease_epoch, str(UUID(int=7))),
    "no lease": lambda latest, _: Fence(None, latest.lease_epoch, latest.attempt_id),
    "no epoch": lambda latest, _: Fence(latest.lease_id, None, latest.attempt_id),
    "attempt only": lambda latest, _: Fence(None, None, latest.attempt_id),
    "nothing": lambda _, __: Fence(None, None, None),
}

_WORKER = {"worker_id": "pool-a", "worker_instance_id": "pool-a-1"}
_NO_FENCE = {"lease_id": None, "lease_epoch": None, "attempt_id": None}
#: Arguments that are refused before the execution is looked at.
BAD_INPUT: dict[str, tuple[str, Row]] = {
    "a lease that is over at once": ("ff_issue_grant_and_claim", {"lease_ttl_ms": 0}),
    "a lease for more than a day": ("ff_renew_lease", {**_NO_FENCE, "lease_ttl_ms": 86_400_001}),
    "a claim by nobody": ("ff_claim_execution", {**_WORKER, "worker_id": "white space"}),
    "a reclaim for nothing": ("ff_reclaim_execution", {**_WORKER, "lease_ttl_ms": -1}),
    "a grant for more than a minute": (
        "ff_issue_claim_grant",
        {**_WORKER, "lane_id": LANES[0], "grant_ttl_ms": 60_001},
    ),
    "a grant for nothing": ("ff_issue_reclaim_grant", {**_WORKER, "grant_ttl_ms": 0}),
    "a delay until no time": ("ff_delay_execution", {"delay_until_ms": None}),
    "a cancellation without a reason": ("ff_cancel_execution", {"reason": None}),
    "a cancellation from nowhere": ("ff_cancel_execution", {"reason": "x", "source": "boredom"}),
    "a completion from nowhere": ("ff_complete_execution", {"source": "boredom"}),
    "a retry policy that is a list": ("ff_fail_execution", {"retry_policy": []}),
    "a retry policy without numbers": ("ff_fail_execution", {"retry_policy": {"max_retries": "many"}}),
    "a retry policy with another word": ("ff_fail_execution", {"retry_policy": {"retries": 3}}),
    "a back-off of no known type": ("ff_fail_execution", {"retry_policy": {"backoff": {"type": "linear"}}}),
    "more than all of it": ("ff_update_progress", {**_NO_FENCE, "progress_pct": 101}),
    "no tags": ("ff_set_execution_tags", {"tags": {}}),
}

RETRY_POLICIES: tuple[Row, ...] = (
    {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}},
    {"max_retries": 9, "backoff": {"type": "exponential", "initial_delay_ms": 100, "multiplier": 1.5}},
    {"max_retries": 9, "backoff": {"type": "exponential", "max_delay_ms": 3500, "jitter": 0}},
    {"max_retries": 2, "retryable_categories": ["transient"]},
    {"max_retries": 0},
    {},
)
CATEGORIES = (None, "transient", "transient", "permanent", "infra_crash")
REASONS = ("broken", "out of luck", "")
LEASE_TTLS_MS = (1000, 30_000, 100, 1, 86_400_000)
#: One of them is too large for the row of its execution.
payloads = st.sampled_from([None, b"", b"input", b"x" * 128, b"x" * 129])
policies = st.fixed_dictionaries(
    {},
    optional={
        "retry_policy": st.sampled_from(RETRY_POLICIES),
        "max_reclaim_count": st.sampled_from([2, 1, 0]),
        "max_replay_count": st.sampled_from([4, 1]),
        "timeout_policy": st.sampled_from([{"attempt_timeout_ms": 400}, {"attempt_timeout_ms": 0}]),
        "routing_requirements": st.sampled_from(
            [{"required_capabilities": ["gpu"]}, {"required_capabilities": []}]
        ),
        "stream_policy": st.just({"retention_ttl_ms": 700}),
        "dedup_window_ms": st.just(900),
    },
)


def lane_of(number: int) -> str:
    return LANES[number % len(LANES)]


def id_of(number: int) -> str:
    return f"{{fp:{solo_partition(lane_of(number))}}}:{UUID(int=number)}"


UNKNOWN = id_of(0)


class Draw(Protocol):
    """Lets hypothesis choose."""

    def __call__(self, strategy: st.SearchStrategy[T]) -> T: ...


#: What mostly happens to an execution in a situation. Now and then anything else does.
LIKELY = {
    "queued": {
        "take": 8,
        "issue_grant": 2,
        "claim": 2,
        "issue_grant_and_claim": 2,
        "block": 1,
        "change_priority": 1,
        "cancel_as_operator": 1,
    },
    "paused": {"take": 8, "issue_grant": 2, "claim_resumed": 3, "issue_grant_and_claim": 2, "block": 1},
    "leased": {
        "renew": 2,
        "update_progress": 1,
        "complete": 2,
        "fail": 4,
        "delay": 3,
        "move_to_waiting_children": 2,
        "cancel_as_holder": 1,
        "complete_many": 1,
        "fail_many": 2,
        "renew_many": 2,
        "revoke": 3,
        "jump_to_a_boundary": 4,
    },
    "lost": {
        "take": 5,
        "issue_grant": 2,
        "reclaim": 2,
        "mark_lease_expired": 1,
        "scan": 1,
        "expire": 1,
        "cancel_as_operator": 1,
        "renew": 2,
        "complete": 2,
        "fail": 1,
        "complete_many": 1,
        "renew_many": 2,
    },
    "delayed": {"promote_delayed": 3, "jump_to_a_boundary": 4, "issue_grant_and_claim": 2, "scan": 1},
    "blocked": {"unblock": 5, "block": 2, "issue_grant_and_claim": 1},
    "ended": {"replay": 6, "create": 1, "create_many": 1, "trim_retention": 1},
    "gone": {"create": 1, "create_many": 1, "create_again": 1},
}
ANYTHING_ELSE = (
    *sorted({operation for operations in LIKELY.values() for operation in operations}),
    "set_tags",
    "call_with_bad_input",
    "let_time_pass",
)


class EngineMachine(RuleBasedStateMachine):
    """The engine and its model, side by side."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.world = World(START_MS)
        self.execution_ids: list[str] = []
        self.grant_keys: dict[str, str] = {}
        self.ids_given = 0
        note_seed()
        self.set_clock(START_MS)

    def teardown(self) -> None:
        self.engine.rollback()

    @initialize(first=policies, second=policies)
    def create_two(self, first: Row, second: Row) -> None:
        self.create_one(first)
        self.create_one(second)

    # One rule, not thirty: hypothesis leaves half of all rules out of each example, and what becomes of an
    # execution would be left to a chance that seldom gets it beyond its first claim.
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        execution_id = data.draw(st.sampled_from([*self.execution_ids, UNKNOWN]), "execution")
        likely = LIKELY[self.situation(execution_id)]
        operations = [operation for operation, weight in likely.items() for _ in range(weight)]
        is_unlikely = data.draw(st.integers(0, 5)) == 5
        operation = data.draw(st.sampled_from(ANYTHING_ELSE if is_unlikely else operations), "operation")
        getattr(self, operation)(data.draw, execution_id)

    def situation(self, execution_id: str) -> str:
        e = self.world.executions.get(execution_id)
        if e is None:
            return "gone"
        if e.lifecycle_phase == "active":
            return "lost" if e.is_reclaimable(self.world.now_ms) else "leased"
        if e.lifecycle_phase == "terminal":
            return "ended"
        if e.eligibility_state != "eligible_now":
            return "delayed" if e.eligibility_state == "not_eligible_until_time" else "blocked"
        return "paused" if e.attempt_state == "attempt_interrupted" else "queued"

    @invariant()
    def the_engine_agrees_with_the_model(self) -> None:
        differences = stored_differences(self.world, self.engine.stored())
        assert not differences, "\n".join(differences)

    @invariant()
    def the_stored_state_is_sound(self) -> None:
        findings = self.engine.findings()
        assert not findings, findings

    def call(self, function: str, *, role: str | None = None, **arguments: Any) -> list[Row] | Refusal:
        """Make a call in both worlds and compare the answers."""
        self.world.role = role or ROLES.get(function, "operator")
        answer = self.engine.call(function, arguments, role=self.world.role)
        note(f"{self.world.now_ms} {self.world.role}: {function}({arguments}) -> {answer}")
        self.world.minted = plain(answer[0]) if not isinstance(answer, Refusal) and answer else {}
        predicted: list[Row] | RefusedError
        try:
            rows = getattr(self.world, function.removeprefix("ff_"))(**arguments)
            predicted = rows if isinstance(rows, list) else [rows]
        except RefusedError as refused:
            predicted = refused
        differences = answer_differences(function, predicted, answer)
        assert not differences, "\n".join(differences)
        return answer

    def set_clock(self, now_ms: int) -> None:
        self.world.now_ms = now_ms
        self.engine.freeze(now_ms)

    # Choices

    def fence(self, draw: Draw, execution_id: str, *kinds: str) -> Row:
        e = self.world.executions.get(execution_id)
        issued = e.fences if e else []
        latest = issued[-1] if issued else Fence(str(UUID(int=5)), 1, str(UUID(int=6)))
        kind = draw(st.sampled_from(kinds or ["latest"] * 20 + [*FENCES]))
        return asdict(FENCES[kind](latest, issued))

    def lane(self, draw: Draw, execution_id: str) -> str | None:
        e = self.world.executions.get(execution_id)
        own = e.lane_id if e else LANES[0]
        return draw(st.sampled_from([own] * 8 + [None, "no-such-lane"]))

    def worker(self, draw: Draw) -> Row:
        worker_id, worker_instance_id = draw(st.sampled_from([WORKERS[0]] * 4 + [*WORKERS]))
        return {"worker_id": worker_id, "worker_instance_id": worker_instance_id}

    def given_ids(self, draw: Draw, *names: str) -> Row:
        """Ids that the caller chose itself, none of them used before; or none, and the engine mints them."""
        if draw(st.booleans()):
            return {}
        self.ids_given += len(names)
        return {name: str(UUID(int=0xA000 + self.ids_given - i)) for i, name in enumerate(names)}

    def in_ms(self, ms: int | None) -> int | None:
        return None if ms is None else self.world.now_ms + ms

    # Creation

    def create(self, draw: Draw, execution_id: str) -> None:
        if len(self.execution_ids) == MOST_EXECUTIONS:
            return
        self.create_one(
            draw(policies),
            priority=draw(st.integers(-10, 9010)),
            delay_until_ms=self.in_ms(draw(st.sampled_from([None, None, 500, 0]))),
            execution_deadline_at_ms=self.in_ms(draw(st.sampled_from([None, None, 1500, -1]))),
            idempotency_key=draw(st.sampled_from([None, "key-1", "key-2"])),
            dedup_ttl_ms=draw(st.sampled_from([None, 300, 0])),
            payload=draw(payloads),
            **draw(st.sampled_from([{}, {"tags": None}])),
        )

    def create_one(self, policy: Row, **options: Any) -> None:
        number = next(n for n in range(1, MOST_EXECUTIONS + 1) if id_of(n) not in self.execution_ids)
        self.call(
            "ff_create_execution",
            execution_id=id_of(number),
            execution_kind="test",
            namespace=NAMESPACE,
            lane_id=lane_of(number),
            policy=policy or None,
            **{"tags": {"ff.instance_id": f"instance-{number}"}, **options},
        )
        self.remember(id_of(number))

    def create_many(self, draw: Draw, execution_id: str) -> None:
        """New executions and old ones, refused items among them, keys that repeat."""
        newest = min(len(self.execution_ids) + 2, MOST_EXECUTIONS)
        numbers = draw(st.lists(st.integers(1, newest), max_size=4))
        count = len(numbers)
        good_tags, bad_tags = {"app.run": "1"}, {"Bad.key": "1"}
        self.call(
            "ff_create_executions",
            execution_ids=[id_of(number) for number in numbers],
            execution_kinds=["test"] * count,
            lane_ids=[lane_of(number) for number in numbers],
            policies=[
                draw(st.sampled_from([None, {"max_reclaim_count": 1}, [], "none"])) for _ in range(count)
            ],
            tags=[draw(st.sampled_from([good_tags, good_tags, None, None, bad_tags])) for _ in range(count)],
            delay_until_ms=[self.in_ms(draw(st.sampled_from([None, 500]))) for _ in range(count)],
            idempotency_keys=[draw(st.sampled_from([None, "key-1", "key-2"])) for _ in range(count)],
            payloads=[draw(payloads) for _ in range(count)],
            namespace=NAMESPACE,
            dedup_ttl_ms=draw(st.sampled_from([None, 300])),
        )
        for number in sorted(numbers):
            self.remember(id_of(number))

    def remember(self, execution_id: str) -> None:
        if execution_id in self.world.executions and execution_id not in self.execution_ids:
            self.execution_ids.append(execution_id)

    def create_again(self, draw: Draw, execution_id: str) -> None:
        """A duplicate, whatever has become of it meanwhile; only one that was removed can come back."""
        self.call(
            "ff_create_execution",
            execution_id=draw(st.sampled_from(self.execution_ids)),
            execution_kind="again",
            namespace=NAMESPACE,
            lane_id=LANES[0],
        )

    # Grants and claims

    def take(self, draw: Draw, execution_id: str) -> None:
        """What a good worker does: it asks for a grant unless it has one, and uses it as it must."""
        situation = self.situation(execution_id)
        function = {"lost": "reclaim", "leased": "reclaim", "paused": "claim_resumed"}.get(situation, "claim")
        kind = "reclaim" if function == "reclaim" else "claim"
        e = self.world.executions.get(execution_id)
        if e and e.grant and e.grant.is_live(self.world.now_ms):
            worker = {"worker_id": e.grant.worker_id, "worker_instance_id": f"{e.grant.worker_id}-2"}
        else:
            worker = self.worker(draw)
            lane_id = e.lane_id if e else LANES[0]
            self.grant(
                kind, execution_id=execution_id, **worker, lane_id=lane_id, worker_capabilities=["gpu"]
            )
        lease_ttl_ms = draw(st.sampled_from([1000, 100, 30_000]))
        self.call(f"ff_{function}_execution", execution_id=execution_id, **worker, lease_ttl_ms=lease_ttl_ms)

    def issue_grant(self, draw: Draw, execution_id: str) -> None:
        likely = "reclaim" if self.situation(execution_id) == "lost" else "claim"
        kind = draw(st.sampled_from([likely] * 5 + ["claim", "reclaim"]))
        lane_id = self.lane(draw, execution_id)
        self.grant(
            kind,
            execution_id=execution_id,
            **self.worker(draw),
            lane_id=lane_id or (LANES[0] if kind == "claim" else None),
            worker_capabilities=draw(st.sampled_from([["gpu", "big"], ["gpu"], []])),
            grant_ttl_ms=draw(st.sampled_from([5000, 50, 1, 60_000])),
        )

    def grant(self, kind: str, **arguments: Any) -> None:
        answer = self.call(f"ff_issue_{kind}_grant", **arguments)
        if not isinstance(answer, Refusal):
            self.grant_keys[arguments["execution_id"]] = answer[0]["grant_key"]

    def claim_arguments(self, draw: Draw, execution_id: str) -> Row:
        last_key = self.grant_keys.get(execution_id)
        return {
            "execution_id": execution_id,
            **self.worker(draw),
            "lane_id": self.lane(draw, execution_id),
            "lease_ttl_ms": draw(st.sampled_from(LEASE_TTLS_MS)),
            "grant_key": draw(st.sampled_from([None, None, last_key, last_key, "ffg1:forged"])),
        }

    def claim(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_claim_execution",
            **self.claim_arguments(draw, execution_id),
            **self.given_ids(draw, "lease_id", "attempt_id"),
            attempt_timeout_ms=draw(st.sampled_from([None, 250, 0])),
            execution_deadline_at_ms=self.in_ms(draw(st.sampled_from([None, None, None, 2000]))),
        )

    def claim_resumed(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_claim_resumed_execution",
            **self.claim_arguments(draw, execution_id),
            **self.given_ids(draw, "lease_id"),
            remaining_attempt_timeout_ms=draw(st.sampled_from([None, 250, 0])),
        )

    def reclaim(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_reclaim_execution",
            **self.claim_arguments(draw, execution_id),
            **self.given_ids(draw, "lease_id", "attempt_id"),
            attempt_timeout_ms=draw(st.sampled_from([None, 250, 0])),
            max_reclaim_count=draw(st.sampled_from([None, None, 1, 0])),
        )

    def issue_grant_and_claim(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_issue_grant_and_claim",
            execution_id=execution_id,
            lease_ttl_ms=draw(st.sampled_from(LEASE_TTLS_MS)),
            lane_id=self.lane(draw, execution_id),
            attempt_timeout_ms=draw(st.sampled_from([None, 250, 0])),
            **self.given_ids(draw, "lease_id", "attempt_id"),
        )

    # The holder of a lease, or somebody who thinks so

    def renew(self, draw: Draw, execution_id: str) -> None:
        e = self.world.executions.get(execution_id)
        current_index = (e.current_attempt_index if e else None) or 0
        self.call(
            "ff_renew_lease",
            execution_id=execution_id,
            **self.fence(draw, execution_id),
            lease_ttl_ms=draw(st.sampled_from(LEASE_TTLS_MS)),
            attempt_index=draw(st.sampled_from([None, None, current_index, current_index + 1])),
        )

    def update_progress(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_update_progress",
            execution_id=execution_id,
            **self.fence(draw, execution_id),
            progress_pct=draw(st.sampled_from([None, 0, 100])),
            progress_message=draw(st.sampled_from([None, "", "half way"])),
        )

    def complete(self, draw: Draw, execution_id: str) -> None:
        result = draw(st.sampled_from([None, b"", b"\x00\xff"]))
        encoding = "raw" if result else None
        self.finish(draw, execution_id, "ff_complete_execution", result=result, result_encoding=encoding)

    def fail(self, draw: Draw, execution_id: str) -> None:
        self.finish(
            draw,
            execution_id,
            "ff_fail_execution",
            failure_reason=draw(st.sampled_from(REASONS)),
            failure_category=draw(st.sampled_from(CATEGORIES)),
            retry_policy=draw(st.sampled_from([None] * 6 + [*RETRY_POLICIES])),
        )

    def delay(self, draw: Draw, execution_id: str) -> None:
        delay_until_ms = self.in_ms(draw(st.sampled_from([400, 1, 0, -5])))
        self.finish(draw, execution_id, "ff_delay_execution", delay_until_ms=delay_until_ms)

    def move_to_waiting_children(self, draw: Draw, execution_id: str) -> None:
        self.finish(draw, execution_id, "ff_move_to_waiting_children")

    def finish(self, draw: Draw, execution_id: str, function: str, **arguments: Any) -> None:
        """Call what the holder calls with its fence, and an operator with an override and mostly none."""
        caller = draw(st.sampled_from(["holder"] * 8 + ["operator", "impostor"]))
        if caller == "holder":
            arguments |= self.fence(draw, execution_id)
        else:
            arguments |= self.fence(draw, execution_id, *["nothing"] * 4, "no epoch", "latest", "other epoch")
            arguments["source"] = "operator_override"
        role = "operator" if caller == "operator" else "worker"
        self.call(function, role=role, execution_id=execution_id, **arguments)

    def cancel_as_holder(self, draw: Draw, execution_id: str) -> None:
        fence = self.fence(draw, execution_id)
        self.call("ff_cancel_execution", execution_id=execution_id, reason="no longer wanted", **fence)

    # Batches

    def complete_many(self, draw: Draw, execution_id: str) -> None:
        batch = self.batch(draw, execution_id)
        results = [None if number % 2 else b"done" for number, _ in enumerate(batch["execution_ids"])]
        self.call("ff_complete_executions", **batch, results=results)

    def fail_many(self, draw: Draw, execution_id: str) -> None:
        batch = self.batch(draw, execution_id)
        count = len(batch["execution_ids"])
        malformed = {"max_retries": "many"}
        policies = [draw(st.sampled_from([None] * 6 + [*RETRY_POLICIES, malformed])) for _ in range(count)]
        spelled = [str(execution_id).lower() for execution_id in batch["execution_ids"]]
        self.call(
            "ff_fail_executions",
            **batch,
            failure_reasons=[draw(st.sampled_from(REASONS)) for _ in range(count)],
            failure_categories=[draw(st.sampled_from(CATEGORIES)) for _ in range(count)],
            # For which of its two faults a repeated item with a malformed policy is refused is left open.
            retry_policies=[
                None if execution_id in spelled[:number] else policies[number]
                for number, execution_id in enumerate(spelled)
            ],
        )

    def renew_many(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_renew_leases",
            **self.batch(draw, execution_id),
            lease_ttl_ms=draw(st.sampled_from(LEASE_TTLS_MS)),
        )

    def batch(self, draw: Draw, first_id: str) -> Row:
        leased = [
            execution_id for execution_id in self.execution_ids if self.situation(execution_id) == "leased"
        ]
        others = leased * 3 + [*self.execution_ids, UNKNOWN]
        execution_ids: list[str | None] = []
        fences: list[Row] = []
        for number in range(draw(st.integers(0, 5))):
            execution_id = draw(st.sampled_from(others)) if number else first_id
            partition, uuid = execution_id.split("}:")
            spellings = [execution_id] * 12 + [f"{partition}}}:{uuid.upper()}", "nonsense", None]
            execution_ids.append(draw(st.sampled_from(spellings)))
            fences.append(self.fence(draw, execution_id))
        return {
            "execution_ids": execution_ids,
            "lease_ids": [fence["lease_id"] for fence in fences],
            "lease_epochs": [fence["lease_epoch"] for fence in fences],
            "attempt_ids": [fence["attempt_id"] for fence in fences],
        }

    # Operators

    def cancel_as_operator(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_cancel_execution",
            role=draw(st.sampled_from(["operator"] * 3 + ["worker"])),
            execution_id=execution_id,
            reason="by order",
            source=draw(st.sampled_from(["operator_override", "flow_cascade", "system_timeout"])),
        )

    def revoke(self, draw: Draw, execution_id: str) -> None:
        lease_id = self.fence(draw, execution_id, "latest", "latest", "other lease")["lease_id"]
        self.call(
            "ff_revoke_lease",
            execution_id=execution_id,
            expected_lease_id=draw(st.sampled_from([None, lease_id])),
            worker_instance_id=draw(st.sampled_from([None, None, "pool-a-1", "pool-b-1"])),
            reason="audit",
        )

    def mark_lease_expired(self, draw: Draw, execution_id: str) -> None:
        self.call("ff_mark_lease_expired_if_due", execution_id=execution_id)

    def expire(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_expire_execution",
            execution_id=execution_id,
            expire_reason=draw(st.sampled_from(["attempt_timeout", "execution_deadline"])),
            require_due=draw(st.sampled_from([True, True, False])),
        )

    def change_priority(self, draw: Draw, execution_id: str) -> None:
        new_priority = draw(st.sampled_from([0, 10, -5, 10_000]))
        self.call("ff_change_priority", execution_id=execution_id, new_priority=new_priority)

    def promote_delayed(self, draw: Draw, execution_id: str) -> None:
        self.call("ff_promote_delayed", execution_id=execution_id)

    def block(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_block_execution_for_admission",
            execution_id=execution_id,
            blocking_reason=draw(st.sampled_from([*ADMISSION_BLOCKS, "paused_by_flow_cancel"])),
            blocking_detail=draw(st.sampled_from([None, "", "quota q: concurrency cap 1"])),
        )

    def unblock(self, draw: Draw, execution_id: str) -> None:
        expected = draw(st.sampled_from([None, None, "waiting_for_quota", "paused_by_operator"]))
        self.call("ff_unblock_execution", execution_id=execution_id, expected_blocking_reason=expected)

    def replay(self, draw: Draw, execution_id: str) -> None:
        self.call(
            "ff_replay_execution",
            execution_id=execution_id,
            reason=draw(st.sampled_from([None, "try again"])),
            requested_by=draw(st.sampled_from([None, "somebody"])),
            force=draw(st.sampled_from([True, True, False])),
        )

    def set_tags(self, draw: Draw, execution_id: str) -> None:
        tags = [
            {"app.run": "7"},
            {"app.run": "8", "ff.instance_id": "moved"},
            {"app.run": "9", "Bad.key": ""},
        ]
        self.call("ff_set_execution_tags", execution_id=execution_id, tags=draw(st.sampled_from(tags)))

    # Scanners, bad input, time

    def scan(self, draw: Draw, execution_id: str) -> None:
        self.call(draw(st.sampled_from(SCANNERS)))

    def trim_retention(self, draw: Draw, execution_id: str) -> None:
        self.call("ff_trim_retention", retention_ms=draw(st.sampled_from([86_400_000, 3000])))

    def call_with_bad_input(self, draw: Draw, execution_id: str) -> None:
        function, arguments = BAD_INPUT[draw(st.sampled_from([*BAD_INPUT]))]
        self.call(function, execution_id=execution_id, **arguments)

    def let_time_pass(self, draw: Draw, execution_id: str) -> None:
        self.set_clock(self.world.now_ms + draw(st.sampled_from([1, 37, 450, 5000])))

    def jump_to_a_boundary(self, draw: Draw, execution_id: str) -> None:
        """To the instant at which something ends, to the one before or the one after."""
        offset_ms = draw(st.sampled_from([-1, 0, 1]))
        instants = sorted(
            instant + offset_ms
            for e in self.world.executions.values()
            for instant in (
                e.lease_expires_at_ms,
                e.grant.expires_at_ms if e.grant else None,
                e.delay_until_ms,
                e.deadline_at_ms,
                e.attempt_timeout_at_ms,
                e.purge_after_ms,
            )
            if instant is not None and instant + offset_ms > self.world.now_ms
        )
        if instants:
            self.set_clock(draw(st.sampled_from(instants)))


def test_the_engine_agrees_with_the_model_of_its_specification(connect: Connect) -> None:
    engine = Engine(connect(autocommit=False))

    @seed(SEED)
    class Machine(EngineMachine):
        def __init__(self) -> None:
            super().__init__(engine)

    run_state_machine_as_test(Machine, settings=searching(examples=80, steps=50))
