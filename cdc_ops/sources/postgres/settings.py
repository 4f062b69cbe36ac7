"""What every session on a Postgres server sets, so that a read gives the same rows and texts whatever the server's defaults are.

One list for all sessions: those of the plan, of check and verify, of the native reader, and of JDBC in Spark. Defaults come from the
server's files, from `ALTER DATABASE ... SET` and from `ALTER ROLE ... SET`; all of them act at the login, so what is set after it wins.
What only a superuser can set, and what has no value that is right everywhere, is refused where it is not harmless (`FORBIDDEN`).

A server sets those that it knows: versions differ (`transaction_timeout` came with 17), and an unknown name would be an error.

`role` is left as it is (`ALTER ROLE ... SET role`): all sessions have it, and what it may not read is an error, never a row less.
What has to wait for other nodes before it reads is no setting of this list: it differs from source to source.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter.

    Args:
        name: Of the parameter.
        value: What it is set to.
        why: What it would change.
    """

    name: str
    value: str
    why: str


OF_TRANSACTIONS: Final = (
    # A snapshot that is taken before the lock of a table shows an empty table after its rewrite.
    Setting("default_transaction_isolation", "read committed", "a snapshot that is older than the read"),
    Setting("default_transaction_deferrable", "off", "reads wait until nobody writes"),
    Setting("default_transaction_read_only", "on", "cdc-ops never writes to a source"),
)
"""They hold from the next transaction on."""

SETTINGS: Final = (
    Setting("client_encoding", "UTF8", "texts arrive in other bytes"),
    # A policy that hides rows is an error: rows that are missing without a word would look deleted.
    Setting("row_security", "off", "rows are hidden"),
    Setting("transform_null_equals", "off", "`= NULL` matches"),
    Setting("TimeZone", "UTC", "timestamptz is printed in it"),
    Setting("DateStyle", "ISO, MDY", "text of dates"),
    Setting("IntervalStyle", "postgres", "text of intervals"),
    Setting("bytea_output", "hex", "text of bytea"),
    Setting("extra_float_digits", "1", "digits of floats are lost"),
    Setting("standard_conforming_strings", "on", "what literals mean"),
    Setting("quote_all_identifiers", "off", "names of types"),
    Setting("xmlbinary", "base64", "bytes within xml"),
    Setting("xmloption", "content", "what text becomes xml"),
    Setting("statement_timeout", "0", "long reads end early"),
    Setting("lock_timeout", "0", "reads give up while a table is altered"),
    Setting("transaction_timeout", "0", "long reads end early"),
    Setting("idle_in_transaction_session_timeout", "0", "sessions end early"),
    Setting("idle_session_timeout", "0", "sessions end early"),
)

FORBIDDEN: Final = (
    ("zero_damaged_pages", "setting = 'on'", "damaged rows vanish without a word"),
    ("ignore_checksum_failure", "setting = 'on'", "damaged rows are read as if they were whole"),
    # Its digits and its sign are those of the server's language: none is right for all.
    ("lc_monetary", "source IN ('user', 'database user')", "for one role, values of type money have another text, and other digits"),
)
"""Name, condition on its row in pg_settings, and why."""

_PATH: Final = (
    "(SELECT 'pg_catalog, public' || COALESCE(pg_catalog.string_agg(DISTINCT ', ' || pg_catalog.quote_ident(n.nspname), ''), '')"
    " FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
    " WHERE n.nspname OPERATOR(pg_catalog.<>) ALL (ARRAY['pg_catalog', 'public']::pg_catalog.name[]))"
)
"""The schemas of the server, of everybody, and of the extensions, for the operators of their types: the same for every role."""

_VALUES: Final = ", ".join(f"('{one.name}', '{one.value}')" for one in SETTINGS)

TRANSACTION_SETTINGS: Final = "; ".join(f"SET {one.name} = '{one.value}'" for one in OF_TRANSACTIONS)
"""To be run before everything else, as it takes no snapshot."""

SESSION_SETTINGS: Final = (
    "SELECT pg_catalog.set_config(s.name, w.value, false)"
    f" FROM (SELECT * FROM (VALUES {_VALUES}) AS listed (name, value) UNION ALL SELECT 'search_path', {_PATH}) AS w"
    " JOIN pg_catalog.pg_settings AS s ON s.name OPERATOR(pg_catalog.=) w.name"
)
"""The statement that every connection runs after those."""

IN_A_TRANSACTION: Final = f"{TRANSACTION_SETTINGS}; COMMIT; {SESSION_SETTINGS}"
"""For sessions that are within a transaction from the beginning (JDBC in Spark): what is read is read in the next one, which has them."""

REFUSED: Final = "SELECT name, setting FROM pg_catalog.pg_settings WHERE " + " OR ".join(
    f"(name = '{name}' AND {condition})" for name, condition, _ in FORBIDDEN
)
"""Lists what must not be."""


def why_forbidden(name: str) -> str:
    """Returns what a parameter of `FORBIDDEN` does."""
    return next(why for one, _, why in FORBIDDEN if one == name)
