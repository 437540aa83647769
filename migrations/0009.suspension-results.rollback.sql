-- The functions that return these types go with them; the installer loads them again.
drop type if exists flowfabric.ff_kid_listing cascade;
drop type if exists flowfabric.ff_key_seeding cascade;
drop type if exists flowfabric.ff_key_rotation cascade;
drop type if exists flowfabric.ff_observed_signal cascade;
drop type if exists flowfabric.ff_signal_delivery cascade;
drop type if exists flowfabric.ff_condition_node cascade;
drop type if exists flowfabric.ff_suspension_listing cascade;
drop type if exists flowfabric.ff_waitpoint_listing cascade;
drop type if exists flowfabric.ff_resumption cascade;
drop type if exists flowfabric.ff_readable_token cascade;
drop type if exists flowfabric.ff_minted_waitpoint cascade;
drop type if exists flowfabric.ff_suspended_waitpoint cascade;
delete from flowfabric.ff_migration_annotation where version = 9;
