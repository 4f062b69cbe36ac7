"""Tables whose catalog says that a copy may not be equal: refused, or told with what to do. Pure."""

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.source_traits import ForeignKeyAction, SourceTraits
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import without_columns
from cdc_ops.errors import SourceTableError

_NOTHING = "Nothing was read; the watermark stays."


def check_traits(config: TableConfig, schema: TableSchema, traits: SourceTraits) -> tuple[str, ...]:
    """Returns what the operator should know of a table's foreign keys and children.

    Raises:
        SourceTableError: what is read would not be the table's rows, each once: the key binds only a part of them, or another server or
            table holds them.
    """
    log = config.settings.method is Method.LOG
    _check_place(config, traits, log=log)
    _check_children(config, traits, log=log)
    if log:
        _check_log(config, schema, traits)
    unlogged = _log_warnings(traits) if log else ()
    return (*_children_warning(config, traits), *unlogged, *_action_warnings(config, traits, log=log))


def _check_log(config: TableConfig, schema: TableSchema, traits: SourceTraits) -> None:
    """Whether the log has the table's changes, whole and under its name."""
    if traits.unlogged:
        raise SourceTableError(
            f"Table {config.table} is UNLOGGED, so no log of the server has its changes.",
            why="Its archive would stay silent whatever is written to it.",
            data=_NOTHING,
            next=f"ALTER TABLE {schema.table} SET LOGGED at the source, or read it with 'method: query'.",
        )
    if computed := [name for name in traits.unlogged_columns if schema.column(name)]:
        named = f"column{'s' if len(computed) > 1 else ''} {', '.join(map(repr, computed))}"
        raise SourceTableError(
            f"Postgres computes {named} of table {config.table} (GENERATED), and does not send that with its log.",
            why="pgoutput leaves generated columns out of its events, so each changed row would have NULL there.",
            data=_NOTHING,
            next=f"Leave them out: '{without_columns(computed)}' in the pipeline file. Or read the table with 'method: query'.",
        )
    if traits.logged_by_parts:
        raise SourceTableError(
            f"The log names the partitions of {config.table}, not the table itself.",
            why="No publication sends it under its own name, so its changes come under its partitions' names, or not at all.",
            data=_NOTHING,
            next="Set publish.via.partition.root=true in Debezium before it makes its publication, or at the source: ALTER PUBLICATION name"
            " SET (publish_via_partition_root = true); a table that was copied before lacks what came until then: 'cdc-ops reconcile'"
            " brings it. Or read the table with 'method: query'.",
        )
    if traits.versioned:
        raise SourceTableError(
            f"{schema.table} is system-versioned (WITH SYSTEM VERSIONING), and change events do not tell its rows from those of the past.",
            why="MariaDB logs rows of the past as inserts, and a delete as an update.",
            data=_NOTHING,
            next="Read the table with 'method: query'.",
        )


def _check_place(config: TableConfig, traits: SourceTraits, *, log: bool) -> None:
    """A table that is compared as a whole needs neither a bound nor the promise of its key, if somebody names one."""
    compared = not log and not config.settings.load.cursor and bool(config.settings.keys)
    if traits.elsewhere and not compared:
        raise SourceTableError(
            f"The rows of {config.table} are kept by {traits.elsewhere}.",
            why="Its server knows neither who else writes them nor whether its keys are unique, so rows could be lost or come twice.",
            data=_NOTHING,
            next="Copy the table from where its rows are. Or, with 'method: query', set 'cursor: []' and 'keys' to columns that are unique:"
            " every run then compares the whole table.",
        )


def _check_children(config: TableConfig, traits: SourceTraits, *, log: bool) -> None:
    if not traits.children or (config.settings.keys and not log):
        return
    children = ", ".join(traits.children)
    raise SourceTableError(
        f"Other tables inherit from {config.table}: {children}.",
        why="A SELECT brings their rows too, while a change log has them under the child's name."
        if log
        else "A SELECT brings their rows too, and the primary key binds only the table's own: an id may come twice.",
        data=_NOTHING,
        next="Leave it out with 'exclude: true' and copy the children. "
        + (
            "Or read it with 'method: query' and 'keys'."
            if log
            else "Or name columns that are unique over all of them: 'keys: [...]'; their rows are then copied with it."
        ),
    )


def _children_warning(config: TableConfig, traits: SourceTraits) -> tuple[str, ...]:
    if not traits.children:
        return ()
    return (
        f"rows of {', '.join(traits.children)}, which inherit from it, are copied with it; 'keys' ({', '.join(config.settings.keys)}) have"
        " to be unique over all of them.",
    )


def _log_warnings(traits: SourceTraits) -> tuple[str, ...]:
    """What the log does not tell, although it has the table."""
    found: list[str] = []
    if traits.partitioned:
        found.append(
            "a partition that is truncated, dropped, attached or detached by itself is no change of the table's log: its rows stay in the"
            " lake, or are missing there, until a reconcile. Run 'cdc-ops reconcile' then, or set 'reconcile_schedule'."
        )
    if traits.narrow_publications:
        found.append(
            f"publications that do not send all of its changes: {', '.join(traits.narrow_publications)}. What is left out is not in the"
            " lake, unless the tool that writes the archive reads another publication."
        )
    return tuple(found)


def _action_warnings(config: TableConfig, traits: SourceTraits, *, log: bool) -> tuple[str, ...]:
    """Of deletes a cursor knows nothing in any case; here it is about changes that look like none."""
    if log and not traits.actions_logged:
        return (_stays(traits.actions, ", and its binlog does not have that"),)
    silent = tuple(action for action in traits.actions if action.changes_rows)
    if not log and config.settings.load.cursor and silent and not traits.actions_stamped:
        return (_stays(silent, ", which moves no cursor"),)
    return ()


def _stays(actions: tuple[ForeignKeyAction, ...], why: str) -> str:
    return (
        f"the server changes rows by {_listed(actions)}{why}: in the lake they stay as they were until a reconcile."
        " Set 'reconcile_schedule', or run 'cdc-ops reconcile'."
    )


def _listed(actions: tuple[ForeignKeyAction, ...]) -> str:
    return ("foreign key " if len(actions) == 1 else "foreign keys ") + ", ".join(map(str, actions))
