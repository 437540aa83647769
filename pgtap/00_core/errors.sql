-- The error catalogue and the one way to raise: every code, and what an error looks like from outside.
begin;
\ir ../helpers.sql
select plan(35);

-- The contract, written out: a number is stable for ever, so a difference here is a broken promise.
create temporary table contract (code text, sqlstate text, retry_class text) on commit drop;
insert into contract values
    ('execution_not_found', 'ZN001', 'terminal'),
    ('flow_not_found', 'ZN002', 'terminal'),
    ('attempt_not_found', 'ZN003', 'terminal'),
    ('budget_not_found', 'ZN004', 'terminal'),
    ('quota_policy_not_found', 'ZN005', 'terminal'),
    ('stream_not_found', 'ZN006', 'expected'),
    ('reservation_not_found', 'ZN007', 'terminal'),
    ('invalid_input', 'ZV001', 'terminal'),
    ('capability_mismatch', 'ZV002', 'retryable'),
    ('invalid_capabilities', 'ZV003', 'terminal'),
    ('invalid_policy_json', 'ZV004', 'terminal'),
    ('invalid_tag_key', 'ZV005', 'terminal'),
    ('payload_too_large', 'ZV006', 'terminal'),
    ('signal_limit_exceeded', 'ZV007', 'terminal'),
    ('invalid_waitpoint_key', 'ZV008', 'terminal'),
    ('invalid_token', 'ZV009', 'terminal'),
    ('waitpoint_not_token_bound', 'ZV010', 'terminal'),
    ('retention_limit_exceeded', 'ZV011', 'terminal'),
    ('invalid_lease_for_suspend', 'ZV012', 'terminal'),
    ('invalid_dependency', 'ZV013', 'terminal'),
    ('invalid_waitpoint_for_execution', 'ZV014', 'terminal'),
    ('invalid_blocking_reason', 'ZV015', 'terminal'),
    ('invalid_offset', 'ZV016', 'retryable'),
    ('unauthorized', 'ZV017', 'terminal'),
    ('invalid_budget_scope', 'ZV018', 'terminal'),
    ('budget_override_not_allowed', 'ZV019', 'terminal'),
    ('invalid_quota_spec', 'ZV020', 'terminal'),
    ('invalid_kid', 'ZV021', 'terminal'),
    ('invalid_secret_hex', 'ZV022', 'terminal'),
    ('invalid_grace_ms', 'ZV023', 'terminal'),
    ('invalid_frame_type', 'ZV024', 'soft_error'),
    ('handle_from_other_backend', 'ZV025', 'terminal'),
    ('fence_required', 'ZV026', 'terminal'),
    ('partial_fence_triple', 'ZV027', 'terminal'),
    ('invalid_args', 'ZV028', 'terminal'),
    ('missing_token', 'ZV029', 'terminal'),
    ('token_expired', 'ZV030', 'terminal'),
    ('additional_waitpoint_binding_malformed', 'ZV031', 'terminal'),
    ('use_pending_with_extras_unsupported', 'ZV032', 'terminal'),
    ('invalid_resume_condition', 'ZV033', 'terminal'),
    ('use_claim_resumed_execution', 'ZC001', 'retryable'),
    ('not_a_resumed_execution', 'ZC002', 'retryable'),
    ('execution_not_leaseable', 'ZC003', 'retryable'),
    ('lease_conflict', 'ZC004', 'retryable'),
    ('invalid_claim_grant', 'ZC005', 'retryable'),
    ('claim_grant_expired', 'ZC006', 'retryable'),
    ('no_eligible_execution', 'ZC007', 'retryable'),
    ('waitpoint_not_found', 'ZC008', 'retryable'),
    ('waitpoint_pending_use_buffer_script', 'ZC009', 'retryable'),
    ('stale_graph_revision', 'ZC010', 'retryable'),
    ('execution_not_active', 'ZC011', 'terminal'),
    ('execution_not_eligible', 'ZC012', 'informational'),
    ('execution_not_in_eligible_set', 'ZC013', 'informational'),
    ('execution_not_reclaimable', 'ZC014', 'informational'),
    ('no_active_lease', 'ZC015', 'informational'),
    ('rate_limit_exceeded', 'ZC016', 'retryable'),
    ('concurrency_limit_exceeded', 'ZC017', 'retryable'),
    ('retry_exhausted', 'ZC018', 'retryable'),
    ('completion_dispatch_pending', 'ZC019', 'retryable'),
    ('flow_membership_changed', 'ZC020', 'retryable'),
    ('dependency_already_exists', 'ZK001', 'terminal'),
    ('cycle_detected', 'ZK002', 'terminal'),
    ('self_referencing_edge', 'ZK003', 'terminal'),
    ('execution_already_in_flow', 'ZK004', 'terminal'),
    ('waitpoint_already_exists', 'ZK005', 'informational'),
    ('budget_attach_conflict', 'ZK006', 'terminal'),
    ('quota_attach_conflict', 'ZK007', 'terminal'),
    ('rotation_conflict', 'ZK008', 'terminal'),
    ('active_attempt_exists', 'ZK009', 'bug'),
    ('already_member_of_different_flow', 'ZK010', 'terminal'),
    ('stale_lease', 'ZS001', 'terminal'),
    ('lease_expired', 'ZS002', 'terminal'),
    ('lease_revoked', 'ZS003', 'terminal'),
    ('execution_not_suspended', 'ZS004', 'informational'),
    ('already_suspended', 'ZS005', 'informational'),
    ('waitpoint_closed', 'ZS006', 'informational'),
    ('target_not_signalable', 'ZS007', 'terminal'),
    ('duplicate_signal', 'ZS008', 'informational'),
    ('resume_condition_not_met', 'ZS009', 'terminal'),
    ('waitpoint_not_pending', 'ZS010', 'informational'),
    ('pending_waitpoint_expired', 'ZS011', 'informational'),
    ('waitpoint_not_open', 'ZS012', 'informational'),
    ('execution_not_terminal', 'ZS013', 'terminal'),
    ('max_replays_exhausted', 'ZS014', 'terminal'),
    ('stream_closed', 'ZS015', 'terminal'),
    ('stale_owner_cannot_append', 'ZS016', 'terminal'),
    ('grant_already_exists', 'ZS017', 'informational'),
    ('execution_not_in_flow', 'ZS018', 'terminal'),
    ('flow_already_terminal', 'ZS019', 'terminal'),
    ('deps_not_satisfied', 'ZS020', 'informational'),
    ('not_blocked_by_deps', 'ZS021', 'informational'),
    ('not_runnable', 'ZS022', 'terminal'),
    ('terminal', 'ZS023', 'terminal'),
    ('budget_exceeded', 'ZS024', 'cooperative'),
    ('budget_soft_exceeded', 'ZS025', 'informational'),
    ('ok_already_applied', 'ZS026', 'informational'),
    ('attempt_not_started', 'ZS027', 'terminal'),
    ('attempt_already_terminal', 'ZS028', 'informational'),
    ('execution_not_eligible_for_attempt', 'ZS029', 'terminal'),
    ('replay_not_allowed', 'ZS030', 'terminal'),
    ('max_retries_exhausted', 'ZS031', 'terminal'),
    ('stream_already_closed', 'ZS032', 'informational'),
    ('already_satisfied', 'ZS033', 'informational'),
    ('lane_not_accepting', 'ZS034', 'terminal'),
    ('event_cursor_expired', 'ZS035', 'terminal'),
    ('reservation_not_open', 'ZS036', 'terminal'),
    ('replay_needs_force', 'ZS037', 'terminal'),
    ('corruption', 'ZX001', 'terminal'),
    ('invariant_violation', 'ZX002', 'terminal'),
    ('invalid_secret', 'ZX003', 'terminal'),
    ('unavailable', 'ZU001', 'terminal'),
    ('hmac_secret_not_initialized', 'ZU002', 'terminal'),
    ('schema_version_mismatch', 'ZU003', 'terminal'),
    ('partition_config_mismatch', 'ZU004', 'terminal'),
    ('read_only_server', 'ZU005', 'terminal'),
    ('attempt_not_in_created_state', 'ZB001', 'bug'),
    ('invalid_keys_missing_hmac', 'ZB002', 'bug'),
    ('internal_error', 'ZB003', 'bug');

