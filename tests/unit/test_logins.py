"""The login of a source reaches a task by a token, and nothing that a task is given holds the login."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_ops.errors import EnvironmentSetupError, SourceUnreachableError
from cdc_ops.sources.base import NativeRead
from cdc_ops.steps.query.logins import exchange, issue

URL = "mysql://reader:geheim%2Fü@127.0.0.1:3306/shop"


def test_a_token_is_worth_the_url_to_another_process_of_this_user() -> None:
    token = issue(URL)
    program = "import pickle, sys; from cdc_ops.steps.query import logins; print(logins.exchange(pickle.loads(bytes.fromhex(sys.argv[1]))))"
    found = subprocess.run([sys.executable, "-c", program, pickle.dumps(token).hex()], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == URL


def test_a_token_holds_nothing_of_the_login_and_its_folder_is_closed_to_others() -> None:
    token = issue(URL)
    assert "geheim" not in repr(token)
    assert b"reader" not in pickle.dumps(token)
    assert Path(token.path).parent.stat().st_mode & 0o777 == 0o700
    assert issue(URL) == token


def test_a_token_that_was_never_given_out_is_worth_nothing() -> None:
    token = issue(URL)
    for wrong in (replace(token, secret="0" * 32), replace(token, secret=""), replace(token, path=token.path + "x")):
        with pytest.raises(EnvironmentSetupError) as failure:
            exchange(wrong)
        assert "geheim" not in str(failure.value)


def test_a_token_is_worth_nothing_to_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's permissions keep others from asking at all; root passes these. To the driver, whoever asks here is another user."""
    token, me = issue(URL), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(EnvironmentSetupError) as failure:
        exchange(token)
    assert "geheim" not in str(failure.value)


def test_a_native_read_does_not_show_its_url() -> None:
    assert "geheim" not in repr(NativeRead(reader="a:b", url=URL, statements=("SELECT 1",), columns=()))


def test_what_a_plan_carries_of_a_read_holds_nothing_of_the_login() -> None:
    native_rows = pytest.importorskip("cdc_ops.steps.query.native_rows")
    carried = pickle.dumps(native_rows.task_of(NativeRead(reader="a:b", url=URL, statements=("SELECT 1",), columns=())))
    assert b"SELECT 1" in carried
    assert b"geheim" not in carried
    assert b"reader@" not in carried


def test_the_error_of_a_task_is_that_of_the_run() -> None:
    native_rows = pytest.importorskip("cdc_ops.steps.query.native_rows")
    error = SourceUnreachableError("the server: ü", why="gone", data="nothing", next="wait")
    task = native_rows.task_of(NativeRead(reader="tests.unit.test_logins:fails", url=URL, statements=("SELECT 1",), columns=()))
    import pyarrow as pa

    with pytest.raises(RuntimeError) as failure:
        list(task(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
    found = native_rows.failed_task(f"PythonException: Traceback ... {failure.value}\n  at org.apache")
    assert found is not None
    assert found.to_payload() == error.to_payload()
    assert native_rows.failed_task("another failure") is None


def fails(url: str, statement: str, columns: object) -> None:
    assert url == URL
    raise SourceUnreachableError("the server: ü", why="gone", data="nothing", next="wait")
