-- Removes the engine's own tables and types. The schema stays: yoyo keeps its tables in it.
drop table if exists flowfabric.ff_waiter;
drop table if exists flowfabric.ff_scanner_failure;
drop table if exists flowfabric.ff_scanner;
drop table if exists flowfabric.ff_error_code;
drop table if exists flowfabric.ff_setting;
drop table if exists flowfabric.ff_partition_config;
drop table if exists flowfabric.ff_migration_annotation;
drop type if exists flowfabric.ff_attempt_row_state;
drop type if exists flowfabric.ff_attempt_type;
drop type if exists flowfabric.ff_public_state;
drop type if exists flowfabric.ff_attempt_state;
drop type if exists flowfabric.ff_terminal_outcome;
drop type if exists flowfabric.ff_blocking_reason;
drop type if exists flowfabric.ff_eligibility_state;
drop type if exists flowfabric.ff_ownership_state;
drop type if exists flowfabric.ff_lifecycle_phase;
