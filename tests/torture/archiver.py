"""Binlogs as the product's own archiver copies them, and whether what it left in the archive is byte for byte the server's files."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

from tests.torture.product import Product

SERVER: Final = "db1"
"""The server's folder in the archive."""


class ArchiverCopies:
    """The copies of one case, from the binlog on that the server began for it.

    Args:
        server: A MySQL or MariaDB that runs.
        folder: The archive.
        differences: Receives what of a file is not as it is on the server.
    """

    def __init__(self, server: Any, folder: Path, differences: list[str]) -> None:
        self._server, self._folder, self._differences = server, folder, differences
        self.refusal: dict[str, str] | None = None
        folder.mkdir()
        server.execute("FLUSH BINARY LOGS")
        self.first = self._names()[-1]

    def copy(self, product: Product, *, kill: float = 0.0) -> None:
        """Calls the archiver, once to be killed if that is asked for, and once to its end; then compares what it left."""
        command = ("archive", "--pipeline", "torture", "--json")
        if kill:
            product.call(*command, kill=kill)
            self._differences += self._other_bytes()
        answer = product.call(*command)
        self.refusal = product.failures(answer).get("")
        if answer.code == 0:
            self._differences += self._other_bytes()
            self._differences += self._not_there()

    def _other_bytes(self) -> Iterator[str]:
        """Yields the files, under names that a reader takes for binlogs, whose bytes are not the server's: after a kill, too."""
        for path in sorted((self._folder / SERVER).glob("[!.]*")):
            name, content = _read(path)
            if not (source := self._server.data / name).exists():
                yield f"archiver: {path.name} is no file of the server"
            elif name == self._names()[-1]:
                yield f"archiver: {path.name} is archived while the server writes it"
            elif source.read_bytes() != content:
                yield f"archiver: {path.name} has other bytes than the server's file ({len(content)} of {source.stat().st_size})"

    def _not_there(self) -> Iterator[str]:
        archived = {_plain(path) for path in (self._folder / SERVER).glob("[!.]*")}
        for name in self._names()[:-1]:
            if name >= self.first and name not in archived:
                yield f"archiver: {name} is closed and not in the archive"

    def _names(self) -> list[str]:
        return [str(row[0]) for row in self._server.execute("SHOW BINARY LOGS")]


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".zst")


def _read(path: Path) -> tuple[str, bytes]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zst":
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return _plain(path), content
