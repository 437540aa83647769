-- The client roles: six NOLOGIN roles that login roles become members of.
--
-- Roles belong to the whole server, not to the database. So this file creates only what is missing, leaves an existing
-- role as its DBA made it, and needs no privilege when there is nothing to do. `flowfabric sql --roles-only` prints it
-- for a DBA where the installing role may not create roles.
--
-- The exception handlers are for an installation into another database of the server at the same moment: it can create
-- the same role, or grant the same membership, between the check and the statement.
do $$
declare
    c_admin constant text := 'flowfabric_admin';
    v_role record;
begin
    for v_role in
        select r.role_name, r.purpose
        from (values
            ('flowfabric_producer', 'FlowFabric: creates executions and flows.'),
            ('flowfabric_worker', 'FlowFabric: claims executions and reports on them.'),
            ('flowfabric_signaller', 'FlowFabric: delivers signals that carry a valid token, and nothing else.'),
            ('flowfabric_operator', 'FlowFabric: cancels, replays, configures and maintains.'),
            ('flowfabric_reader', 'FlowFabric: describes, lists and reads.'),
            (c_admin, 'FlowFabric: everything that the other five roles may do, and administration.')
        ) as r (role_name, purpose)
        where not exists (select from pg_catalog.pg_roles as existing where existing.rolname = r.role_name)
    loop
        begin
            execute format('create role %I nologin', v_role.role_name);
            execute format('comment on role %I is %L', v_role.role_name, v_role.purpose);
        exception
            when duplicate_object or unique_violation then
                null;
        end;
    end loop;

    for v_role in
        select r.role_name
        from unnest(array[
            'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator',
            'flowfabric_reader'
        ]) as r (role_name)
        where not pg_has_role(c_admin, r.role_name, 'usage')
    loop
        begin
            execute format('grant %I to %I', v_role.role_name, c_admin);
        exception
            when duplicate_object or unique_violation then
                null;
        end;
    end loop;
end;
$$;
