"""Whether a file is finished, by its last bytes. Pure.

Only kinds that have an end are judged: Parquet has a footer, Avro a mark, lines have line ends, a binlog that its server has closed ends
with ROTATE or STOP. A compressed file is judged when it is read.
"""

from typing import Final

from cdc_ops.core.archive.avro_header import FileEnds, is_whole

TAIL: Final = 600
"""How many of the last bytes are looked at; a ROTATE event with the longest file name fits."""

_HEADER: Final = 19
_ROTATE: Final = 4
_STOP: Final = 3
_LINES: Final = ("json", "jsonl", "ndjson", "csv")


def is_complete(ends: FileEnds, path: str, kind: str, size: int) -> bool | None:
    """Returns whether a file is finished, None if its type cannot show it.

    Args:
        ends: Shows its ends.
        path: The file.
        kind: Extension without compression, or `binlog`.
        size: Its length.
    """
    if kind.rpartition(".")[2] == "avro":
        return is_whole(ends, path, size)
    return has_valid_footer(kind, ends.tail(path, TAIL), size)


def has_valid_footer(kind: str, tail: bytes, size: int) -> bool | None:
    """Returns whether a file is finished, None if its type cannot show it.

    Args:
        kind: Extension without compression, or `binlog`.
        tail: Its last `TAIL` bytes, or all of it.
        size: Its length.
    """
    match kind.rpartition(".")[2]:
        case "parquet":
            return size >= 12 and tail.endswith(b"PAR1")
        case "binlog":
            return _binlog_is_closed(tail, size)
        case lines if lines in _LINES:
            return tail.endswith(b"\n")
        case _:
            return None


def _binlog_is_closed(tail: bytes, size: int) -> bool:
    """True if the last event is ROTATE or STOP: its length fits the file's end, and so does the end that it states itself."""
    for length in range(_HEADER, min(len(tail), _HEADER + 8 + 512 + 4) + 1):
        event = tail[-length:]
        states_length = int.from_bytes(event[9:13], "little") == length
        states_end = int.from_bytes(event[13:17], "little") == size % 2**32
        if event[4] in (_ROTATE, _STOP) and states_length and states_end:
            return True
    return False
