"""System-versioned tables of MariaDB: what formats may feed them is decided from the catalog, before anything is read."""

from dataclasses import replace

import pytest

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import ConfigError, SourceTableError


def column(name: str, source: str = "int", delta: str = "int") -> Column:
    return Column(name=name, source_type=source, delta_type=delta, nullable=False, expression=name)


PLAIN = TableSchema(table=TableName(schema="shop", name="items"), columns=(column("id"),), primary_key=("id",))


def check(form: str, schema: TableSchema) -> None:
    check_format(format_spec(form), FormatOptions(name=form, settings={}), schema, ("id",))


def test_a_system_versioned_table_is_refused_by_name_whatever_its_events_are() -> None:
    for form in ("mysql-binlog", "maxwell", "canal", "debezium-mysql"):
        with pytest.raises((SourceTableError, ConfigError), match=r"shop.items is system-versioned .* do not tell its rows"):
            check(form, replace(PLAIN, versioned_until="row_end"))
    check("mysql-binlog", PLAIN)
