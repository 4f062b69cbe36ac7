"""Cases as SQL and as pipeline files: what is played is what is printed."""

from typing import Any

import yaml

from tests.torture.events import section_of
from tests.torture.model import AddColumn, Case, Change, Column, Delete, DropColumn, Insert, Table, Update, Values
from tests.torture.schemas import KINDS


class Dialect:
    """How a server writes names and changes."""

    def __init__(self, server: str) -> None:
        self.server, self.kinds = server, KINDS[server]
        self.mark = '"' if server == "postgres" else "`"

    def quote(self, name: str) -> str:
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    def create(self, table: Table) -> list[str]:
        """Returns the statements that make a table."""
        columns = [self._column(one) for one in table.columns]
        if table.cursor:
            columns.append(f"{self.quote('updated_at')} {table.cursor}")
        keys = ", ".join(map(self.quote, table.keys))
        tail = table.tail.replace("{keys}", keys)
        own = f"CREATE TABLE {self.quote(table.name)} ({', '.join(columns)}, PRIMARY KEY ({keys})){tail}"
        plain = table.name.replace(" ", "_").lower()
        return [own, *(one.replace("{name}", self._safe(plain)).replace("{table}", self.quote(table.name)) for one in table.after)]

    def change(self, change: Change, table: Table | None) -> str:
        """Returns the statement of a change; one of Postgres that updates sets the cursor as well."""
        match change:
            case Insert():
                names = ", ".join(self.quote(name) for name, _ in change.values)
                return f"INSERT INTO {self.quote(change.table)} ({names}) VALUES ({', '.join(value for _, value in change.values)})"
            case Update():
                sets = [f"{self.quote(name)} = {value}" for name, value in change.values]
                if table and table.cursor and self.server == "postgres":
                    sets.append('"updated_at" = clock_timestamp()' if "infinity" not in table.cursor else '"updated_at" = DEFAULT')
                return f"UPDATE {self.quote(change.table)} SET {', '.join(sets)} WHERE {self._where(change.key)}"
            case Delete():
                return f"DELETE FROM {self.quote(change.table)} WHERE {self._where(change.key)}"
            case AddColumn():
                return f"ALTER TABLE {self.quote(change.table)} ADD COLUMN {self._column(change.column)}"
            case DropColumn():
                return f"ALTER TABLE {self.quote(change.table)} DROP COLUMN {self.quote(change.name)}"
            case _:
                return change.sql

    def named(self, sql: str, case: Case, database: str) -> str:
        """Returns a statement with the names of tables for `{t1}` and of the database for `{database}`."""
        for table in case.tables:
            sql = sql.replace(f"{{{table.name}}}", self.quote(table.name))
        return sql.replace("{database}", self.quote(database))

    def _where(self, key: Values) -> str:
        return " AND ".join(f"{self.quote(name)} = {value}" for name, value in key)

    def _column(self, column: Column) -> str:
        declared = self.kinds[column.kind].declared
        if column.generated:
            return f"{self.quote(column.name)} {declared} GENERATED ALWAYS AS {column.generated} STORED"
        default = f" DEFAULT {column.default}" if column.default else ""
        bare = declared.removesuffix(" NULL")
        return f"{self.quote(column.name)} {bare} {'NULL' if column.null else 'NOT NULL'}{default}"

    @staticmethod
    def _safe(name: str) -> str:
        return "".join(one if one.isascii() and one.isalnum() else "_" for one in name)


def pipeline_file(case: Case, *, schema: str, folder: str, first: str = "") -> str:
    """Returns the pipeline file of a case, as YAML; `first` is the first binlog that the archiver is to copy."""
    sections = {name: dict(values) for name, values in case.pipeline}
    document: dict[str, Any] = {
        "pipeline": "torture",
        "source": {"kind": case.server, "connection": "torture_db", **sections.get("source", {})},
        "target": {"root": f"{folder}/lake", "staging": f"{folder}/staging"},
        "lease_wait": "0s",
        "tables": {f"{schema}.{table.name}": dict(table.settings) for table in case.tables},
    }
    if case.method != "query":
        binlogs = {"url": f"{folder}/binlogs", "format": "mysql-binlog", "layout": "binlog"}
        document["archive"] = {
            **(section_of(case, folder) if case.method == "events" else binlogs),
            "initial_load": "snapshot",
            "min_file_age": "0s",
            "full_listing_interval": "0s",
            **sections.get("archive", {}),
        }
        if case.archiver and first:
            document["archive"]["copy"] = {**dict(document["archive"]["copy"]), "first_file": first}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
