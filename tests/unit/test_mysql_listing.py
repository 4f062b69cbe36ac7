"""The listing of open transactions, which a MySQL server renews only when nobody has read it for a tenth of a second."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.sources.mysql.bounds import open_transactions
from cdc_ops.sources.mysql.session import MySQLSession

NOW = datetime(2026, 2, 1, tzinfo=UTC)
OTHER_EVERY = 0.11
"""Seconds between the looks of another run that waits as long as this one used to."""


@dataclass
class CachingServer:
    """A server whose time passes only while its client waits, and which another run asks as well."""

    now: float = 0.0
    other_next: float = 0.05
    last_read: float = -1.0
    listing: str = ""
    looks: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def execute(self, statement: str) -> None:
        assert statement

    def rows_unless(self, statement: str, codes: frozenset[int]) -> list[dict[str, Any]]:
        assert 3854 in codes
        while self.other_next <= self.now:
            self._read("of another run", self.other_next)
            self.other_next += OTHER_EVERY
        self.looks.append(self.now)
        found = re.search(r"cdc-ops \w+", statement)
        assert found
        self._read(found[0], self.now)
        return [{"own": 1, "trx_query": self.listing}]

    def _read(self, reader: str, when: float) -> None:
        if when - self.last_read > 0.1:
            self.listing = reader
        self.last_read = when


def test_two_runs_that_look_in_turn_do_not_keep_the_listing_old_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    server = CachingServer()
    server.rows_unless("SELECT /* cdc-ops 0 */", frozenset((3854,)))
    monkeypatch.setattr(open_transactions, "time", SimpleNamespace(sleep=server.wait))
    monkeypatch.setattr(open_transactions, "random", Random(7))  # one look in eleven comes late enough, so 2 % of all pauses are in vain
    assert open_transactions._fresh_transactions(cast(MySQLSession, server), NOW, 7) == []
    assert len(server.looks) > 2
