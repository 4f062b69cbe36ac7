"""What reading archived files showed of each: how many records it holds. Pure."""

from dataclasses import dataclass

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """The records of a file.

    Args:
        path: Relative to the archive's root.
        lines: How many there are, without empty lines at the end of the file; of a binlog its transactions.
        blank: The empty lines among them: records without a value.
        binlog: Of a binlog: all that it says of itself.
    """

    path: str
    lines: int
    blank: int = 0
    binlog: BinlogFacts | None = None

    @property
    def before(self) -> str:
        """Of a binlog its server, and the transactions of earlier files; "" if it does not say."""
        return self.binlog.before if self.binlog is not None else ""

    @property
    def after(self) -> str:
        """Of a binlog those, and its own."""
        return self.binlog.after if self.binlog is not None else ""
