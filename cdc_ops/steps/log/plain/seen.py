"""What the plain events of a file show, table of Arrow by table: how many, how far, how late. Spark-free."""

from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc_ops.decode.compiler import Int64s
from cdc_ops.decode.json.events import READ
from cdc_ops.decode.plain_rows import MOMENT, OPERATION, part_name
from cdc_ops.steps.log.plain.file_scan import Seen

_EPOCH: Final = datetime(1970, 1, 1)


class SeenSoFar:
    """What the plain events of a file have shown so far."""

    def __init__(self, newest: tuple[int, ...]) -> None:
        self._newest = newest
        self._events = self._behind = 0
        self._lowest: tuple[int, ...] = ()
        self._place: tuple[int, ...] = ()
        self._moments: dict[str, int] = {}

    def add(self, table: pa.Table, parts: int) -> None:
        """Takes some events into account."""
        place = [table[part_name(part)].to_numpy() for part in range(parts)]
        moments = table[MOMENT].fill_null(-1).to_numpy()
        changed = table[OPERATION].to_numpy() != READ
        self._events += table.num_rows
        lowest = _extreme(place, np.arange(table.num_rows), highest=False)
        self._lowest = min(self._lowest, lowest) if self._lowest else lowest
        self._note("last", moments)
        if changed.any():
            self._place = max(self._place, _extreme(place, np.flatnonzero(changed), highest=True))
            self._note("at", moments[changed])
        if self._newest:
            below = changed & _is_below(place, self._newest)
            self._behind += int(below.sum())
            self._note("behind_at", moments[below])

    def told(self) -> Seen:
        """Returns what was seen."""
        texts = {name: (_EPOCH + timedelta(microseconds=micros)).isoformat() for name, micros in self._moments.items()}
        return Seen(events=self._events, lowest=self._lowest, place=self._place, behind=self._behind, **texts)

    def _note(self, name: str, moments: Int64s) -> None:
        latest = int(moments.max(initial=-1))
        if latest >= 0:
            self._moments[name] = max(latest, self._moments.get(name, 0))


def _extreme(place: list[Int64s], rows: Int64s, *, highest: bool) -> tuple[int, ...]:
    """Returns the largest or the smallest place of some rows."""
    for numbers in place:
        some = numbers[rows]
        rows = rows[some == (some.max() if highest else some.min())]
    return tuple(int(numbers[rows[0]]) for numbers in place)


def _is_below(place: list[Int64s], newest: tuple[int, ...]) -> Any:
    """True for places before another one."""
    below, same = np.zeros(len(place[0]), np.bool_), np.ones(len(place[0]), np.bool_)
    for numbers, limit in zip(place, newest, strict=False):
        below |= same & (numbers < limit)
        same &= numbers == limit
    return below | (same & (len(place) < len(newest)))
