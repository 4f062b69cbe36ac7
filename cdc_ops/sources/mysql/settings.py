"""What every session on a MySQL or MariaDB server sets, so that a read gives the same rows and texts whatever the server's defaults are.

One list for all sessions: those of the plan, of check and verify, of the native reader, of JDBC in Spark, and of the archiver. Defaults
come from the server (`SET GLOBAL`, its files), from `init_connect` and from the account (`MAX_STATEMENT_TIME`); all of them act at the
login, so what is set after it wins. Whether it did, `unheld` says of the plan's session: a server may be started with limits on what
sessions set (`--maximum-group_concat_max_len`), and a proxy may swallow a SET.

Versions: a comment such as `/*!80003 ... */` is executed by a MySQL from that version on, and `/*M!100304 ... */` by such a MariaDB, so one
text fits all servers and asks nothing first. MariaDB passes over `/*!50700 ... */` to `/*!99999 ... */`.

Left as they are, because no session can set them or no result depends on them: `max_allowed_packet`, `optimizer_switch`, the query cache
(each commit empties it, and sessions with other settings have answers of their own). What has to wait
for other nodes of a cluster before it reads is no setting of this list: it differs from source to source.
"""

from dataclasses import dataclass
from typing import Final, Literal

LOCK_WAIT_SECONDS: Final = 86_400
_ALL: Final = 18_446_744_073_709_551_615


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable.

    Args:
        name: Of the variable.
        value: What it is set to, as SQL.
        shown: What `SHOW VARIABLES` then says; "" where that does not tell, or where another value ends a read with an error.
        why: What it would change.
        of: The servers that know it.
        since: From which version on they do, as executable comments name it; 0 = every version that there is.
    """

    name: str
    value: str
    shown: str
    why: str
    of: Literal["both", "mysql", "mariadb"] = "both"
    since: int = 0

    @property
    def sql(self) -> str:
        """The assignment, in the comment that only those servers execute."""
        text = f", {self.name} = {self.value}"
        if self.of == "both":
            return text
        return f" /*{'!' if self.of == 'mysql' else 'M!'}{self.since or ''} {text} */"


SETTINGS: Final = (
    Setting("time_zone", "'+00:00'", "+00:00", "TIMESTAMP values are sent in it"),
    Setting("timestamp", "DEFAULT", "", "NOW() stands still"),
    Setting("sql_mode", "''", "", "literals, quotes, spaces at the end of CHAR"),
    Setting("old_mode", "''", "", "casts of TIME, names of character sets", of="mariadb"),
    Setting("sql_select_limit", str(_ALL), str(_ALL), "rows are left out without a word, in subqueries too"),
    Setting("autocommit", "1", "ON", "reads go on in an old snapshot"),
    Setting("completion_type", "'NO_CHAIN'", "NO_CHAIN", "a COMMIT begins the next transaction, with an old snapshot"),
    Setting("transaction_isolation", "'REPEATABLE-READ'", "REPEATABLE-READ", "rows that are never committed", of="mysql", since=50720),
    Setting("tx_isolation", "'REPEATABLE-READ'", "REPEATABLE-READ", "rows that are never committed", of="mariadb"),
    Setting("transaction_read_only", "1", "ON", "cdc-ops never writes to a source", of="mysql", since=50720),
    Setting("tx_read_only", "1", "ON", "cdc-ops never writes to a source", of="mariadb"),
    # The words DEFAULT and 'DEFAULT' are two things: only the first one means the current rows.
    Setting("system_versioning_asof", "DEFAULT", "DEFAULT", "rows of the past", of="mariadb", since=100304),
    Setting(
        "show_gipk_in_create_table_and_information_schema",
        *("1", "ON", "generated primary keys are hidden"),
        of="mysql",
        since=80030,
    ),
    Setting("use_secondary_engine", "OFF", "OFF", "reads a copy that lags", of="mysql", since=80020),
    Setting("information_schema_stats_expiry", "0", "0", "row counts and AUTO_INCREMENT are up to a day old", of="mysql", since=80003),
    Setting("sql_auto_is_null", "0", "OFF", "`id IS NULL` finds the last row inserted"),
    Setting("character_set_client", "utf8mb4", "utf8mb4", "what our texts mean"),
    Setting("character_set_results", "utf8mb4", "utf8mb4", "'?' or raw bytes in place of characters"),
    Setting("character_set_connection", "utf8mb4", "utf8mb4", "what literals and results of functions are"),
    Setting("group_concat_max_len", "4294967295", "4294967295", "long texts are cut"),
    Setting("div_precision_increment", "4", "4", "digits of quotients"),
    Setting("max_sort_length", "1024", "1024", "long texts are sorted by their beginning only"),
    Setting("lc_time_names", "'en_US'", "en_US", "names of months"),
    Setting("default_week_format", "0", "0", "numbers of weeks"),
    Setting("max_execution_time", "0", "", "long reads end early", of="mysql", since=50708),
    Setting("max_statement_time", "0", "", "long reads end early", of="mariadb", since=100101),
    # In this order: a limit of the first turns the second off.
    Setting("max_join_size", str(_ALL), "", "large reads are refused"),
    Setting("sql_big_selects", "1", "ON", "large reads are refused"),
    Setting("idle_transaction_timeout", "0", "", "sessions end early", of="mariadb", since=100300),
    Setting("idle_readonly_transaction_timeout", "0", "", "sessions end early", of="mariadb", since=100300),
    Setting("wait_timeout", "28800", "", "sessions end early"),
    Setting("net_read_timeout", "3600", "", "sessions end early"),
    Setting("net_write_timeout", "3600", "", "long reads end early"),
    Setting("lock_wait_timeout", str(LOCK_WAIT_SECONDS), "", "reads give up while a table is altered"),
)

SESSION_SETTINGS: Final = "SET SESSION " + "".join(one.sql for one in SETTINGS).removeprefix(", ")
"""The statement that every connection runs first, from Python and from Spark."""

SHOWN: Final = "SHOW SESSION VARIABLES WHERE Variable_name IN (" + ", ".join(f"'{one.name}'" for one in SETTINGS if one.shown) + ")"
"""The statement whose rows `unheld` judges."""


def unheld(rows: dict[str, str]) -> tuple[str, ...]:
    """Returns the settings that a session has in spite of having set others, as `name = value`.

    Args:
        rows: What the server shows, by name; it leaves out what it does not know.
    """
    wanted = {one.name: one for one in SETTINGS if one.shown}
    return tuple(f"{name} = {value}" for name, value in sorted(rows.items()) if name in wanted and value != wanted[name].shown)
