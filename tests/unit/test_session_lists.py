"""The lists of settings that sessions set: told in the documentation, one entry for each name, by versions that servers understand."""

from pathlib import Path

import pytest

from cdc_ops.sources.mysql import settings as mysql
from cdc_ops.sources.postgres import settings as postgres

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "install.md").read_text()
NAMES = {
    "mysql": [one.name for one in mysql.SETTINGS],
    "postgres": [*(one.name for one in (*postgres.OF_TRANSACTIONS, *postgres.SETTINGS)), *(name for name, _, _ in postgres.FORBIDDEN)],
}


@pytest.mark.parametrize("server", NAMES)
def test_the_documentation_names_each_setting_and_the_list_has_each_once(server: str) -> None:
    names = NAMES[server]
    assert len(set(names)) == len(names)
    assert not [name for name in names if f"`{name}`" not in PAGE]


def test_an_older_server_is_not_asked_for_what_it_does_not_know() -> None:
    text = mysql.SESSION_SETTINGS
    assert text.startswith("SET SESSION time_zone = '+00:00', timestamp = DEFAULT")
    assert "/*!80030 , show_gipk_in_create_table_and_information_schema = 1 */" in text
    assert "/*M!100304 , system_versioning_asof = DEFAULT */" in text
    assert "/*M! , tx_isolation = 'REPEATABLE-READ' */" in text
