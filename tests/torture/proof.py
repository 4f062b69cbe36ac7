"""Whether the machine finds what it was made for: a list of known kinds of errors (hunts.toml), each looked for until a seed shows it.

    python -m tests.torture.proof --taken-back --seconds 1800 [--only NAME ...]

With --taken-back each is looked for in a copy of the repository in which its mend is taken back, by edits of `tests/mutants`; without,
in the code as it is, where nothing should be found. What it found goes to .local/torture/proof.jsonl.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.table import mechanisms
from tests.torture.command import RESULTS, server_of
from tests.torture.driver import ROOT, Driver
from tests.torture.generate import generate
from tests.torture.model import Case
from tests.torture.outcome import Outcome
from tests.torture.play import Player


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """A kind of error, and where it is looked for.

    Args:
        name: Its name.
        words: What goes wrong.
        where: Server and method.
        only: Features of each case.
        never: Features of none.
        sign: What a difference or broken run says of it, as a regular expression.
        taken_back: Names of mutants that together take the mend back.
    """

    name: str
    words: str
    where: tuple[str, str]
    only: tuple[str, ...]
    sign: str
    taken_back: tuple[str, ...]
    never: tuple[str, ...] = ()


def _hunts() -> tuple[tuple[str, ...], tuple[Hunt, ...]]:
    """Returns what no case has that is not about it, and the hunts, as hunts.toml has them."""
    data = tomllib.loads((Path(__file__).parent / "hunts.toml").read_text("utf-8"))
    lists = ("where", "only", "taken_back")
    hunts = (
        Hunt(**{**one, **{name: tuple(one.get(name, ())) for name in lists}, "never": (*data["plain"], *one.get("never", ()))})
        for one in data["hunt"]
    )
    return tuple(data["never"]), tuple(hunts)


QUIET, HUNTS = _hunts()


def main() -> int:
    """Hunts until each kind was found, or the time is over; the exit code is 0 if all were."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.proof", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seeds", type=int, default=8, help="of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed of each kind")
    parser.add_argument("--taken-back", action="store_true", help="take each mend back, in a copy")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    end, missed = time.monotonic() + options.seconds, list[str]()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        place.chmod(0o755)
        servers = dict[str, Any]()
        for hunt in HUNTS:
            if options.only and hunt.name not in options.only:
                continue
            name = hunt.where[0]
            if name not in servers:
                servers[name] = stack.enter_context(server_of(name)(place / name))
            root = _taken_back(hunt) if options.taken_back else ROOT
            driver = Driver(RESULTS / "logs", root)
            try:
                player = Player(servers[name], driver, place / "cases")
                seeds = range(options.first, options.first + options.seeds)
                if not any(time.monotonic() < end and _found(hunt, seed, player) for seed in seeds):
                    missed.append(hunt.name)
            finally:
                driver.close()
    print("not found:", ", ".join(missed) or "none")
    return 1 if missed else 0


def _taken_back(hunt: Hunt) -> Path:
    """Returns a copy of the repository, always in the same folder, in which the mend of a kind is taken back."""
    place = RESULTS / "taken-back"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".local", "__pycache__"), symlinks=True)
    (place / ".local").mkdir()
    for name in ("venv", "jars", "cache"):
        if (ROOT / ".local" / name).exists():
            (place / ".local" / name).symlink_to(ROOT / ".local" / name)
    edits = {one.name: one for one in mechanisms()}
    for mechanism in hunt.taken_back:
        (place / edits[mechanism].file).write_text(edits[mechanism].broken_text(place), "utf-8")
    return place


def case_of(hunt: Hunt, seed: int) -> Case:
    """Returns the case in which a hunt looks at a seed: one table, and little beside what the error needs."""
    never = tuple(word for word in (*QUIET, *hunt.never) if word not in hunt.only)
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
        "taken back": getattr(player.kit.driver, "root", ROOT) != ROOT,
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