create temporary table category (sqlstate_class text, category text) on commit drop;
insert into category values
    ('ZN', 'NotFound'), ('ZV', 'Validation'), ('ZC', 'Contention'), ('ZK', 'Conflict'),
    ('ZS', 'State'), ('ZX', 'Corruption'), ('ZU', 'Unavailable'), ('ZB', 'Bug');

create type pg_temp.raised_error as (sqlstate text, message text, detail text, hint text);

-- What a caller sees of _ff_raise.
create function pg_temp.raised(p_code text, p_fn text, p_detail jsonb)
returns pg_temp.raised_error
language plpgsql volatile
as $$
declare
    v_raised pg_temp.raised_error;
begin
    perform flowfabric._ff_raise(p_code, p_fn, p_detail);
    return null;
exception
    when others then
        get stacked diagnostics
            v_raised.sqlstate = returned_sqlstate,
            v_raised.message = message_text,
            v_raised.detail = pg_exception_detail,
            v_raised.hint = pg_exception_hint;
        return v_raised;
end;
$$;

-- Whether a PL/pgSQL handler for the state catches the code. Handlers are static, hence the composed block.
create function pg_temp.is_caught_by(p_code text, p_sqlstate text)
returns boolean
language plpgsql volatile
as $$
begin
    execute format(
        'do $do$ begin perform flowfabric._ff_raise(%L, %L); exception when sqlstate %L then null; end $do$',
        p_code, 'ff_test', p_sqlstate);
    return true;
