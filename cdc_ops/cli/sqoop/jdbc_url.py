"""The parts of a JDBC URL that a pipeline file and its connection need; login and unknown values are forgotten while it is read."""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.pipeline.pipeline import SourceKind
from cdc_ops.errors import RequestError

_KINDS: Final = {"mysql": SourceKind.MYSQL, "mariadb": SourceKind.MARIADB, "postgresql": SourceKind.POSTGRES}
_URL: Final = re.compile(
    r"jdbc:(?P<kind>[a-z]+):(?:(?P<mode>[a-z:+]+):)?//(?P<hosts>[^/?]*)(?:/(?P<database>[^?]*))?(?:\?(?P<options>.*))?", re.DOTALL
)
_HOST: Final = re.compile(r"(?:.*@)?(?P<host>\[[^\]]+\]|[^:]*)(?::(?P<port>\d+))?")
_SHOWN: Final = frozenset(("currentSchema", "sslmode", "sslMode", "useSSL", "requireSSL", "ssl", "zeroDateTimeBehavior"))
"""Options whose values are kept: none of them can be a secret."""
_LOGIN: Final = frozenset(("user", "password"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcUrl:
    """Where a source is.

    Args:
        kind: The kind of the server, by the driver.
        host, port: Its address; port "" = the default one. An IPv6 address stands in brackets.
        database: The database, decoded.
        options: Names of the options in order, with the values of those that cannot be secrets.
        more_hosts: Whether the URL names other hosts too.
    """

    kind: SourceKind
    host: str
    port: str
    database: str
    options: tuple[tuple[str, str], ...] = ()
    more_hosts: bool = False

    @classmethod
    def parse(cls, text: str, origin: str) -> "JdbcUrl":
        """Parses a URL; no message shows it.

        Raises:
            RequestError: it is none, or leads to a server that cdc-ops cannot query.
        """
        found = _URL.fullmatch(text.strip())
        kind = re.match(r"jdbc:([A-Za-z0-9-]+):", text.strip())
        if kind and kind[1] not in _KINDS:
            raise _refused(origin, f"It leads to a server of kind {kind[1]!r}, and cdc-ops queries MySQL, MariaDB and Postgres.")
        if found is None or not found["hosts"] or not found["database"]:
            raise _refused(origin, "It does not have the form jdbc:mysql://host:port/database.")
        first, *others = found["hosts"].split(",")
        address = _HOST.fullmatch(first)
        if address is None or not address["host"]:
            raise _refused(origin, "Its host cannot be read.")
        pairs = (part.partition("=")[::2] for part in (found["options"] or "").split("&") if part)
        return cls(
            kind=_KINDS[found["kind"]],
            host=address["host"],
            port=address["port"] or "",
            database=urllib.parse.unquote(found["database"]),
            options=tuple((name, value if name in _SHOWN else "") for name, value in pairs if name not in _LOGIN),
            more_hosts=bool(others),
        )

    def option(self, name: str) -> str:
        """The value of an option, "" if it is not there or not kept."""
        return dict(self.options).get(name, "")

    @property
    def scheme(self) -> str:
        """The scheme of the connection's URL."""
        return "postgresql" if self.kind is SourceKind.POSTGRES else str(self.kind.value)

    @property
    def suffix(self) -> str:
        """The options of the connection's URL, with their question mark."""
        if self.kind is SourceKind.POSTGRES:
            mode = self.option("sslmode") or ("require" if "ssl" in dict(self.options) else "")
            return f"?sslmode={mode}" if mode else ""
        mode = self.option("sslMode").lower()
        if mode in ("required", "verify_ca", "verify_identity"):
            return f"?ssl_mode={mode}"
        return "?ssl_mode=required" if "true" in (self.option("useSSL"), self.option("requireSSL")) else ""


def _refused(origin: str, why: str) -> RequestError:
    return RequestError(
        f"The JDBC URL in --connect ({origin}) is not one of a source that cdc-ops queries.",
        why=why,
        data="Nothing was written.",
        next="Other databases reach the lake by archived change events: docs/formats.md.",
    )
