"""Whether the machine finds what it was made for: a list of known kinds of errors, each looked for until a seed shows it.

    python -m tests.torture.proof --seconds 1800 [--only NAME ...]

It is for code in which a mend is taken back (`tests/mutants`), or for a commit before it. What it found goes to .local/torture/proof.jsonl.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.command import RESULTS, server_of
from tests.torture.driver import Driver
from tests.torture.generate import generate
from tests.torture.model import Case
from tests.torture.outcome import Outcome
from tests.torture.play import Player

_QUIET: Final = (
    "kill",
    "lost ledger",
    "late commit",
    "reconciled",
    "small batch",
    "cascade",
    "resync",
    "reconcile",
    "run before the last",
    "small chunks",
    "bystander",
    "early copy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """A kind of error, and where it is looked for.

    Args:
        name: Its name.
        words: What goes wrong.
        where: Server and method.
        only: Features of each case.
        never: Features of none.
        sign: What a difference, refusal or broken run says of it, as a regular expression.
    """

    name: str
    words: str
    where: tuple[str, str]
    only: tuple[str, ...]
    sign: str
    never: tuple[str, ...] = ()


_PG, _MY, _MA = ("postgres", "query"), ("mysql", "query"), ("mariadb", "query")
_MYLOG, _MALOG = ("mysql", "log"), ("mariadb", "log")
_PLAIN: Final = (
    "scd2",
    "soft",
    "ignore",
    "inherited",
    "versioned",
    "partitions",
    "endless cursor",
    "partial grant",
    "globals",
    "locks",
    "bad keys",
    "ddl",
)
HUNTS: Final = (
    Hunt(
        name="decimal-bounds",
        words="bounds of decimals in the log pass through binary floating point",
        where=_PG,
        only=("decimal key", "native", "plain values", "small batch"),
        sign="minValues|maxValues",
        never=(*_PLAIN, "partitioned lake", "change feed", "metadata columns"),
    ),
    Hunt(
        name="folder-text",
        words="an empty text in a partition's folder is read as NULL",
        where=_PG,
        only=("text key", "partitioned lake"),
        sign="doubled|missing|value",
        never=_PLAIN,
    ),
    Hunt(
        name="inherited",
        words="keys that a parent's children have as well",
        where=_PG,
        only=("inherited", "number key"),
        sign="doubled|missing|never there|Duplicate",
        never=_PLAIN,
    ),
    Hunt(
        name="endless-cursor",
        words="rows whose cursor lies in no window",
        where=_PG,
        only=("endless cursor",),
        sign="missing|value",
        never=_PLAIN,
    ),
    Hunt(
        name="endless-key",
        words="a key that the policy makes NULL",
        where=_PG,
        only=("endless key", "bad keys"),
        sign="NULL key|doubled",
        never=_PLAIN,
    ),
    Hunt(
        name="hidden-column",
        words="a column that the login may not read",
        where=_PG,
        only=("partial grant",),
        sign="broken|column:|exit|Py4J",
        never=_PLAIN,
    ),
    Hunt(
        name="unseen-column",
        words="a column that the login may not read, and that the catalog therefore does not show",
        where=_MA,
        only=("partial grant",),
        sign="column:",
        never=_PLAIN,
    ),
    Hunt(
        name="rewrite",
        words="a COPY that waits for a table's rewrite reads nothing",
        where=_PG,
        only=("locks", "rewrite", "native", "run before the last"),
        sign="missing|value",
        never=_PLAIN,
    ),
    Hunt(
        name="type-change",
        words="a column's type changes between check and read",
        where=_PG,
        only=("locks", "type change", "native", "run before the last"),
        sign="value",
        never=_PLAIN,
    ),
    Hunt(
        name="cascade",
        words="children that go with their parents are in no binlog",
        where=_MALOG,
        only=("cascade", "number key"),
        sign="child|still there|value",
        never=_PLAIN,
    ),
    Hunt(
        name="versioned",
        words="row events of system-versioned tables are not the table's rows",
        where=_MALOG,
        only=("versioned",),
        sign="still there|value|missing|never",
        never=_PLAIN,
    ),
    Hunt(
        name="first-soft-batch",
        words="the first batch of a table with soft deletes has a delete",
        where=_MALOG,
        only=("soft", "from the archive", "busy start"),
        sign="PATH_NOT_FOUND|broken|Unforeseen",
        never=_PLAIN,
    ),
    Hunt(
        name="bystander",
        words="a statement about another table stops every table",
        where=_MYLOG,
        only=("bystander",),
        sign="refused for another|StatementError",
        never=_PLAIN,
    ),
    Hunt(
        name="early-copy",
        words="a binlog that was copied while it was open",
        where=_MYLOG,
        only=("early copy",),
        sign="missing|still there|value",
        never=_PLAIN,
    ),
    Hunt(
        name="reused-names",
        words="binlogs of a reset server under the old names",
        where=_MYLOG,
        only=("binlog reset",),
        sign="missing|still there|value",
        never=_PLAIN,
    ),
    Hunt(
        name="mysql-settings",
        words="settings of the server reach into reads",
        where=_MY,
        only=("globals", "select limit", "many rows", "number key"),
        sign=".",
        never=_PLAIN,
    ),
    Hunt(
        name="mariadb-settings",
        words="settings of the server reach into reads",
        where=_MA,
        only=("globals", "select limit", "many rows", "number key"),
        sign=".",
        never=_PLAIN,
    ),
)


def main() -> int:
    """Hunts until each kind was found, or the time is over; the exit code is 0 if all were."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.proof", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seeds", type=int, default=8, help="of each kind in one round")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    left = [hunt for hunt in HUNTS if not options.only or hunt.name in options.only]
    begun, seed = time.monotonic(), 0
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        place.chmod(0o755)
        driver = Driver(RESULTS / "logs")
        stack.callback(driver.close)
        players = dict[str, Player]()
        while left and seed < options.seeds:
            seed += 1
            for hunt in list(left):
                if time.monotonic() - begun > options.seconds:
                    return 1
                if hunt.where[0] not in players:
                    server: Any = stack.enter_context(server_of(hunt.where[0])(place / hunt.where[0]))
                    players[hunt.where[0]] = Player(server, driver, place / "cases")
                if _found(hunt, seed, players[hunt.where[0]]):
                    left.remove(hunt)
    print("not found:", ", ".join(hunt.name for hunt in left) or "none")
    return 1 if left else 0


