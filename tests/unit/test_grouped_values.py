"""Values with groups: a pipeline file and stored JSON write the fields of all groups beside each other."""

import dataclasses
import json
import typing
from datetime import timedelta

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, CopySettings, EventSettings, FileSettings, OnGap
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.table_settings import TableSettings

GROUPED = [AirflowSettings, ArchiveConfig, Pipeline, TableSettings]

STORED = (
    '{"accept_losses":["truncate=dropped"],"bad_records":"quarantine","check_file_footers":true,"files_per_run":7,"format":"maxwell",'
    '"full_listing_interval":3600.0,"initial_load":"snapshot","layout":"aiven","lookback":60.0,"max_offset_gap":3,"min_file_age":5.0,'
    '"on_gap":"reconcile","options":[["endpoint_url","http://store"]],"settings":[["a","b"]],"template":"{{topic}}","time_zone":"UTC",'
    '"unknown_tables":"fail","unrecognized_files":"ignore","url":"s3://bucket"}'
)
"""The archive of an operation in a ledger, as it was written before its fields stood in groups."""


def test_the_archive_of_a_stored_operation_is_read_and_written_as_before() -> None:
    archive = json_codec.loads(ArchiveConfig, STORED)
    assert archive.events == EventSettings(format="maxwell", settings=(("a", "b"),), accept_losses=("truncate=dropped",), time_zone="UTC")
    assert archive.files == FileSettings(
        layout=Layout.AIVEN,
        template="{{topic}}",
        min_file_age=timedelta(seconds=5),
        full_listing_interval=timedelta(hours=1),
        lookback=timedelta(minutes=1),
        max_offset_gap=3,
        unrecognized_files=archive.files.unrecognized_files,
        check_file_footers=True,
        files_per_run=7,
    )
    written = json.loads(json_codec.dumps(archive))
    assert written.pop("copy") == json.loads(json_codec.dumps(CopySettings()))  # it came later
    assert written == json.loads(STORED)


@pytest.mark.parametrize("cls", GROUPED, ids=lambda cls: cls.__name__)
def test_every_field_of_a_group_has_a_name_of_its_own(cls: type[Grouped]) -> None:
    names = json_codec.field_names(cls)
    assert cls.JSON_INLINE
    assert len(set(names)) == len(names)
    assert set(cls.JSON_INLINE) & set(names) == set(), "no group is called like a field"


@pytest.mark.parametrize("cls", GROUPED, ids=lambda cls: cls.__name__)
def test_no_value_of_a_pipeline_file_has_more_than_14_fields(cls: type[Grouped]) -> None:
    hints = typing.get_type_hints(cls)
    sizes = {one.__name__: len(dataclasses.fields(one)) for one in (cls, *(hints[name] for name in cls.JSON_INLINE))}
    assert len(sizes) > 1
    assert max(sizes.values()) <= 14, sizes


def test_a_value_is_made_and_changed_by_the_names_of_a_pipeline_file() -> None:
    archive = ArchiveConfig.of(url="s3://bucket", layout=Layout.PLAIN, format="maxwell")
    assert archive == ArchiveConfig(url="s3://bucket", files=FileSettings(layout=Layout.PLAIN), events=EventSettings(format="maxwell"))
    changed = archive.changed(on_gap=OnGap.RECONCILE, files_per_run=1, time_zone="UTC")
    assert (changed.on_gap, changed.files.files_per_run, changed.events.time_zone) == (OnGap.RECONCILE, 1, "UTC")
    assert (changed.url, changed.files.layout, changed.events.format) == ("s3://bucket", Layout.PLAIN, "maxwell")


@pytest.mark.parametrize("make", [ArchiveConfig.of, ArchiveConfig().changed], ids=["of", "changed"])
def test_a_name_that_no_group_has_is_an_error(make: typing.Callable[..., ArchiveConfig]) -> None:
    with pytest.raises(TypeError, match="colour"):
        make(colour="red")
