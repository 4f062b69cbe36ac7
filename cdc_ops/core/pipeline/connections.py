"""Connection URLs: address and login of a source as one text, passed between processes only in the environment.

Credentials enter a process by the variable `CDC_OPS_CONN_<ID>`, which the command line may have from `.env`, never by an argument. No
message of this module shows a part of a URL that could be a secret, not even of one that cannot be read.
"""

import ipaddress
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Final, NoReturn

from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

PREFIX: Final = "CDC_OPS_CONN_"
FORM: Final = "scheme://user:password@host:port/database?option=value"

_SCHEMES: Final = {"mysql": "mysql", "mariadb": "mariadb", "postgresql": "postgresql", "postgres": "postgresql"}
_PORTS: Final = {"mysql": 3306, "mariadb": 3306, "postgresql": 5432}
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9.-]{0,29})(?:\+[A-Za-z0-9_]{1,30})?://", re.ASCII)
_HOST: Final = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?$", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODING: Final = "In user and password write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionUrl:
    """The parts of a connection URL, decoded; neither `repr` nor `str` shows the password.

    Args:
        scheme: `mysql`, `mariadb` or `postgresql`.
        host: Name or address; an IPv6 address without brackets.
        port: None for the default one of the scheme.
        user: Login, "" for none.
        password: "" for none.
        database: "" for none.
        options: Query options in the order given; hidden too, drivers have options that are secrets.
    """

    scheme: str
    host: str
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.scheme not in _PORTS:
            raise _unknown_scheme(self.scheme)
        if not _is_host(self.host):
            _refuse("its host is empty or not a host name or address")
        if self.port is not None and not 0 < self.port < 65536:
            _refuse("its port is not between 1 and 65535")

    @classmethod
    def parse(cls, text: str) -> "ConnectionUrl":
        """Parses a URL; white space around it, as in secret files, is ignored.

        Raises:
            ConfigError: the text is no such URL, or special characters are not percent-encoded.
        """
        text = text.strip()
        found = _SCHEME.match(text)
        if not found:
            _refuse("it does not start with a scheme and ://")
        if any(ord(sign) <= 0x20 or ord(sign) == 0x7F for sign in text):
            _refuse("it contains white space or control characters", "Percent-encode them: a space is %20.")
        rest, _, query = text[found.end() :].partition("?")
        authority, _, database = rest.partition("/")
        if "@" in database or "@" in query or "#" in rest or "#" in query:
            _refuse("a special character of user or password is not percent-encoded", _ENCODING)
        login, _, address = authority.rpartition("@")
        user, _, password = login.partition(":")
        if "@" in login:
            _refuse("a special character of user or password is not percent-encoded", _ENCODING)
        host, port = _split_address(address)
        return cls(
            scheme=_canonical(found[1]),
            host=host,
            port=port,
            user=_decoded(user),
            password=_decoded(password),
            database=_decoded(database),
            options=_options(query),
        )

    @classmethod
    def from_parts(  # the parts that an Airflow connection has, each of which may be missing there
        cls,
        scheme: str,
        host: str | None,
        port: int | None = None,
        user: str | None = None,
        password: str | None = None,
        database: str | None = None,
    ) -> "ConnectionUrl":
        """Builds a URL from raw parts that are not percent-encoded.

        Raises:
            ConfigError: the scheme is unknown, or there is no usable host.
        """
        name = (host or "").removeprefix("[").removesuffix("]")
        return cls(scheme=_canonical(scheme), host=name, port=port, user=user or "", password=password or "", database=database or "")

    @property
    def default_port(self) -> int:
        """The port, or the default port of such servers."""
        return self.port or _PORTS[self.scheme]

    def render(self) -> str:
        """Returns the URL with its password; `parse` is the inverse."""
        return self._text(_encoded(self.password), "?" + urllib.parse.urlencode(self.options, quote_via=urllib.parse.quote, safe="/"))

    def __str__(self) -> str:
        return self._text("***", "?...")

    def _text(self, password: str, query: str) -> str:
        secret = f":{password}" if self.password else ""
        login = f"{_encoded(self.user)}{secret}@" if self.user or secret else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{login}{host}{port}/{_encoded(self.database)}{query if self.options else ''}"


def variable_name(connection_id: str) -> str:
    """Returns the environment variable that holds a connection's URL outside Airflow, and in every Spark application."""
    return PREFIX + re.sub(r"[^A-Za-z0-9]", "_", connection_id).upper()


def _canonical(scheme: str) -> str:
    name = scheme.partition("+")[0].lower()
    if name not in _SCHEMES:
        raise _unknown_scheme(name)
    return _SCHEMES[name]


def _unknown_scheme(scheme: str) -> ConfigError:
    return ConfigError(
        f"A connection has the unknown scheme {scheme!r}.",
        why=did_you_mean(scheme, _SCHEMES),
        data="Nothing was read or written.",
        next=f"Write it as {FORM}.",
    )


def _is_host(host: str) -> bool:
    if ":" not in host:
        return bool(_HOST.match(host))
    try:
        return not ipaddress.IPv6Address(host).scope_id
    except ValueError:
        return False


def _split_address(address: str) -> tuple[str, int | None]:
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            _refuse("its IPv6 address is not closed with ]")
        port = rest.removeprefix(":")
    else:
        host, _, port = address.partition(":")
        if ":" in port:
            _refuse("its host has more than one colon", "Write an IPv6 address in brackets: [::1]:3306.")
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5):
        _refuse("its port is not a number", f"The @ before the host may be missing. {_ENCODING}")
    return host, int(port) if port else None


def _options(query: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple((_decoded(name), _decoded(value)) for name, _, value in (part.partition("=") for part in query.split("&") if part))
    if len({name for name, _ in pairs}) < len(pairs):
        _refuse("an option appears twice after the ?")
    return pairs


def _encoded(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        _refuse("a % is not followed by two hexadecimal digits", _ENCODING)
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        _refuse("percent-encoded bytes are not UTF-8", _ENCODING)


def _refuse(why: str, remedy: str = "") -> NoReturn:
    # `from None`: a traceback must not carry the text either.
    raise ConfigError(
        "A connection URL cannot be read.",
        why=f"{why[0].upper()}{why[1:]}.",
        data="Nothing was read or written.",
        next=f"Write it as {FORM}. {remedy}".rstrip(),
    ) from None
