"""What a ledger promises of files that watchers tell; a part of `StateContract`."""

from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa

from cdc_ops.core.archive.files import ListedFile
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore, open_reader
from cdc_ops.state.told_files import TellingStatus
from tests.state_values import NOON, PIPELINE, TTL, LedgerFixtures, race


def listed(count: int, size: int = 10) -> dict[str, ListedFile]:
    """Files by full path; one path is longer than a key may be."""
    files = (ListedFile(path=f"{number}.json", size=size, modified=NOON) for number in range(count))
    return {f"s3://archive/{'ü' * 700 if file.path == '0.json' else 't'}/{file.path}": file for file in files}


class ToldFilesContract(LedgerFixtures):
    """The tests."""

    def test_files_are_claimed_told_and_forgotten_by_pipeline(self, url: str, store: SqlStateStore) -> None:
        files = listed(1201)
        assert store.claim_files(PIPELINE, "one", files, {}, TTL)
        assert store.claim_files("other", "two", files, {}, TTL)
        known = store.told_files(PIPELINE)
        assert {path: file.file for path, file in known.items()} == files
        assert {(file.batch, file.status, file.until - file.at) for file in known.values()} == {("one", TellingStatus.CLAIMED, TTL)}
        store.confirm_told(PIPELINE, ["one", "two", "unknown"])
        with open_reader(url) as reader:
            assert {file.status for file in reader.told_files(PIPELINE).values()} == {TellingStatus.TOLD}
            assert {file.status for file in reader.told_files("other").values()} == {TellingStatus.CLAIMED}
        kept, *gone = sorted(known)
        store.forget_told_files(PIPELINE, [known[path] for path in gone])
        assert list(store.told_files(PIPELINE)) == [kept]
        assert len(store.told_files("other")) == 1201

    def test_a_claim_is_all_or_nothing_and_stands_on_what_its_watcher_has_seen(self, store: SqlStateStore) -> None:
        files, longer = listed(2), listed(3, size=11)
        assert store.claim_files(PIPELINE, "one", files, {}, TTL)
        assert not store.claim_files(PIPELINE, "two", listed(3), {}, TTL)
        assert len(store.told_files(PIPELINE)) == 2
        seen = store.told_files(PIPELINE)
        store.confirm_told(PIPELINE, ["one"])
        assert not store.claim_files(PIPELINE, "two", longer, seen, TTL)
        seen = store.told_files(PIPELINE)
        assert store.claim_files(PIPELINE, "two", longer, seen, TTL)
        store.forget_told_files(PIPELINE, seen.values())
        assert {file.batch for file in store.told_files(PIPELINE).values()} == {"two"}, "what was told anew is not forgotten"

    def test_a_claim_that_has_ended_goes_to_one_other_watcher_and_a_renewed_one_to_none(
        self, store: SqlStateStore, expire: Callable[[sa.Table, str], None]
    ) -> None:
        store.claim_files(PIPELINE, "one", listed(2), {}, TTL)
        assert not store.claim_again(PIPELINE, "one", TTL)
        expire(schema.told_files, "until")
        assert all(file.is_doubtful(store.now()) for file in store.told_files(PIPELINE).values())
        store.renew_claims(PIPELINE, ["one"], TTL)
        assert not store.claim_again(PIPELINE, "one", TTL)
        expire(schema.told_files, "until")
        assert [store.claim_again(PIPELINE, "one", timedelta(minutes=1)) for _ in range(2)] == [True, False]
        store.confirm_told(PIPELINE, ["one"])
        expire(schema.told_files, "until")
        assert not store.claim_again(PIPELINE, "one", TTL)
        assert not any(file.is_doubtful(store.now()) for file in store.told_files(PIPELINE).values())

    def test_of_watchers_that_claim_files_at_once_one_gets_them(self, url: str, store: SqlStateStore) -> None:
        imports = "import os\nfrom datetime import timedelta\nfrom cdc_ops.core.archive.files import ListedFile\n"
        imports += "from cdc_ops.state.sql import open_store\nstore = open_store(url)"
        code = "files = {f'/a/{n}': ListedFile(path=str(n), size=1) for n in range(20)}\n"
        code += f"print(store.claim_files('{PIPELINE}', str(os.getpid()), files, {{}}, timedelta(minutes=1))); store.close()"
        assert race(3, imports, code, url) == ["False", "False", "True"]
        assert len({file.batch for file in store.told_files(PIPELINE).values()}) == 1
