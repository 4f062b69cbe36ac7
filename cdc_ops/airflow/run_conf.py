"""Converts the facts of a DAG run to a `RunRequest`. Pure; it imports no Airflow.

    run type                                   mode          request
    backfill (also of a rewritten older run)   -             backfill of [interval start, interval end); the watermark stays
    any other                                  increment     carry the tables forward
    any other                                  keys ...      resync; the watermark stays
    any other, with columns                    -             backfill of these columns; the watermark stays
    any other                                  reconcile     compare by checksums; the runs of the reconcile DAG do nothing else

The run *type* decides, never the run id: Airflow rewrites a scheduled run into a backfill and keeps its id. A manual run's interval is not
used, because the command line and the REST API give different intervals for the same date (reference: Airflow 3.3, checked).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NoReturn

from cdc_ops.core.instants import parse_instant
from cdc_ops.core.operation.run_request import Accepts, ResyncMode, RunKind, RunRequest, ledger_run_id
from cdc_ops.core.pipeline.airflow_settings import Downstream
from cdc_ops.core.reconcile.diff import parse_accepted
from cdc_ops.core.text import did_you_mean, split_list, unquoted
from cdc_ops.errors import RequestError

INCREMENT: Final = "increment"
RECONCILE: Final = "reconcile"
MODES: Final = (INCREMENT, *(mode.value for mode in ResyncMode), RECONCILE)
KEYS_OF_CONF: Final = (
    *("tables", "mode", "since", "until", "keys", "columns"),
    *("accept_deletes", "accept_cost", "accept_server", "accept_gaps", "why", "downstream", "dry_run"),
)
"""What a run's conf, and the trigger form, may hold."""

_BACKFILL: Final = "backfill"
_NOTHING: Final = "Nothing was read or written; the watermark stays."


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRunFacts:
    """What Airflow says of a run.

    Args:
        dag_id, run_id: Which.
        run_type: `scheduled`, `manual`, `backfill`, `asset_triggered`, `operator_triggered` or `asset_materialization`.
        conf: As triggered, before Airflow adds the defaults of Params.
        interval: Data interval, None where the run has none.
        reconcile: The DAG is the one that only reconciles.
        downstream: What the pipeline says of asset events of backfills.
    """

    dag_id: str
    run_id: str
    run_type: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    interval: tuple[datetime, datetime] | None = None
    reconcile: bool = False
    downstream: Downstream = Downstream.EVENTS


def run_request(dag_run: DagRunFacts) -> RunRequest:
    """Returns what a run has to do, checked.

    Raises:
        RequestError: the conf has unknown keys, values of a wrong type, naive instants, or parts that contradict each other.
    """
    _check_known(dag_run.conf)
    if dag_run.reconcile or dag_run.conf.get("mode") == RECONCILE:
        return _reconcile(dag_run)
    if dag_run.conf.get("accept_deletes"):
        _refuse("Only a reconcile accepts deletes.", "Choose the mode 'reconcile', or drop accept_deletes.")
    mode = _mode(dag_run.conf)
    backfill = dag_run.run_type == _BACKFILL
    if backfill:
        _check_backfill(dag_run, mode)
    since, until = dag_run.interval if backfill and dag_run.interval else (_instant(dag_run.conf, "since"), _instant(dag_run.conf, "until"))
    return RunRequest(
        run_id=ledger_run_id(dag_run.run_id, reconcile_dag=dag_run.reconcile),
        trigger=dag_run.run_type,
        holder=f"airflow:{dag_run.dag_id}:{dag_run.run_id}",
        kind=_kind(dag_run, mode),
        tables=_names(dag_run.conf, "tables", "Give a list of schema.table names."),
        mode=mode,
        since=since,
        until=until,
        keys=_keys(dag_run.conf),
        columns=_names(dag_run.conf, "columns", "Give a list of column names."),
        accepts=Accepts(
            cost=_flag(dag_run.conf, "accept_cost"),
            server=_flag(dag_run.conf, "accept_server"),
            gaps=_names(dag_run.conf, "accept_gaps", "Give a list of names of gaps, as the table's page shows them."),
            why=_text(dag_run.conf, "why"),
        ),
        dry_run=_flag(dag_run.conf, "dry_run"),
        silent=_is_silent(dag_run, _kind(dag_run, mode)),
    ).checked()


def _kind(dag_run: DagRunFacts, mode: ResyncMode | None) -> RunKind:
    if dag_run.run_type == _BACKFILL or (dag_run.conf.get("columns") and mode is None):
        return RunKind.BACKFILL
    return RunKind.RESYNC if mode else RunKind.INCREMENT


def _is_silent(dag_run: DagRunFacts, kind: RunKind) -> bool:
    """The run's own word goes over the pipeline's, which is about backfills."""
    value = dag_run.conf.get("downstream") or ""
    if value and value not in tuple(Downstream):
        _refuse(f"downstream={value!r} is not valid. {did_you_mean(str(value), Downstream)}", "Choose events or silent, or leave it empty.")
    return value == Downstream.SILENT or (not value and kind is RunKind.BACKFILL and dag_run.downstream is Downstream.SILENT)


