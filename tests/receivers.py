"""Receivers on loopback: a web server that keeps the documents posted to it, a mail server that keeps mails, a collector of metrics."""

import gzip
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass
class Hook:
    """What a webhook has received; `status` is what it answers."""

    url: str = ""
    status: int = 200
    documents: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def take(self) -> list[dict[str, Any]]:
        """Returns the documents that have come since the last call."""
        taken, self.documents = self.documents, []
        return taken


@contextmanager
def webhook() -> Iterator[Hook]:
    """Serves a webhook at a path that is a secret."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.status == 200:
                hook.documents.append(json.loads(body))
                hook.headers.append(dict(self.headers))
            self.send_response(hook.status)
            self.send_header("Content-Length", "0")
            self.send_header("Location", f"{hook.url}/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        hook.url = f"http://127.0.0.1:{server.server_address[1]}/services/T0SECRET/B1"
        yield hook


@dataclass
class Mailbox:
    """What a mail server has received; it refuses the addresses `refused`, and answers QUIT with `goodbye`."""

    port: int = 0
    refused: tuple[str, ...] = ()
    goodbye: str = "221 bye"
    mails: list[EmailMessage] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """Serves as much of SMTP as smtplib needs to hand over a mail, without encryption."""
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say(b"220 loopback")
            while line := self.rfile.readline():
                command = line.decode("ascii").strip()
                box.commands.append(command)
                match command.split(" ")[0].upper():
                    case "DATA":
                        self._say(b"354 go on")
                        box.mails.append(cast("EmailMessage", message_from_bytes(self._data(), policy=policy.default)))
                        self._say(b"250 taken")
                    case "EHLO":
                        self._say(b"250-loopback\r\n250 AUTH PLAIN")
                    case "RCPT" if command[command.index("<") + 1 : -1] in box.refused:
                        self._say(b"550 no such mailbox")
                    case "QUIT":
                        self._say(box.goodbye.encode())
                        return
                    case _:
                        self._say(b"250 loopback")

        def _data(self) -> bytes:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line)
            return b"".join(lines)

        def _say(self, text: bytes) -> None:
            self.wfile.write(text + b"\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        box.port = server.server_address[1]
        yield box


@dataclass
class Collector:
    """What has come by OpenTelemetry's protocol: the paths and the documents."""

    url: str = ""
    requests: list[tuple[str, ExportMetricsServiceRequest]] = field(default_factory=list)

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The gauges that have arrived, by name and tags; the newest value of each counts."""
        found: dict[tuple[str, ...], float] = {}
        resources = [resource for _, request in tuple(self.requests) for resource in request.resource_metrics]
        metrics = [metric for resource in resources for scope in resource.scope_metrics for metric in scope.metrics]
        for metric in metrics:
            for point in metric.gauge.data_points:  # none of other kinds
                tags = sorted(f"{pair.key}={pair.value.string_value}" for pair in point.attributes)
                found[metric.name, *tags] = point.as_double if point.WhichOneof("value") == "as_double" else point.as_int
        return found


@contextmanager
def metrics_collector() -> Iterator[Collector]:
    """Takes metrics as a collector does: OTLP over HTTP, in protobuf."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            text = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            collector.requests.append((self.path, ExportMetricsServiceRequest.FromString(text)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield collector


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
