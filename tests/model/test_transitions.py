"""Every operation in every state gives exactly the outcome or the refusal, and the transition, of the tables.

`TABLE` is the specification of 10 (and of 40 sections 2 and 4, 30 section 4.14) seen from the other side: not
what an operation demands, but what it answers wherever it is called. A cell is one of

    outcome                 the answer's outcome, and nothing stored has changed
    outcome (reason)        the same, with the answer's reason
    outcome -> T13          the outcome, and the transition of that name in `TRANSITIONS`
    outcome + grant         the outcome, and a grant is stored; nothing else has changed
    ZC011 some_code         the refusal, and nothing stored has changed

The first line of an operation that matches a state's name counts; `*` stands for anything.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from uuid import UUID

import pytest

from tests.conftest import Connect
from tests.model.engine import Engine, Refusal, Row

NOW_MS = 1_000_000
LANE = "default"
FLOW = UUID(int=0xF10)
PARTITION = binascii.crc_hqx(FLOW.bytes, 0) % 256
EXECUTION = f"{{fp:{PARTITION}}}:{UUID(int=1)}"
DEPENDENCY = f"{{fp:{PARTITION}}}:{UUID(int=2)}"

# What changes


@dataclass(frozen=True)
class Transition:
    """A row of the specification's list of all transitions (10 section 2.5).

    `after` is phase / ownership / eligibility / blocking reason / outcome / attempt state -> public state.
    `keep` leaves a part as it was; the attempt state `ended` is attempt_terminal if an attempt ever started.
    """

    after: str
    #: What becomes of the unfinished attempt, if there is one.
    attempt: str = "keep"
    #: By how much counters grow; all others stay. A pause or a retry resets the takeovers in a row.
    counts: dict[str, int] = field(default_factory=dict)
    #: Which counters start from zero again.
    resets: tuple[str, ...] = ()


_EPOCH = {"current_lease_epoch": 1}
_TRIES = ("retry_count", "lease_reclaim_count")
_NEW_ATTEMPT = {"current_lease_epoch": 1, "total_attempt_count": 1}
_LEASED = "active / leased / not_applicable / none / none / running_attempt -> active"
_UNCHANGED = "keep / keep / keep / keep / keep / keep -> keep"
_ELIGIBLE = "runnable / unowned / eligible_now / waiting_for_worker / none"
_DELAYED = "runnable / unowned / not_eligible_until_time"
_DEPENDENT = "runnable / unowned / blocked_by_dependencies / waiting_for_children / none"
_LOST = "keep / waiting_for_worker / none / attempt_interrupted -> active"
_OVER = "terminal / unowned / not_applicable / none"
TRANSITIONS = {
    "T1": Transition(f"{_ELIGIBLE} / pending_first_attempt -> waiting"),
    "T3": Transition(f"{_ELIGIBLE} / keep -> waiting"),
    "T4": Transition(_LEASED, counts=_NEW_ATTEMPT),
    "T5": Transition(_LEASED, attempt="started", counts=_EPOCH),
    "T7": Transition(_UNCHANGED),
    "T8": Transition(_UNCHANGED),
    "T9": Transition(f"active / lease_expired_reclaimable / {_LOST}"),
    "T10": Transition(f"active / lease_revoked / {_LOST}"),
    "T11": Transition(
        _LEASED, attempt="interrupted_reclaimed", counts=_NEW_ATTEMPT | {"lease_reclaim_count": 1}
    ),
    "T11b": Transition(_LEASED, attempt="interrupted_reclaimed", counts=_NEW_ATTEMPT),
    "T12": Transition(f"{_OVER} / failed / attempt_terminal -> failed", attempt="interrupted_reclaimed"),
    "T13": Transition(f"{_OVER} / success / attempt_terminal -> completed", attempt="ended_success"),
    "T14": Transition(
        f"{_DELAYED} / waiting_for_retry_backoff / none / pending_retry_attempt -> delayed",
        attempt="ended_failure",
        counts={"retry_count": 1},
    ),
    "T15": Transition(f"{_OVER} / failed / attempt_terminal -> failed", attempt="ended_failure"),
    "T16": Transition(
        f"{_DELAYED} / waiting_for_delay / none / attempt_interrupted -> delayed",
        attempt="suspended",
    ),
    "T17": Transition(
        f"{_DEPENDENT} / attempt_interrupted -> waiting_children",
        attempt="suspended",
    ),
    "T17b": Transition(f"{_ELIGIBLE} / attempt_interrupted -> waiting", attempt="suspended"),
    "T18": Transition(
        "suspended / unowned / not_applicable / waiting_for_signal / none / attempt_interrupted -> suspended",
        attempt="suspended",
    ),
    "T20": Transition(f"{_ELIGIBLE} / attempt_interrupted -> waiting"),
    "T21": Transition(f"{_DELAYED} / waiting_for_resume_delay / none / attempt_interrupted -> delayed"),
    "T22": Transition(f"{_OVER} / failed / attempt_terminal -> failed", attempt="ended_failure"),
    "T24": Transition(f"{_OVER} / cancelled / attempt_terminal -> cancelled", attempt="ended_cancelled"),
    "T25": Transition(f"{_OVER} / cancelled / ended -> cancelled", attempt="ended_cancelled"),
    "T26": Transition(f"{_OVER} / cancelled / attempt_terminal -> cancelled", attempt="ended_cancelled"),
    "T27": Transition(f"{_OVER} / expired / ended -> expired", attempt="ended_failure"),
    "T31": Transition(
        "runnable / unowned / blocked_by_operator / paused_by_operator / none / keep -> waiting",
    ),
    "T32": Transition(f"{_ELIGIBLE} / keep -> waiting"),
    "T33": Transition(
        f"{_ELIGIBLE} / pending_replay_attempt -> waiting", counts={"replay_count": 1}, resets=_TRIES
    ),
    "T34": Transition(
        f"{_DEPENDENT} / pending_replay_attempt -> waiting_children",
        counts={"replay_count": 1},
        resets=_TRIES,
    ),
    "T35": Transition(_UNCHANGED),
}
COUNTERS = (
    "current_lease_epoch",
    "total_attempt_count",
    "retry_count",
    "replay_count",
    "lease_reclaim_count",
)
VECTOR = (
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "terminal_outcome",
    "attempt_state",
    "public_state",
)

TABLE = """
create it again
    no such execution               created -> T1
    *                               duplicate

