"""Binlogs as arrays of bytes: mapped where they are plain files of this machine, else unpacked or copied to a temporary one."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import numpy.typing as npt

from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.events.binlog.files import Open, open_binlog, unpacked

_AT_ONCE = 1 << 22


def is_packed(path: str) -> bool:
    """True if a file is packed, so that its middle cannot be read alone."""
    with open(path, "rb") as file:
        return not _is_plain(file)


@contextmanager
def mapped_content(name: str, open_file: Open) -> Iterator[tuple[npt.NDArray[np.uint8], Open]]:
    """Yields the content of a binlog of any store, unpacked, and what opens it again without its store.

    Args:
        name: Its name, for messages.
        open_file: Opens it.

    Raises:
        BinlogError: it is packed in a way that is not known, or damaged.
    """
    with open_file() as raw:
        if isinstance(getattr(raw, "raw", None), io.FileIO) and _is_plain(raw):
            yield np.memmap(raw, np.uint8, "r"), open_file
            return
    with tempfile.NamedTemporaryFile(prefix="cdc-ops-binlog-") as plain:
        with unpacked(name, open_file) as read:
            while part := read(_AT_ONCE):
                plain.write(part)
        plain.flush()
        data = np.memmap(plain.name, np.uint8, "r") if plain.tell() else np.zeros(0, np.uint8)
        yield data, open_binlog(plain.name)


def _is_plain(raw: IO[bytes]) -> bool:
    return raw.read(len(MAGIC)) == MAGIC
