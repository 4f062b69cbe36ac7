"""Which operations a file is read for."""

from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.archive.file_groups import FileGroup, group_by_readers


def test_files_are_put_together_by_who_wants_them() -> None:
    wanted = [["1", "2", "3"], ["2", "3"], ["3", "4", "2"]]
    assert group_by_readers(wanted) == (
        FileGroup(files=("1",), takers=(0,)),
        FileGroup(files=("2", "3"), takers=(0, 1, 2)),
        FileGroup(files=("4",), takers=(2,)),
    )
    assert group_by_readers([]) == group_by_readers([[], []]) == ()


@given(st.lists(st.frozensets(st.sampled_from("abcdef")), max_size=6))
def test_each_operation_gets_its_files_and_each_file_is_there_once(wanted: list[frozenset[str]]) -> None:
    found = group_by_readers(wanted)
    assert sorted(path for cohort in found for path in cohort.files) == sorted(frozenset().union(*wanted))
    for number, paths in enumerate(wanted):
        assert {path for cohort in found if number in cohort.takers for path in cohort.files} == paths
