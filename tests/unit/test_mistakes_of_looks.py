"""Mistakes about ledger, archive and looks, typed at 80 and 120 columns: the answer is read, its `next:` is followed, and helps."""

import socket
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.state.sql import open_store
from tests.mistakes import Desk, Mistake, edits, exports_next, ids, ledger_of, nothing, types_next
from tests.state_values import ORDERS, PIPELINE, run, take


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def newer(desk: Desk) -> None:
    """Brings the ledger to a version that this code does not know."""
    ledger_of(desk)
    with sqlite3.connect(desk.folder / "ledger.db") as connection:
        connection.execute("UPDATE cdc_ops_version SET version_num = '9999'")


def same_version(desk: Desk) -> None:
    """What the newer cdc-ops would be: its version is the ledger's."""
    (desk.folder / "ledger.db").unlink()
    ledger_of(desk)


def damaged(desk: Desk) -> None:
    (desk.folder / "ledger.db").write_text("this is no database, and has never been one" * 30)


def moved_away_and_rebuilt(desk: Desk) -> None:
    (desk.folder / "ledger.db").rename(desk.folder / "damaged.db")
    types_next(desk)


def in_a_file(desk: Desk) -> None:
    desk.set("CDC_OPS_LEDGER", f"sqlite:///{desk.file}/ledger.db")


LEDGER = "sqlite:////absolute/path/ledger.db"
NO_LEDGER = ("There is no ledger at sqlite:///", "The first run makes it")
FIRST_RUN = "For a first run: cdc-ops run"
LEDGERS = (
    Mistake(
        typed="status",
        make=lambda desk: desk.set("CDC_OPS_LEDGER", "ledger.db"),
        says=("CDC_OPS_LEDGER is not the URL of a ledger",),
        next=f"export CDC_OPS_LEDGER='{LEDGER}'",
        follow=exports_next(CDC_OPS_LEDGER="sqlite:///here.db"),
        end=(2, NO_LEDGER[0]),
    ),
    Mistake(
        typed="run",
        make=lambda desk: desk.set("CDC_OPS_LEDGER", "sqlit:////ledger.db"),
        says=("Did you mean 'sqlite'?",),
        next=f"export CDC_OPS_LEDGER='{LEDGER}'",
        follow=exports_next(CDC_OPS_LEDGER="sqlite:///here.db"),
    ),
    *(
        Mistake(typed=command, says=NO_LEDGER, next=FIRST_RUN, follow=types_next, end=(code, ""))
        for command, code in (("status", 0), ("runs", 0), ("alerts", 0), ("gap list", 0), ("metrics", 0))
    ),
    Mistake(
        typed="status",
        make=newer,
        code=4,
        says=("has version 9999; this cdc-ops knows up to",),
        next="Install the same cdc-ops version",
        follow=same_version,
    ),
    Mistake(
        typed="status",
        make=damaged,
        code=4,
        says=("refused a statement", "file is not a database"),
        next="move it away",
        data="rolled back",
        follow=moved_away_and_rebuilt,
    ),
    Mistake(
        typed="run",
        make=in_a_file,
        code=6,
        says=("does not answer", "File exists"),
        data="completely or not at all",
        next="check that the server runs, the disk has space, the file's folder is writable",
        follow=lambda desk: desk.set("CDC_OPS_LEDGER", f"sqlite:///{desk.folder}/ledger.db"),
    ),
    Mistake(
        typed="run",
        code=6,
        make=lambda desk: desk.set("CDC_OPS_LEDGER", "postgresql://cdc:secret@127.0.0.1:1/ledger"),
        says=("cdc:***@127.0.0.1:1/ledger does not answer", "refused"),
        data="completely or not at all",
        next="check that the server runs",
        follow=lambda desk: desk.set("CDC_OPS_LEDGER", f"sqlite:///{desk.folder}/ledger.db"),
    ),
)


@pytest.mark.parametrize("mistake", LEDGERS, ids=ids(LEDGERS))
def test_a_ledger_that_is_not_what_is_meant(desk: Desk, mistake: Mistake) -> None:
    mistake.check(desk)


def with_runs(desk: Desk) -> None:
    with open_store(desk.url) as store:
        store.record(run("run-1"))


def with_gap(desk: Desk) -> None:
    with open_store(desk.url) as store:
        store.report_gaps(take(store), [Gap(stream="orders/0", low=(10,), high=(20,), after_file="a.json", before_file="b.json")])