exception
    when others then
        if sqlerrm <> p_code then
            raise;
        end if;
        return false;
end;
$$;

-- The catalogue

select is((select count(*) from contract), 118::bigint, 'the contract has 118 codes');
select bag_eq(
    'select code, sqlstate, retry_class from flowfabric.ff_list_error_codes()',
    'select code, sqlstate, retry_class from contract',
    'the catalogue is the contract, code by code');
select results_eq(
    'select sqlstate from flowfabric.ff_list_error_codes()',
    'select sqlstate from contract order by sqlstate collate "C"',
    'it is listed by SQLSTATE');
select bag_eq(
    'select code, category from flowfabric.ff_list_error_codes()',
    'select k.code, c.category from contract as k join category as c on c.sqlstate_class = left(k.sqlstate, 2)',
    'the SQLSTATE class is the category');
select is_empty(
    $$ select code from flowfabric.ff_list_error_codes()
       where sqlstate !~ '^Z[NVCKSXUB][0-9]{3}$' or sqlstate ~ '000$' $$,
    'every SQLSTATE is of our classes, and none is a category state');
select is_empty(
    'select sqlstate from flowfabric.ff_list_error_codes() group by sqlstate having count(*) > 1',
    'no SQLSTATE is used twice');
select is_empty(
    $$ select code from flowfabric.ff_list_error_codes() where hint !~ '^[A-Z][^\n]*[.]$' $$,
    'every hint is a sentence on one line');

select function_privs_are(
    'flowfabric', 'ff_list_error_codes', '{}'::text[], r.role_name, array['EXECUTE'],
    r.role_name || ' may list the catalogue')
from unnest(array[
    'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator',
    'flowfabric_reader', 'flowfabric_admin']) as r (role_name);
select table_privs_are(
    'flowfabric', 'ff_error_code', r.role_name, '{}'::text[],
    r.role_name || ' has no privilege on the table')
from unnest(array[
    'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator',
    'flowfabric_reader', 'flowfabric_admin']) as r (role_name);

