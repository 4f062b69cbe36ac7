"""The status page without Airflow: served by this process, to this machine alone.

Whoever reaches the address may look, so that it listens on the loopback interface only; and it answers to that name only, or a page of
another site that a browser shows could have its own name lead here and read along (DNS rebinding).
"""

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import RedirectResponse

from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.state.base import StateReader
from cdc_ops.web.app import create_app

HOST: Final = "127.0.0.1"
NAMES: Final = (HOST, "localhost")
"""Hosts that a request may be for."""


def local_app(reader_factory: Callable[[], StateReader]) -> FastAPI:
    """Returns the page for one's own machine; `/` leads to it.

    Args:
        reader_factory: Returns the ledger.
    """
    app = create_app(reader_factory)
    app.get("/", include_in_schema=False)(_front)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES), www_redirect=False)
    return app


def _front() -> RedirectResponse:
    return RedirectResponse("ui")


def listen(port: int) -> socket.socket:
    """Returns a socket that listens on the loopback interface.

    Args:
        port: Its port; 0 = any that is free.

    Raises:
        EnvironmentSetupError: another program has the port, or this user may not take it.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the port of a page that has just ended stays taken for a minute
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise EnvironmentSetupError(
            f"The page cannot be served at port {port} of {HOST}.",
            why=str(error.strerror or error),
            data="Nothing was read or written.",
            next="Name another port with --port; --port 0 takes one that is free.",
        ) from error
    return listener


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serves the page until Ctrl-C, and gives requests that are being answered then a second.

    SIGTERM ends the page too; it is raised again when the page has ended, and does what it does to other commands.

    Args:
        app: The page.
        listener: What `listen` has returned; it is closed.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1)
    server = _Server(config)
    with listener:
        server.run(sockets=[listener])
    if server.signal_seen == signal.SIGTERM:
        signal.raise_signal(signal.SIGTERM)


class _Server(uvicorn.Server):
    """Takes Ctrl-C for the ordinary end of the page: uvicorn would raise the signal once more, as the end of a program that failed."""

    signal_seen: int = 0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hears the signals alone while the page is served: whoever has them else would take the process for interrupted."""
        wakeup = signal.set_wakeup_fd(-1)
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the page; a second signal does not wait for requests."""
        self.signal_seen = sig
        super().handle_exit(sig, frame)
