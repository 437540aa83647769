-- What the end of a member means for the rest of its flow, in the same call: spec 30, sections 1.5 to 1.7 and 3.
begin;
\ir helpers.sql
select plan(78);

-- A chain: the child can be claimed in the commit that ends its upstream.
select ff_tap.freeze_time(1000);
select ff_tap.flow(6);
select ff_tap.connect(array[n], n + 1) from generate_series(1, 5) as n;
select ff_tap.freeze_time(2000);
select ff_tap.finish(1);
select is(ff_tap.states(1, 2, 3), 'completed waiting waiting_children', 'a success lets the next one go');
select is(
    (select row(e.blocking_detail, e.last_transition_at_ms, e.delay_until_ms) from ff_tap.core(ff_tap.m(2)) as e),
    row(null::text, 2000::bigint, null::bigint), 'nothing of the wait is left');
select is(
    ff_tap.edge(1, 2) || ', ' || ff_tap.edge_group(2),
    'satisfied/success@2000, all_of of 1: 1 ok, 0 failed, 0 skipped, satisfied@2000', 'edge and join are decided');
select is(ff_tap.outbox(), '{}', 'nothing is left for the dispatcher');
select ff_tap.finish(2, 'failed');
select is(ff_tap.states(3, 4, 5, 6), 'skipped skipped skipped skipped', 'a failure skips all that depend on it');
select is(
    ff_tap.vector(ff_tap.m(3)), 'terminal / unowned / not_applicable / none / skipped / none -> skipped',
    'one that never ran has no attempt');
select is((ff_tap.core(ff_tap.m(6))).terminal_at_ms, 2000::bigint, 'all at the same instant');
select is(ff_tap.completions(ff_tap.m(6)), array['skipped'], 'each with a completion event');
select is(
    ff_tap.edge_group(3) || ', ' || ff_tap.edge_group(6),
    'all_of of 1: 0 ok, 1 failed, 0 skipped, impossible@2000, all_of of 1: 0 ok, 0 failed, 1 skipped, impossible@2000',
    'a failure and a skip are counted apart');
select is(ff_tap.lease_events(ff_tap.m(3)), '{}', 'no lease changed hands');

-- Every end that is not a success is a loss.
select ff_tap.flow(8, 11);
select ff_tap.connect(array[n], n + 4) from generate_series(11, 14) as n;
select ff_tap.finish(11, 'failed');
select ff_tap.finish(12, 'cancelled');
select ff_tap.finish(13, 'expired');
select is(ff_tap.states(15, 16, 17, 18), 'skipped skipped skipped waiting_children', 'failed, cancelled, expired');
select is(
    ff_tap.edge(11, 15) || ' ' || ff_tap.edge(12, 16) || ' ' || ff_tap.edge(13, 17),
    'impossible/failed@2000 impossible/cancelled@2000 impossible/expired@2000', 'the edges keep how it was');

-- all_of
select ff_tap.flow(4, 21);
select ff_tap.connect('{21, 22, 23}', 24);
select ff_tap.finish(22);
select ff_tap.finish(21);
select is(ff_tap.states(24), 'waiting_children', 'an all_of waits for the last');
select ff_tap.finish(23);
select is(
    ff_tap.states(24) || ', ' || ff_tap.edge_group(24),
    'waiting, all_of of 3: 3 ok, 0 failed, 0 skipped, satisfied@2000', 'and is satisfied with it');
select ff_tap.flow(4, 25);
select ff_tap.connect('{25, 26, 27}', 28);
select ff_tap.finish(25);
select ff_tap.finish(26, 'failed');
select is(ff_tap.states(27, 28), 'waiting skipped', 'the first loss decides it, and nobody else is touched');
select ff_tap.freeze_time(2500);
select ff_tap.finish(27);
select is(
    ff_tap.states(28) || ', ' || ff_tap.edge_group(28),
    'skipped, all_of of 3: 2 ok, 1 failed, 0 skipped, impossible@2000',
    'a later success changes the count, not the verdict');
select ff_tap.freeze_time(2000);

