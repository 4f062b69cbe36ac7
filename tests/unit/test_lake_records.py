"""Commit records as text, statements, column checks: the pure parts of the lake."""

import json

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.protocol.commit_json import parse_record, render_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.errors import StateError, TargetSchemaError
from cdc_ops.lake.merge.sql import merge_statement
from cdc_ops.lake.spark.conf import machine_conf, needed_conf, store_conf, usual_conf
from cdc_ops.lake.table.columns import check_columns, has_statistics
from tests.lake_case import SCHEMA, SCHEMA_DDL, Case, schema, watermark
from tests.operations import with_fields

RECORD = commit_record(
    Case(root="x").operation(7, snapshot_after=SnapshotProgress(bound=watermark(1), done=1, total=2, chunks=("a < 'ü'", "a >= 'ü'"))),
    rows=None,
    package_version="1.2",
)


def test_a_record_survives_the_way_through_text() -> None:
    assert parse_record(render_record(RECORD)) == RECORD


@pytest.mark.parametrize("text", [None, "", "loaded by cdc_ops", "{", "[1]", '"cdc_ops"', '{"pipeline": "x"}'])
def test_metadata_of_others_is_no_record(text: str | None) -> None:
    assert parse_record(text) is None


def test_a_field_that_a_later_version_added_is_left_out() -> None:
    data = json.loads(render_record(RECORD))
    assert parse_record(json.dumps({**data, "lineage": {"job": 1}})) == RECORD


def test_a_record_of_a_later_format_is_refused_and_not_taken_for_somebody_elses() -> None:
    data = json.loads(render_record(RECORD))
    with pytest.raises(StateError, match="newer"):
        parse_record(json.dumps({**data, "cdc_ops": 2}))


def test_a_record_that_lacks_a_field_is_refused() -> None:
    data = json.loads(render_record(RECORD))
    del data["op_seq"]
    with pytest.raises(StateError):
        parse_record(json.dumps(data))


def test_a_merge_names_its_columns_and_prunes_by_literals() -> None:
    operation = Case(root="x").operation(1, schema=schema(("id", "bigint"), ("a`b", "string")))
    ranges = (KeyRange(column="id", low="CAST('1' AS bigint)", high="CAST('9' AS bigint)"),)
    manifest = Manifest.of(operation_id="o", attempt="a", rows=1, bytes=1, schema_fingerprint="", key_ranges=ranges)
    assert merge_statement("delta.`p`", "s1", plan_merge(operation, manifest)) == (
        "MERGE INTO delta.`p` t USING s1 s ON t.`id` = s.`id` AND t.`id` BETWEEN CAST('1' AS bigint) AND CAST('9' AS bigint)\n"
        "WHEN MATCHED THEN UPDATE SET t.`a``b` = s.`a``b`\n"
        "WHEN NOT MATCHED THEN INSERT (`id`, `a``b`) VALUES (s.`id`, s.`a``b`)"
    )


def test_a_merge_of_keys_alone_only_inserts() -> None:
    operation = Case(root="x").operation(1, schema=schema(("id", "bigint")), delete_missing_where="t.`id` = 4")
    statement = merge_statement("t1", "s1", plan_merge(operation, None))
    assert "WHEN MATCHED" not in statement
    assert statement.endswith("WHEN NOT MATCHED BY SOURCE AND (t.`id` = 4) THEN DELETE")


def test_marked_rows_are_deleted_before_others_are_updated_and_never_inserted() -> None:
    operation = Case(root="x").operation(1, schema=schema(("id", "bigint"), ("name", "string")), delete_where="name IS NULL")
    assert merge_statement("t1", "s1", plan_merge(operation, None)) == (
        "MERGE INTO t1 t USING s1 s ON t.`id` = s.`id`\n"
        "WHEN MATCHED AND s.`__cdc_delete` THEN DELETE\n"
        "WHEN MATCHED THEN UPDATE SET t.`name` = s.`name`\n"
        "WHEN NOT MATCHED AND NOT s.`__cdc_delete` THEN INSERT (`id`, `name`) VALUES (s.`id`, s.`name`)"
    )
    assert not plan_merge(with_fields(operation, mode=ApplyMode.APPEND), None).deleted_flag  # such rows are left out of the batch