issue a claim grant
    waiting: *                      granted + grant
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

issue a claim grant beside a live one
    waiting: *                      ZS017 grant_already_exists
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

issue a claim grant after an expired one
    waiting: *                      granted + grant
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

issue a claim grant in another lane
    waiting: *                      ZC013 execution_not_in_eligible_set
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

claim with a grant
    waiting: paused*                ZC001 use_claim_resumed_execution
    waiting: *                      claimed -> T4
    no such execution               ZN001 execution_not_found
    *                               ZC003 execution_not_leaseable

claim without a grant
    waiting: paused*                ZC001 use_claim_resumed_execution
    waiting: *                      ZC005 invalid_claim_grant
    no such execution               ZN001 execution_not_found
    *                               ZC003 execution_not_leaseable

claim with the grant of another pool
    like                            claim without a grant

claim with a grant to reclaim
    like                            claim without a grant

claim with another grant key
    like                            claim without a grant

claim with an expired grant
    waiting: paused*                ZC001 use_claim_resumed_execution
    waiting: *                      ZC006 claim_grant_expired
    no such execution               ZN001 execution_not_found
    *                               ZC003 execution_not_leaseable

resume with a grant
    waiting: paused*                claimed -> T5
    delayed: paused*                ZC003 execution_not_leaseable
    blocked: *, paused              ZC003 execution_not_leaseable
    waiting: *                      ZC002 not_a_resumed_execution
    delayed: *                      ZC002 not_a_resumed_execution
    blocked: *                      ZC002 not_a_resumed_execution
    no such execution               ZN001 execution_not_found
    *                               ZC003 execution_not_leaseable

resume without a grant
    waiting: paused*                ZC005 invalid_claim_grant
    delayed: paused*                ZC003 execution_not_leaseable
    blocked: *, paused              ZC003 execution_not_leaseable
    waiting: *                      ZC002 not_a_resumed_execution
    delayed: *                      ZC002 not_a_resumed_execution
    blocked: *                      ZC002 not_a_resumed_execution
    no such execution               ZN001 execution_not_found
    *                               ZC003 execution_not_leaseable

take it as an operator
    waiting: paused*                claimed -> T5
    delayed: paused*                claimed -> T5
    blocked: *, paused              claimed -> T5
    waiting: *                      claimed -> T4
    delayed: *                      ZC013 execution_not_in_eligible_set
    blocked: *                      ZC013 execution_not_in_eligible_set
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

take it as an operator beside a live grant
    waiting: *                      ZS017 grant_already_exists
    delayed: *                      ZS017 grant_already_exists
    blocked: *                      ZS017 grant_already_exists
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

issue a reclaim grant
    active: expired, backing off    ZC014 execution_not_reclaimable
    active: expired*                granted -> T9
    active: marked expired          granted + grant
    active: revoked                 granted + grant
    no such execution               ZN001 execution_not_found
    *                               ZC014 execution_not_reclaimable

issue a reclaim grant beside a live one
    active: expired, backing off    ZC014 execution_not_reclaimable
    active: expired*                ZS017 grant_already_exists
    active: marked expired          ZS017 grant_already_exists
    active: revoked                 ZS017 grant_already_exists
    no such execution               ZN001 execution_not_found
    *                               ZC014 execution_not_reclaimable

reclaim with a grant
    active: expired, backing off    ZC014 execution_not_reclaimable
    active: expired, at the cap     reclaim_cap_exceeded -> T12
    active: expired*                reclaimed -> T11
    active: marked expired          reclaimed -> T11
    active: revoked                 reclaimed -> T11b
    no such execution               ZN001 execution_not_found
    *                               ZC014 execution_not_reclaimable

