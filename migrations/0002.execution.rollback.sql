drop table if exists flowfabric.ff_execution_idempotency;
drop table if exists flowfabric.ff_claim_grant;
drop table if exists flowfabric.ff_attempt;
drop table if exists flowfabric.ff_exec_note;
drop table if exists flowfabric.ff_exec_payload;
drop table if exists flowfabric.ff_exec_core;
drop function if exists flowfabric._ff_state_is_legal(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_ownership_state, flowfabric.ff_eligibility_state,
    flowfabric.ff_blocking_reason, flowfabric.ff_terminal_outcome, flowfabric.ff_attempt_state, uuid, text, text,
    bigint, bigint, bigint, uuid, integer, bigint, integer, integer, integer, integer, integer);
drop function if exists flowfabric._ff_broken_state_rule(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_ownership_state, flowfabric.ff_eligibility_state,
    flowfabric.ff_blocking_reason, flowfabric.ff_terminal_outcome, flowfabric.ff_attempt_state, uuid, text, text,
    bigint, bigint, bigint, uuid, integer, bigint, integer, integer, integer, integer, integer);
drop function if exists flowfabric._ff_public_state(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_terminal_outcome, flowfabric.ff_eligibility_state);
delete from flowfabric.ff_migration_annotation where version = 2;
