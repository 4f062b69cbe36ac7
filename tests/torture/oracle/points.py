"""A second engine reads single rows: delta-rs, which skips files by the log's statistics and knows nothing of Spark or of this machine.

It does not know the table feature of widened types. So it is shown the replayed snapshot, its entries word for word, below a protocol
without that feature; tables whose types were widened are left out.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from tests.torture.oracle.delta_log import Snapshot
from tests.torture.oracle.lake import LakeTable, Row

_UNKNOWN = "typeWidening"


def point_faults(snapshot: Snapshot, lake: LakeTable, keys: tuple[str, ...], folder: Path, numbers: random.Random) -> Iterator[str]:
    """Yields keys for which a read `WHERE key = value` does not find as many rows as the whole table has.

    Args:
        snapshot: The table.
        lake: Its rows, read whole.
        keys: The columns of the key.
        folder: Where the log that the engine is shown goes; must not exist.
        numbers: Which rows are asked for.
    """
    kinds = {name: lake.types.get(name, "") for name in keys}
    if not lake.rows or not all(_can_be_asked(kind) for kind in kinds.values()) or "type changes" in snapshot.metadata["schemaString"]:
        return
    query = QueryBuilder().register("t", DeltaTable(str(_shown(snapshot, folder))))
    for row in numbers.sample(lake.rows, min(3, len(lake.rows))):
        if any(row[name] is None for name in keys):
            continue
        wanted = sum(all(other[name] == row[name] for name in keys) for other in lake.rows)
        condition = " AND ".join(f"{_quoted(name)} = {_literal(row, name, kinds[name])}" for name in keys)
        [found] = query.execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()["n"].to_pylist()
        if found != wanted:
            yield f"point read: {condition} finds {found} rows, the table has {wanted}"


def _can_be_asked(kind: str) -> bool:
    return kind in ("integer", "long", "short", "byte", "string", "date") or kind.startswith("decimal")


def _literal(row: Row, name: str, kind: str) -> str:
    value: Any = row[name]
    if kind == "string":
        return "'" + str(value).replace("'", "''") + "'"
    if kind == "date":
        return f"CAST(CAST({value} AS INT) AS DATE)"
    if kind.startswith("decimal"):
        return f"CAST('{value:f}' AS {kind})"
    return str(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(snapshot: Snapshot, folder: Path) -> Path:
    """Returns a folder with one commit that is the snapshot; the files are links to those of the table."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for path in snapshot.root.rglob("*"):
        inner = path.relative_to(snapshot.root)
        if path.is_file() and inner.parts[0] not in ("_delta_log", "_change_data"):
            (folder / inner).parent.mkdir(parents=True, exist_ok=True)
            (folder / inner).symlink_to(path)
    protocol = {
        name: [one for one in value if one != _UNKNOWN] if isinstance(value, list) else value for name, value in snapshot.protocol.items()
    }
    configuration = {
        name: value for name, value in (snapshot.metadata.get("configuration") or {}).items() if "enableTypeWidening" not in name
    }
    actions = [{"protocol": protocol}, {"metaData": {**snapshot.metadata, "configuration": configuration}}]
    lines = [json.dumps(one, ensure_ascii=False) for one in (*actions, *map(_entry, snapshot.files.values()))]
    (log / f"{0:020}.json").write_text("\n".join(lines), "utf-8")
    return folder


def _entry(add: dict[str, Any]) -> dict[str, Any]:
    return {"add": {name: value for name, value in add.items() if not name.endswith("_parsed")}}
