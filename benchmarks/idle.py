"""An increment that finds nothing, by `cdc-ops run`, beside a spark-submit of nothing."""

import os

from benchmarks import _rows
from benchmarks._harness import BENCH, ROOT, Bench, Series, arguments, ensure_rows, report, run, running_server


def main() -> None:
    options = arguments(__doc__, rows=1_000, runs=5)
    table = f"rows_{options.rows}"
    submit = [str(ROOT / ".local/venv/bin/spark-submit"), "--conf", "spark.ui.enabled=false", str(ROOT / "benchmarks/_nothing.py")]
    path = f"{ROOT / '.local/venv/bin'}{os.pathsep}{os.environ['PATH']}"  # spark-submit looks for Spark with the first python that it finds
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | {
        "PATH": path,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with running_server() as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows))
        bench = Bench(name="bench_idle", server=server, tables=(table,))
        bench.reset()
        bench.run()
        idle, bare = Series("cdc-ops run, nothing to do"), Series("spark-submit of nothing")
        for _ in range(options.runs):
            measured, (line,) = bench.run()
            assert line["status"] == "idle", line
            assert "java" not in measured.commands, "Spark was started to learn that there is nothing to do"
            idle.add(measured)
            bare.add(run(submit, environment, BENCH, to_nowhere=True))
    report(
        "An increment that finds nothing",
        (idle.line(), bare.line(), f"ratio {idle.median / bare.median:.2f} of a bare spark-submit; no JVM was started"),
    )


if __name__ == "__main__":
    main()
