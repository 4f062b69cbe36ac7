"""`python -m tests.torture`: seeds, one again, or the smallest case that fails as a seed does."""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.torture.driver import ROOT, Driver
from tests.torture.events import SETTINGS
from tests.torture.generate import generate
from tests.torture.model import Case
from tests.torture.outcome import Outcome
from tests.torture.play import Player
from tests.torture.script import script_of
from tests.torture.shrink import smallest

RESULTS: Final = ROOT / ".local" / "torture"


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays cases; the exit code is 1 if one failed."""
    options = _options(arguments)
    RESULTS.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        place = Path(name)
        place.chmod(0o755)
        with _nodes(options, place / "server") as (server, *others):
            driver = Driver(RESULTS / "logs")
            player = Player(server, driver, place / "cases", say=_say if options.verbose else lambda _: None, others=others, engine=_engine)
            try:
                failed = _shrink(player, options) if options.shrink is not None else _all(player, options)
            finally:
                driver.close()
    return 1 if failed else 0


@contextmanager
def _nodes(options: argparse.Namespace, folder: Path) -> Iterator[Sequence[Any]]:
    """Yields the server, or the nodes of a cluster of Galera."""
    if options.nodes == 1:
        with server_of(options.server)(folder) as server:
            yield (server,)
        return
    from cdc_ops.dev.clusters import GaleraCluster

    with GaleraCluster(folder, options.nodes) as cluster:
        yield cluster.nodes


@contextmanager
def _engine(server: Any, tables: list[str], folder: Path, whole: bool, more: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Runs Debezium beside a server; see `tests.torture.events.Engine`."""
    from cdc_ops.dev.debezium import running_debezium
    from cdc_ops.dev.sink_archive import SinkArchive

    sink = SinkArchive(folder / "events", folder / "sink", records_per_file=20)
    mode = "initial" if whole else "no_data"
    with running_debezium(server, tables, sink, folder / "engine", snapshot_mode=mode, settings={**SETTINGS, **more}) as engine:
        engine.catch_up()
        yield engine.catch_up


def server_of(name: str) -> Any:
    """Returns the class of a server for tests."""
    from cdc_ops.dev.servers import MariaDBServer, MySQLServer, PostgresServer

    class Prepared(PostgresServer):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder, options=("-c", "max_prepared_transactions=8"))

    return {"postgres": Prepared, "mysql": MySQLServer, "mariadb": MariaDBServer}[name]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--server", choices=("postgres", "mysql", "mariadb"), default="postgres")
    parser.add_argument("--method", choices=("query", "log", "events"), default="query")
    parser.add_argument("--nodes", type=int, default=1, help="of a cluster of Galera, for mariadb and the query method")
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--seeds", metavar="A..B", help="play these, B included")
    parser.add_argument("--seconds", type=float, default=600.0, help="play new ones until the time is over (default 600)")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="find the smallest case that fails as this one, and print it")
    parser.add_argument("--only", default="", metavar="WORDS", help="features that each table has, separated by commas")
    parser.add_argument("--never", default="", metavar="WORDS", help="features that no table has")
    parser.add_argument("--first", type=int, default=1, help="the first seed of --seconds")
    parser.add_argument("--verbose", action="store_true", help="say each step")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(f"    {text}", file=sys.stderr, flush=True)


def _case(seed: int, options: argparse.Namespace) -> Case:
    only, never = (tuple(filter(None, words.split(","))) for words in (options.only, options.never))
    return generate(seed, options.server, options.method, only=only, never=never, nodes=options.nodes)


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    if options.seed is not None:
        yield options.seed
    elif options.seeds:
        first, _, last = options.seeds.partition("..")
        yield from range(int(first), int(last) + 1)
    else:
        end = time.monotonic() + options.seconds
        for seed in itertools.count(options.first):
            if time.monotonic() > end:
                return
            yield seed


def _all(player: Player, options: argparse.Namespace) -> int:
    failed, refused, played = 0, Counter[str](), 0
    results = RESULTS / f"{options.server}-{options.method}{f'-{options.nodes}-nodes' if options.nodes > 1 else ''}.jsonl"
    for seed in _seeds(options):
        case = _case(seed, options)
        outcome = player.play(case)
        played += 1
        failed += outcome.failed
        refused.update(text.partition(":")[0] for texts in outcome.refusals.values() for text in set(texts))
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_result(case, outcome, options), ensure_ascii=False) + "\n")
        _show(case, outcome)
    print(f"{played} cases, {failed} failed; refused by name: {dict(refused.most_common())}")
    return failed


def _result(case: Case, outcome: Outcome, options: argparse.Namespace) -> dict[str, Any]:
    features = {table.name: list(table.features) for table in case.tables}
    head = {
        "seed": case.seed,
        "server": case.server,
        "method": case.method,
        "nodes": case.nodes,
        "only": options.only,
        "never": options.never,
    }
    return {**head, "failed": outcome.failed, "features": features, **asdict(outcome)}


def _show(case: Case, outcome: Outcome) -> None:
    refused = ", ".join(f"{name}: {texts[-1].partition(':')[0]}" for name, texts in outcome.refusals.items())
    state = "FAILED" if outcome.failed else "refused" if refused else "equal"
    counts = f"{outcome.seconds} s, {outcome.statements} statements ({outcome.refused_statements} refused by the server)"
    again = f"; again: {', '.join(outcome.rereads)}" if outcome.rereads else ""
    print(f"seed {case.seed}: {state} · {len(case.tables)} tables · {counts}{again} {refused}", flush=True)
    for name, texts in ((name, texts) for name, texts in outcome.differences.items() if texts):
        table = case.table(name)
        print(f"  {name} {', '.join(table.features) if table else ''}")
        for text in texts:
            print(f"    {text}")
    for text in outcome.broken:
        print("  broken: " + text.replace("\n", "\n    "))


def _shrink(player: Player, options: argparse.Namespace) -> int:
    case = _case(options.shrink, options)
    outcome = player.play(case)
    if not outcome.failed:
        print(f"seed {options.shrink} does not fail")
        return 0
    found = smallest(case, outcome, player.play, say=_say, seconds=options.seconds)
    print(script_of(found.case))
    _show(found.case, found.outcome)
    return 1
