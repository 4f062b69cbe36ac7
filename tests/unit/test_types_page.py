"""docs/types.md says what the maps of types do: all that they know, and nothing else."""

import re
from pathlib import Path

import pytest

from cdc_ops.core.schema.server_types import mysql_types
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType, mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "types.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^|]+)` \| `([^|`]+)` \| (.+) \|$", re.MULTILINE)


def rows(heading: str) -> list[tuple[str, str, str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return ROW.findall(section)


@pytest.mark.parametrize(("declared", "stored", "how"), rows("MySQL and MariaDB"))
def test_the_page_says_how_mysql_types_are_stored(declared: str, stored: str, how: str) -> None:
    mapping = mysql_mapping(declared)
    assert mapping is not None
    assert mapping.delta_type == stored
    assert mapping.lossy == ("zero_dates" in how)
    assert (mapping.expression("x") == "x") or how != "as it is" or mapping.carrier


@pytest.mark.parametrize(("declared", "stored", "how"), rows("Postgres"))
def test_the_page_says_how_postgres_types_are_stored(declared: str, stored: str, how: str) -> None:
    mapping = postgres_mapping(declared)
    assert mapping.delta_type == stored
    assert mapping.lossy == ("policy" in how)


def test_the_page_leaves_no_type_of_mysql_out() -> None:
    shown = {DeclaredType.parse(declared).base for declared, _, _ in rows("MySQL and MariaDB")}
    assert set(mysql_types._MYSQL_FIXED) | {"decimal", "bit", "geometry"} == shown