def case_of(hunt: Hunt, seed: int) -> Case:
    """Returns the case in which a hunt looks at a seed: one table, and little beside what the error needs."""
    never = tuple(word for word in (*_QUIET, *hunt.never) if word not in hunt.only)
    return generate(seed, *hunt.where, only=("one table", *hunt.only), never=never)


def _found(hunt: Hunt, seed: int, player: Player) -> bool:
    case = case_of(hunt, seed)
    try:
        outcome = player.play(case)
    except Exception as error:  # the machine's own error must not end a night
        print(f"{hunt.name} {seed}: the machine failed: {error!r}", flush=True)
        return False
    found = bool(re.search(hunt.sign, _text(outcome))) if outcome.failed else False
    line = {
        "hunt": hunt.name,
        "seed": seed,
        "found": found,
        "seconds": outcome.seconds,
        "differences": outcome.differences,
        "refusals": outcome.refusals,
    }
    with (RESULTS / "proof.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"broken": outcome.broken}, ensure_ascii=False) + "\n")
    state = "FOUND" if found else "failed otherwise" if outcome.failed else "refused" if outcome.refusals else "equal"
    print(
        f"{hunt.name} {seed}: {state} ({outcome.seconds} s, {outcome.refused_statements}/{outcome.statements} statements refused)",
        flush=True,
    )
    for text in (
        *(f"{name}: {one}" for name, texts in outcome.differences.items() for one in texts),
        *(f"refused {one}" for texts in outcome.refusals.values() for one in texts),
    ):
        print(f"    {text[:400]}", flush=True)
    for text in outcome.broken:
        print("    broken: " + text[:700].replace("\n", "\n      "), flush=True)
    return found


def _text(outcome: Outcome) -> str:
    named = [f"{name}: {text}" for name, texts in outcome.differences.items() for text in texts]
    return "\n".join((*named, *(f"broken: {text}" for text in outcome.broken)))


if __name__ == "__main__":
    sys.exit(main())
