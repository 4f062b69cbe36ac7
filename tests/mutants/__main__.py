"""Breaks the mechanisms behind the promises one by one, and sees that a test notices each.

    python -m tests.mutants                        all of them; `make mutants`
    python -m tests.mutants --without-spark        those whose tests need no JVM
    python -m tests.mutants --without-servers      those whose tests are unit tests
    python -m tests.mutants --only NAME ...        some
    python -m tests.mutants --promise 4            those of one promise
    python -m tests.mutants --write-docs           runs nothing; writes the table in tests/mutants/README.md

All edits are made in copies of the repository. The tests pass unbroken first, else the mechanism is not tried.
"""

import argparse
import queue
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.table import PAGE, Mechanism, Needs, mechanisms, with_table
from tests.mutants.trial import Copy, End, Result, Verdict, unsound


def main() -> int:
    """Returns 1 if a broken mechanism was not noticed, or could not be tried."""
    chosen, options = _chosen()
    if options.write_docs:
        PAGE.write_text(with_table(PAGE.read_text("utf-8"), mechanisms()), "utf-8")
        return 0
    with tempfile.TemporaryDirectory(prefix="cdc-ops-mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(options.processes):
            copies.put(Copy(Path(folder) / str(number)))
        with ThreadPoolExecutor(options.processes) as pool:
            results = _tried(chosen, copies, pool)
        while not copies.empty():
            copies.get().close()
    return _told(results)


def _chosen() -> tuple[list[Mechanism], argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Breaks mechanisms one by one; a test has to notice.")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[one.name for one in mechanisms()], default=None)
    parser.add_argument("--promise", type=int, nargs="+", choices=range(1, 10))
    parser.add_argument("--without-spark", action="store_true", help="leave out those whose tests need a JVM")
    parser.add_argument("--without-servers", action="store_true", help="only those whose tests are unit tests")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write-docs", action="store_true", help="only write the table in tests/mutants/README.md")
    options = parser.parse_args()
    chosen = [
        one
        for one in mechanisms()
        if (options.only is None or one.name in options.only)
        and (options.promise is None or one.promise in options.promise)
        and not ((options.without_spark or options.without_servers) and one.needs is Needs.SPARK)
        and not (options.without_servers and one.needs is Needs.SERVERS)
    ]
    return chosen, options


def _tried(chosen: list[Mechanism], copies: "queue.Queue[Copy]", pool: ThreadPoolExecutor) -> list[Result]:
    """Tries those whose tests need nothing first, then those that need servers, then those that need Spark."""

    def unbroken(tests: list[str]) -> tuple[list[End], str]:
        copy = copies.get()
        try:
            return copy.run(tests)
        finally:
            copies.put(copy)

    def broken(mechanism: Mechanism) -> Result:
        copy = copies.get()
        try:
            result = copy.run_broken(mechanism)
        finally:
            copies.put(copy)
        _tell(result)
        return result

    results: list[Result] = []
    for needs in Needs:
        group = [one for one in chosen if one.needs is needs]
        if not group:
            continue
        tests = sorted({test for one in group for test in one.tests})
        began = time.monotonic()
        print(f"{needs}: {len(group)} mechanisms; first their {len(tests)} tests, with nothing broken", flush=True)
        ends, said = unbroken(tests)
        print(f"{'unbroken':10} {time.monotonic() - began:4.0f} s", flush=True)
        refused = {one: reason for one in group if (reason := unsound(one, ends, said))}
        for one, reason in refused.items():
            results.append(Result(mechanism=one, verdict=Verdict.BROKEN, seconds=0, why=reason))
            _tell(results[-1])
        results += pool.map(broken, [one for one in group if one not in refused])
    return results


def _tell(result: Result) -> None:
    one = result.mechanism
    print(f"{result.verdict:10} {result.seconds:4.0f} s  {one.name}: {one.mechanism}  [{one.broken}]", flush=True)
    if result.why:
        print(f"{'':19}{result.why}\n{'':19}{one.file}: {' '.join(one.tests)}", flush=True)


def _told(results: Iterable[Result]) -> int:
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing was tried")
    return int(bool(counts[Verdict.NOT_CAUGHT] or counts[Verdict.BROKEN] or not counts[Verdict.CAUGHT]))


if __name__ == "__main__":
    sys.exit(main())