-- any_of
select ff_tap.flow(4, 31);
select ff_tap.join(34, 'any_of', 'let_run');
select ff_tap.connect('{31, 32, 33}', 34);
select ff_tap.finish(31, 'failed');
select is(ff_tap.states(34), 'waiting_children', 'a loss leaves an any_of open');
select ff_tap.finish(32);
select is(ff_tap.states(33, 34), 'waiting waiting', 'the first success decides it; let_run touches nobody');
select ff_tap.claim(34);
select ff_tap.freeze_time(2500);
select ff_tap.finish(33);
select is(
    ff_tap.vector(ff_tap.m(34)) || ', ' || ff_tap.edge_group(34),
    'active / leased / not_applicable / none / none / running_attempt -> active,'
    ' any_of(1) of 3: 2 ok, 1 failed, 0 skipped, satisfied@2000',
    'a later success is counted and does not start the child again');
select ff_tap.freeze_time(2000);
select ff_tap.flow(4, 35);
select ff_tap.join(38, 'any_of', 'let_run');
select ff_tap.connect('{35, 36, 37}', 38);
select ff_tap.finish(35, 'failed');
select ff_tap.finish(36, 'expired');
select is(ff_tap.states(38), 'waiting_children', 'an any_of waits for its last chance');
select ff_tap.finish(37, 'cancelled');
select is(
    ff_tap.states(38) || ', ' || ff_tap.edge_group(38),
    'skipped, any_of(1) of 3: 0 ok, 3 failed, 0 skipped, impossible@2000', 'and is impossible without it');

-- quorum
select ff_tap.flow(6, 41);
select ff_tap.join(46, 'quorum', 'let_run', 3);
select ff_tap.connect('{41, 42, 43, 44, 45}', 46);
select ff_tap.finish(n) from generate_series(41, 42) as n;
select ff_tap.finish(43, 'failed');
select is(ff_tap.states(46), 'waiting_children', 'a quorum of three waits for the third');
select ff_tap.finish(44);
select is(ff_tap.states(45, 46), 'waiting waiting', 'and is satisfied with it');
select ff_tap.flow(8, 51);
select ff_tap.join(54, 'quorum', 'let_run', 3);
select ff_tap.connect('{51, 52, 53}', 54);
select ff_tap.connect('{54, 55}', 56);
select ff_tap.join(57, 'any_of', 'let_run');
select ff_tap.connect('{54, 55}', 57);
select ff_tap.finish(51, 'failed');
select is(
    ff_tap.states(52, 53, 54, 55, 56, 57), 'waiting waiting skipped waiting skipped waiting_children',
    'a skip goes on until it meets a join that can still be satisfied');
select ff_tap.finish(55);
select is(ff_tap.states(57), 'waiting', 'which it then is');

-- cancel_remaining
select ff_tap.flow(9, 61);
select ff_tap.join(64, 'any_of', 'cancel_remaining');
select ff_tap.connect('{61, 62, 63}', 64);
select ff_tap.connect('{62, 65}', 66);
select ff_tap.stage(67, 64);
select ff_tap.claim(62);
select ff_tap.burden(ff_tap.m(62));
select ff_tap.finish(61);
select is(
    ff_tap.states(61, 62, 63, 64, 67), 'completed cancelled cancelled waiting cancelled',
    'a join that fires cancels its other upstreams, those of staged edges too');
select is(
    (select row(n.cancellation_reason, n.cancelled_by) from ff_tap.note(ff_tap.m(63)) as n),
    row('sibling_quorum_satisfied'::text, 'operator_override'::text), 'which know why');
select is(
    ff_tap.lease_events(ff_tap.m(62)), array['acquired:issue_grant_and_claim', 'released:cancelled'],
    'one that ran has lost its lease');
select is(
    ff_tap.burden_of(ff_tap.m(62)), 'slot free, released:lease_released, 0 open, stream attempt_cancelled@2000',
    'and given back what it held');
select is(
    ff_tap.states(65, 66) || ', ' || ff_tap.edge_group(66),
    'waiting skipped, all_of of 2: 0 ok, 1 failed, 0 skipped, impossible@2000', 'its own children see a loss');
select is(
    ff_tap.edge_group(64), 'any_of(1) of 3: 1 ok, 2 failed, 0 skipped, satisfied@2000',
    'the cancelled ones are counted, and the verdict stands');
select ff_tap.flow(6, 71);
select ff_tap.join(75, 'quorum', 'cancel_remaining', 3);
select ff_tap.connect('{71, 72, 73, 74}', 75);
select ff_tap.finish(71, 'failed');
select is(ff_tap.states(72, 73, 74), 'waiting waiting waiting', 'one loss of four leaves a quorum of three open');
select ff_tap.finish(72, 'failed');
select is(ff_tap.states(73, 74, 75), 'cancelled cancelled skipped', 'the second one ends it for everybody');
select is(
    (select n.cancellation_reason from ff_tap.note(ff_tap.m(73)) as n), 'sibling_quorum_impossible',
    'with the other reason');

