-- The merge patch of a summary: RFC 7396 member by member, its depth, and the text that stands for null.
begin;
\ir ../helpers.sql
select plan(33);

-- The examples of RFC 7396, appendix A, as far as the patch is an object, and what follows from its rules.
select is(flowfabric._ff_merge_patch(c.target, c.patch, 0, 'tap'), c.result, c.description)
from (values
    ('{"a": "b"}'::jsonb, '{"a": "c"}'::jsonb, '{"a": "c"}'::jsonb, 'a member is replaced'),
    ('{"a": "b"}', '{"b": "c"}', '{"a": "b", "b": "c"}', 'a member is added'),
    ('{"a": "b"}', '{"a": null}', '{}', 'null removes a member'),
    ('{"a": "b", "b": "c"}', '{"a": null}', '{"b": "c"}', 'and leaves the others'),
    ('{"a": ["b"]}', '{"a": "c"}', '{"a": "c"}', 'an array is replaced by a text'),
    ('{"a": "c"}', '{"a": ["b"]}', '{"a": ["b"]}', 'a text is replaced by an array'),
    ('{"a": {"b": "c"}}', '{"a": {"b": "d", "c": null}}', '{"a": {"b": "d"}}', 'objects are merged'),
    ('{"a": [{"b": "c"}]}', '{"a": [1]}', '{"a": [1]}', 'arrays are not merged'),
    ('["a", "b"]', '{"a": "b"}', '{"a": "b"}', 'what is no object is replaced as a whole'),
    ('{"e": null}', '{"a": 1}', '{"e": null, "a": 1}', 'a stored null stays'),
    ('[1, 2]', '{"a": "b", "c": null}', '{"a": "b"}', 'null removes nothing from nothing'),
    ('{}', '{"a": {"bb": {"ccc": null}}}', '{"a": {"bb": {}}}', 'nulls inside a new object leave it empty'),
    (null, '{"a": {"b": null, "c": 1}}', '{"a": {"c": 1}}', 'without a document the patch makes one'),
    ('{"a": {"b": 1}}', '{}', '{"a": {"b": 1}}', 'an empty patch changes nothing'),
    ('{"a": {"b": 1}}', '{"a": {}}', '{"a": {"b": 1}}', 'an empty object leaves an object unchanged'),
    ('{"a": 1}', '{"a": {}}', '{"a": {}}', 'an empty object takes the place of a number'),
    ('{"a": [1]}', '{"a": {}}', '{"a": {}}', 'and of an array'),
    ('{"a": 1}', '{"a": []}', '{"a": []}', 'an empty array stays an array'),
    ('{}', '{"a": [null, {"b": null}]}', '{"a": [null, {"b": null}]}', 'nulls inside an array are kept'),
    ('{}', '{"a": 123456789012345678901234567890.5}', '{"a": 123456789012345678901234567890.5}', 'a number keeps its digits'),
    ('{"": 1, "a.b": 2}', '{"": null, "a.b": {"c": true}}', '{"a.b": {"c": true}}', 'every text can be a key')
) as c (target, patch, result, description);

select throws_ok(
    format('select flowfabric._ff_merge_patch(null, %L, 0, %L)', repeat('{"a":', 17) || '{}' || repeat('}', 17), 'tap'),
    'ZV001', 'invalid_input', 'the 17th object below the root is too deep');
select is(
    ff_tap.error_of(format(
        'select flowfabric._ff_merge_patch(null, %L, 0, %L)', repeat('{"a":', 17) || '{}' || repeat('}', 17), 'tap')),
    '{"code": "invalid_input", "fn": "tap", "field": "payload", "reason": "patch_depth_exceeded"}',
    'which the refusal says');
select is(
    flowfabric._ff_merge_patch(null, d.patch, 0, 'tap'), d.patch, 'the 16th is not')
from (values ((repeat('{"a":', 16) || '{}' || repeat('}', 16))::jsonb)) as d (patch);
select is(
    flowfabric._ff_merge_patch(null, d.patch, 0, 'tap'), d.patch, 'arrays are not entered, however deep they are')
from (values (('{"a":' || repeat('[', 40) || '{"b": {}}' || repeat(']', 40) || '}')::jsonb)) as d (patch);

select is(flowfabric._ff_put_nulls(c.document, 0), c.result, c.description)
from (values
    ('{"a": "__ff_null__", "b": 1}'::jsonb, '{"a": null, "b": 1}'::jsonb, 'a member that says so becomes null'),
    ('{"a": [1, "__ff_null__", ["__ff_null__"]]}', '{"a": [1, null, [null]]}', 'so does an element of an array, in place'),
    ('{"a": [{"b": "__ff_null__"}]}', '{"a": [{"b": null}]}', 'and a member of an object in an array'),
    ('{"__ff_null__": "x", "b": "__FF_NULL__", "c": "__ff_null__ "}',
     '{"__ff_null__": "x", "b": "__FF_NULL__", "c": "__ff_null__ "}', 'a key or a similar text does not'),
    ('{"a": {}, "b": []}', '{"a": {}, "b": []}', 'what is empty stays what it is')
) as c (document, result, description);
select is(
    flowfabric._ff_put_nulls((repeat('[', 33) || '"__ff_null__"' || repeat(']', 33))::jsonb, 0),
    (repeat('[', 33) || 'null' || repeat(']', 33))::jsonb, 'values of containers 32 levels below the root are reached');
select is(
    flowfabric._ff_put_nulls(d.document, 0), d.document, 'what lies deeper is left as it is')
from (values ((repeat('[', 34) || '"__ff_null__"' || repeat(']', 34))::jsonb)) as d (document);

-- A text that merely looks like the sentinel in the patch must not bring the walk into a wrong place.
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution();
select flowfabric.ff_append_frame(
    '{fp:86}:00000000-0000-4000-8000-000000000001', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 's',
    convert_to(p.patch, 'UTF8'), p_stream_mode => 'summary')
from (values (1, '{"a": "__ff_null__", "b": "x"}'), (2, '{"b": "say \"__ff_null__\""}')) as p (step, patch)
order by p.step;
select is(
    (select s.document_json
     from flowfabric.ff_read_summary('{fp:86}:00000000-0000-4000-8000-000000000001', 0) as s),
    '{"a": null, "b": "say \"__ff_null__\""}'::jsonb, 'a text that only mentions the sentinel is stored as it is');

select * from finish();
rollback;
