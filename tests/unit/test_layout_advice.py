"""Which layout would pay, by the ranges and sizes of a table's files."""

from dataclasses import replace

from cdc_ops.core.layout.advice import LayoutFacts, depth, layout_advice, profile
from cdc_ops.core.layout.data_files import DataFile

MB = 1 << 20
NUMBERED = LayoutFacts(keys=(("id", "bigint"),))


def files(count: int, *, mixed: bool, size: int = 30 * MB) -> list[DataFile]:
    """Files of a hundred rows each, in order or each with all keys."""
    return [
        DataFile(size=size, rows=100, deleted=3, vector=True, bounds=(((0, 99_999) if mixed else (100 * at, 100 * at + 99)),))
        for at in range(count)
    ]


def settings(found: list[DataFile], facts: LayoutFacts = NUMBERED) -> list[str]:
    return [one.setting for one in layout_advice(profile(found, 8 * MB), facts)]


def test_a_profile_counts_what_the_log_says() -> None:
    found = profile([*files(3, mixed=False), DataFile(size=5, rows=7, bounds=((50, 60),))], 8 * MB)
    assert (found.files, found.small_files, found.small_bytes, found.rows, found.deleted_rows, found.vector_files) == (4, 1, 5, 307, 9, 3)
    assert found.deleted_share == 9 / 307
    assert found.depth == 1.25
    assert profile([DataFile(size=5)], 8 * MB).rows is None


def test_files_without_known_ranges_have_no_depth() -> None:
    assert depth([]) is None
    assert depth([(0, 1), (None, None)]) is None
    assert depth([(0, 1), ("a", "b")]) is None


def test_clustering_is_advised_where_keys_lie_in_most_files() -> None:
    assert settings(files(20, mixed=True)) == ["cluster_by: [id]"]
    assert settings(files(20, mixed=False)) == [""]
    assert settings(files(7, mixed=True)) == [""], "few files are read as a whole"
    assert settings(files(20, mixed=True), replace(NUMBERED, cluster_by=("id",))) == [""]
    assert settings(files(20, mixed=True), replace(NUMBERED, keys=())) == [""]


def test_random_texts_are_clustered_for_lookups_and_not_for_batches() -> None:
    texts = replace(NUMBERED, keys=(("id", "string"),))
    [advice] = layout_advice(profile(files(20, mixed=True), 8 * MB), texts)
    assert advice.setting == "cluster_by: [id]"
    assert "A batch of many random keys meets all files in any layout" in advice.text


def test_partitions_are_advised_for_large_tables_and_against_for_tiny_files() -> None:
    dated = replace(NUMBERED, dates=("day",))
    assert settings(files(200, mixed=False, size=1 << 30), dated) == ["partition_by: [day]"]
    assert settings(files(20, mixed=False), dated) == [""]
    assert settings(files(20, mixed=False, size=MB), replace(dated, partition_by=("day",))) == ["partition_by: []"]
