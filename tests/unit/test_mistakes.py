"""Mistakes in files and requests, typed at 80 and 120 columns: the answer is read, its `next:` is followed, and helps."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mistakes import DECLARED, Desk, Mistake, edits, ids, types_next

CORRECT = "Correct the file, then: cdc-ops validate"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def file(typed: str, wrong: str, *says: str, right: str = "", old: str = "  shop.orders:\n") -> Mistake:
    """A mistake in the pipeline file, which is corrected to what the answer says."""
    return Mistake(
        typed=typed, make=edits(old, wrong), says=says, next=CORRECT, follow=edits(wrong, right or old), then="validate", end=(0, "ok shop")
    )


def rewritten(text: str) -> Callable[[Desk], None]:
    return lambda desk: desk.file.write_text(text) and None  # type: ignore[func-returns-value]


def good(desk: Desk) -> None:
    desk.file.write_text(DECLARED)


CRON = "schedule: */5 * * * *\ntables:\n"
FILES = (
    Mistake(typed="validate", make=rewritten("hello"), says=("shop.yaml:1:1", "not a mapping of fields"), next=CORRECT, follow=good),
    Mistake(typed="validate", make=rewritten(""), says=("The file is empty", "begins with 'pipeline: <name>'"), next=CORRECT, follow=good),
    Mistake(typed="run", make=rewritten("pipeline: ["), says=("shop.yaml:2:1", "Not valid YAML"), next=CORRECT, follow=good),
    file("validate", "  shop.orders: {curser: id}\n", "Unknown field 'curser'", "Did you mean 'cursor'?"),
    file("plan", "  shop.orders: {lookback: soon}\n", "'soon' is not a duration", "30s", right="  shop.orders: {lookback: 30s}\n"),
    file("check", "  shop.orders: {parallelism: many}\n", "needs a whole number, not the text 'many'"),
    file("validate", CRON, 'Write schedule: "*/5 * * * *"', "shop.yaml:7", right='schedule: "*/5 * * * *"\ntables:\n', old="tables:\n"),
    file("validate", "  *.orders:\n", 'Write "*.orders":', "shop.yaml:8", right='  "*.orders":\n'),
    file(
        "validate",
        "schedule: daily at 3\ntables:\n",
        "A cron expression has five",
        right='schedule: "0 3 * * *"\ntables:\n',
        old="tables:\n",
    ),
    file("validate", "  shop.orders:\n  shop.orders: {}\n", "'shop.orders' appears twice", "line 8", "Keep one of them"),
    file("validate", "  orders:\n", "'orders' is not of the form schema.table", "Did you mean 'shop.orders'"),
    file("validate", "kind: non,", "'non' is not a value of 'kind'", "Did you mean 'none'?", old="kind: none,"),
    file(
        "validate",
        "root: lake,",
        "'lake' is neither an absolute folder nor a URI",
        "/data/lake",
        right="root: /data/lake,",
        old='root: "${DESK}/lake",',
    ),
    file("validate", "format: maxwel,", "'maxwel'", "Did you mean 'maxwell'?", old="format: maxwell,"),
    Mistake(
        typed="validate",
        make=lambda desk: shutil.copy(desk.file, desk.file.with_name("copy.yaml")) and None,  # type: ignore[func-returns-value]
        says=("The pipeline name 'shop' is already used by", "copy.yaml:1:1"),
        next="Rename one of them",
        follow=lambda desk: desk.edit("pipeline: shop", "pipeline: shop_two"),
    ),
    Mistake(
        typed="run shopp",
        says=("Pipeline 'shopp' does not exist in dags/pipelines", "Did you mean 'shop'?"),
        next="Correct the name: 'cdc-ops validate' shows the pipelines",
        follow=types_next,
        then="run shop",
        end=(0, "Run of shop"),
    ),
    Mistake(
        typed="run shopp --pipelines dags/pipelines",
        says=("Pipeline 'shopp' does not exist in dags/pipelines",),
        next="'cdc-ops validate --pipelines dags/pipelines' shows",
        follow=types_next,
        then="run shop",
    ),
    Mistake(
        typed="plan --pipelines nowhere",
        says=("nowhere", "No such file or directory"),
        next="Name another folder: --pipelines on the command line, else CDC_OPS_PIPELINES",
        then="plan --pipelines dags/pipelines",
    ),
    Mistake(
        typed="plan --pipelines .",
        says=("No pipeline file exists in .", "ends in .yaml or .yml"),
        next="name another folder: --pipelines on the command line, else CDC_OPS_PIPELINES",
        then="plan --pipelines dags/pipelines",
    ),
    Mistake(
        typed="run",
        make=lambda desk: desk.set("CDC_OPS_PIPELINES", "s3://bucket/pipelines"),
        says=("CDC_OPS_PIPELINES is not a local folder",),
        next="Set CDC_OPS_PIPELINES to a path, or unset it",
        follow=lambda desk: desk.patch.delenv("CDC_OPS_PIPELINES"),
    ),
)


@pytest.mark.parametrize("mistake", FILES, ids=ids(FILES))
def test_a_mistake_in_a_file_or_folder(desk: Desk, mistake: Mistake) -> None:
    mistake.check(desk)


SINCE, UNTIL = "--since 2026-01-01T00:00:00Z", "--until 2026-01-02T00:00:00Z"
UNREAD = (2, "the pipeline's source has no database")
"""The request is right now, and comes to the next answer."""

REQUESTS = (
    Mistake(typed="backfill", says=("needs since and until",), next="(--since and --until)", then=f"backfill {SINCE} {UNTIL}", end=UNREAD),
    Mistake(typed=f"backfill {SINCE}", says=("names since",), next="(--since and --until)", then=f"backfill {SINCE} {UNTIL}", end=UNREAD),
    Mistake(
        typed=f"backfill --since 2026-01-01 {UNTIL}",
        says=("since='2026-01-01' has no time zone",),
        next="e.g. 2026-01-01T00:00:00Z or",
        then=f"backfill --since 2026-01-01T00:00:00Z {UNTIL}",
        end=UNREAD,
    ),
    Mistake(
        typed=f"backfill --since monday {UNTIL}",
        says=("since='monday' is not a date and time",),
        next="Write it as 2026-01-31T00:00:00Z",
        then="backfill --since 2026-01-31T00:00:00Z --until 2026-02-01T00:00:00Z",
        end=UNREAD,
    ),
    Mistake(
        typed="backfill --since 2026-01-03T00:00:00Z --until 2026-01-02T00:00:00Z",
        says=("is not before until",),
        next="Swap the two",
        then="backfill --since 2026-01-02T00:00:00Z --until 2026-01-03T00:00:00Z",
        end=UNREAD,
    ),
    Mistake(typed="resync", says=("Missing option '--mode'", "full"), next="", then="resync --mode full", end=UNREAD),
    Mistake(typed="resync --mode fulll", says=("'fulll' is not one of 'keys'",), next="", then="resync --mode full", end=UNREAD),
    Mistake(
        typed="resync --mode keys --table shop.orders",
        says=("'keys' needs keys",),
        next="(--key, once for each row)",
        then="resync --mode keys --table shop.orders --key 1 --key 2",
        end=UNREAD,
    ),
    Mistake(
        typed="resync --mode keys --key 1",
        says=("works on one table",),
        next="(--table)",
        then="resync --mode keys --key 1 --table shop.orders",
        end=UNREAD,
    ),
    Mistake(
        typed="resync --mode full --key 1",
        says=("takes neither range nor keys", "names mode, keys"),
        next="Remove them",
        then="resync --mode full",
        end=UNREAD,
    ),
    Mistake(typed="reconcile --accept-deletes lots", says=("'lots' is not a number",), next="Write 500", then="reconcile --help"),
    Mistake(typed="run --into there", says=("--into is the folder of a trial",), next="or remove --into", then="run"),
    Mistake(typed="run --limit many", says=("--limit", "valid integer"), next="", then="run"),
    Mistake(typed="run --tabel shop.orders", says=("No such option: --tabel", "--table"), next="", then="run --table shop.orders"),
    Mistake(typed="runn", says=("No such command 'runn'", "'run'"), next="", then="run"),
    Mistake(
        typed="run --table shop.order",
        says=("no table 'shop.order'", "Did you mean 'shop.orders'?"),
        next="Name tables as schema.table",
        then="run --table shop.orders",
    ),
    Mistake(typed="run --table orders", says=("no table 'orders'",), next="Name tables as schema.table", then="run --table shop.orders"),
)


@pytest.mark.parametrize("mistake", REQUESTS, ids=ids(REQUESTS))
def test_a_request_that_cannot_be_meant(desk: Desk, mistake: Mistake) -> None:
    mistake.check(desk)
