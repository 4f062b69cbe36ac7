"""Which tables the overview shows, in which order, and the addresses of its links. Pure; all of it comes from the query string.

ui?q=orders&health=late&pipeline=shop&sort=behind&page=2  ->  Listing  ->  listed(signs, listing)  ->  Shown, and Pager around it
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from cdc_ops.web.view import Health, TableSign

T = TypeVar("T")

PAGE: Final = 100
"""Tables on one page."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_HEALTHS: Final = {health: place for place, health in enumerate(Health)}


class Sort(enum.StrEnum):
    """What the tables are sorted by: the columns of the page."""

    TABLE = "table"
    STATE = "state"
    BEHIND = "behind"
    RUN = "run"
    ROWS = "rows"
    SIZE = "size"

    @property
    def largest_first(self) -> bool:
        """True for columns of which the largest value is what one looks for."""
        return self in (Sort.BEHIND, Sort.RUN, Sort.ROWS, Sort.SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a visitor wants to see.

    Args:
        search: Words that name and pipeline of a table must hold, all of them, in any case.
        health: Only tables of this health; None = of any.
        pipeline: Only tables of this pipeline; "" = of any.
        sort: The column that decides.
        turned: True for the order that is not the column's usual one.
        page: From 1 on; a number behind the last page means the last one.
    """

    search: str = ""
    health: Health | None = None
    pipeline: str = ""
    sort: Sort = Sort.STATE
    turned: bool = False
    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Listing":
        """Reads a query string; what it does not understand counts as not given.

        >>> Listing.parse({"q": " Orders ", "health": "late", "sort": "nonsense", "page": "-3"})
        Listing(search='Orders', health=<Health.LATE: 'late'>, pipeline='', sort=<Sort.STATE: 'state'>, turned=False, page=1)
        """
        health, sort = query.get("health", ""), query.get("sort", "")
        return cls(
            search=query.get("q", "").strip(),
            health=Health(health) if health in list(Health) else None,
            pipeline=query.get("pipeline", ""),
            sort=Sort(sort) if sort in list(Sort) else Sort.STATE,
            turned=query.get("order") == "turned",
            page=page_number(query.get("page", "")),
        )

    @property
    def is_narrowed(self) -> bool:
        """True if some tables may be left out."""
        return bool(self.search or self.health or self.pipeline)

    def address(self, **changes: Any) -> str:
        """Returns the page's own relative address with some fields changed; the first page, unless `page` is given.

        >>> Listing(search="a b", page=7).address(health=Health.LATE)
        'ui?q=a+b&health=late'
        """
        wanted = replace(self, **{"page": 1, **changes})
        return Pager(address="ui", query=wanted.query, page=wanted.page, pages=wanted.page).to(wanted.page)

    @property
    def query(self) -> dict[str, str]:
        """The fields of the address but the page, as far as they differ from what one sees without them."""
        parts = {
            "q": self.search,
            "health": self.health or "",
            "pipeline": self.pipeline,
            "sort": "" if self.sort is Sort.STATE else self.sort.value,
            "order": "turned" if self.turned else "",
        }
        return {name: str(value) for name, value in parts.items() if value}

    def pager(self, shown: "Shown") -> "Pager":
        """Returns the links between the pages of what is shown."""
        return Pager(address="ui", query=self.query, page=shown.page, pages=shown.pages)

    def sorted_by(self, sort: Sort) -> str:
        """Returns the address of a column's heading: it sorts by the column, or turns its order."""
        return self.address(sort=sort, turned=sort is self.sort and not self.turned)

    def direction(self, sort: Sort) -> str:
        """Returns the value of `aria-sort` for a column's heading."""
        if sort is not self.sort:
            return "none"
        return "descending" if sort.largest_first is not self.turned else "ascending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The tables of one page, and what is said around them.

    Args:
        signs: Its tables, in order.
        tally: Of the tables that search and pipeline leave, how many there are of each health that occurs, worst first.
        matching: How many tables search, pipeline and health leave.
        page, pages: Which page this is, of how many; there is always one.
    """

    signs: tuple[TableSign, ...]
    tally: Mapping[Health, int]
    matching: int
    page: int
    pages: int

    @property
    def first(self) -> int:
        """The number of the first table of the page, from 1 on; 0 if there is none."""
        return (self.page - 1) * PAGE + 1 if self.signs else 0


def listed(signs: Iterable[TableSign], wanted: Listing) -> Shown:
    """Returns the tables that a visitor wants to see."""
    words = wanted.search.lower().split()
    found = [sign for sign in signs if wanted.pipeline in ("", sign.pipeline) and _has(sign, words)]
    healths = [sign.health for sign in found]
    chosen = found if wanted.health is None else [sign for sign in found if sign.health is wanted.health]
    chosen = sorted(chosen, key=lambda sign: (sign.pipeline, sign.glance.table))
    chosen.sort(key=_KEYS[wanted.sort], reverse=wanted.sort.largest_first is not wanted.turned)
    part = part_of(chosen, wanted.page, PAGE)
    tally = {health: healths.count(health) for health in Health if health in healths}
    return Shown(signs=part.items, tally=tally, matching=part.total, page=part.page, pages=part.pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[T]):
    """One page of a list.

    Args:
        items: In order.
        page, pages: Which page this is, of how many; there is always one.
        total: How many there are on all pages.
    """

    items: tuple[T, ...]
    page: int
    pages: int
    total: int


def part_of(items: Sequence[T], page: int, size: int) -> Part[T]:
    """Returns one page of a list; a page behind the last one is the last one.

    >>> part_of("abcde", 9, 2)
    Part(items=('e',), page=3, pages=3, total=5)
    """
    pages = max(-(-len(items) // size), 1)
    page = min(page, pages)
    return Part(items=tuple(items[(page - 1) * size : page * size]), page=page, pages=pages, total=len(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """The links between the pages of a list, and what a form needs that leads to any of them.

    Args:
        address: Of the list, relative, without query and anchor.
        query: Its other fields.
        page, pages: Which page this is, of how many.
        anchor: Where on the page the list begins, "" for its top.
        back, on: What the links to the pages before and after this one are called.
    """

    address: str
    query: Mapping[str, str]
    page: int
    pages: int
    anchor: str = ""
    back: str = "Previous"
    on: str = "Next"

    @property
    def action(self) -> str:
        """The address of the form: a browser puts the query between address and anchor."""
        return self.address + self._hash

    def to(self, page: int) -> str:
        """Returns the address of a page.

        >>> Pager(address="table", query={"name": "a b"}, page=1, pages=3, anchor="runs").to(3)
        'table?name=a+b&page=3#runs'
        """
        fields = {**self.query, **({} if page == 1 else {"page": str(page)})}
        return (f"{self.address}?{urlencode(fields)}" if fields else self.address) + self._hash

    @property
    def _hash(self) -> str:
        return f"#{self.anchor}" if self.anchor else ""


def page_number(text: str) -> int:
    """Returns the number of a page, 1 if the text is none."""
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _has(sign: TableSign, words: list[str]) -> bool:
    name = f"{sign.pipeline} {sign.table}".lower() if words else ""
    return all(word in name for word in words)


def _by_run(sign: TableSign) -> datetime:
    return sign.glance.last_run.started_at if sign.glance.last_run else _NEVER


_KEYS: Final[dict[Sort, Callable[[TableSign], Any]]] = {
    Sort.TABLE: lambda sign: sign.glance.table,
    Sort.STATE: lambda sign: _HEALTHS[sign.health],
    Sort.BEHIND: lambda sign: timedelta(-1) if sign.lag is None else sign.lag,
    Sort.RUN: _by_run,
    Sort.ROWS: lambda sign: sign.glance.last_run.read if sign.glance.last_run else -1,
    Sort.SIZE: lambda sign: -1 if sign.glance.size_bytes is None else sign.glance.size_bytes,
}