reclaim without a grant
    active: expired, backing off    ZC014 execution_not_reclaimable
    active: expired, at the cap     reclaim_cap_exceeded -> T12
    active: expired*                ZC005 invalid_claim_grant
    active: marked expired          ZC005 invalid_claim_grant
    active: revoked                 ZC005 invalid_claim_grant
    no such execution               ZN001 execution_not_found
    *                               ZC014 execution_not_reclaimable

reclaim with a grant to claim
    like                            reclaim without a grant

reclaim with an expired grant
    active: expired, backing off    ZC014 execution_not_reclaimable
    active: expired, at the cap     reclaim_cap_exceeded -> T12
    active: expired*                ZC006 claim_grant_expired
    active: marked expired          ZC006 claim_grant_expired
    active: revoked                 ZC006 claim_grant_expired
    no such execution               ZN001 execution_not_found
    *                               ZC014 execution_not_reclaimable

renew
    active: leased*                 renewed -> T7
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

renew without a fence
    no such execution               ZN001 execution_not_found
    *                               ZV026 fence_required

report progress
    active: leased*                 updated -> T8
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

complete
    active: leased*                 completed -> T13
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

complete as an operator
    like                            complete

complete with an older fence
    active: leased*                 ZS001 stale_lease
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

complete with half a fence
    no such execution               ZN001 execution_not_found
    *                               ZV027 partial_fence_triple

complete without a fence
    no such execution               ZN001 execution_not_found
    *                               ZV026 fence_required

complete as a worker with an override
    no such execution               ZN001 execution_not_found
    *                               ZV017 unauthorized

fail
    active: leased*                 terminal_failed -> T15
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

fail as an operator
    like                            fail

fail with a retry left
    active: leased*                 retry_scheduled -> T14
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

fail for good with a retry left
    like                            fail

delay
    active: leased*                 delayed -> T16
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

delay as an operator
    like                            delay

wait for children
    active: leased, with dependencies    moved -> T17
    active: leased*                 nothing_to_wait_for -> T17b
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

wait for children as an operator
    like                            wait for children

suspend
    active: leased*                 suspended -> T18
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

resume a suspension
    suspended*                      row -> T20
    no such execution               ZN001 execution_not_found
    *                               ZS004 execution_not_suspended

resume a suspension later
    suspended*                      row -> T21
    no such execution               ZN001 execution_not_found
    *                               ZS004 execution_not_suspended

expire a suspension that is due
    suspended, out of time          fail -> T22
    suspended                       not_yet_due
    no such execution               not_found_cleaned
    *                               not_suspended_cleaned

cancel as the holder
    active: leased*                 cancelled -> T24
    active: revoked                 ZS003 lease_revoked
    active: *                       ZS002 lease_expired
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

cancel as the holder without a fence
    ended: *                        ZC011 execution_not_active
    no such execution               ZN001 execution_not_found
    *                               ZV026 fence_required

cancel as an operator
    active: *                       cancelled -> T24
    suspended*                      cancelled -> T26
    ended: *                        ZC011 execution_not_active
    no such execution               ZN001 execution_not_found
    *                               cancelled -> T25

cancel as a worker with an override
    *                               ZV017 unauthorized

revoke
    active: leased*                 revoked -> T10
    active: expired*                revoked -> T10
    active: marked expired          already_satisfied (already_expired)
    active: revoked                 already_satisfied (already_revoked)
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

revoke the lease of another instance
    active: leased*                 already_satisfied (different_worker_instance_id)
    active: expired*                already_satisfied (different_worker_instance_id)
    active: marked expired          already_satisfied (already_expired)
    active: revoked                 already_satisfied (already_revoked)
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

revoke another lease
    active: leased*                 ZS001 stale_lease
    active: expired*                ZS001 stale_lease
    active: marked expired          already_satisfied (already_expired)
    active: revoked                 already_satisfied (already_revoked)
    no such execution               ZN001 execution_not_found
    *                               ZC011 execution_not_active

mark the lease expired
    active: leased*                 already_satisfied (not_yet_expired)
    active: expired*                marked_expired -> T9
    active: marked expired          already_satisfied (already_expired)
    active: revoked                 already_satisfied (already_revoked)
    no such execution               already_satisfied (execution_not_found)
    *                               already_satisfied (not_active)

expire
    ended: *                        already_terminal
    no such execution               not_found_cleaned
    *                               expired -> T27

expire an attempt that is due
    active: leased, out of time     expired -> T27
    ended: *                        already_terminal
    no such execution               not_found_cleaned
    *                               not_due

expire an execution that is due
    waiting: past its deadline      expired -> T27
    ended: *                        already_terminal
    no such execution               not_found_cleaned
    *                               not_due

change its priority
    waiting: *                      row -> T35
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

promote
    delayed: *, due                 promoted -> T3
    delayed: *                      not_yet_due
    waiting: *                      not_delayed_cleaned
    blocked: *                      not_delayed_cleaned
    no such execution               not_found_cleaned
    *                               not_runnable_cleaned

block by an operator
    waiting: *                      blocked -> T31
    blocked: operator*              already_blocked
    ended: *                        ZC011 execution_not_active
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

