"""The table of mechanisms that `make mutants` breaks: every edit still fits its file, every test exists, and the page shows the table."""

import re
from pathlib import Path

import pytest

from tests.mutants.table import PAGE, ROOT, Mechanism, Needs, functions_of, mechanisms, needs_of, with_table
from tests.mutants.trial import End, Verdict, judged, unsound

TABLE = mechanisms()
PROMISES = range(1, 10)


def misfit(one: Mechanism) -> str:
    try:
        one.broken_text()
    except (ValueError, SyntaxError) as error:
        return str(error)
    return ""


def test_every_edit_fits_its_file_exactly_once_and_leaves_a_program() -> None:
    assert [said for one in TABLE if (said := misfit(one))] == []


def test_the_tests_of_every_mechanism_exist() -> None:
    named = [test for one in TABLE for test in one.tests]
    known = {path: functions_of(ROOT / path) for path in {test.partition("::")[0] for test in named}}
    split = [(test, *test.partition("[")[0].split("::", 1)) for test in named]
    assert [test for test, path, name in split if name not in known[path]] == []
    assert [one.name for one in TABLE if not one.tests] == []


def test_mechanisms_are_told_in_words_that_fit_a_table() -> None:
    assert [one.name for one in TABLE if not re.fullmatch(r"[a-z][a-z0-9-]+", one.name)] == []
    texts = [text for one in TABLE for text in (one.mechanism, one.broken)]
    assert [text for text in texts if not text or text.strip() != text or set("|\n") & set(text)] == []


def test_names_are_unique_and_every_promise_has_mechanisms() -> None:
    assert len({one.name for one in TABLE}) == len(TABLE) > 60
    assert {one.promise for one in TABLE} == set(PROMISES)


def test_the_page_of_mutants_shows_the_table() -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_table(page, TABLE), "run: python -m tests.mutants --write-docs"


def test_what_a_test_needs_follows_from_its_folder_and_its_fixtures() -> None:
    assert needs_of("tests/unit/test_windows.py::test_a_window_names_its_open_ends") is Needs.NOTHING
    bounds = "tests/integration/test_mariadb_replica.py"
    assert needs_of(f"{bounds}::test_the_bound_of_a_delayed_replica_stays_below_what_it_has_not_applied") is Needs.SERVERS
    assert needs_of(f"{bounds}::test_a_first_load_reads_the_replica_and_misses_nothing_that_was_committed_before") is Needs.SPARK
    assert needs_of("tests/spark/test_scd.py::test_a_reader_never_sees_half_a_batch") is Needs.SPARK


def end(outcome: str, *kinds: str, said: str = "", test: str = "t.py::a") -> End:
    return End(test=test, outcome=outcome, kinds=kinds, said=said)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([end("passed"), end("failed", "AssertionError", "Exception")], Verdict.CAUGHT),
        ([end("failed", "LeaseHeldError", "CdcError", "Exception")], Verdict.CAUGHT),
        ([end("failed", "Failed", "Exception", said="DID NOT RAISE")], Verdict.CAUGHT),
        ([end("passed"), end("passed")], Verdict.NOT_CAUGHT),
        ([end("passed"), end("skipped")], Verdict.NOT_CAUGHT),
        ([end("skipped", said="no MySQL server on this machine")], Verdict.NOT_RUN),
        ([], Verdict.BROKEN),
        ([end("not collected")], Verdict.BROKEN),
        ([end("failed", "ModuleNotFoundError", "ImportError", "Exception")], Verdict.BROKEN),
        ([end("failed", "UnboundLocalError", "NameError", "Exception")], Verdict.BROKEN),
        ([end("failed", "EnvironmentSetupError", "CdcError", "Exception")], Verdict.BROKEN),
        ([end("failed", "Failed", "Exception", said="Timeout (>300.0s) from pytest-timeout.")], Verdict.BROKEN),
    ],
)
def test_only_a_test_that_fails_by_what_it_is_about_has_noticed(ends: list[End], verdict: Verdict) -> None:
    assert judged(ends)[0] is verdict


def test_a_mechanism_is_not_tried_if_its_tests_do_not_pass_unbroken() -> None:
    one = TABLE[0]
    [test] = one.tests
    assert unsound(one, [end("passed", test=f"{test}[a]"), end("skipped", test=f"{test}[b]")]) == ""
    assert "fails while nothing is broken" in unsound(one, [end("failed", test=test)])
    assert "did not run" in unsound(one, [end("passed", test=f"{test}_and_another")])


def test_an_edit_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    one = Mechanism(name="n", promise=1, mechanism="m", broken="b", file="a.py", old="x = 1", new="x = 2", tests=())
    assert one.broken_text(tmp_path) == "x = 2\ny = 1\n"
    for wrong in ({"old": "= 1"}, {"old": "z = 1"}, {"new": "x = 1"}):
        fields = {"old": one.old, "new": one.new} | wrong
        with pytest.raises(ValueError, match=r"stands [02] times|changes nothing"):
            Mechanism(name="n", promise=1, mechanism="m", broken="b", file="a.py", tests=(), **fields).broken_text(tmp_path)