def held(desk: Desk) -> None:
    with open_store(desk.url) as store:
        store.acquire(PIPELINE, ORDERS, "airflow:cdc_shop:run-1", ttl=timedelta(minutes=5), live=True, purpose="increment")


def unlocked(desk: Desk) -> None:
    """Types the command that the answer names, which asks, and answers yes."""
    code, text = desk.type(f"{desk.command_of_next()} --yes")
    assert code == 0, text


def gap_named(desk: Desk) -> None:
    types_next(desk)
    command = desk.told.partition("To accept the loss of its events: cdc-ops ")[2].strip()
    code, text = desk.type(command.replace("...", "the topic had expired"))
    assert code == 0, text


SHOWN = "'cdc-ops status' shows the tables"
LOOKS = (
    Mistake(
        typed="status shopp",
        make=with_runs,
        says=("no table of a pipeline 'shopp'", "Did you mean 'shop'?"),
        next="Name a pipeline that has run",
        then="status shop",
    ),
    Mistake(
        typed="runs --table shop.order",
        make=with_runs,
        says=("does not know the table shop.order", "'shop.orders'?"),
        next=SHOWN,
        follow=types_next,
        then="runs --table shop.orders",
    ),
    Mistake(
        typed="show shop.order",
        make=with_runs,
        says=("No pipeline has the table shop.order", "'shop.orders'?"),
        next=SHOWN,
        follow=types_next,
        then="show shop.orders",
        end=(2, "No Delta table"),
    ),
    Mistake(
        typed="show orders",
        make=with_runs,
        says=("'orders' is not the name of a table",),
        next="as 'cdc-ops status' shows it",
        follow=types_next,
        then="show shop.orders",
        end=(2, "No Delta table"),
    ),
    Mistake(
        typed="show shop.orders",
        says=("No Delta table of a pipeline exists at",),
        next="To load it first: cdc-ops run",
        follow=types_next,
        end=(2, "No Delta table"),
    ),
    Mistake(
        typed="docs lineag",
        says=("no page 'lineag'", "Did you mean 'lineage'?"),
        next="cdc-ops docs",
        follow=types_next,
        then="docs lineage",
    ),
    Mistake(
        typed="docs run#nowhere",
        says=("The page 'run' has no heading 'nowhere'",),
        next="cdc-ops docs run",
        follow=types_next,
        then="docs run#is-it-equal",
    ),
    Mistake(
        typed="formats show maxwel",
        says=("Format 'maxwel' does not exist", "'maxwell'?"),
        next="'cdc-ops formats list' shows all",
        follow=types_next,
        then="formats show maxwell",
    ),
    Mistake(
        typed="gap accept nothing --why gone",
        make=with_gap,
        says=("No pipeline has an open gap 'nothing'",),
        next="'cdc-ops gap list' shows them",
        follow=gap_named,
        then="gap list",
    ),
    Mistake(
        typed="unlock shop.order --yes",
        make=held,
        says=("does not know the table shop.order", "'shop.orders'?"),
        next=SHOWN,
        follow=types_next,
        then="unlock shop.orders --yes",
        end=(0, "is free"),
    ),
    Mistake(
        typed="unlock shop.orders",
        make=held,
        says=("no terminal for the confirmation", "No row is lost or duplicated"),
        next="Add --yes",
        then="unlock shop.orders --yes",
        end=(0, "is free"),
    ),
    Mistake(
        typed="forget nope --yes",
        make=with_runs,
        says=("knows no pipeline 'nope'", "Valid names are: shop"),
        next="'cdc-ops status' shows the pipelines",
        follow=types_next,
        then="status",
    ),
    Mistake(
        typed="forget shop --yes",
        make=with_runs,
        says=("cannot be forgotten: dags/pipelines/shop.yaml has it",),
        next="Remove dags/pipelines/shop.yaml first",
        follow=lambda desk: desk.file.unlink(),
        end=(0, "has forgotten shop"),
    ),
    Mistake(
        typed="quarantine show a.json:1",
        says=("has no record of a.json",),
        next="'cdc-ops quarantine list'",
        follow=types_next,
        then="quarantine list",
    ),
    Mistake(
        typed="quarantine replay",
        says=("quarantine of pipeline 'shop' has no record",),
        next="Nothing to do",
        follow=types_next,
        then="quarantine list",
    ),
    Mistake(
        typed="state rebuild --watermark 7",
        says=("--watermark needs exactly one table",),
        next="Add --table schema.table",
        then="state rebuild --table shop.orders",
    ),
    Mistake(
        typed="metrics --output no/where.prom",
        make=with_runs,
        says=("cannot be written to no/where.prom",),
        next="Create the folder",
        follow=lambda desk: (desk.folder / "no").mkdir(),
    ),
    Mistake(
        typed="archive",
        says=("'shop' copies no binlogs",),
        next="Write 'copy: {connection: ID}'",
        follow=edits("min_file_age: 0s", "min_file_age: 0s, copy: {connection: shop_db}"),
        end=(2, "'copy'"),
    ),
    Mistake(
        typed="import-sqoop",
        says=("not said which import",),
        next="cdc-ops import-sqoop --file imports.sh",
        follow=nothing,
        then="import-sqoop --help",
    ),
    Mistake(
        typed="init new --kind oracle",
        says=("'oracle' is not a kind of source",),
        next="--kind mysql, mariadb or postgres",
        then="init new --kind postgres",
    ),
    Mistake(
        typed="init . --name shop",
        says=("dags/pipelines/shop.yaml already exists",),
        next="Choose another name or folder",
        then="init new --name shop",
    ),
    Mistake(
        typed="init new --url mysql://cdc:pw@127.0.0.1:1/shop",
        says=("has a password",),
        next="Leave it out",
        then="init new --url mysql://cdc@127.0.0.1:1/shop",
        end=(6, "cannot reach"),
    ),
    Mistake(
        typed="init new --url mysql://cdc@127.0.0.1:1",
        says=("names no database",),
        next="mysql://user@host/database",
        then="init new --url mysql://cdc@127.0.0.1:1/shop",
        end=(6, "cannot reach"),
    ),
    Mistake(typed="ui --port 80000", make=with_runs, says=("--port", "less than or equal to 65535"), next="", then="ui --help"),
)