block for a reason that admission has not
    active: *                       ZC012 execution_not_eligible
    suspended*                      ZC012 execution_not_eligible
    ended: *                        ZC011 execution_not_active
    no such execution               ZN001 execution_not_found
    *                               ZV015 invalid_blocking_reason

unblock
    blocked: dependencies*              ZC012 execution_not_eligible
    blocked: flow cancel            ZC012 execution_not_eligible
    blocked: *                      unblocked -> T32
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

unblock if it waits for a quota
    blocked: quota                  unblocked -> T32
    no such execution               ZN001 execution_not_found
    *                               ZC012 execution_not_eligible

replay
    ended: no replay left           ZS014 max_replays_exhausted
    ended: completed*               ZS037 replay_needs_force
    ended: skipped                  replayed -> T34
    ended: *                        replayed -> T33
    no such execution               ZN001 execution_not_found
    *                               ZS013 execution_not_terminal

replay by force
    ended: no replay left           ZS014 max_replays_exhausted
    ended: skipped                  replayed -> T34
    ended: *                        replayed -> T33
    no such execution               ZN001 execution_not_found
    *                               ZS013 execution_not_terminal

tag
    no such execution               ZN001 execution_not_found
    *                               ok -> T35

tag with a bad key
    no such execution               ZN001 execution_not_found
    *                               ZV005 invalid_tag_key

complete in a batch
    like                            complete

complete in a batch with an older fence
    like                            complete with an older fence

fail in a batch
    like                            fail

fail in a batch with a retry left
    like                            fail with a retry left

renew in a batch
    like                            renew
