"""Golden records of a format with strange values, without members, and with damaged bytes; the same ones for a seed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cdc_ops.events.record import Record
from cdc_ops.events.registry import format_spec
from cdc_ops.testing.format_suite import GoldenFolder
from tests.conftest import GOLDEN
from tests.events.random_debezium import TOKENS
from tests.events.random_formats import STRANGE

_MORE: Final = (
    *('"2024-03-01:09:00:00.1230000"', '"2024-03-01 00:00:00.000"', '"I"', '"D"', '"U"', '"x"', '"null"'),
    *('"TRUNCATE TABLE t"', '"NONE"'),
)
_TOKENS: Final = (*TOKENS, *STRANGE, *_MORE)


class _Written(str):
    """JSON as it is to be written."""

    __slots__ = ()


class _Pairs(list[Any]):
    """The members of an object."""


def golden_folder(name: str) -> GoldenFolder:
    """The golden records of a format."""
    return GoldenFolder(GOLDEN / name, format_spec(name).files.container)


def changed_records(golden: GoldenFolder, root: Path, seed: int, count: int) -> list[Record]:
    """Returns so many records, each at an offset of its own.

    Args:
        golden: The records.
        root: An empty folder.
        seed: Of the choices.
        count: How many.
    """
    lines = [record for record in golden.records(root) if record.value is not None and _is_document(record.value)]
    hostile = _hostile(lines, random.Random(seed))
    return [Record(text, file, number, 0, 1000 + number) for number, (text, file) in zip(range(count), hostile, strict=False)]


def _is_document(value: bytes) -> bool:
    try:
        return isinstance(_parsed(value.decode()), _Pairs)
    except ValueError:
        return False


def _hostile(records: list[Record], pick: random.Random) -> Iterator[tuple[bytes, str]]:
    while True:
        record = pick.choice(records)
        value = record.value or b""
        if pick.random() < 0.1:
            yield _damaged(value, pick), record.file
            continue
        document = _parsed(value.decode())
        for _ in range(pick.choice((1, 1, 2))):
            document = _changed(document, pick)
        yield _dumped(document).encode("utf-8", "surrogatepass"), record.file


def _dumped(value: Any) -> str:
    if isinstance(value, _Written):
        return value
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_dumped(one)}" for name, one in value) + "}"
    return "[" + ",".join(map(_dumped, value)) + "]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_Pairs, parse_float=_Written, parse_int=_Written)


def _changed(value: Any, pick: random.Random) -> Any:
    """Returns a document of which one value, somewhere, is another."""
    token = _Written(pick.choice(_TOKENS))
    if isinstance(value, str) and value[:1] == "{" and pick.random() < 0.8:
        try:
            return _dumped(_changed(_parsed(value), pick))
        except ValueError:
            return token
    if not isinstance(value, list) or not value or pick.random() < 0.04:
        return token
    changed, index = type(value)(value), pick.randrange(len(value))
    kind = pick.randrange(12)
    if kind == 0:
        del changed[index]
    elif kind == 1:
        changed.append(changed[index])
    elif isinstance(value, _Pairs):
        name, one = changed[index]
        changed[index] = (name + "_isMissing", True) if kind == 2 else (name, _changed(one, pick))
    else:
        changed[index] = _changed(changed[index], pick)
    return changed


def _damaged(line: bytes, pick: random.Random) -> bytes:
    index = pick.randrange(len(line) + 1)
    return pick.choice((line[:index], line[:index] + bytes([pick.randrange(256)]) + line[index + 1 :], line[:index] + line[index + 1 :]))
