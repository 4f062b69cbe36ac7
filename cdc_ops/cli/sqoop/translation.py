"""From imports of Sqoop to the entries of a pipeline file, with a remark for whatever is not as it was."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_ops.cli.sqoop.command_line import Found, SqoopImport
from cdc_ops.cli.sqoop.jdbc_url import JdbcUrl
from cdc_ops.cli.sqoop.notes import Note, Weight
from cdc_ops.cli.sqoop.options import DIFFERING, LEFT_OUT, written
from cdc_ops.cli.sqoop.row_filter import row_filter, simple_query
from cdc_ops.core.pipeline.pipeline import SourceKind
from cdc_ops.errors import RequestError

_MOST_CONNECTIONS: Final = 256
_HELP_OF_CURSORS: Final = "docs/configuration.md#defaults-and-the-entries-of-tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One entry of `tables`.

    Args:
        name: `schema.table`, or a pattern.
        settings: Fields and values, in the order in which they are written.
        proposed: Fields that are written as a comment, because somebody has to decide.
    """

    name: str
    settings: dict[str, Any]
    proposed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What the imports become.

    Args:
        url: The source.
        user: The login that Sqoop used, "" if the command does not say.
        folder: The URI of an object store that Sqoop wrote to, "" for none.
        tables: The entries.
        notes: The remarks, without those that several imports share.
    """

    url: JdbcUrl
    user: str
    folder: str
    tables: tuple[TableEntry, ...]
    notes: tuple[Note, ...]


def translate(found: Found) -> Translation:
    """Translates imports of one source.

    Raises:
        RequestError: there is none, they read several sources or one table twice, or one cannot become a table's entry.
    """
    imports = found.imports
    if not imports:
        why = "\n        ".join(note.line for note in found.notes)
        raise _refused("No import of Sqoop was found.", why or "Neither 'sqoop import' nor the properties of a saved job are there.")
    urls = [JdbcUrl.parse(one["connect"], one.origin) for one in imports]
    if len({(url.kind, url.host, url.port, url.database) for url in urls}) > 1:
        raise _refused("The imports read several databases.", "A pipeline has one source.", "Import those of each database alone.")
    entries = list[TableEntry]()
    notes = list(found.notes)
    for one, url in zip(imports, urls, strict=True):
        translated, remarks = _Table(one, url).translated()
        entries += translated
        notes += remarks
    alone = {entry.name for entry in entries if not entry.settings.get("exclude")}  # --exclude-tables of import-all-tables may name these
    entries = [entry for entry in entries if not (entry.settings.get("exclude") and entry.name in alone)]
    names = [entry.name for entry in entries]
    if doubled := next((name for name in names if names.count(name) > 1), ""):
        raise _refused(f"Several imports read {doubled}.", "A pipeline has one entry for a table.", "Import one of them.")
    notes += _notes_of_url(urls[0])
    shown = tuple(dict.fromkeys(sorted(notes, key=lambda note: list(Weight).index(note.weight))))
    user = next((one["username"] for one in imports if one["username"]), "")
    return Translation(url=urls[0], user=user, folder=_object_store(imports[0]), tables=tuple(entries), notes=shown)


class _Table:
    """One import on its way to an entry."""

    def __init__(self, sqoop: SqoopImport, url: JdbcUrl) -> None:
        self.sqoop, self.url = sqoop, url
        self.notes = list[Note]()
        self.columns: tuple[str, ...] = _list(sqoop["columns"])
        self.where = sqoop["where"]
        checked = sqoop["check-column"]
        self.column = (checked.rpartition(".")[2] if sqoop["query"] else checked).strip('`"')  # of a query it may be `o.updated_at`
        self.schema = url.database if url.kind is not SourceKind.POSTGRES else self._schema_of_postgres()
        self.table = sqoop["table"]
        if sqoop.tool == "import" and not self.table:
            self._read_query()
        if any(sign in f"{self.schema}{self.table}" for sign in "*?["):
            raise _refused(
                f"The table of the import ({sqoop.origin}) has a name that means several here.", "*, ? and [ are signs of patterns."
            )
        self.label = f"{self.schema}.{self.table}" if self.table else f"{self.schema}.*"

    def translated(self) -> tuple[list[TableEntry], list[Note]]:
        """Returns the entries of the import, and its remarks."""
        settings: dict[str, Any] = {}
        if keys := _list(self.sqoop["merge-key"]):
            settings["keys"] = list(keys)
        settings["cursor"] = self._cursor()
        proposed = self._filter(settings)
        if self.columns:
            needed = [*keys, *settings["cursor"], *self._filtered_by]
            settings["columns"] = list(self._with(needed))
            if not keys:
                text = (
                    "without --merge-key the primary key is the key, and is not known here. Its columns must be among them: add those that"
                    " are missing, or the plan refuses the table."
                )
                self._say(Weight.DIFFERS, "--columns" if self.sqoop["columns"] else "--query", text)
        if connections := self._connections():
            settings["parallelism"] = connections
        self._remark_the_rest()
        entries = [TableEntry(name=self.label, settings=settings, proposed=proposed)]
        excluded = _list(self.sqoop["exclude-tables"]) if self.sqoop.tool != "import" else ()
        return [*entries, *(TableEntry(name=f"{self.schema}.{name}", settings={"exclude": True}) for name in excluded)], self.notes

    def _say(self, weight: Weight, about: str, text: str) -> None:
        self.notes.append(Note(weight=weight, about=f"{self.label} {about}", text=text))

    def _schema_of_postgres(self) -> str:
        extra = list(self.sqoop.extra)
        given = extra[extra.index("--schema") + 1] if "--schema" in extra[:-1] else ""
        return given or self.url.option("currentSchema").partition(",")[0] or "public"

    def _read_query(self) -> None:
        query = self.sqoop["query"]
        found = simple_query(query, self.url.kind) if query else None
        if found is None:
            raise _refused(
                f"The import ({self.sqoop.origin}) has no single table." if query else f"The import ({self.sqoop.origin}) names no table.",
                "Its --query joins, computes or groups. cdc-ops copies tables as they are, so that it can prove them equal."
                if query
                else "",
                "Import the tables behind it with --table, and put the query over the lake's tables."
                if query
                else "Add --table or --query.",
            )
        if "$" in f"{found.schema}{found.table}":
            raise _refused(
                f"The import ({self.sqoop.origin}) names no table.",
                "The table in --query has a variable of the shell, whose value is not known here.",
                "Write its value there, or name the table by --table.",
            )
        self.table, self.columns, self.where = found.table, found.columns, found.where
        self.schema = found.schema or self.schema

    def _cursor(self) -> list[str]:
        mode, column = self.sqoop["incremental"].lower(), self.column
        if mode not in ("", "append", "lastmodified") or (mode and not column):
            why = f"--incremental is {mode!r}." if column else "--check-column is missing."
            raise _refused(
                f"The import ({self.sqoop.origin}) is not one that Sqoop takes.", why, "Write append or lastmodified, and the column."
            )
        if not mode:
            text = (
                "Sqoop copied everything each time. 'cursor: []' compares the whole table with the source in each run, and copies what"
                " differs."
            )
            self._say(Weight.DIFFERS, "without --incremental", f"{text} A cursor makes runs cheaper ({_HELP_OF_CURSORS}).")
            return []
        if mode == "append":
            self._say(
                Weight.LOSES,
                "--incremental append",
                f"it reads only rows whose {column} is larger than before, and so does this cursor: updates and deletes of rows that"
                " were copied are not seen. Put a column in 'cursor' that every update sets; or write 'cursor: []', which compares the"
                " whole table in each run; or run 'cdc-ops reconcile --rows' now and then.",
            )
        else:
            self._say(
                Weight.LOSES,
                "--incremental lastmodified",
                f"a cursor does not show rows that were deleted at the source: uncomment 'reconcile_schedule'. Rows whose {column} is"
                " NULL come with the first load only: 'null_cursor: checksum' reads them in each run.",
            )
        if "last-value" in self.sqoop:
            self._say(Weight.LEFT_OUT, "--last-value", "the first run reads the whole table, so nothing below it is missing.")
        return [column]

    _filtered_by: tuple[str, ...] = ()

    def _filter(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Adds the condition, or returns it as a proposal where Spark might decide otherwise than the source."""
        if not self.where:
            return {}
        found = row_filter(self.where, self.url.kind)
        shown = f"--where {self.where!r}"
        if found.certain:
            settings["apply_as_deletes"] = found.deletes
            self._filtered_by = found.columns
            self._say(Weight.DIFFERS, shown, "carried over as 'apply_as_deletes': rows that leave the condition leave the lake too.")
            return {}
        text = (
            "not carried over, so the lake gets all rows: the source compares text, dates and functions by its own rules, and Spark"
            " by others."
        )
        if not found.deletes:
            self._say(Weight.DIFFERS, shown, f"{text} Filter where the lake is read.")
            return {}
        self._say(
            Weight.DIFFERS, shown, f"{text} If Spark's are right for it, uncomment 'apply_as_deletes'; else filter where the lake is read."
        )
        return {"apply_as_deletes": found.deletes}

    def _with(self, needed: list[str]) -> tuple[str, ...]:
        known = {name.lower() for name in self.columns}
        missing = [name for name in dict.fromkeys(needed) if name.lower() not in known]
        if missing:
            self._say(Weight.DIFFERS, "--columns", f"{', '.join(missing)} added, which keys, cursor or condition need.")
        return (*self.columns, *missing)

    def _connections(self) -> int:
        mappers = self.sqoop["num-mappers"]
        if mappers and not mappers.isdigit():
            raise _refused(
                f"--num-mappers ({self.sqoop.origin}) is {mappers!r}.", "It is not a number.", "Write the value that Sqoop gets."
            )
        number = int(mappers or 0)
        if number > _MOST_CONNECTIONS:
            self._say(Weight.DIFFERS, "--num-mappers", f"{number} connections are more than the {_MOST_CONNECTIONS} that are possible.")
        return min(number, _MOST_CONNECTIONS)

    def _remark_the_rest(self) -> None:
        sqoop = self.sqoop
        if "append" in sqoop or (sqoop["incremental"].lower() == "lastmodified" and "merge-key" not in sqoop):
            text = (
                "Sqoop wrote another row for each change. The table here has one for each key; 'stored_as_scd_type: 2' keeps all versions."
            )
            self._say(Weight.DIFFERS, "--append" if "append" in sqoop else "without --merge-key", text)
        if "split-by" in sqoop:
            self._say(Weight.LEFT_OUT, "--split-by", "a table is split by columns of its key, so that no row is read twice or not at all.")
        for name in ("target-dir", "warehouse-dir"):
            if name in sqoop:
                text = f"{sqoop[name]} holds Sqoop's files, so the Delta table has a folder of its own: see 'target'."
                self._say(Weight.DIFFERS, written(name), text)
        if "hive-table" in sqoop or "hive-database" in sqoop:
            name = ".".join(filter(None, (sqoop["hive-database"], sqoop["hive-table"] or self.table)))
            self._say(
                Weight.DIFFERS, "--hive-table", f"register it once: CREATE TABLE {name} USING delta LOCATION 'the folder of the table'."
            )
        for name in sqoop.names:
            if name in LEFT_OUT:
                self.notes.append(
                    Note(weight=Weight.DIFFERS if name in DIFFERING else Weight.LEFT_OUT, about=written(name), text=LEFT_OUT[name])
                )
        for name in sqoop.unknown:
            text = "Sqoop's import has no such option; nothing was done about it."
            self.notes.append(Note(weight=Weight.DIFFERS, about=name, text=text))