"""


# What is called


NO_FENCE: Row = {"lease_id": None, "lease_epoch": None, "attempt_id": None}
#: What somebody shows who never had a lease.
INVENTED_FENCE: Row = {"lease_id": UUID(int=5), "lease_epoch": 1, "attempt_id": UUID(int=6)}
ANOTHER_ID = UUID(int=7)


@dataclass(frozen=True)
class Operation:
    """One call about the execution."""

    function: str
    arguments: Row = field(default_factory=dict)
    role: str = "worker"
    #: What it shows of its lease: the latest fence, an older one, half of one, nothing; None if it has none.
    fence: str | None = None
    #: A grant that is there when it is called: kind, pool and what is left of its time.
    grant: tuple[str, str, int] | None = None
    is_batch: bool = False


POOL = {"worker_id": "pool", "worker_instance_id": "pool-1"}
IN_LANE = POOL | {"lane_id": LANE}
LIVE_CLAIM_GRANT = ("claim", "pool", 0)
EXPIRED_CLAIM_GRANT = ("claim", "pool", -1)
LIVE_RECLAIM_GRANT = ("reclaim", "pool", 0)
EXPIRED_RECLAIM_GRANT = ("reclaim", "pool", -1)
OVERRIDE = {"source": "operator_override"}
RETRY = {"max_retries": 5, "backoff": {"type": "fixed", "delay_ms": 500}}
NEW = {"execution_kind": "test", "lane_id": LANE}
BY_OPERATOR = {"reason": "test", "source": "operator_override"}
UNTIL = {"delay_until_ms": NOW_MS + 1}
SUSPENSION = {"resume_condition": "OperatorOnly", "reason_code": "waiting_for_signal"}

OPERATIONS = {
    "create it again": Operation("ff_create_execution", NEW, role="producer"),
    "issue a claim grant": Operation("ff_issue_claim_grant", IN_LANE),
    "issue a claim grant beside a live one": Operation(
        "ff_issue_claim_grant", IN_LANE, grant=("claim", "others", 0)
    ),
    "issue a claim grant after an expired one": Operation(
        "ff_issue_claim_grant", IN_LANE, grant=("claim", "others", -1)
    ),
    "issue a claim grant in another lane": Operation(
        "ff_issue_claim_grant", POOL | {"lane_id": "no-such-lane"}
    ),
    "claim with a grant": Operation("ff_claim_execution", POOL, grant=LIVE_CLAIM_GRANT),
    "claim without a grant": Operation("ff_claim_execution", POOL),
    "claim with the grant of another pool": Operation(
        "ff_claim_execution", POOL, grant=("claim", "others", 0)
    ),
    "claim with a grant to reclaim": Operation("ff_claim_execution", POOL, grant=LIVE_RECLAIM_GRANT),
    "claim with another grant key": Operation(
        "ff_claim_execution", POOL | {"grant_key": "forged"}, grant=LIVE_CLAIM_GRANT
    ),
    "claim with an expired grant": Operation("ff_claim_execution", POOL, grant=EXPIRED_CLAIM_GRANT),
    "resume with a grant": Operation("ff_claim_resumed_execution", POOL, grant=LIVE_CLAIM_GRANT),
    "resume without a grant": Operation("ff_claim_resumed_execution", POOL),
    "take it as an operator": Operation(
        "ff_issue_grant_and_claim", POOL | {"lease_ttl_ms": 1000}, role="operator"
    ),
    "take it as an operator beside a live grant": Operation(
        "ff_issue_grant_and_claim", POOL | {"lease_ttl_ms": 1000}, role="operator", grant=LIVE_CLAIM_GRANT
    ),
    "issue a reclaim grant": Operation("ff_issue_reclaim_grant", POOL),
    "issue a reclaim grant beside a live one": Operation(
        "ff_issue_reclaim_grant", POOL, grant=LIVE_RECLAIM_GRANT
    ),
    "reclaim with a grant": Operation("ff_reclaim_execution", POOL, grant=LIVE_RECLAIM_GRANT),
    "reclaim without a grant": Operation("ff_reclaim_execution", POOL),
    "reclaim with a grant to claim": Operation("ff_reclaim_execution", POOL, grant=LIVE_CLAIM_GRANT),
    "reclaim with an expired grant": Operation("ff_reclaim_execution", POOL, grant=EXPIRED_RECLAIM_GRANT),
    "renew": Operation("ff_renew_lease", fence="latest"),
    "renew without a fence": Operation("ff_renew_lease", fence="nothing"),
    "report progress": Operation("ff_update_progress", {"progress_pct": 50}, fence="latest"),
    "complete": Operation("ff_complete_execution", fence="latest"),
    "complete as an operator": Operation("ff_complete_execution", OVERRIDE, role="operator"),
    "complete with an older fence": Operation("ff_complete_execution", fence="older"),
    "complete with half a fence": Operation("ff_complete_execution", fence="half"),
    "complete without a fence": Operation("ff_complete_execution"),
    "complete as a worker with an override": Operation("ff_complete_execution", OVERRIDE),
    "fail": Operation("ff_fail_execution", {"failure_reason": "test"}, fence="latest"),
    "fail as an operator": Operation("ff_fail_execution", OVERRIDE, role="operator"),
    "fail with a retry left": Operation("ff_fail_execution", {"retry_policy": RETRY}, fence="latest"),
    "fail for good with a retry left": Operation(
        "ff_fail_execution", {"retry_policy": RETRY, "failure_category": "permanent"}, fence="latest"
    ),
    "delay": Operation("ff_delay_execution", UNTIL, fence="latest"),
    "delay as an operator": Operation("ff_delay_execution", UNTIL | OVERRIDE, role="operator"),
    "wait for children": Operation("ff_move_to_waiting_children", fence="latest"),
    "wait for children as an operator": Operation("ff_move_to_waiting_children", OVERRIDE, role="operator"),
    "suspend": Operation("ff_suspend_execution", SUSPENSION, fence="latest"),
    "resume a suspension": Operation("ff_resume_execution", role="operator"),
    "resume a suspension later": Operation("ff_resume_execution", {"resume_delay_ms": 500}, role="operator"),
    "expire a suspension that is due": Operation("ff_expire_suspension", role="operator"),
    "cancel as the holder": Operation("ff_cancel_execution", {"reason": "test"}, fence="latest"),
    "cancel as the holder without a fence": Operation("ff_cancel_execution", {"reason": "test"}),
    "cancel as an operator": Operation("ff_cancel_execution", BY_OPERATOR, role="operator"),
    "cancel as a worker with an override": Operation("ff_cancel_execution", BY_OPERATOR),
    "revoke": Operation("ff_revoke_lease", role="operator"),
    "revoke the lease of another instance": Operation(
        "ff_revoke_lease", {"worker_instance_id": "pool-2"}, role="operator"
    ),
    "revoke another lease": Operation("ff_revoke_lease", {"expected_lease_id": ANOTHER_ID}, role="operator"),
    "mark the lease expired": Operation("ff_mark_lease_expired_if_due", role="operator"),
    "expire": Operation("ff_expire_execution", role="operator"),
    "expire an attempt that is due": Operation("ff_expire_execution", {"require_due": True}, role="operator"),
    "expire an execution that is due": Operation(
        "ff_expire_execution", {"require_due": True, "expire_reason": "execution_deadline"}, role="operator"
    ),
    "change its priority": Operation("ff_change_priority", {"new_priority": 7}, role="operator"),
    "promote": Operation("ff_promote_delayed", role="operator"),
    "block by an operator": Operation(
        "ff_block_execution_for_admission", {"blocking_reason": "paused_by_operator"}, role="operator"
    ),
    "block for a reason that admission has not": Operation(
        "ff_block_execution_for_admission", {"blocking_reason": "paused_by_flow_cancel"}, role="operator"
    ),
    "unblock": Operation("ff_unblock_execution", role="operator"),
    "unblock if it waits for a quota": Operation(
        "ff_unblock_execution", {"expected_blocking_reason": "waiting_for_quota"}, role="operator"
    ),
    "replay": Operation("ff_replay_execution", role="operator"),
    "replay by force": Operation("ff_replay_execution", {"force": True}, role="operator"),
    "tag": Operation("ff_set_execution_tags", {"tags": {"app.run": "7"}}, role="producer"),
    "tag with a bad key": Operation("ff_set_execution_tags", {"tags": {"App": "7"}}, role="producer"),
    "complete in a batch": Operation("ff_complete_executions", fence="latest", is_batch=True),
    "complete in a batch with an older fence": Operation(
        "ff_complete_executions", fence="older", is_batch=True
    ),
    "fail in a batch": Operation("ff_fail_executions", fence="latest", is_batch=True),
    "fail in a batch with a retry left": Operation(
        "ff_fail_executions", {"retry_policies": [RETRY]}, fence="latest", is_batch=True
    ),
    "renew in a batch": Operation("ff_renew_leases", fence="latest", is_batch=True),
}

# Where it is called


#: How each state comes about: operations from above, and steps of their own in `STEPS`.
STATES = {
    "no such execution": (),
    "waiting: first attempt": ("create",),
    "waiting: retry": ("create", "take", "fail with a retry left", "wait 500 ms", "promote"),
    "waiting: replay": ("create", "take", "complete", "replay by force"),
    "waiting: replay, never claimed": ("create", "cancel as an operator", "replay"),
    "waiting: past its deadline": ("create with a deadline", "wait 1 ms"),
    "waiting: paused": ("create", "take", "wait for children"),
    "waiting: paused, resumed": ("create", "take", "suspend", "resume a suspension"),
    "delayed: at creation": ("create with a delay",),
    "delayed: at creation, due": ("create with a delay", "wait 1 ms"),
    "delayed: retry": ("create", "take", "fail with a retry left", "wait 499 ms"),
    "delayed: retry, due": ("create", "take", "fail with a retry left", "wait 500 ms"),
    "delayed: paused by its worker": ("create", "take", "delay"),
    "delayed: paused by its worker, due": ("create", "take", "delay", "wait 1 ms"),
    "delayed: paused until it resumes": ("create", "take", "suspend", "resume a suspension later"),
    "blocked: budget": ("create", "block for waiting_for_budget"),
    "blocked: quota": ("create", "block for waiting_for_quota"),
    "blocked: route": ("create", "block for waiting_for_capable_worker"),
    "blocked: lane": ("create", "block for paused_by_policy"),
    "blocked: operator": ("create", "block by an operator"),
    "blocked: operator, paused": ("create", "take", "wait for children", "block by an operator"),
    "blocked: dependencies": ("create", "get a dependency"),
    "blocked: dependencies, paused": ("create", "take", "get a dependency", "wait for children"),
    "blocked: flow cancel": ("create", "queue for flow cancel"),
    "active: leased": ("create", "take"),
    "active: leased, to the last instant": ("create", "take", "wait 999 ms"),
    "active: leased, with dependencies": ("create", "take", "get a dependency"),
    "active: leased, out of time": ("create with a timeout", "take", "wait 1 ms"),
    "active: leased, taken over": ("create", "take", "wait 1000 ms", "take over"),
    "active: expired": ("create", "take", "wait 1000 ms"),
    "active: expired, at the cap": ("create without reclaims", "take", "wait 1000 ms"),
    "active: expired, backing off": ("create", "take", "wait 1000 ms", "take over", "wait 1000 ms"),
    "active: marked expired": ("create", "take", "wait 1000 ms", "mark the lease expired"),
    "active: revoked": ("create", "take", "revoke"),
    "suspended": ("create", "take", "suspend"),
    "suspended, out of time": ("create", "take", "suspend for an instant", "wait 1 ms"),
    "ended: completed": ("create", "take", "complete"),
    "ended: failed": ("create", "take", "fail"),
    "ended: failed, at the cap": (
        "create without reclaims",
        "take",
        "wait 1000 ms",
        "reclaim without a grant",
    ),
    "ended: cancelled": ("create", "take", "cancel as the holder"),
    "ended: cancelled, never claimed": ("create", "cancel as an operator"),
    "ended: cancelled, replay never claimed": (
        "create",
        "cancel as an operator",
        "replay",
        "cancel as an operator",
    ),
    "ended: expired": ("create", "take", "expire"),
    "ended: skipped": ("create", "get a dependency", "cancel the dependency"),
    "ended: no replay left": ("create without replays", "take", "complete"),
}

EDGE = {"flow_id": FLOW, "edge_id": UUID(int=0xED6E)}
ENDS = {"upstream_execution_id": DEPENDENCY, "downstream_execution_id": EXECUTION}
STEPS: dict[str, tuple[Operation, ...]] = {
    "create": (Operation("ff_create_execution", NEW, role="producer"),),
    "create with a deadline": (
        Operation("ff_create_execution", NEW | {"execution_deadline_at_ms": NOW_MS + 1}, role="producer"),
    ),
    "create with a delay": (
        Operation("ff_create_execution", NEW | {"delay_until_ms": NOW_MS + 1}, role="producer"),
    ),
    "create with a timeout": (
        Operation(
            "ff_create_execution",
            NEW | {"policy": {"timeout_policy": {"attempt_timeout_ms": 1}}},
            role="producer",
        ),
    ),
    "create without reclaims": (
        Operation("ff_create_execution", NEW | {"policy": {"max_reclaim_count": 0}}, role="producer"),
    ),
    "create without replays": (
        Operation("ff_create_execution", NEW | {"policy": {"max_replay_count": 0}}, role="producer"),
    ),
    "take": (OPERATIONS["take it as an operator"],),
    "take over": (
        Operation("ff_issue_reclaim_grant", POOL),
        Operation("ff_reclaim_execution", POOL | {"lease_ttl_ms": 1000}),
    ),
    **{
        f"block for {reason}": (
            Operation("ff_block_execution_for_admission", {"blocking_reason": reason}, role="operator"),
        )
        for reason in (
            "waiting_for_budget",
            "waiting_for_quota",
            "waiting_for_capable_worker",
            "paused_by_policy",
        )
    },
    "get a dependency": (
        Operation("ff_create_flow", {"flow_id": FLOW, "flow_kind": "test"}, role="producer"),
        Operation("ff_create_execution", NEW | {"execution_id": DEPENDENCY}, role="producer"),
        Operation("ff_add_execution_to_flow", {"flow_id": FLOW, "execution_id": DEPENDENCY}, role="producer"),
        Operation("ff_add_execution_to_flow", {"flow_id": FLOW}, role="producer"),
        Operation("ff_stage_dependency_edge", EDGE | ENDS | {"expected_graph_revision": 2}, role="producer"),
        Operation("ff_apply_dependency_to_child", EDGE | ENDS, role="producer"),
    ),
    "suspend for an instant": (
        Operation("ff_suspend_execution", SUSPENSION | {"timeout_in_ms": 1}, fence="latest"),
    ),
    "cancel the dependency": (
        Operation("ff_cancel_execution", BY_OPERATOR | {"execution_id": DEPENDENCY}, role="operator"),
    ),
}


#: Functions that are not about one execution.
FLOW_FUNCTIONS = {"ff_create_flow", "ff_stage_dependency_edge", "ff_apply_dependency_to_child"}


class Scene:
    """The execution in one of the states."""

    def __init__(self, engine: Engine, state: str) -> None:
        self.engine = engine
        self.now_ms = NOW_MS
        self.fence = INVENTED_FENCE
        engine.freeze(NOW_MS)
        key = {"new_kid": "k1", "new_secret_hex": "00" * 32}
        assert not isinstance(engine.call("ff_rotate_waitpoint_hmac_secret", key, role="operator"), Refusal)
        for step in STATES[state]:
            self._take_step(step)

    def call(self, operation: Operation) -> Row | Refusal:
        """Make a call, with the grant that it is about; a refused item of a batch counts as a refusal."""
        answer = self.engine.call(operation.function, self._arguments(operation), role=operation.role)
        if isinstance(answer, Refusal):
            return answer
        row = answer[0]
        if row.get("outcome") == "refused":
            return Refusal(row["sqlstate"], row["code"], row["detail"])
        return row

    def insert_grant(self, kind: str, worker_id: str, remaining_ms: int) -> None:
        """A grant as it might have been left behind by an earlier state."""
        self.engine.execute(
            """
            insert into flowfabric.ff_claim_grant (
                partition_key, execution_id, grant_ttl_ms, issued_at_ms, expires_at_ms, grant_id, kind,
                worker_id, worker_instance_id)
            select
                k.partition_key, k.execution_id, 1000, 0, %(expires_at_ms)s, 'id', %(kind)s,
                %(worker_id)s, 'any'
            from flowfabric.ff_parse_execution_id(%(execution_id)s) as k""",
            {
                "execution_id": EXECUTION,
                "expires_at_ms": self.now_ms + remaining_ms,
                "kind": kind,
                "worker_id": worker_id,
            },
        )

    def _take_step(self, step: str) -> None:
        if step.startswith("wait ") and step.endswith(" ms"):
            self.now_ms += int(step.removeprefix("wait ").removesuffix(" ms"))
            self.engine.freeze(self.now_ms)
            return
        if step == "queue for flow cancel":
            # Only a cancelled flow of very many members leaves some of them to its backlog.
            self.engine.execute(
                """
                update flowfabric.ff_exec_core
                set eligibility_state = 'blocked_by_operator', blocking_reason = 'paused_by_flow_cancel'"""
            )
            return
        for operation in STEPS.get(step) or (OPERATIONS[step],):
            answer = self.call(operation)
            assert not isinstance(answer, Refusal), f"{step}: {answer}"
            if answer.get("outcome") in {"claimed", "reclaimed"}:
                self.fence = {name: answer[name] for name in INVENTED_FENCE}

    def _arguments(self, operation: Operation) -> Row:
        fences: dict[str | None, Row] = {
            None: {},
            "latest": self.fence,
            "older": {**self.fence, "lease_id": ANOTHER_ID},
            "half": {**self.fence, "lease_epoch": None},
            "nothing": NO_FENCE,
        }
        fence = fences[operation.fence]
        if operation.is_batch:
            return {
                "execution_ids": [EXECUTION],
                "lease_ids": [fence["lease_id"]],
                "lease_epochs": [fence["lease_epoch"]],
                "attempt_ids": [fence["attempt_id"]],
                **operation.arguments,
            }
        about = {} if operation.function in FLOW_FUNCTIONS else {"execution_id": EXECUTION}
        return {**about, **fence, **operation.arguments}


# What comes of it


@dataclass(frozen=True)
class Cell:
    """What an operation must do in a state."""

    outcome: str
    reason: str | None = None
    transition: str | None = None
    sqlstate: str | None = None
    leaves_grant: bool = False

    @classmethod
    def parse(cls, text: str) -> Cell:
        first, _, rest = text.partition(" ")
        if len(first) == 5 and first[0] == "Z":
            return cls(outcome=rest, sqlstate=first)
        outcome, _, transition = text.partition(" -> ")
        outcome, has_grant, _ = outcome.partition(" + grant")
        outcome, _, reason = outcome.partition(" (")
        return cls(outcome, reason.removesuffix(")") or None, transition or None, None, bool(has_grant))


def parse_table(text: str) -> dict[str, list[tuple[str, Cell]]]:
    """The lines of each operation: a pattern of state names, and the cell."""
    table: dict[str, list[tuple[str, Cell]]] = {}
    for block in text.strip().split("\n\n"):
        operation, *lines = block.splitlines()
        if lines[0].split(maxsplit=1)[0] == "like":
            table[operation] = table[lines[0].split(maxsplit=1)[1]]
        else:
            pairs = [re.split(r"\s{2,}", line.strip()) for line in lines]
            table[operation] = [(pattern, Cell.parse(cell)) for pattern, cell in pairs]
    return table


CELLS = parse_table(TABLE)


def cell_of(operation: str, state: str) -> Cell:
    return next(cell for pattern, cell in CELLS[operation] if fnmatchcase(state, pattern))


def differences(cell: Cell, answer: Row | Refusal, before: Row | None, after: Row | None) -> list[str]:
    """In what a call differs from its cell; `before` and `after` are all that is stored of the execution."""
    if isinstance(answer, Refusal):
        is_right = (answer.sqlstate, answer.code) == (cell.sqlstate, cell.outcome)
    else:
        is_right = (None, answer.get("outcome", "row")) == (cell.sqlstate, cell.outcome)
        is_right = is_right and (cell.reason is None or answer["reason"] == cell.reason)
    wrong = [] if is_right else [f"answered {answer}"]
    if cell.transition is not None:
        return wrong + transition_differences(TRANSITIONS[cell.transition], before, after)
    if cell.leaves_grant and before is not None and after is not None:
        if after["grant"] is None:
            wrong.append("left no grant")
        before, after = before | {"grant": None}, after | {"grant": None}
    return wrong + (["changed what is stored"] if before != after else [])


def transition_differences(transition: Transition, before: Row | None, after: Row | None) -> list[str]:
    if after is None:
        return ["left nothing"]
    core = after["core"]
    old_core = before["core"] if before else dict.fromkeys([*VECTOR, *COUNTERS], 0)
    expected = [part.strip() for part in transition.after.replace("->", "/").split("/")]
    if expected[5] == "ended":
        expected[5] = "attempt_terminal" if core["total_attempt_count"] else "keep"
    vector = [old_core[name] if part == "keep" else part for name, part in zip(VECTOR, expected, strict=True)]
    counts = {
        name: 0 if name in transition.resets else old_core[name] + transition.counts.get(name, 0)
        for name in COUNTERS
    }
    if vector[0] in {"runnable", "suspended"}:
        counts["lease_reclaim_count"] = 0
    old_attempts = before["attempts"] if before else []
    attempts = [
        transition.attempt
        if attempt["attempt_state"] in {"started", "suspended"} and transition.attempt != "keep"
        else attempt["attempt_state"]
        for attempt in old_attempts
    ]
    attempts += ["started"] * transition.counts.get("total_attempt_count", 0)
    compared = [
        ("vector", vector, [core[name] for name in VECTOR]),
        ("counters", counts, {name: core[name] for name in COUNTERS}),
        ("attempts", attempts, [attempt["attempt_state"] for attempt in after["attempts"]]),
    ]
    return [f"{what} {found} instead of {wanted}" for what, wanted, found in compared if found != wanted]


@pytest.mark.parametrize("state", STATES)
def test_every_operation_does_what_the_specification_says(connect: Connect, state: str) -> None:
    engine = Engine(connect(autocommit=False))
    scene = Scene(engine, state)
    wrong = []
    for name, operation in OPERATIONS.items():
        with engine.scratch():
            if operation.grant and state != "no such execution":
                scene.insert_grant(*operation.grant)
            before = engine.stored().get(EXECUTION)
            answer = scene.call(operation)
            after = engine.stored().get(EXECUTION)
        found = differences(cell_of(name, state), answer, before, after)
        wrong += [f"{name}: {difference}" for difference in found]
    assert not wrong, "\n".join(wrong)


def test_the_table_speaks_of_operations_and_states_that_there_are() -> None:
    assert CELLS.keys() == OPERATIONS.keys()
    patterns = {pattern for lines in CELLS.values() for pattern, _ in lines}
    assert not [pattern for pattern in patterns if not any(fnmatchcase(state, pattern) for state in STATES)]
    transitions = {cell.transition for lines in CELLS.values() for _, cell in lines if cell.transition}
    assert transitions == TRANSITIONS.keys()