@pytest.mark.parametrize("mistake", LOOKS, ids=ids(LOOKS))
def test_a_look_at_what_there_is_not(desk: Desk, mistake: Mistake) -> None:
    mistake.check(desk)


def test_the_page_at_a_port_that_is_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with_runs(desk)
    served: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("cdc_ops.web.local.serve", lambda listener, *_, **__: served.append(listener.getsockname()[1]), raising=False)
        Mistake(
            typed=f"ui --port {port}",
            says=(f"cannot be served at port {port} of 127.0.0.1", "in use"),
            next="Name another port with --port; --port 0 takes one that is free",
            then="ui --help",
        ).check(desk)


def records(desk: Desk) -> None:
    path = desk.folder / "archive/t/partition=0/t+0+0000000000.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"not": "maxwell"}\n')


def wrong_layout(desk: Desk) -> None:
    records(desk)
    (desk.folder / "archive/t/partition=0/readme.txt").write_text("hello")


ARCHIVES = (
    Mistake(
        typed="plan",
        code=3,
        make=lambda desk: (desk.folder / "archive").rmdir(),
        says=("No archive exists at", "is not a folder"),
        next="or create the folder",
        follow=lambda desk: (desk.folder / "archive").mkdir(),
    ),
    Mistake(
        typed="plan",
        code=2,
        make=edits('"${DESK}/archive"', "tape://host/archive"),
        says=("tape",),
        next="Correct the URL",
        follow=edits("tape://host/archive", '"${DESK}/archive"'),
    ),
    Mistake(
        typed="plan",
        code=2,
        make=edits('"${DESK}/archive"', "sftp://host/archive"),
        says=("package for sftp:// is not installed",),
        next="Install the package that fsspec names",
        follow=edits("sftp://host/archive", '"${DESK}/archive"'),
    ),
    Mistake(
        typed="show shop.orders",
        make=edits('"${DESK}/lake"', "tape://host/lake"),
        says=("'tape://host/lake/shop/orders'", "Protocol not known: tape"),
        next="Correct the URL",
        follow=edits("tape://host/lake", '"${DESK}/lake"'),
        end=(2, "No Delta table"),
    ),
    Mistake(
        typed="plan",
        code=3,
        make=wrong_layout,
        says=("readme.txt",),
        next="move the files away",
        follow=lambda desk: (desk.folder / "archive/t/partition=0/readme.txt").unlink(),
    ),
    Mistake(
        typed="run",
        code=6,
        make=held,
        says=("is held by airflow:cdc_shop:run-1 for increment",),
        next="cdc-ops unlock shop.orders --pipeline shop",
        follow=unlocked,
    ),
)


@pytest.mark.parametrize("mistake", ARCHIVES, ids=ids(ARCHIVES))
def test_an_archive_or_a_table_that_a_run_cannot_take(desk: Desk, mistake: Mistake) -> None:
    mistake.check(desk)