def _notes_of_url(url: JdbcUrl) -> Iterator[Note]:
    def note(weight: Weight, text: str) -> Note:
        return Note(weight=weight, about="--connect", text=text)

    if url.more_hosts:
        yield note(Weight.DIFFERS, "it names several hosts; a connection has one, the first.")
    carried = {"sslMode", "useSSL", "requireSSL", "sslmode", "ssl", "currentSchema"}
    for name, value in url.options:
        if name in ("serverTimezone", "connectionTimeZone"):
            text = "the server's zone holds for DATETIME cursors; if the application writes them in another, set 'time_zone' of the source."
            yield note(Weight.DIFFERS, f"{name} is not carried over: {text}")
        elif name == "zeroDateTimeBehavior":
            what = "stores NULL for zero dates and counts them" if value != "round" else "stores NULL where this made dates of the year 1"
            yield note(Weight.DIFFERS if value == "round" else Weight.LEFT_OUT, f"{name}: 'zero_dates', null unless set, {what}.")
        elif name not in carried:
            text = "is not carried over; docs/configuration.md#connections has the options of a connection."
            yield note(Weight.LEFT_OUT, f"{name} {text}")


def _object_store(sqoop: SqoopImport) -> str:
    """Returns the folder of an object store below which Sqoop wrote, "" for HDFS: a path without a scheme means that there."""
    folder = sqoop["warehouse-dir"] or sqoop["target-dir"].rstrip("/").rpartition("/")[0]
    scheme, mark, rest = folder.partition("://")
    if not mark or not rest.strip("/"):
        return ""
    return f"{'s3a' if scheme in ('s3', 's3n') else scheme}://{rest.rstrip('/')}" if scheme in ("s3", "s3n", "s3a", "file") else ""


def _list(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip().strip('`"')))


def _refused(what: str, why: str, remedy: str = "Give the command as Sqoop gets it.") -> RequestError:
    return RequestError(what, why=why, data="Nothing was written.", next=remedy)
