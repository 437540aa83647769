-- Undoes 0002.execution. All executions are lost.
-- Functions and views that use these tables go with them; the installer loads them again.
drop table if exists flowfabric.ff_execution_idempotency cascade;
drop table if exists flowfabric.ff_claim_grant cascade;
drop table if exists flowfabric.ff_attempt cascade;
drop table if exists flowfabric.ff_exec_note cascade;
drop table if exists flowfabric.ff_exec_payload cascade;
drop table if exists flowfabric.ff_exec_core cascade;
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
