"""`.env` of the working directory: which file is taken, which of its variables, and that their values are those of the shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_ops.config.env_file import find_env_file, read_env_file
from cdc_ops.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = """\
pipeline: shop
source: {kind: mysql, connection: shop_db}
target: {root: "${CDC_OPS_LAKE}", staging: "${CDC_OPS_LAKE}/staging"}
tables: {shop.orders: {cursor: updated_at}}
"""


def command(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of cdc-ops in a folder, without any variable of this process that is ours."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CDC_OPS_")} | {"HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "cdc_ops.cli", *arguments],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "shop.yaml").write_text(PIPELINE)
    (tmp_path / ".env").write_text(
        "CDC_OPS_PIPELINES=files\nCDC_OPS_LAKE=\"$PWD/lake\"  # here\nCDC_OPS_CONN_SHOP_DB='mysql://cdc:Sec$ret1@127.0.0.1:1/shop'\nMINE=1\n"
    )
    return tmp_path


def test_commands_have_the_variables_of_the_file_and_those_of_the_process_win(project: Path) -> None:
    done = command(project, "validate", "--json")
    assert done.returncode == 0, done.stderr
    assert "files/shop.yaml" in done.stdout
    other = command(project, "validate", CDC_OPS_PIPELINES="nowhere")
    assert (other.returncode, "nowhere" in other.stderr) == (2, True)
    without = command(project, "validate", CDC_OPS_ENV_FILE="off")
    assert (without.returncode, "dags/pipelines" in without.stderr) == (2, True)


def test_check_and_v_say_which_file_was_read_and_which_names_and_no_value(project: Path) -> None:
    checked = command(project, "check", "--json", CDC_OPS_LAKE=str(project))
    assert (
        f"from {project}/.env: CDC_OPS_PIPELINES, CDC_OPS_CONN_SHOP_DB; already set, so not from the file: CDC_OPS_LAKE" in checked.stdout
    )
    run = command(project, "run", "-v")
    assert f"variables from {project}/.env: CDC_OPS_PIPELINES, CDC_OPS_LAKE, CDC_OPS_CONN_SHOP_DB; 1 without CDC_OPS_" in run.stderr
    assert run.returncode == 6
    for done in (checked, run):
        assert "ret1" not in done.stdout + done.stderr


def test_a_file_that_cannot_be_read_stops_a_command_and_not_its_help(project: Path) -> None:
    (project / ".env").write_text("\nCDC_OPS_CONN_SHOP_DB=mysql://cdc:pa$ssword1@h/shop\n")
    done = command(project, "validate", "--json")
    assert (done.returncode, f"{project}/.env:2 (CDC_OPS_CONN_SHOP_DB)" in done.stdout) == (2, True)
    assert "single quotes" in done.stdout
    assert "ssword1" not in done.stdout + done.stderr
    assert command(project, "validate", "-h").returncode == 0
    assert command(project, "--version").returncode == 0


TEXT = """\
# a comment
export CDC_OPS_A='single $HOME "x"'
CDC_OPS_B="double $HOME/x ${HOME} \\$HOME"   # a comment
CDC_OPS_C=plain/$HOME
CDC_OPS_D=
CDC_OPS_E="${NOT_SET:-default} ${CDC_OPS_A}"
OTHERS="of others"
CDC_OPS_F="$OTHERS $PWD"
"""


def test_values_are_those_that_the_shell_reads(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(TEXT)
    environ = {"HOME": "/home/me", "PATH": os.environ["PATH"]}
    shell = subprocess.run(
        ["bash", "-c", "set -a; . ./.env; env -0"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    told = dict(line.split("=", 1) for line in shell.stdout.split("\0") if line.startswith("CDC_OPS_"))
    found = read_env_file(tmp_path / ".env", environ)
    assert found.variables == told
    assert (len(told), found.others) == (6, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CDC_OPS_A=$(cat secret)", "needs a shell"),
        ("CDC_OPS_A=`cat secret`", "needs a shell"),
        ("CDC_OPS_A=${secret%x}", "needs a shell"),
        ("CDC_OPS_A=a$secret", "not set"),
        ("CDC_OPS_A='secret", "quote is not closed"),
    ],
)
def test_what_only_a_shell_can_tell_is_refused_by_name_and_line_and_not_shown(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"MINE=$(secret) $secret\n\n{text}\n")
    with pytest.raises(ConfigError, match=why) as caught:
        read_env_file(file, {})
    assert f"{file}:3" in caught.value.what
    assert "secret" not in str(caught.value)
    if "quote" not in why:
        assert read_env_file(file, {"CDC_OPS_A": "of the process"}).kept == ("CDC_OPS_A",)


def test_a_file_that_somebody_else_may_have_written_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("CDC_OPS_A=1\n")
    me = file.stat().st_uid
    assert find_env_file({}, tmp_path, me) == file
    assert find_env_file({}, tmp_path, me + 1) == file, "a folder that others cannot write is trusted"
    tmp_path.chmod(0o1777)
    assert find_env_file({}, tmp_path, me) == file
    for user, mode in ((me + 1, 0o644), (me, 0o666)):
        file.chmod(mode)
        with pytest.raises(ConfigError, match="is not read"):
            find_env_file({}, tmp_path, user)
        assert find_env_file({"CDC_OPS_ENV_FILE": ".env"}, tmp_path, user) == file
        assert find_env_file({"CDC_OPS_ENV_FILE": "off"}, tmp_path, user) is None


def test_no_file_is_no_error_unless_one_is_named(tmp_path: Path) -> None:
    assert find_env_file({}, tmp_path, 0) is None
    (tmp_path / ".env").mkdir()
    assert find_env_file({}, tmp_path, 0) is None, "a folder of a virtual environment"
    with pytest.raises(ConfigError, match=r"other\.env cannot be read"):
        find_env_file({"CDC_OPS_ENV_FILE": "other.env"}, tmp_path, 0)
