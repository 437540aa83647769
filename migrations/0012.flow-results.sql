-- The composite types of flows: what their functions return, and what the parts of a cascade and of a submission hand
-- to each other.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0011.policy-results

do $$
begin
    -- Flows
    if to_regtype('flowfabric.ff_flow_creation') is null then
        create type flowfabric.ff_flow_creation as (
            flow_id uuid,
            outcome text
        );
    end if;
    if to_regtype('flowfabric.ff_flow_membership') is null then
        create type flowfabric.ff_flow_membership as (
            execution_id text,
            node_count integer,
            graph_revision bigint,
            outcome text
        );
    end if;
    if to_regtype('flowfabric.ff_flow_tagging') is null then
        create type flowfabric.ff_flow_tagging as (
            count integer
        );
    end if;
    if to_regtype('flowfabric.ff_flow_cancellation') is null then
        create type flowfabric.ff_flow_cancellation as (
            outcome text,
            cancellation_policy text,
            cancel_reason text,
            public_flow_state text,
            member_execution_ids text[],
            member_count integer,
            cancelled_count integer,
            pending_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_cancel_acknowledgement') is null then
        create type flowfabric.ff_cancel_acknowledgement as (
            outcome text,
            remaining integer
        );
    end if;
    if to_regtype('flowfabric.ff_submitted_member') is null then
        create type flowfabric.ff_submitted_member as (
            flow_id uuid,
            outcome text,
            graph_revision bigint,
            name text,
            execution_id text,
            public_state flowfabric.ff_public_state
        );
    end if;
    -- Edges and joins
    if to_regtype('flowfabric.ff_staged_edge') is null then
        create type flowfabric.ff_staged_edge as (
            edge_id uuid,
            new_graph_revision bigint
        );
    end if;
    if to_regtype('flowfabric.ff_applied_edge') is null then
        create type flowfabric.ff_applied_edge as (
            outcome text,
            unsatisfied_count integer,
            group_state text,
            child_public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_edge_resolution') is null then
        create type flowfabric.ff_edge_resolution as (
            outcome text,
            group_state text,
            child_eligible boolean,
            child_skipped boolean,
            data_injected boolean
        );
    end if;
    if to_regtype('flowfabric.ff_flow_eligibility') is null then
        create type flowfabric.ff_flow_eligibility as (
            status text
        );
    end if;
    if to_regtype('flowfabric.ff_sibling_reconciliation') is null then
        create type flowfabric.ff_sibling_reconciliation as (
            action text,
            detail text
        );
    end if;
    -- Scanners
    if to_regtype('flowfabric.ff_dependency_dispatch') is null then
        create type flowfabric.ff_dependency_dispatch as (
            flow_id uuid,
            outbox_done integer,
            edges_resolved integer,
            children_eligible integer,
            children_skipped integer,
            more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_sibling_dispatch') is null then
        create type flowfabric.ff_sibling_dispatch as (
            flow_id uuid,
            downstream_execution_id text,
            cancelled integer,
            already_terminal integer,
            not_found integer,
            drained boolean
        );
    end if;
    if to_regtype('flowfabric.ff_sibling_reconcile_scan') is null then
        create type flowfabric.ff_sibling_reconcile_scan as (
            sremmed_stale integer,
            completed_drain integer,
            no_op integer
        );
    end if;
    if to_regtype('flowfabric.ff_backlog_drain') is null then
        create type flowfabric.ff_backlog_drain as (
            flow_id uuid,
            cancelled integer,
            already_terminal integer,
            remaining integer
        );
    end if;
    if to_regtype('flowfabric.ff_dependency_reconciliation') is null then
        create type flowfabric.ff_dependency_reconciliation as (
            rearmed integer,
            promoted integer,
            skipped_children integer,
            skipped integer,
            errors integer
        );
    end if;
    -- Reads
    if to_regtype('flowfabric.ff_flow_snapshot') is null then
        create type flowfabric.ff_flow_snapshot as (
            flow_id uuid,
            partition_key smallint,
            flow_kind text,
            namespace text,
            public_flow_state text,
            graph_revision bigint,
            node_count integer,
            edge_count integer,
            created_at_ms bigint,
            last_mutation_at_ms bigint,
            cancelled_at_ms bigint,
            terminal_at_ms bigint,
            cancel_reason text,
            cancellation_policy text,
            tags jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_flow_listing') is null then
        create type flowfabric.ff_flow_listing as (
            flow_id uuid,
            created_at_ms bigint,
            status text,
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_edge_snapshot') is null then
        create type flowfabric.ff_edge_snapshot as (
            edge_id uuid,
            flow_id uuid,
            upstream_execution_id text,
            downstream_execution_id text,
            dependency_kind text,
            satisfaction_condition text,
            data_passing_ref text,
            dep_state text,
            resolved_outcome flowfabric.ff_terminal_outcome,
            created_at_ms bigint,
            applied_at_ms bigint,
            resolved_at_ms bigint,
            created_by text
        );
    end if;
    if to_regtype('flowfabric.ff_edge_group_listing') is null then
        create type flowfabric.ff_edge_group_listing as (
            execution_id text,
            policy_kind text,
            k integer,
            on_satisfied text,
            total_deps integer,
            satisfied_count integer,
            failed_count integer,
            skipped_count integer,
            running_count integer,
            group_state text,
            satisfied_at_ms bigint,
            impossible_at_ms bigint,
            cancel_siblings_pending boolean
        );
    end if;
    if to_regtype('flowfabric.ff_flow_summary_snapshot') is null then
        create type flowfabric.ff_flow_summary_snapshot as (
            flow_id uuid,
            total_members bigint,
            sampled_members integer,
            members_completed integer,
            members_failed integer,
            members_cancelled integer,
            members_expired integer,
            members_skipped integer,
            members_active integer,
            members_suspended integer,
            members_waiting integer,
            members_delayed integer,
            members_rate_limited integer,
            members_waiting_children integer,
            public_flow_state text,
            status text,
            last_summary_update_at bigint
        );
    end if;
    -- Between functions
    if to_regtype('flowfabric.ff_cascade_allowance') is null then
        create type flowfabric.ff_cascade_allowance as (
            edges bigint,
            cancels bigint,
            depth bigint
        );
    end if;
    if to_regtype('flowfabric.ff_cascade_report') is null then
        create type flowfabric.ff_cascade_report as (
            edges_resolved integer,
            children_eligible integer,
            children_skipped integer,
            data_passed integer,
            cancels integer,
            outbox_done integer,
            reserved uuid[]
        );
    end if;
    if to_regtype('flowfabric.ff_resolved_group') is null then
        create type flowfabric.ff_resolved_group as (
            downstream_eid uuid,
            on_satisfied text,
            verdict text,
            passes_data boolean,
            is_sound boolean
        );
    end if;
    if to_regtype('flowfabric.ff_ended_members') is null then
        create type flowfabric.ff_ended_members as (
            cancelled integer,
            already_terminal integer,
            not_found integer,
            queued uuid[],
            reserved uuid[]
        );
    end if;
    if to_regtype('flowfabric.ff_flow_document_member') is null then
        create type flowfabric.ff_flow_document_member as (
            position integer,
            name text,
            execution_id uuid,
            given_id text,
            lane_id text,
            execution_kind text,
            payload bytea,
            payload_encoding text,
            creator_identity text,
            priority integer,
            policy jsonb,
            tags jsonb,
            delay_until_ms bigint,
            deadline_at_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_flow_document_edge') is null then
        create type flowfabric.ff_flow_document_edge as (
            position integer,
            edge_id uuid,
            has_own_id boolean,
            upstream text,
            downstream text,
            data_passing_ref text
        );
    end if;
end;
$$;

comment on type flowfabric.ff_flow_creation is 'Whether a flow was created or was there before.';
comment on type flowfabric.ff_flow_membership is
'An execution that is a member of a flow, and the flow''s counts then.';
comment on type flowfabric.ff_flow_tagging is 'How many tags of a flow were set.';
comment on type flowfabric.ff_flow_cancellation is
'A cancelled flow: what became of its members at once, and how many are left to the backlog.';
comment on type flowfabric.ff_cancel_acknowledgement is
'Whether a member was waiting to be cancelled, and how many still are.';
comment on type flowfabric.ff_submitted_member is 'One member of a submitted flow, in the order of the document.';
comment on type flowfabric.ff_staged_edge is
'An edge that is part of the graph, and the revision to use for the next one.';
comment on type flowfabric.ff_applied_edge is 'An edge that counts for its child, and how the child stands.';
comment on type flowfabric.ff_edge_resolution is 'What the resolution of one edge did to the join and to the child.';
comment on type flowfabric.ff_flow_eligibility is 'Whether an execution could run as far as its dependencies go.';
comment on type flowfabric.ff_sibling_reconciliation is 'What a pending sibling cancel turned out to need.';
comment on type flowfabric.ff_dependency_dispatch is
'Deferred edge resolutions of one flow that one run of the dispatcher did.';
comment on type flowfabric.ff_sibling_dispatch is
'Deferred sibling cancels of one join that one run of the dispatcher did.';
comment on type flowfabric.ff_sibling_reconcile_scan is 'What one run over pending sibling cancels found.';
comment on type flowfabric.ff_backlog_drain is 'Members of one cancelled flow that one run took from its backlog.';
comment on type flowfabric.ff_dependency_reconciliation is
'What the safety net behind edge resolution had to repair; nothing in a sound database.';
comment on type flowfabric.ff_flow_snapshot is 'Everything about a flow but its members.';
comment on type flowfabric.ff_flow_listing is 'One flow of a list.';
comment on type flowfabric.ff_edge_snapshot is 'Everything about an edge.';
comment on type flowfabric.ff_edge_group_listing is 'The join of one child: its policy, its counts and its verdict.';
comment on type flowfabric.ff_flow_summary_snapshot is 'How the members of a flow fare, by state.';
comment on type flowfabric.ff_cascade_allowance is 'Internal: how much of a cascade a call may still do itself.';
comment on type flowfabric.ff_cascade_report is
'Internal: what a cascade did; reserved are the ended members whose budget reservations are still open.';
comment on type flowfabric.ff_resolved_group is
'Internal: a join after some of its edges were resolved; verdict is set if they decided it.';
comment on type flowfabric.ff_ended_members is
'Internal: members cancelled together; queued are those whose edges are still to be resolved.';
comment on type flowfabric.ff_flow_document_member is 'Internal: one member of a submitted document, defaults applied.';
comment on type flowfabric.ff_flow_document_edge is 'Internal: one edge of a submitted document.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (12, 'flow-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
