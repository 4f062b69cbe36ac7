"""Adds up what the parts of a large file showed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from cdc_ops.events.scan.facts import Drift, FileFacts, Order, TableFacts

_SHOWN: Final = 5
T = TypeVar("T")
V = TypeVar("V")


def merged_facts(parts: Iterable[FileFacts]) -> list[FileFacts]:
    """Returns one entry for each file and table; a file that was read in one go stays as it is."""
    found: dict[tuple[str, int], list[FileFacts]] = {}
    for part in parts:
        found.setdefault((part.path, part.table), []).append(part)
    return [_merged(some) if len(some) > 1 else some[0] for some in found.values()]


def _merged(parts: Sequence[FileFacts]) -> FileFacts:
    failed = next((part for part in parts if part.failure), None)
    if failed is not None:
        return failed
    found = [part.found for part in parts]
    return replace(
        parts[0],
        lines=sum(part.lines for part in parts),
        blank=sum(part.blank for part in parts),
        too_large=next((part.too_large for part in parts if part.too_large), ""),
        found=TableFacts(
            events=sum(one.events for one in found),
            partial=sum(one.partial for one in found),
            truncates=tuple(sorted({place for one in found for place in one.truncates})),
            order=_order([one.order for one in found]),
            drift=_drift([one.drift for one in found]),
            nulled=_sums(one.nulled for one in found),
            bad=sum(one.bad for one in found),
            shown=tuple(sorted((shown for one in found for shown in one.shown), key=lambda shown: shown.line))[:_SHOWN],
            unknown=_sums(one.unknown for one in found),
            changes=tuple(part for one in found for part in one.changes),
            feed=tuple(part for one in found for part in one.feed),
        ),
    )


def _order(parts: Sequence[Order]) -> Order:
    return Order(
        lowest=min((one.lowest for one in parts if one.lowest), default=()),
        last=max(one.last for one in parts),
        place=max(one.place for one in parts),
        at=max(one.at for one in parts),
        behind=sum(one.behind for one in parts),
        behind_at=max(one.behind_at for one in parts),
    )


def _drift(parts: Sequence[Drift]) -> Drift:
    return Drift(
        undeclared=_union(parts, lambda one: one.undeclared),
        lacking=sum(one.lacking for one in parts),
        named=_union(parts, lambda one: one.named),
        unmapped=_union(parts, lambda one: one.unmapped),
        statements=tuple(sorted({statement for one in parts for statement in one.statements}, key=repr)),
    )


def _union(parts: Iterable[T], values: Callable[[T], Sequence[V]]) -> tuple[V, ...]:
    return tuple(sorted({value for one in parts for value in values(one)}, key=repr))


def _sums(parts: Iterable[Sequence[tuple[str, int]]]) -> tuple[tuple[str, int], ...]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(dict(part))
    return tuple(sorted(total.items()))