def test_a_backfill_of_columns_sets_them_alone_and_inserts_nothing() -> None:
    operation = Case(root="x").operation(1, update_only=("name",))
    assert merge_statement("t1", "s1", plan_merge(operation, None)) == (
        "MERGE INTO t1 t USING s1 s ON t.`id` = s.`id`\nWHEN MATCHED THEN UPDATE SET t.`name` = s.`name`"
    )


def test_a_wider_stored_type_takes_the_rows_and_a_narrower_one_does_not() -> None:
    check_columns("p", [("id", "decimal(20,0)"), *SCHEMA_DDL[1:]], SCHEMA)
    with pytest.raises(TargetSchemaError, match="id: int in the table"):
        check_columns("p", [("id", "int"), *SCHEMA_DDL[1:]], SCHEMA)


def test_a_record_names_keys_and_schema_and_is_read_without_them() -> None:
    record = commit_record(Case(root="x").operation(1, source_fingerprint="f"), rows=1, package_version="1")
    assert (record.columns.keys, record.columns.schema_fingerprint) == (("id",), "f")
    data = json.loads(render_record(record))
    old = parse_record(json.dumps({name: value for name, value in data.items() if name not in {"keys", "schema_fingerprint"}}))
    assert old is not None
    assert (old.columns.keys, old.columns.schema_fingerprint) == ((), "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INTEGER", "int"),
        ("long", "BIGINT"),
        ("varchar(10)", "string"),
        ("DECIMAL( 10, 2 )", "decimal(10,2)"),
        ("numeric", "decimal(10,0)"),
    ],
)
def test_spellings_of_one_type_are_equal(one: str, other: str) -> None:
    assert canonical_type(one) == canonical_type(other)


def test_columns_that_only_the_table_has_are_left_alone() -> None:
    check_columns("p", [("ID", "BIGINT"), *SCHEMA_DDL[1:], ("extra", "binary")], SCHEMA)


def test_missing_and_differing_columns_are_named_with_both_lists() -> None:
    with pytest.raises(TargetSchemaError, match="lacks amount, updated_at") as caught:
        check_columns("p", [("id", "int"), ("name", "string")], SCHEMA)
    assert "id: int in the table, bigint expected" in caught.value.what
    assert "Table columns: id int, name string." in caught.value.why
    assert "Source columns: id bigint, name string, amount decimal(10,2), updated_at timestamp." in caught.value.why


def test_binary_and_boolean_columns_have_no_statistics() -> None:
    assert [has_statistics(kind) for kind in ("binary", "BOOLEAN", "bigint", "string", "decimal(3,1)")] == [False, False, True, True, True]


def test_settings_are_text_and_sized_for_the_machine() -> None:
    settings = {**needed_conf(), **usual_conf(), **machine_conf(2)}
    assert all(isinstance(value, str) for value in settings.values())
    assert settings["spark.databricks.delta.snapshotPartitions"] == "2"
    assert settings["spark.sql.sources.parallelPartitionDiscovery.parallelism"] == "8"
    assert not [name for name in settings if "txn" in name or "userMetadata" in name]


def test_spark_finds_the_store_by_the_variables_of_the_aws_tools() -> None:
    assert store_conf({"AWS_REGION": "eu-west-1"}) == {}
    chain = {"spark.hadoop.fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}
    assert store_conf({"AWS_SHARED_CREDENTIALS_FILE": "/run/secrets/aws"}) == store_conf({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}) == chain
    assert store_conf({"AWS_SHARED_CREDENTIALS_FILE": "/run/secrets/aws", "AWS_ACCESS_KEY_ID": "key"}) == {}
    assert store_conf({"AWS_ENDPOINT_URL": "http://other", "AWS_ENDPOINT_URL_S3": "http://store:9000", "AWS_REGION": "eu-west-1"}) == {
        "spark.hadoop.fs.s3a.endpoint": "http://store:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
    }