-- The child in every phase
select ff_tap.flow(1, 81);
select ff_tap.flow(2, 82);
select ff_tap.claim(82);
select ff_tap.burden(ff_tap.m(82));
select ff_tap.suspended_execution(ff_tap.m(84));
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(84));
select ff_tap.claim(83);
select flowfabric.ff_move_to_waiting_children(ff_tap.m(83), p_source => 'operator_override');
select ff_tap.flow(2, 85);
select flowfabric.ff_issue_claim_grant(ff_tap.m(85), 'worker', 'worker-1', 'default');
select ff_tap.connect('{81}', n) from generate_series(82, 85) as n;
select ff_tap.finish(86, 'failed');
select ff_tap.connect('{81}', 86);
select ff_tap.freeze_time(3000);
select ff_tap.finish(81, 'failed');
select is(ff_tap.states(82, 83, 84, 85, 86), 'skipped skipped skipped skipped failed', 'whatever the child is doing');
select is(
    ff_tap.vector(ff_tap.m(82)),
    'terminal / unowned / not_applicable / none / skipped / attempt_terminal -> skipped', 'one that ran');
select is(
    (select row(a.attempt_state, a.ended_at_ms, a.failure_reason) from ff_tap.attempt(ff_tap.m(82)) as a),
    row('ended_cancelled'::flowfabric.ff_attempt_row_state, 3000::bigint, 'dependency_impossible'::text),
    'its attempt ends');
select is(
    ff_tap.lease_events(ff_tap.m(82)), array['acquired:issue_grant_and_claim', 'released:dependency_impossible'],
    'its lease is released');
select is(
    ff_tap.burden_of(ff_tap.m(82)), 'slot free, released:lease_released, 0 open, stream dependency_impossible@3000',
    'slot, reservation and stream are given back');
select is((ff_tap.core(ff_tap.m(82))).current_lease_epoch, 1::bigint, 'its epoch stays');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_complete_execution(%L, %L, 1, %L)', ff_tap.m(82), ff_tap.lease_id(), ff_tap.attempt_id()))
    - array['fn', 'lease_epoch', 'attempt_id'],
    jsonb_build_object(
        'code', 'execution_not_active', 'execution_id', ff_tap.m(82), 'lifecycle_phase', 'terminal',
        'terminal_outcome', 'skipped', 'attempt_state', 'attempt_terminal'),
    'its worker learns of it at the next call');
select is(
    ff_tap.vector(ff_tap.m(83)) || ', ' || (ff_tap.attempt(ff_tap.m(83))).attempt_state::text,
    'terminal / unowned / not_applicable / none / skipped / attempt_terminal -> skipped, ended_cancelled',
    'one whose attempt was paused');
select is(
    ff_tap.suspension_of(ff_tap.m(84)),
    'suspension dependency_impossible@3000 by nobody, satisfied never, 2 of 2 waitpoints closed, 0 satisfiers',
    'one that slept');
select is_empty('select from flowfabric.ff_claim_grant', 'one that was granted to a worker');
select is(ff_tap.completions(ff_tap.m(86)), array['failed'], 'one that had ended is left alone');
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u), 0::bigint, 'the budget has everything back');

-- A delay, and a paused attempt, are not lost by the wait.
select ff_tap.flow(2, 91);
select ff_tap.execution(ff_tap.m(93), p_delay_until_ms => 5000);
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(93));
select ff_tap.connect('{91}', 93);
select ff_tap.claim(92);
select ff_tap.connect('{91}', 92);
select flowfabric.ff_move_to_waiting_children(ff_tap.m(92), p_source => 'operator_override');
select ff_tap.finish(91);
select is(
    ff_tap.vector(ff_tap.m(93)) || ' ' || (ff_tap.core(ff_tap.m(93))).blocking_detail,
    'runnable / unowned / not_eligible_until_time / waiting_for_delay / none / pending_first_attempt -> delayed'
    ' until=5000', 'a child goes on waiting for its time');
