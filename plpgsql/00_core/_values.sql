-- Closed lists: the values that a text parameter may have, stated here and nowhere else. The functions that check a
-- parameter, docs/reference.md and the contract tests read this list.
--
-- Settings, scanners and the streams of ff_wait_for_events have lists of their own, and a parameter named like an enum
-- type has the labels of that type.

-- A name is that of a parameter without p_, or function.parameter where parameters of one name differ. NULL is for any
-- value.
create or replace function flowfabric._ff_closed_values()
returns table (name text, legal_values text[])
language sql immutable parallel safe
as $$
    values
    ('mode', array['offset', 'freeze', 'advance', 'reset']),
    ('source', array['operator_override']),
    ('ff_append_frame.source', null),
    ('ff_cancel_execution.source', array['lease_holder', 'operator_override', 'flow_cascade', 'system_timeout']),
    ('blocking_reason', array[
        'waiting_for_budget', 'waiting_for_quota', 'waiting_for_capable_worker', 'paused_by_operator',
        'paused_by_policy']),
    ('lane_state', array['active', 'paused', 'draining', 'disabled']),
    ('lane_order', array['fair', 'strict', 'global']),
    ('reason_code', array[
        'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
        'waiting_for_operator_review', 'paused_by_policy', 'paused_by_budget', 'step_boundary', 'manual_pause']),
    ('ff_suspend_execution.requested_by', array['worker', 'operator', 'policy', 'system_timeout_policy']),
    ('timeout_behavior', array['fail', 'cancel', 'expire', 'auto_resume_with_timeout_signal', 'escalate']),
    ('resume_target', array['runnable']),
    ('target_scope', array['waitpoint', 'execution']),
    ('trigger', array['operator', 'signal', 'auto_resume']),
    ('cancellation_policy', array['cancel_all', 'cancel_pending', 'flow_only']),
    ('dependency_kind', array['success_only']),
    ('direction', array['incoming', 'outgoing']),
    ('policy_kind', array['all_of', 'any_of', 'quorum']),
    ('on_satisfied', array['cancel_remaining', 'let_run']),
    ('upstream_outcome', array['success', 'failed', 'cancelled', 'expired', 'skipped']),
    ('stream_mode', array['durable', 'summary', 'best_effort']),
    ('patch_kind', array['json-merge-patch']),
    ('visibility', array['all', 'exclude_best_effort']),
    ('stream', array['completion', 'lease', 'signal', 'operator', 'worker']),
    ('where', array['start', 'tail'])
$$;
comment on function flowfabric._ff_closed_values() is
'Internal: the text parameters that have a closed list of values, with the list.';

-- Immutable: with a constant name, a plan has the list in it and not the call.
create or replace function flowfabric._ff_legal_values(p_name text)
returns text[]
language sql immutable parallel safe
as $$
    select v.legal_values from flowfabric._ff_closed_values() as v where v.name = p_name
$$;
comment on function flowfabric._ff_legal_values(text) is
'Internal: the list of that name.';

create or replace function flowfabric._ff_parameter_values(p_function text, p_parameter text)
returns text[]
language sql immutable parallel safe
as $$
    select v.legal_values
    from flowfabric._ff_closed_values() as v
    where v.name in (p_function || '.' || p_parameter, p_parameter)
    order by length(v.name) desc
    limit 1
$$;
comment on function flowfabric._ff_parameter_values(text, text) is
'Internal: the legal values of a parameter of a public function; NULL if it has no closed list.';
