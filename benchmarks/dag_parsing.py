"""Airflow parses the DAGs of 500 tables in 20 pipelines, beside as many DAGs with as many tasks that do nothing.

Airflow's DAG processor parses a file in a process of its own, forked when Airflow is imported: what counts is the first parse.
"""

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._harness import ROOT, arguments, inherited, report, run

PIPELINE = """
pipeline: {name}
schedule: "*/10 * * * *"
source: {{kind: mysql, connection: shop_db}}
target: {{root: s3://lake/tables, staging: s3://lake/staging}}
defaults: {{cursor: [updated_at, id], lookback: 1m}}
tables:
"""
PLAIN = """
from airflow.sdk import DAG, BaseOperator, CronDataIntervalTimetable

for number in range({pipelines}):
    with DAG(f"plain_{{number:02}}", schedule=CronDataIntervalTimetable("*/10 * * * *", timezone="UTC"), catchup=False) as dag:
        before = None
        for step in range({tasks}):
            one = BaseOperator(task_id=f"step_{{step}}")
            if before:
                before >> one
            before = one
    globals()[dag.dag_id] = dag
"""
PARSES = ("first", "second")


def write_pipelines(folder: Path, pipelines: int, tables: int) -> None:
    """Writes the pipeline files, each with its tables by name; the tables of every third pipeline have settings of their own."""
    folder.mkdir(parents=True)
    for number in range(pipelines):
        settings = "{cursor: [changed, id], deletes: soft}" if number % 3 == 0 else "{}"
        entries = "".join(f"  shop{number:02}.table_{table:03}: {settings}\n" for table in range(tables))
        (folder / f"shop{number:02}.yaml").write_text(PIPELINE.format(name=f"shop{number:02}") + entries, "utf-8")


def parsed(folder: Path, file: Path) -> dict[str, Any]:
    """Parses a file in a process of its own, twice."""
    environment = {
        **inherited(),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "CDC_OPS_PIPELINES": str(folder / "pipelines"),
        "PYTHONPATH": str(ROOT),
    }
    output = run([sys.executable, "-m", "benchmarks._dag_parse", str(file)], environment, folder).output
    found: dict[str, Any] = json.loads(output.partition("RESULT")[2].splitlines()[0])  # Airflow logs to the same place
    assert not found["broken"], found["broken"]
    return found


def line(name: str, runs: list[dict[str, Any]], part: str) -> str:
    """Returns the median seconds of a part of all runs, as text."""
    wall, processor = (statistics.median(one[part][index] for one in runs) for index in (0, 1))
    return f"{name:<46} {wall:6.2f} s   processor {processor:6.2f} s"


def ratio(ours: list[dict[str, Any]], plain: list[dict[str, Any]], part: str) -> float:
    """Returns how many times the processor seconds of the plain DAGs ours take."""
    return statistics.median(one[part][1] for one in ours) / statistics.median(one[part][1] for one in plain)


def main() -> None:
    options = arguments(__doc__, pipelines=20, tables=25, runs=5)
    ours: list[dict[str, Any]] = []
    plain: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pipelines(folder / "pipelines", options.pipelines, options.tables)
        (folder / "dags").mkdir()
        file = shutil.copy(ROOT / "dags" / "cdc_pipelines.py", folder / "dags")
        parsed(folder, file)  # compiles what is not compiled yet
        for _ in range(options.runs):
            ours.append(parsed(folder, file))
            [tasks] = set(ours[-1]["tasks"].values())
            (folder / "dags" / "plain.py").write_text(PLAIN.format(pipelines=options.pipelines, tasks=tasks), "utf-8")
            plain.append(parsed(folder, folder / "dags" / "plain.py"))
            assert sorted(ours[-1]["tasks"].values()) == sorted(plain[-1]["tasks"].values())
    report(
        f"Airflow parses {options.pipelines} pipelines of {options.tables} tables, {tasks} tasks each; medians of {options.runs}",
        (
            line("imports of Airflow", ours, "imports"),
            *(line(f"{part} parse", ours, part) for part in PARSES),
            *(line(f"{part} parse, DAGs that do nothing", plain, part) for part in PARSES),
            ", ".join(f"{part} parse {ratio(ours, plain, part):.1f} times theirs" for part in PARSES),
        ),
    )


if __name__ == "__main__":
    main()