select is(
    ff_tap.vector(ff_tap.m(92)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'a paused attempt goes on');

-- Data passing
select ff_tap.flow(12, 101, 'own');
select ff_tap.connect('{101, 102}', 103, 'ref');
select ff_tap.finish(102, 'success', 'second');
select is(ff_tap.payload(103), 'second/text', 'a result is passed on as soon as it is there');
select ff_tap.finish(101, 'success', 'first');
select is(ff_tap.payload(103), 'first/text', 'of an all_of the last one stays');
select ff_tap.join(106, 'quorum', 'let_run', 2);
select ff_tap.connect('{104, 105, 107}', 106, 'ref');
select ff_tap.finish(105, 'success', 'one');
select is(ff_tap.payload(106), 'own', 'a quorum takes nothing before it is reached');
select ff_tap.finish(104, 'success', 'two');
select is(ff_tap.payload(106), 'two/text', 'but the result that reaches it');
select ff_tap.finish(107, 'success', 'three');
select is(ff_tap.payload(106), 'two/text', 'and none after it');
select ff_tap.connect('{108}', 109);
select ff_tap.finish(108, 'success', 'unwanted');
select is(ff_tap.payload(109), 'own', 'without a reference nothing is passed');
select ff_tap.connect('{110}', 111, 'ref');
select ff_tap.finish(110, 'success');
select is(ff_tap.payload(111), 'own', 'nor without a result');

-- The limits of a call
select ff_tap.setting('max_sync_edges', 2);
select ff_tap.flow(5, 121);
select ff_tap.connect('{121}', n) from generate_series(122, 123) as n;
select ff_tap.connect('{122}', 124);
select ff_tap.connect('{123}', 125);
select ff_tap.finish(121, 'failed');
select is(
    ff_tap.states(122, 123, 124, 125), 'skipped skipped waiting_children waiting_children',
    'a fan-out of as many edges as allowed is resolved');
select is(ff_tap.outbox(), '{122, 123}', 'the levels below are left to the dispatcher');
select flowfabric.ff_dispatch_dependencies();
select is(ff_tap.states(124, 125), 'skipped skipped', 'which goes on from there');
select ff_tap.flow(4, 131);
select ff_tap.connect('{131}', n) from generate_series(132, 134) as n;
select ff_tap.finish(131);
select is(
    ff_tap.states(132, 133, 134) || ' ' || ff_tap.outbox()::text,
    'waiting_children waiting_children waiting_children {131}', 'a larger one is left as a whole');
select flowfabric.ff_dispatch_dependencies();
select ff_tap.setting('max_sync_edges', null);
select ff_tap.setting('max_sync_depth', 1);
select ff_tap.flow(5, 141);
select ff_tap.connect(array[n], n + 1) from generate_series(141, 144) as n;
select ff_tap.finish(141, 'failed');
select is(
    ff_tap.states(142, 143, 144, 145) || ' ' || ff_tap.outbox()::text,
    'skipped skipped waiting_children waiting_children {143}', 'levels are counted from the one that ended');
select flowfabric.ff_dispatch_dependencies();
select is(ff_tap.states(144, 145), 'skipped skipped', 'the dispatcher takes the rest');
select ff_tap.setting('max_sync_depth', null);
select ff_tap.setting('max_sync_cancels', 2);
select ff_tap.flow(8, 151);
select ff_tap.join(153, 'any_of', 'cancel_remaining');
select ff_tap.join(157, 'any_of', 'cancel_remaining');
select ff_tap.connect('{151, 152}', 153);
select ff_tap.connect('{151, 154, 155}', 157);
select ff_tap.finish(151);
select is(
    ff_tap.states(152, 154, 155), 'cancelled waiting waiting',
    'cancels are counted over the joins of a call, and those of one join are not torn apart');
select is(
    (select g.cancel_siblings_pending_members from flowfabric.ff_edge_group as g
     where g.downstream_eid = ff_tap.eid(157)),
    array[ff_tap.eid(154), ff_tap.eid(155)], 'what is too much is listed');
select flowfabric.ff_dispatch_sibling_cancels();
select is(ff_tap.states(154, 155), 'cancelled cancelled', 'for the dispatcher');
select ff_tap.setting('max_sync_cancels', null);

-- The limits count for a whole batch.
create function ff_tap.complete_all(p_numbers integer[])
returns text
language sql volatile
as $$
    select string_agg(c.outcome || coalesce(':' || c.code, ''), ' ' order by c.item)
    from flowfabric.ff_complete_executions(
        array(select ff_tap.m(n) from unnest(p_numbers) as n),
        array(select ff_tap.lease_id() from unnest(p_numbers)),
        array(select 1::bigint from unnest(p_numbers)),
        array(select ff_tap.attempt_id() from unnest(p_numbers))) as c
$$;
select ff_tap.setting('max_sync_edges', 3);
select ff_tap.flow(10, 161);
select ff_tap.connect('{161}', 165);
select ff_tap.connect('{161}', 166);
select ff_tap.connect('{162}', 167);
select ff_tap.connect('{162}', 168);
select ff_tap.connect('{163}', 169);
select ff_tap.claim(n) from generate_series(161, 163) as n;
select is(ff_tap.complete_all('{162, 161, 163}'), 'completed completed completed', 'members end in one batch');
select is(
    ff_tap.states(165, 166, 167, 168, 169) || ' ' || ff_tap.outbox()::text,
    'waiting_children waiting_children waiting waiting waiting {161}',
    'the first two edges, then two that are one too many, then one that just fits');
select flowfabric.ff_dispatch_dependencies();
select ff_tap.setting('max_sync_edges', null);
select ff_tap.flow(4, 171);
select ff_tap.join(174, 'any_of', 'cancel_remaining');
select ff_tap.connect('{171, 172, 173}', 174);
select ff_tap.claim(n) from generate_series(171, 173) as n;
select is(
    ff_tap.complete_all('{172, 171, 173}'),
    'completed refused:execution_not_active refused:execution_not_active',
    'an item that the cascade of an earlier one has ended is refused');
select is(ff_tap.states(171, 172, 173, 174), 'cancelled completed cancelled waiting', 'the first item has won');

-- A setting of the session with the same name does no harm.
select set_config('flowfabric.cascade_spent', 'nonsense', true);
select ff_tap.flow(2, 181);
select ff_tap.connect('{181}', 182);
select lives_ok('select ff_tap.finish(181)', 'whatever a session has put there');
select is(ff_tap.states(182), 'waiting', 'the child is let go');

-- Two edges between the same two members
select ff_tap.flow(3, 191);
select ff_tap.join(192, 'quorum', 'let_run', 2);
select ff_tap.connect('{191}', 192);
select flowfabric.ff_stage_dependency_edge(
    ff_tap.flow_id(), ff_tap.edge_id(192, 191), ff_tap.m(191), ff_tap.m(192), ff_tap.revision(),
    p_data_passing_ref => 'ref');
select flowfabric.ff_apply_dependency_to_child(
    ff_tap.flow_id(), ff_tap.edge_id(192, 191), ff_tap.m(192), ff_tap.m(191));
select ff_tap.finish(191, 'success', 'twice');
select is(
    ff_tap.states(192) || ' ' || ff_tap.payload(192) || ', ' || ff_tap.edge_group(192),
    'waiting twice/text, quorum(2) of 2: 2 ok, 0 failed, 0 skipped, satisfied@3000', 'count as two');

-- A member may be its child's child's sibling.
select ff_tap.flow(3, 201);
select ff_tap.join(203, 'any_of', 'cancel_remaining');
select ff_tap.connect('{201}', 202);
select ff_tap.connect('{201, 202}', 203);
select ff_tap.finish(201);
select is(
    ff_tap.states(202, 203), 'cancelled waiting',
    'a child that is let go and cancelled in the same breath ends as cancelled');

-- A join that has been tampered with
select ff_tap.flow(4, 211);
select ff_tap.connect('{211}', 212);
update flowfabric.ff_edge_group as g set skip_count = 1 where g.downstream_eid = ff_tap.eid(212);
select throws_ok(
    'select ff_tap.finish(211)', 'ZX002', 'invariant_violation', 'is reported instead of counted beyond its edges');
select is(
    ff_tap.error_of('select ff_tap.finish(211)') - 'fn',
    jsonb_build_object(
        'code', 'invariant_violation', 'invariant', 'group_counts_its_edges',
        'values', jsonb_build_object(
            'flow_id', ff_tap.flow_id(), 'execution_id', ff_tap.m(212),
            'counts', '{"n": 1, "success": 0, "fail": 0, "skip": 1}'::jsonb)),
    'with its counts');
select is(ff_tap.states(211, 212), 'waiting waiting_children', 'and nothing is half done');
delete from flowfabric.ff_edge_group as g where g.downstream_eid = ff_tap.eid(212);
select throws_ok(
    'select ff_tap.finish(211)', 'ZX002', 'invariant_violation', 'so is one that is missing');
delete from flowfabric.ff_edge as d where d.downstream_eid = ff_tap.eid(212);

select lives_ok(
    format('select flowfabric._ff_assert_edge_group(%L)', ff_tap.flow_id()), 'joins and edges agree');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

select * from finish();
rollback;
