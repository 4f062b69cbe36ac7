"""A case from a seed: nothing but the seed, the server, the method and the wishes decides what it is."""

import random
from dataclasses import replace

from tests.torture import kinds_postgres
from tests.torture.archiver import SERVER
from tests.torture.model import Case
from tests.torture.schemas import Wish, child_of, random_table
from tests.torture.workloads import Work


def generate(seed: int, server: str, method: str = "query", *, only: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> Case:
    """Returns the case of a seed.

    Args:
        seed: Any number.
        server: postgres, mysql or mariadb.
        method: query or log.
        only: Features that every table has, and faults that every case has.
        never: Features and faults that are left out.
    """
    numbers = random.Random(f"{server} {method} {seed}")
    wish = Wish(server=server, method=method, only=only, never=never, numbers=numbers)
    count = numbers.choice((1, 1, 2, 2, 3))
    tables = tuple(random_table(wish, number) for number in range(1, (1 if "one table" in only else count) + 1))
    if wish.has("cascade", 0.15) and server != "postgres":
        tables = (*tables, *child_of(wish, tables[0]))
    reader = numbers.choice(("jdbc", "native", "auto"))
    archive: tuple[tuple[str, object], ...] = (("decoder", numbers.choice(("exact", "auto"))),)
    if wish.has("from the archive", 0.2):
        archive = (*archive, ("initial_load", "archive"))
    if method == "log" and wish.has("archiver", 0.35) and not {"early copy", "binlog reset"} & set(only):
        compress = numbers.choice(("none", "gzip", "zstd"))
        copy = {"connection": "torture_log", "server": SERVER, "flush": True, "compress": compress}
        archive = (*archive, ("copy", copy))
    pipeline = (("source", (("reader", "native" if wish.has("native", 0.0) else reader),)), ("archive", archive))
    reconcile = wish.has("reconciled", 0.2)
    case = Case(seed=seed, server=server, method=method, tables=tables, steps=(), pipeline=pipeline, reconcile=reconcile)
    if server == "postgres":
        case = replace(case, prelude=kinds_postgres.PRELUDE)
    return replace(case, steps=tuple(Work(wish, tables).steps()))
