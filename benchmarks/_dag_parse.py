"""Parses a file of DAGs twice by Airflow's DagBag, as its DAG processor does, in this process: `python -m benchmarks._dag_parse FILE`.

Prints JSON: the seconds of Airflow's own imports and of both parses, as [wall, processor], and the number of tasks of each DAG.
"""

import json
import sys
import time


def now() -> tuple[float, float]:
    """Returns the clock and the processor seconds of this process."""
    return time.perf_counter(), time.process_time()


def since(begun: tuple[float, float]) -> tuple[float, float]:
    """Returns the seconds of both that have passed."""
    wall, processor = now()
    return wall - begun[0], processor - begun[1]


def main() -> None:
    begun = now()
    import airflow.sdk
    from airflow.dag_processing.dagbag import DagBag

    _ = [getattr(airflow.sdk, name) for name in ("DAG", "task", "task_group", "CronDataIntervalTimetable", "BaseOperator")]
    found: dict[str, object] = {"imports": since(begun)}
    for parse in ("first", "second"):
        begun = now()
        bag = DagBag(dag_folder=sys.argv[1])
        found[parse] = since(begun)
        assert not bag.import_errors, bag.import_errors
        found["tasks"] = {name: len(dag.tasks) for name, dag in bag.dags.items()}
        found["broken"] = [name for name, dag in bag.dags.items() if "broken" in dag.tags]
    print("RESULT" + json.dumps(found))


if __name__ == "__main__":
    main()
