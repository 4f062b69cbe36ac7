"""Who is told what of a pipeline: the receivers in `notify` of a pipeline file. Pure."""

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Final


class AlertKind(enum.StrEnum):
    """What can be wrong with a table, or new about it, most urgent first."""

    FAILURE = "failure"
    """Its last run failed; without a table, a run of the pipeline failed before it came to any."""
    PIPELINE_FILE = "pipeline_file"
    """The pipeline's file has errors, so that none of its runs does anything."""
    LAG = "lag"
    """It is further behind its source than `max_lag`."""
    NO_RUN = "no_run"
    """The pipeline has never run, although its schedule has passed, or a `max_lag` of its tables."""
    GAP = "gap"
    """Its archive misses events, and it goes on only when somebody has acted."""
    APPROVAL = "approval"
    """A run waits for the answer of a person, in Airflow."""
    DELETES = "deletes"
    """A comparison would delete more rows than the guard allows, and deleted none."""
    VERIFICATION = "verification"
    """`cdc-ops verify` found rows that differ."""
    RUN_ALERT = "run_alert"
    """Its last run raised an alert, e.g. of a transaction that holds the watermark back."""
    CATALOG = "catalog"
    """Its rows are in the lake, but Spark's catalog did not take its name or its columns."""
    SPACE = "space"
    """A disk of this machine that has the lake, the staging area or the ledger is nearly full."""
    LATE_ROWS = "late_rows"
    """Rows turned up below the watermark, and were merged."""
    SCHEMA_CHANGE = "schema_change"
    """Its columns changed at the source."""

    @property
    def lasts(self) -> bool:
        """True for what holds until somebody has acted, and then ends; false for what happened in one run."""
        return self not in (AlertKind.LATE_ROWS, AlertKind.SCHEMA_CHANGE)


URGENT: Final = tuple(kind for kind in AlertKind if kind.lasts)
"""What somebody has to act on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Somebody who is told: one entry of `notify`. It has one of `webhook`, `mail` and `notifier`.

    Args:
        name: Of the entry.
        events: What it is told of. `lag` needs a `max_lag`. Unless set, all that somebody has to act on: neither `late_rows` nor
            `schema_change`, with which runs go on (docs/alerts.md).
        repeat: It is told again after this time of what still holds. 0s = once.
        webhook: Connection id of a URL that gets a JSON document by POST; its `text` is what Slack and Mattermost show.
        mail: Connection id of a mail server.
        to: With `mail`: the addresses.
        sender: With `mail`: the address that it comes from.
        notifier: In Airflow only: import path of an Airflow notifier. The command line cannot use it, and says so.
        arguments: With `notifier`: its arguments. In those that it renders, `{{ alert.text }}` is the message and `{{ alert.subject }}`
            its first line.
    """

    name: str
    events: tuple[AlertKind, ...] = URGENT
    repeat: timedelta = timedelta(days=1)
    webhook: str = ""
    mail: str = ""
    to: tuple[str, ...] = ()
    sender: str = ""
    notifier: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
