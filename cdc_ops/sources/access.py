"""The server of a source, and the privileges of its user: for `cdc-ops check`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccess:
    """The facts that a server returns after a connection.

    Args:
        place: Host and port.
        version: Product and version, in the server's words.
        account: The user, as the server knows it.
        missing_grant: What the user may not see of other writers, and the statement that grants it; "" = it sees them.
        replica: What it means that the server is a replica, "" if it is none.
    """

    place: str
    version: str
    account: str
    missing_grant: str
    replica: str