set local role flowfabric_signaller;
select count(*) as listed from flowfabric.ff_list_error_codes() \gset
reset role;
select is(:listed, 118, 'a role without table privileges lists all of it');

-- What an error looks like

create temporary table seen on commit drop as
select k.code, r.sqlstate, r.message, r.detail, r.hint
from contract as k
cross join lateral pg_temp.raised(k.code, 'ff_test', '{"known": 1, "unknown": null}') as r;

select bag_eq(
    'select message, sqlstate from seen',
    'select code, sqlstate from contract',
    'every code is raised with its SQLSTATE, and the message is the code alone');
select is_empty(
    $$ select code from seen
       where detail::jsonb <> jsonb_build_object('code', code, 'fn', 'ff_test', 'known', 1) $$,
    'every DETAIL is a JSON object with code, fn and the known fields, and nothing else');
select bag_eq(
    'select code, hint from seen',
    'select code, hint from flowfabric.ff_list_error_codes()',
    'every HINT is the sentence of the catalogue');
select is_empty(
    $$ select k.code
       from contract as k
       cross join category as c
       where pg_temp.is_caught_by(k.code, c.sqlstate_class || '000') <> (left(k.sqlstate, 2) = c.sqlstate_class) $$,
    'the 000 state of a category catches every code of that category and none of another');

select throws_ok(
    $$ select flowfabric._ff_raise('stale_lease', 'ff_renew_lease') $$,
    'ZS001', 'stale_lease', 'an error without facts needs no detail argument');
select is(
    (pg_temp.raised('stale_lease', 'ff_renew_lease', null)).detail::jsonb,
    '{"code": "stale_lease", "fn": "ff_renew_lease"}', 'a null detail is no detail');
select is(
    (pg_temp.raised('stale_lease', 'ff_renew_lease', '{"code": "invalid_input", "fn": "_ff_check_fence"}')
    ).detail::jsonb,
    '{"code": "stale_lease", "fn": "ff_renew_lease"}', 'no field of the caller replaces code or fn');
select unalike(
    (pg_temp.raised('invalid_input', 'ff_test', jsonb_build_object('value', E'two\nlines'))).detail,
    E'%\n%', 'DETAIL is one line whatever the values hold');
select is(
    (pg_temp.raised('dependency_already_exists', 'ff_test', '{"existing": {"kind": "a", "data_passing_ref": null}}')
    ).detail::jsonb -> 'existing',
    '{"kind": "a"}', 'an unknown field of a nested object is left out too');
select is(
    (pg_temp.raised('stale_lease', 'ff_test', '{"mismatch": [], "lease_epoch": 0, "text": "", "flag": false}')
    ).detail::jsonb - 'code' - 'fn',
    '{"mismatch": [], "lease_epoch": 0, "text": "", "flag": false}', 'only nulls are left out');

-- A code that does not exist

select is(
    row_to_json(pg_temp.raised('no_such_code', 'ff_test', '{"execution_id": "x"}'))::jsonb - 'hint' - 'detail',
    '{"sqlstate": "ZB003", "message": "internal_error"}', 'an unknown code is an internal error');
select is(
    (pg_temp.raised('no_such_code', 'ff_test', '{"execution_id": "x"}')).detail::jsonb,
    '{"code": "internal_error", "fn": "ff_test", "reason": "no_such_code"}', 'which names the unknown code');
select is(
    (pg_temp.raised(null, 'ff_test', '{}')).detail::jsonb ->> 'code',
    'internal_error', 'no code at all is an internal error too');

-- The same for the row of a batch item

select bag_eq(
    $$ select code, flowfabric._ff_error_sqlstate(code),
              flowfabric._ff_error_detail(code, 'ff_test', '{"known": 1, "unknown": null}')
       from contract $$,
    'select code, sqlstate, detail::jsonb from seen',
    'an item carries the SQLSTATE and the detail that the single call would raise');
select is(flowfabric._ff_error_sqlstate('no_such_code'), 'ZB003', 'and those of internal_error for an unknown code');

select * from finish();
rollback;
