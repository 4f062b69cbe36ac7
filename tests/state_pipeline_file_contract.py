"""What a ledger promises of the pipeline files that runs have worked by; a part of `StateContract`."""

from datetime import timedelta

from cdc_ops.state.notices.pipeline_files import KEPT
from cdc_ops.state.sql import SqlStateStore, open_reader
from tests.state_values import PIPELINE, LedgerFixtures, at_once


class PipelineFileContract(LedgerFixtures):
    """The tests."""

    def test_each_change_of_a_pipelines_file_is_a_version_since_the_run_that_had_it_first(self, url: str, store: SqlStateStore) -> None:
        assert store.pipeline_versions(PIPELINE) == ()
        long = "tables:\n" + "  # ü\n" * 20_000
        for run_id, text in (("r1", "a"), ("r2", "a"), ("r3", long), ("r4", long), ("r5", "a")):
            store.note_pipeline_file(PIPELINE, text, run_id)
        store.note_pipeline_file("other", "a", "r6")
        with open_reader(url) as reader:
            found = reader.pipeline_versions(PIPELINE)
            assert [(one.number, one.text, one.run_id) for one in found] == [(3, "a", "r5"), (2, long, "r3"), (1, "a", "r1")]
            assert [one.run_id for one in reader.pipeline_versions(PIPELINE, limit=1)] == ["r5"]
            assert found[2].since <= found[1].since <= found[0].since <= reader.now() < found[0].since + timedelta(minutes=1)
            assert [(one.pipeline, one.number) for one in reader.pipeline_versions("other")] == [("other", 1)]

    def test_the_newest_versions_are_kept(self, store: SqlStateStore) -> None:
        for number in range(KEPT + 3):
            store.note_pipeline_file(PIPELINE, f"version {number}", "r")
        found = store.pipeline_versions(PIPELINE, limit=KEPT * 2)
        assert [found[0].number, found[-1].number, len(found)] == [KEPT + 3, 4, KEPT]

    def test_runs_that_note_the_same_change_at_once_make_one_version(self, store: SqlStateStore) -> None:
        store.note_pipeline_file(PIPELINE, "before", "r0")
        answers = at_once(8, lambda number: store.note_pipeline_file(PIPELINE, "after", f"r{number}"))
        assert answers == [None] * 8
        assert [(one.number, one.text) for one in store.pipeline_versions(PIPELINE)] == [(2, "after"), (1, "before")]
