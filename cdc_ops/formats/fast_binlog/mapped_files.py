"""Files as arrays of bytes: mapped where they are plain, unpacked into a temporary file where they are not."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.formats.binlog.files import open_binlog, unpacked

_AT_ONCE = 1 << 20


def is_packed(path: str) -> bool:
    """True if a file is packed, so that its middle cannot be read alone."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) != MAGIC


@contextmanager
def mapped(path: str) -> Iterator[npt.NDArray[np.uint8]]:
    """Yields the content of a binlog.

    Raises:
        BinlogError: it is packed in a way that is not known, or damaged.
    """
    if not is_packed(path):
        yield np.memmap(path, np.uint8, "r")
        return
    with tempfile.TemporaryFile(prefix="cdc-ops-binlog-") as plain:
        with unpacked(path, open_binlog(path)) as read:
            while part := read(_AT_ONCE):
                plain.write(part)
        plain.flush()
        yield np.memmap(plain, np.uint8, "r")
