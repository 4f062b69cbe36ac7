"""How the login of a source reaches the Python processes of Spark's tasks: by a socket on this machine, never by a plan.

    driver   keeps the URL in its memory, and listens on a socket in a folder that only its user can enter
    plan     carries a token: where the socket is, and a number that nobody can guess
    task     shows the token at the socket, and is given the URL

A token in a log or on a page gives nothing away: it is worth something only to processes of the same user on the same machine, and only
while the driver lives. A process that dies leaves an empty socket behind, and no secret. So the native reader works where Spark's tasks run
on the driver's machine, as its user; elsewhere the task says that it cannot, and JDBC reads.
"""

import atexit
import os
import secrets
import shutil
import socket
import socketserver
import struct
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc_ops.errors import EnvironmentSetupError

_SECONDS: Final = 10.0
_SECRET_SIZE: Final = 32
_PEER: Final = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a task shows to be given a login.

    Args:
        path: Of the driver's socket.
        secret: Hexadecimal digits.
    """

    path: str
    secret: str


def issue(url: str) -> Token:
    """Returns a token for a URL, good as long as this process lives."""
    return _server().issue(url)


def exchange(token: Token) -> str:
    """Returns the URL of a token.

    Raises:
        EnvironmentSetupError: the driver's socket is not on this machine, not this user's, or the driver is gone.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_SECONDS)
            line.connect(token.path)
            line.sendall(token.secret.encode())
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as answer:
                url = answer.read().decode()
    except OSError as error:
        raise _refused(str(error)) from None
    if not url:
        raise _refused("the driver does not know the token, or runs as another user")
    return url


def _refused(why: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        "A task of Spark cannot get the login of the source from the driver.",
        why=why,
        data="Nothing was read or written.",
        next="The native reader needs Spark's tasks on the driver's machine, under its user; elsewhere set 'reader: jdbc' or 'auto'.",
    )


class CredentialServer:
    """Listens, in a thread of its own, and answers tokens with URLs."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix="cdc-ops-"))
        self._urls: dict[str, str] = {}
        urls = self._urls

        class Answer(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                line: socket.socket = self.request
                line.settimeout(_SECONDS)
                with suppress(OSError):  # who asks and goes away has no answer
                    if _is_own(line):
                        line.sendall(urls.get(_received(line), "").encode())

        self._server = socketserver.ThreadingUnixStreamServer(str(self._folder / "login"), Answer)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="cdc-ops logins", daemon=True).start()

    def issue(self, url: str) -> Token:
        """Returns the token of a URL, the same for the same URL."""
        secret = next((secret for secret, known in list(self._urls.items()) if known == url), "") or secrets.token_hex(_SECRET_SIZE // 2)
        self._urls[secret] = url
        return Token(path=str(self._folder / "login"), secret=secret)

    def close(self) -> None:
        """Ends the thread, and removes the socket."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _received(line: socket.socket) -> str:
    secret = b""
    while len(secret) < _SECRET_SIZE and (part := line.recv(_SECRET_SIZE - len(secret))):
        secret += part
    return secret.decode("ascii", "replace")


def _is_own(line: socket.socket) -> bool:
    """True if a process of the same user asks; where the system does not tell, the folder's permissions have to do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())


_lock = threading.Lock()
_current: list[CredentialServer] = []


def _server() -> CredentialServer:
    """Returns the server of this process; one that it has from the process that it was forked from is not its own."""
    with _lock:
        if not _current or _current[0].process != os.getpid():
            server = CredentialServer()
            _current[:] = [server]
            atexit.register(server.close)
        return _current[0]