def _reconcile(dag_run: DagRunFacts) -> RunRequest:
    if dag_run.run_type == _BACKFILL and not dag_run.reconcile:
        _refuse("A backfill reads a range, and a reconcile compares whole tables.", "Remove the mode, or trigger a run with it.")
    if dag_run.conf.get("mode") not in (None, INCREMENT, RECONCILE):
        _refuse(f"mode={dag_run.conf['mode']!r} is not possible in the DAG that reconciles.", "Trigger the pipeline's other DAG.")
    accepted = dag_run.conf.get("accept_deletes") or ""
    if isinstance(accepted, bool) or not isinstance(accepted, int | str):
        _refuse(f"accept_deletes={accepted!r} is neither a number of rows nor a share.", "Write 500 for rows, or 30% for a share of them.")
    if _is_silent(dag_run, RunKind.RECONCILE):
        _refuse("A reconcile cannot be silent: it brings changes that the DAGs behind a table have not seen.", "Remove downstream.")
    number, ratio = parse_accepted(str(accepted))
    return RunRequest(
        run_id=ledger_run_id(dag_run.run_id, reconcile_dag=dag_run.reconcile),
        trigger=dag_run.run_type,
        holder=f"airflow:{dag_run.dag_id}:{dag_run.run_id}",
        kind=RunKind.RECONCILE,
        tables=_names(dag_run.conf, "tables", "Give a list of schema.table names."),
        since=_instant(dag_run.conf, "since"),
        until=_instant(dag_run.conf, "until"),
        keys=_keys(dag_run.conf),
        columns=_names(dag_run.conf, "columns", "Give a list of column names."),
        accepts=Accepts(
            deletes=number,
            delete_ratio=ratio,
            cost=_flag(dag_run.conf, "accept_cost"),
            server=_flag(dag_run.conf, "accept_server"),
            gaps=_names(dag_run.conf, "accept_gaps", "Remove it: a reconcile has nothing to do with gaps."),
            why=_text(dag_run.conf, "why"),
        ),
        dry_run=_flag(dag_run.conf, "dry_run"),
    ).checked()


def _check_known(conf: Mapping[str, Any]) -> None:
    for key in conf:
        if key not in KEYS_OF_CONF:
            raise RequestError(
                f"The run's conf has the unknown key {key!r}.",
                why=did_you_mean(str(key), KEYS_OF_CONF),
                data=_NOTHING,
                next=f"Trigger it again with {', '.join(KEYS_OF_CONF)} only.",
            )


def _check_backfill(dag_run: DagRunFacts, mode: ResyncMode | None) -> None:
    if mode or any(dag_run.conf.get(name) for name in ("since", "until", "keys", "columns")):
        _refuse(
            "A backfill takes its range from the dates of the backfill; of the conf it takes only 'tables',"
            " 'accept_cost', 'downstream' and 'dry_run'.",
            "Remove the other keys.",
        )
    if dag_run.interval is None:
        _refuse("This backfill run has no data interval.", "Give the DAG a schedule with intervals, or resync a range instead.")


def _mode(conf: Mapping[str, Any]) -> ResyncMode | None:
    value = conf.get("mode") or INCREMENT
    if value not in MODES:
        _refuse(f"mode={value!r} is not a valid mode. {did_you_mean(str(value), MODES)}", f"Choose one of {', '.join(MODES)}.")
    return None if value == INCREMENT else ResyncMode(value)


def _instant(conf: Mapping[str, Any], name: str) -> datetime | None:
    value = conf.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        _refuse(f"{name}={value!r} is not text.", "Write it as 2026-01-31T00:00:00Z.")
    return parse_instant(value, name)


def _flag(conf: Mapping[str, Any], name: str) -> bool:
    value = conf.get(name)
    if value is not None and not isinstance(value, bool):
        _refuse(f"{name}={value!r} is neither true nor false.", "Write true or false, without quotes.")
    return bool(value)


def _text(conf: Mapping[str, Any], name: str) -> str:
    value = conf.get(name) or ""
    if not isinstance(value, str):
        _refuse(f"{name}={value!r} is not text.", "Write a sentence.")
    return value.strip()


def _names(conf: Mapping[str, Any], field: str, remedy: str) -> tuple[str, ...]:
    names = _list(conf, field, remedy)
    for name in names:
        if not isinstance(name, str):
            _refuse(f"{field} holds {name!r}, which is not a valid name.", remedy)
    return tuple(dict.fromkeys(unquoted(name) for name in names if name.strip()))


def _keys(conf: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(_key(item) for item in _list(conf, "keys", "Give a list of key values.") if item != "")


def _key(item: Any) -> tuple[str, ...]:
    """One key: a value, or the parts of a composite key as a list or separated by commas."""
    parts = item if isinstance(item, list) else split_list(item) if isinstance(item, str) else [item]
    for part in parts:
        if isinstance(part, bool | float) or not isinstance(part, str | int):
            _refuse(f"keys holds {part!r}, neither text nor a whole number.", "Write the value as text, as the source prints it.")
    return tuple(map(str, parts))


def _list(conf: Mapping[str, Any], name: str, remedy: str) -> Iterable[Any]:
    value = conf.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        _refuse(f"{name}={value!r} is not a list.", remedy)
    return value


def _refuse(what: str, remedy: str) -> NoReturn:
    raise RequestError(what, data=_NOTHING, next=remedy)
