"""A case from a seed: nothing but the seed, the server, the method and the wishes decides what it is."""

import random
from dataclasses import replace

from tests.torture import kinds_postgres
from tests.torture.archiver import SERVER
from tests.torture.events import NEVER, ONLY
from tests.torture.model import Case
from tests.torture.schemas import Wish, child_of, random_table
from tests.torture.workloads import Work


def generate(
    seed: int, server: str, method: str = "query", *, only: tuple[str, ...] = (), never: tuple[str, ...] = (), nodes: int = 1
) -> Case:
    """Returns the case of a seed.

    Args:
        seed: Any number.
        server: postgres, mysql or mariadb.
        method: query, log (binlogs) or events (of Debezium).
        only: Features that every table has, and faults that every case has.
        never: Features and faults that are left out.
        nodes: How many nodes of a cluster the work is spread over; the product is given the first one, and the others by name or not.
    """
    numbers = random.Random(f"{server} {method} {seed}")
    followed = "query" if method == "query" else "log"
    if method == "events":
        only, never = (*only, *ONLY), (*never, *NEVER)
    wish = Wish(server=server, method=followed, only=only, never=never, nodes=nodes, events=method == "events", numbers=numbers)
    count = numbers.choice((1, 1, 2, 2, 3))
    tables = tuple(random_table(wish, number) for number in range(1, (1 if "one table" in only else count) + 1))
    if wish.has("cascade", 0.15) and server != "postgres":
        tables = (*tables, *child_of(wish, tables[0]))
    reader = numbers.choice(("jdbc", "native", "auto"))
    numbers.choice(("exact", "auto"))  # seeds draw what they always drew
    archive: tuple[tuple[str, object], ...] = ()
    if wish.has("from the archive", 0.2):
        archive = (*archive, ("initial_load", "archive"))
    if method == "log" and wish.has("archiver", 0.35) and not {"early copy", "binlog reset"} & set(only):
        compress = numbers.choice(("none", "gzip", "zstd"))
        copy = {"connection": "torture_log", "server": SERVER, "flush": True, "compress": compress}
        archive = (*archive, ("copy", copy))
    source: tuple[tuple[str, object], ...] = (("reader", "native" if wish.has("native", 0.0) else reader),)
    if nodes > 1 and wish.has("named writers", 0.9):
        source = (*source, ("writers", [f"torture_node_{number}" for number in range(1, nodes)]))
    pipeline = (("source", source), ("archive", archive))
    reconcile = wish.has("reconciled", 0.2)
    case = Case(seed=seed, server=server, method=method, tables=tables, steps=(), pipeline=pipeline, reconcile=reconcile, nodes=nodes)
    if server == "postgres":
        case = replace(case, prelude=kinds_postgres.PRELUDE)
    return replace(case, steps=tuple(Work(wish, tables).steps()))
