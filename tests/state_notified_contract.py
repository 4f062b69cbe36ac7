"""What a ledger promises of the files that watchers notify Airflow of; a part of `StateContract`."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from cdc_ops.core.archive.files import ListedFile
from cdc_ops.errors import LedgerUnavailableError
from cdc_ops.state.db import schema
from cdc_ops.state.db.database import Database
from cdc_ops.state.notices.notified_files import NotificationStatus
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from tests.state_alert_contract import DELETES, WHOLE, told
from tests.state_values import NOON, PIPELINE, TTL, LedgerFixtures, migrate_to, race

OLD_NAMES: Final = {schema.notified_alerts: "cdc_told_alerts", schema.notified_files: "cdc_told_files"}


def listed(count: int, size: int = 10) -> dict[str, ListedFile]:
    """Files by full path; one path is longer than a key may be."""
    files = (ListedFile(path=f"{number}.json", size=size, modified=NOON) for number in range(count))
    return {f"s3://archive/{'ü' * 700 if file.path == '0.json' else 't'}/{file.path}": file for file in files}


def rows_of(database: Database, table: sa.Table) -> list[dict[str, Any]]:
    with database.read() as connection:
        return [dict(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()]


class NotifiedFilesContract(LedgerFixtures):
    """The tests."""

    def test_files_are_claimed_notified_and_forgotten_by_pipeline(self, url: str, store: SqlStateStore) -> None:
        files = listed(1201)
        assert store.claim_files(PIPELINE, "one", files, {}, TTL)
        assert store.claim_files("other", "two", files, {}, TTL)
        known = store.notified_files(PIPELINE)
        assert {path: file.file for path, file in known.items()} == files
        assert {(file.batch, file.status, file.until - file.at) for file in known.values()} == {("one", NotificationStatus.CLAIMED, TTL)}
        store.confirm_notified(PIPELINE, ["one", "two", "unknown"])
        with open_reader(url) as reader:
            assert {file.status for file in reader.notified_files(PIPELINE).values()} == {NotificationStatus.NOTIFIED}
            assert {file.status for file in reader.notified_files("other").values()} == {NotificationStatus.CLAIMED}
        kept, *gone = sorted(known)
        store.forget_notified_files(PIPELINE, [known[path] for path in gone])
        assert list(store.notified_files(PIPELINE)) == [kept]
        assert len(store.notified_files("other")) == 1201

    def test_a_claim_is_all_or_nothing_and_stands_on_what_its_watcher_has_seen(self, store: SqlStateStore) -> None:
        files, longer = listed(2), listed(3, size=11)
        assert store.claim_files(PIPELINE, "one", files, {}, TTL)
        assert not store.claim_files(PIPELINE, "two", listed(3), {}, TTL)
        assert len(store.notified_files(PIPELINE)) == 2
        seen = store.notified_files(PIPELINE)
        store.confirm_notified(PIPELINE, ["one"])
        assert not store.claim_files(PIPELINE, "two", longer, seen, TTL)
        seen = store.notified_files(PIPELINE)
        assert store.claim_files(PIPELINE, "two", longer, seen, TTL)
        store.forget_notified_files(PIPELINE, seen.values())
        assert {file.batch for file in store.notified_files(PIPELINE).values()} == {"two"}, "what was notified anew is not forgotten"

    def test_a_claim_that_has_ended_goes_to_one_other_watcher_and_a_renewed_one_to_none(
        self, store: SqlStateStore, expire: Callable[[sa.Table, str], None]
    ) -> None:
        store.claim_files(PIPELINE, "one", listed(2), {}, TTL)
        assert not store.claim_again(PIPELINE, "one", TTL)
        expire(schema.notified_files, "until")
        assert all(file.is_doubtful(store.now()) for file in store.notified_files(PIPELINE).values())
        store.renew_claims(PIPELINE, ["one"], TTL)
        assert not store.claim_again(PIPELINE, "one", TTL)
        expire(schema.notified_files, "until")
        assert [store.claim_again(PIPELINE, "one", timedelta(minutes=1)) for _ in range(2)] == [True, False]
        store.confirm_notified(PIPELINE, ["one"])
        expire(schema.notified_files, "until")
        assert not store.claim_again(PIPELINE, "one", TTL)
        assert not any(file.is_doubtful(store.now()) for file in store.notified_files(PIPELINE).values())

    def test_of_watchers_that_claim_files_at_once_one_gets_them(self, url: str, store: SqlStateStore) -> None:
        imports = "import os\nfrom datetime import timedelta\nfrom cdc_ops.core.archive.files import ListedFile\n"
        imports += "from cdc_ops.state.sql import open_store\nstore = open_store(url)"
        code = "files = {f'/a/{n}': ListedFile(path=str(n), size=1) for n in range(20)}\n"
        code += f"print(store.claim_files('{PIPELINE}', str(os.getpid()), files, {{}}, timedelta(minutes=1))); store.close()"
        assert race(3, imports, code, url) == ["False", "False", "True"]
        assert len({file.batch for file in store.notified_files(PIPELINE).values()}) == 1

    def test_tables_with_their_old_names_keep_all_rows_also_if_processes_upgrade_them_at_once(self, url: str, tmp_path: Path) -> None:
        migrate_to(url, "0009")
        database = Database(url, read_only=False)
        old = {table: table.to_metadata(sa.MetaData(), name=name) for table, name in OLD_NAMES.items()}
        with open_store(f"sqlite:///{tmp_path}/now.db") as store:  # the rows of a ledger of now
            assert store.claim_files(PIPELINE, "one", listed(1), {}, TTL)
            store.confirm_notified(PIPELINE, ["one"])
            assert store.claim_files("other", "two", listed(2), {}, TTL)
            store.put_notified([told(DELETES), told(WHOLE, "team")])
            rows = {table: rows_of(store._database, table) for table in old}
        with database.write() as connection:
            for table, found in rows.items():
                named = [row | ({"status": "told"} if row.get("status") == "notified" else {}) for row in found]
                connection.execute(sa.insert(old[table]), named)
        with open_reader(url) as reader, pytest.raises(LedgerUnavailableError, match="has version 0009; this cdc-ops reads version 0010"):
            reader.notified_files(PIPELINE)
        imports = "import alembic.command; from cdc_ops.state.sql import open_store"
        code = f"store = open_store(url); print(len(store.notified_files('{PIPELINE}'))); store.close()"
        assert race(4, imports, code, url) == ["1"] * 4
        assert {table: rows_of(database, table) for table in old} == rows
        with database.read() as connection:
            assert not set(OLD_NAMES.values()) & set(sa.inspect(connection).get_table_names())
        database.close()
        with open_store(url) as store:
            assert {file.status for file in store.notified_files(PIPELINE).values()} == {NotificationStatus.NOTIFIED}
            assert {file.status for file in store.notified_files("other").values()} == {NotificationStatus.CLAIMED}
            assert {one.receiver for one in store.notified_alerts(PIPELINE)} == {"on_call", "team"}
