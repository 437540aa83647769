-- Flows: graphs of executions. The flow, its edges and joins, the queues of work that a call left for the
-- scanners (edge resolutions, sibling cancels, member cancels), and the projected summary.
--
-- Locks:  nothing that exists; every table is new.
-- Beside: there is no previous release.
--
-- A flow, its members, edges, joins and queue rows share one partition_key. Members have no table:
-- an execution belongs to the flow that its ff_exec_core.flow_id names.
--
-- depends: 0004.suspension

-- Flows ---------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_flow_core (
    partition_key smallint not null,
    flow_id uuid not null,
    flow_kind text not null,
    namespace text collate "C" not null,
    public_flow_state text not null,
    graph_revision bigint not null default 0,
    node_count integer not null default 0,
    edge_count integer not null default 0,
    created_at_ms bigint not null,
    last_mutation_at_ms bigint not null,
    cancelled_at_ms bigint,
    terminal_at_ms bigint,
    cancel_reason text,
    cancellation_policy text,
    tags jsonb not null default '{}',
    constraint ff_flow_core_pkey primary key (partition_key, flow_id),
    constraint ff_flow_core_public_flow_state_is_known
    check (public_flow_state in ('open', 'cancelled', 'completed', 'failed')),
    constraint ff_flow_core_cancellation_policy_is_known
    check (cancellation_policy in ('cancel_all', 'cancel_pending', 'flow_only'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

comment on table flowfabric.ff_flow_core is
'Flows. The row is the lock under which a flow''s members end and its graph changes, so it is kept narrow.';
comment on column flowfabric.ff_flow_core.partition_key is
'Partition of the flow and of everything in it, computed from flow_id.';
comment on column flowfabric.ff_flow_core.flow_id is
'Identity of the flow.';
comment on column flowfabric.ff_flow_core.flow_kind is
'The caller''s name for this kind of flow; not interpreted.';
comment on column flowfabric.ff_flow_core.namespace is
'Tenant the flow belongs to.';
comment on column flowfabric.ff_flow_core.public_flow_state is
'Guards changes: only an open flow takes members and edges. How members fare is derived, in ff_flow_summary.';
comment on column flowfabric.ff_flow_core.graph_revision is
'Grows by one with every member and every staged edge; a stager must know the current value.';
comment on column flowfabric.ff_flow_core.node_count is
'Members ever added; never decreases.';
comment on column flowfabric.ff_flow_core.edge_count is
'Edges ever staged; never decreases.';
comment on column flowfabric.ff_flow_core.created_at_ms is
'When the flow was created.';
comment on column flowfabric.ff_flow_core.last_mutation_at_ms is
'When its graph, tags or state last changed or a member was replayed; a newer time asks for a new summary.';
comment on column flowfabric.ff_flow_core.cancelled_at_ms is
'When it was cancelled.';
comment on column flowfabric.ff_flow_core.terminal_at_ms is
'When it stopped accepting changes; equals cancelled_at_ms, since only a cancel ends a flow.';
comment on column flowfabric.ff_flow_core.cancel_reason is
'Why it was cancelled; passed on to the members it cancels.';
comment on column flowfabric.ff_flow_core.cancellation_policy is
'Which members the cancel takes along: all that have not ended, only those not running yet, or none.';
comment on column flowfabric.ff_flow_core.tags is
'The caller''s tags: an object of strings.';

-- Edges and joins -----------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_edge (
    partition_key smallint not null,
    flow_id uuid not null,
    edge_id uuid not null,
    upstream_eid uuid not null,
    downstream_eid uuid not null,
    dependency_kind text not null default 'success_only',
    satisfaction_condition text not null default 'all_required',
    data_passing_ref text,
    dep_state text not null,
    resolved_outcome flowfabric.ff_terminal_outcome,
    created_by text not null default 'engine',
    created_at_ms bigint not null,
    staged_at_ms bigint not null,
    applied_at_ms bigint,
    last_resolved_at_ms bigint,
    constraint ff_edge_pkey primary key (partition_key, flow_id, edge_id),
    constraint ff_edge_flow_exists
    foreign key (partition_key, flow_id) references flowfabric.ff_flow_core (partition_key, flow_id),
    constraint ff_edge_ends_are_different check (upstream_eid <> downstream_eid),
    constraint ff_edge_dependency_kind_is_known check (dependency_kind in ('success_only')),
    constraint ff_edge_satisfaction_condition_is_known check (satisfaction_condition in ('all_required')),
    constraint ff_edge_dep_state_is_known
    check (dep_state in ('staged', 'unsatisfied', 'satisfied', 'impossible')),
    constraint ff_edge_resolved_iff_outcome check (
        (dep_state in ('satisfied', 'impossible')) = (resolved_outcome is not null)
    ),
    constraint ff_edge_resolved_outcome_is_an_end check (resolved_outcome <> 'none')
);

-- serves ff_list_edges (incoming), ff_replay_execution, sibling cancels: all inbound edges of a child
create index if not exists ff_edge_inbound_idx
on flowfabric.ff_edge (partition_key, flow_id, downstream_eid);
-- serves ff_stage_dependency_edge (cycle check), ff_list_edges (outgoing): all outbound edges of an execution
create index if not exists ff_edge_outbound_idx
on flowfabric.ff_edge (partition_key, flow_id, upstream_eid);
-- serves _ff_resolve_out_edges, ff_dispatch_dependencies, ff_reconcile_dependencies: edges that an upstream
-- still owes, in the order in which they are resolved
create index if not exists ff_edge_unsatisfied_idx
on flowfabric.ff_edge (partition_key, flow_id, upstream_eid, downstream_eid, edge_id)
where dep_state = 'unsatisfied';

comment on table flowfabric.ff_edge is
'Dependencies: the downstream execution waits for the upstream one. Only applied edges count in its join.';
comment on column flowfabric.ff_edge.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_edge.flow_id is
'Flow that both ends belong to.';
comment on column flowfabric.ff_edge.edge_id is
'Identity of the edge within its flow; the caller mints it.';
comment on column flowfabric.ff_edge.upstream_eid is
'Execution that is waited for.';
comment on column flowfabric.ff_edge.downstream_eid is
'Execution that waits (the child).';
comment on column flowfabric.ff_edge.dependency_kind is
'What satisfies the edge: success_only, the one kind there is.';
comment on column flowfabric.ff_edge.satisfaction_condition is
'Constant of the public edge snapshot; the join''s policy decides.';
comment on column flowfabric.ff_edge.data_passing_ref is
'Opaque; if set, the upstream''s result becomes the child''s payload when the edge is satisfied.';
comment on column flowfabric.ff_edge.dep_state is
'staged: only in the graph. unsatisfied: the child waits. satisfied: upstream succeeded. impossible: it did not.';
comment on column flowfabric.ff_edge.resolved_outcome is
'How the upstream ended; null until the edge is resolved and again after a replay re-armed it.';
comment on column flowfabric.ff_edge.created_by is
'Who made the edge; the engine itself.';
comment on column flowfabric.ff_edge.created_at_ms is
'When the edge was made.';
comment on column flowfabric.ff_edge.staged_at_ms is
'When it entered the graph.';
comment on column flowfabric.ff_edge.applied_at_ms is
'When it began to count for the child; null while staged.';
comment on column flowfabric.ff_edge.last_resolved_at_ms is
'When it was resolved; null while it is not.';

create table if not exists flowfabric.ff_edge_group (
    partition_key smallint not null,
    flow_id uuid not null,
    downstream_eid uuid not null,
    policy_kind text not null,
    k integer,
    on_satisfied text,
    n integer not null default 0,
    success_count integer not null default 0,
    fail_count integer not null default 0,
    skip_count integer not null default 0,
    running_count integer generated always as (n - success_count - fail_count - skip_count) stored,
    group_state text not null default 'pending',
    satisfied_at_ms bigint,
    impossible_at_ms bigint,
    created_at_ms bigint not null,
    last_graph_revision bigint,
    cancel_siblings_pending_flag boolean not null default false,
    cancel_siblings_reason text,
    cancel_siblings_pending_members uuid[] not null default '{}',
    constraint ff_edge_group_pkey primary key (partition_key, flow_id, downstream_eid),
    constraint ff_edge_group_policy_kind_is_known check (policy_kind in ('all_of', 'any_of', 'quorum')),
    constraint ff_edge_group_k_fits_policy check (
        (policy_kind = 'all_of') = (k is null) and (policy_kind <> 'any_of' or k = 1) and k >= 1
    ),
    constraint ff_edge_group_on_satisfied_is_known check (on_satisfied in ('cancel_remaining', 'let_run')),
    constraint ff_edge_group_on_satisfied_unless_all_of check ((policy_kind = 'all_of') = (on_satisfied is null)),
    constraint ff_edge_group_counts_are_not_negative
    check (n >= 0 and success_count >= 0 and fail_count >= 0 and skip_count >= 0),
    constraint ff_edge_group_resolved_edges_are_within_n check (success_count + fail_count + skip_count <= n),
    constraint ff_edge_group_group_state_is_known
    check (group_state in ('pending', 'satisfied', 'impossible', 'cancelled')),
    constraint ff_edge_group_cancel_siblings_reason_is_known
    check (cancel_siblings_reason in ('sibling_quorum_satisfied', 'sibling_quorum_impossible'))
);

comment on table flowfabric.ff_edge_group is
'The join of each child: all its inbound edges, the policy that judges them and the verdict.';
comment on column flowfabric.ff_edge_group.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_edge_group.flow_id is
'Flow of the child.';
comment on column flowfabric.ff_edge_group.downstream_eid is
'The child; it has exactly one join.';
comment on column flowfabric.ff_edge_group.policy_kind is
'How many upstreams must succeed: all_of, any_of (one) or quorum (k).';
comment on column flowfabric.ff_edge_group.k is
'Successes needed: null for all_of, 1 for any_of, given for quorum.';
comment on column flowfabric.ff_edge_group.on_satisfied is
'Whether upstreams still running are cancelled once the join fired; null for all_of, which never cancels.';
comment on column flowfabric.ff_edge_group.n is
'Applied inbound edges.';
comment on column flowfabric.ff_edge_group.success_count is
'Edges whose upstream succeeded.';
comment on column flowfabric.ff_edge_group.fail_count is
'Edges whose upstream failed, was cancelled or expired.';
comment on column flowfabric.ff_edge_group.skip_count is
'Edges whose upstream was skipped.';
comment on column flowfabric.ff_edge_group.running_count is
'Edges not resolved yet, derived from the four counts.';
comment on column flowfabric.ff_edge_group.group_state is
'The verdict, left pending only once: satisfied unblocks the child, impossible skips it. cancelled is reserved.';
comment on column flowfabric.ff_edge_group.satisfied_at_ms is
'When the join became satisfied.';
comment on column flowfabric.ff_edge_group.impossible_at_ms is
'When the join became impossible.';
comment on column flowfabric.ff_edge_group.created_at_ms is
'When the policy was declared or the first edge applied.';
comment on column flowfabric.ff_edge_group.last_graph_revision is
'Graph revision that the last caller who applied an edge reported; for information.';
comment on column flowfabric.ff_edge_group.cancel_siblings_pending_flag is
'True while siblings are left for ff_dispatch_sibling_cancels.';
comment on column flowfabric.ff_edge_group.cancel_siblings_reason is
'Cancellation reason of the siblings; kept after the work is done.';
comment on column flowfabric.ff_edge_group.cancel_siblings_pending_members is
'Siblings still to be cancelled.';

-- Queues of deferred work ---------------------------------------------------------------------------------

create table if not exists flowfabric.ff_pending_cancel_groups (
    partition_key smallint not null,
    flow_id uuid not null,
    downstream_eid uuid not null,
    enqueued_at_ms bigint not null,
    constraint ff_pending_cancel_groups_pkey primary key (partition_key, flow_id, downstream_eid)
);

-- serves ff_dispatch_sibling_cancels, ff_reconcile_sibling_cancels: oldest group first
create index if not exists ff_pending_cancel_groups_enqueued_at_idx
on flowfabric.ff_pending_cancel_groups (enqueued_at_ms);

comment on table flowfabric.ff_pending_cancel_groups is
'Joins whose siblings were too many to cancel in the call that fired them.';
comment on column flowfabric.ff_pending_cancel_groups.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_pending_cancel_groups.flow_id is
'Flow of the join.';
comment on column flowfabric.ff_pending_cancel_groups.downstream_eid is
'Child whose join lists the siblings.';
comment on column flowfabric.ff_pending_cancel_groups.enqueued_at_ms is
'When the join fired.';

create table if not exists flowfabric.ff_dependency_outbox (
    partition_key smallint not null,
    flow_id uuid not null,
    upstream_eid uuid not null,
    outcome flowfabric.ff_terminal_outcome not null,
    enqueued_at_ms bigint not null,
    outbox_id bigint not null generated always as identity,
    constraint ff_dependency_outbox_pkey primary key (partition_key, flow_id, upstream_eid),
    constraint ff_dependency_outbox_outcome_is_an_end check (outcome <> 'none')
) with (autovacuum_vacuum_scale_factor = 0.02);

-- serves ff_dispatch_dependencies: oldest row first
create index if not exists ff_dependency_outbox_order_idx
on flowfabric.ff_dependency_outbox (outbox_id);

comment on table flowfabric.ff_dependency_outbox is
'Ended executions that still owe edge resolutions; such an execution can be neither replayed nor purged.';
comment on column flowfabric.ff_dependency_outbox.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_dependency_outbox.flow_id is
'Flow whose lock the dispatcher takes.';
comment on column flowfabric.ff_dependency_outbox.upstream_eid is
'Execution that ended.';
comment on column flowfabric.ff_dependency_outbox.outcome is
'How it ended; its edges resolve with this.';
comment on column flowfabric.ff_dependency_outbox.enqueued_at_ms is
'When the resolutions were left to the dispatcher.';
comment on column flowfabric.ff_dependency_outbox.outbox_id is
'Order in which the dispatcher takes the rows.';

create table if not exists flowfabric.ff_cancel_backlog (
    partition_key smallint not null,
    flow_id uuid not null,
    requested_at_ms bigint not null,
    requester text,
    reason text,
    grace_until_ms bigint not null,
    cancellation_policy text not null,
    status text not null default 'pending',
    constraint ff_cancel_backlog_pkey primary key (partition_key, flow_id),
    constraint ff_cancel_backlog_cancellation_policy_is_known
    check (cancellation_policy in ('cancel_all', 'cancel_pending', 'flow_only')),
    constraint ff_cancel_backlog_status_is_known check (status in ('pending'))
);

-- serves ff_drain_cancel_backlog: backlogs whose grace is over, oldest first
create index if not exists ff_cancel_backlog_grace_idx
on flowfabric.ff_cancel_backlog (grace_until_ms);

comment on table flowfabric.ff_cancel_backlog is
'Cancelled flows with members that the cancelling call left to ff_drain_cancel_backlog; goes with the last member.';
comment on column flowfabric.ff_cancel_backlog.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_cancel_backlog.flow_id is
'Flow that was cancelled.';
comment on column flowfabric.ff_cancel_backlog.requested_at_ms is
'When it was cancelled.';
comment on column flowfabric.ff_cancel_backlog.requester is
'Who cancelled it, as the caller said.';
comment on column flowfabric.ff_cancel_backlog.reason is
'Why, as the caller said.';
comment on column flowfabric.ff_cancel_backlog.grace_until_ms is
'Until then only a drain that names the flow takes its members.';
comment on column flowfabric.ff_cancel_backlog.cancellation_policy is
'Policy of the cancel, as on the flow.';
comment on column flowfabric.ff_cancel_backlog.status is
'pending, as long as the row exists.';

create table if not exists flowfabric.ff_cancel_backlog_member (
    partition_key smallint not null,
    flow_id uuid not null,
    execution_id uuid not null,
    constraint ff_cancel_backlog_member_pkey primary key (partition_key, flow_id, execution_id)
);

comment on table flowfabric.ff_cancel_backlog_member is
'Members of a cancelled flow still to be cancelled; gone as soon as the member has ended in any way.';
comment on column flowfabric.ff_cancel_backlog_member.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_cancel_backlog_member.flow_id is
'Flow that was cancelled.';
comment on column flowfabric.ff_cancel_backlog_member.execution_id is
'Member to cancel.';

-- Summary -------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_flow_summary (
    partition_key smallint not null,
    flow_id uuid not null,
    total_members bigint not null,
    sampled_members integer not null,
    members_completed integer not null default 0,
    members_failed integer not null default 0,
    members_cancelled integer not null default 0,
    members_expired integer not null default 0,
    members_skipped integer not null default 0,
    members_active integer not null default 0,
    members_suspended integer not null default 0,
    members_waiting integer not null default 0,
    members_delayed integer not null default 0,
    members_rate_limited integer not null default 0,
    members_waiting_children integer not null default 0,
    public_flow_state text not null,
    last_summary_update_at bigint not null,
    constraint ff_flow_summary_pkey primary key (partition_key, flow_id),
    constraint ff_flow_summary_public_flow_state_is_known
    check (public_flow_state in ('open', 'running', 'blocked', 'completed', 'failed'))
);

comment on table flowfabric.ff_flow_summary is
'How the members of a flow fare, counted from time to time; for people, never a guard.';
comment on column flowfabric.ff_flow_summary.partition_key is
'Partition of the flow.';
comment on column flowfabric.ff_flow_summary.flow_id is
'Flow that is summarised.';
comment on column flowfabric.ff_flow_summary.total_members is
'Members of the flow.';
comment on column flowfabric.ff_flow_summary.sampled_members is
'Members looked at for the counts; here always all of them.';
comment on column flowfabric.ff_flow_summary.members_completed is
'Members that succeeded.';
comment on column flowfabric.ff_flow_summary.members_failed is
'Members that failed.';
comment on column flowfabric.ff_flow_summary.members_cancelled is
'Members that were cancelled.';
comment on column flowfabric.ff_flow_summary.members_expired is
'Members that ran out of time.';
comment on column flowfabric.ff_flow_summary.members_skipped is
'Members skipped because their dependencies became impossible.';
comment on column flowfabric.ff_flow_summary.members_active is
'Members held by a worker.';
comment on column flowfabric.ff_flow_summary.members_suspended is
'Members waiting for a signal.';
comment on column flowfabric.ff_flow_summary.members_waiting is
'Members waiting for a worker, a route or an operator.';
comment on column flowfabric.ff_flow_summary.members_delayed is
'Members waiting for a time.';
comment on column flowfabric.ff_flow_summary.members_rate_limited is
'Members held back by a quota or a budget.';
comment on column flowfabric.ff_flow_summary.members_waiting_children is
'Members waiting for their dependencies.';
comment on column flowfabric.ff_flow_summary.public_flow_state is
'State derived from the counts; a flow whose members were all cancelled derives to failed.';
comment on column flowfabric.ff_flow_summary.last_summary_update_at is
'When the members were counted, in milliseconds.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (5, 'flow', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
