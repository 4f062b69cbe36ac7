"""The address of a Spark Connect server, as a pipeline file writes it: `sc://host:port`, with `;use_ssl=true` beyond this machine. Pure."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

PORT: Final = 15002
TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The environment variable that Spark itself reads the token of a server from."""

_ADDRESS: Final = re.compile(r"^sc://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(\d{1,5}))?/?((?:;[^;]*)*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAddress:
    """Where a Spark Connect server listens.

    Args:
        host: Name or address; an IPv6 address without brackets.
        port: Its port.
        use_ssl: True if what travels is encrypted.

    >>> ConnectAddress.parse("sc://spark.example.com:443/;use_ssl=true")
    ConnectAddress(host='spark.example.com', port=443, use_ssl=True)
    >>> ConnectAddress.parse("sc://[::1]").url()
    'sc://[::1]:15002'
    """

    host: str
    port: int = PORT
    use_ssl: bool = False

    @classmethod
    def parse(cls, text: str) -> "ConnectAddress":
        """Parses an address, and refuses one over which passwords would travel in the clear.

        Raises:
            ValueError: the text is no such address, or one that passwords must not travel to; the message says what to write.
        """
        if re.search(r"[;?&](token|user_id)=", text):
            raise ValueError(f"A token or a login has no place in a pipeline file. Give the token in {TOKEN_VARIABLE}")
        found = _ADDRESS.match(text)
        if not found or not 0 < int(found[2] or PORT) < 65536:
            raise ValueError(f"{text!r} is not the address of a Spark Connect server. Write sc://host:15002")
        options = dict(part.partition("=")[::2] for part in found[3].split(";") if part)
        if unknown := options.keys() - {"use_ssl"}:
            raise ValueError(f"{sorted(unknown)[0]!r} is not an option of this address. Write sc://host:443/;use_ssl=true")
        if options.get("use_ssl", "false") not in ("true", "false"):
            raise ValueError("'use_ssl' is true or false. Write sc://host:443/;use_ssl=true")
        address = cls(host=found[1].strip("[]"), port=int(found[2] or PORT), use_ssl=options.get("use_ssl") == "true")
        if not address.is_safe:
            raise ValueError(
                f"The login of the source would travel to {address.host} unencrypted. Write sc://{address.host}:443/;use_ssl=true, and put"
                " a TLS proxy before the server; without TLS, the server must be on this machine (sc://127.0.0.1:15002)"
            )
        return address

    @property
    def is_local(self) -> bool:
        """True if what travels does not leave the machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_safe(self) -> bool:
        """True if passwords may travel to it."""
        return self.use_ssl or self.is_local

    def url(self, *, with_token: bool = False) -> str:
        """Returns the address in the form that Spark takes.

        Args:
            with_token: True if Spark will send a token with it. Without TLS, Spark sends one to `localhost` only, and by this name.
        """
        host = "localhost" if with_token and not self.use_ssl else f"[{self.host}]" if ":" in self.host else self.host
        return f"sc://{host}:{self.port}{'/;use_ssl=true' if self.use_ssl else ''}"
