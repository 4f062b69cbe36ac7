"""Matches the entries of a pipeline file with the tables of the source and of the lake. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cdc_ops.core.pipeline.pipeline import Entry, Pipeline, TableConfig, TableRule, matching_names, table_path
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTables:
    """The tables that entries and source have in common.

    Args:
        present: Tables that the source has, sorted by name.
        absent: Tables that it has not: named exactly by an entry, or copied before and covered by one; sorted by name.
        unmatched: Patterns that match neither.
    """

    present: tuple[TableConfig, ...]
    absent: tuple[TableConfig, ...] = ()
    unmatched: tuple[TableRule, ...] = ()


def match_tables(pipeline: Pipeline, available: Iterable[TableName], copied: Iterable[TableName] = ()) -> MatchedTables:
    """Matches the pipeline's entries against the tables that the source has.

    Args:
        pipeline: With the entries.
        available: What the source has.
        copied: What the lake has of this pipeline.

    Raises:
        ConfigError: no entry means any table, or one means two tables whose names are written alike.
    """
    shown = tuple(available)
    here, before = ({str(table): table for table in tables} for tables in (shown, copied))
    names = _named(pipeline) | before | here
    chosen = chosen_entries(pipeline.tables, names)
    rules = sorted((rule for rule in pipeline.tables if not rule.exclude), key=lambda rule: rule.is_pattern)
    unmatched = [rule for rule in rules if not matching_names(rule, names)]
    _check_apart(pipeline, [table for table in shown if str(table) in chosen])
    configs = [_config(pipeline, names[name], rule) for name, rule in sorted(chosen.items())]
    matched = MatchedTables(
        present=tuple(config for config in configs if str(config.table) in here),
        absent=tuple(config for config in configs if str(config.table) not in here),
        unmatched=tuple(unmatched),
    )
    if not matched.present and not any(str(config.table) in before for config in matched.absent):
        raise no_such_table(pipeline, rules[0], here)
    return matched


def chosen_entries(entries: Iterable[E], names: Mapping[str, TableName]) -> dict[str, E]:
    """Returns the entry that applies to each of some tables, by name: the exact name, else the first pattern that is not excluded."""
    given = tuple(entries)
    excluded = {name for entry in given if entry.exclude for name in matching_names(entry, names)}
    chosen: dict[str, E] = {}
    for entry in sorted((one for one in given if not one.exclude), key=lambda one: one.is_pattern):
        for name in matching_names(entry, names):
            if name not in excluded or not entry.is_pattern:
                chosen.setdefault(name, entry)
    return chosen


def resolve_tables(pipeline: Pipeline, available: Iterable[TableName]) -> tuple[TableConfig, ...]:
    """Returns the source's tables that match the pipeline's entries, sorted by name.

    Raises:
        ConfigError: there is none.
    """
    return match_tables(pipeline, available).present


def unmatched_warning(pipeline: Pipeline, rule: TableRule) -> str:
    """Returns the warning for a pattern without a match; other entries continue."""
    where = f" ({rule.origin})" if rule.origin else ""
    return (
        f"tables entry {rule.pattern!r}{where} matches no table at the source: the run reads nothing for it. Correct the pattern,"
        " remove the entry, or grant the user SELECT on its tables: without it the source does not list them."
    )


def no_such_table(pipeline: Pipeline, rule: TableRule, names: Iterable[str]) -> ConfigError:
    """Returns the error for a pipeline whose entries match no table."""
    where = f" ({rule.origin})" if rule.origin else ""
    what = "pattern matches no table" if rule.is_pattern else "no such table"
    declared = pipeline.source.is_declared
    place = "in 'tables' of the source" if declared else f"at source connection {pipeline.source.connection!r}"
    other = (
        "declare its columns in 'tables' of the source."
        if declared
        else "grant the user SELECT on the table: without it the source does not list it. A view is none: name the tables that it reads."
    )
    return ConfigError(
        f"Pipeline {pipeline.name!r}, tables entry {rule.pattern!r}{where}: {what} {place}.",
        why=did_you_mean(rule.pattern, names),
        data="Nothing was read or written; the watermark stays.",
        next=f"Correct the name in the pipeline file, or {other}",
    )


def _check_apart(pipeline: Pipeline, tables: Iterable[TableName]) -> None:
    """Refuses two tables with the same written name: entries, commands and commits could not distinguish them.

    Table `c` of schema `a.b` and table `b.c` of schema `a` are such two.

    Raises:
        ConfigError: there are two.
    """
    by_text: dict[str, TableName] = {}
    for table in tables:
        other = by_text.setdefault(str(table), table)
        if other == table:
            continue
        both = " and ".join(f"table {one.name!r} of schema {one.schema!r}" for one in sorted((other, table)))
        raise ConfigError(
            f"Pipeline {pipeline.name!r}: the source has two tables with the written name {str(table)!r}: {both}.",
            why="A dot in a name looks like the dot between schema and table; entries, commands and commits could not distinguish the two.",
            data="Nothing was read or written; the watermark stays.",
            next="Rename one of them at the source, hide one from the user of the connection, or exclude both:"
            f" '{table}: {{exclude: true}}'.",
        )


def _named(pipeline: Pipeline) -> dict[str, TableName]:
    """Returns the tables that entries name exactly."""
    exact = (rule for rule in pipeline.tables if not rule.exclude and not rule.is_pattern)
    try:
        return {rule.pattern: TableName.parse(rule.pattern) for rule in exact}
    except ValueError as error:
        raise ConfigError(
            f"Pipeline {pipeline.name!r}: an entry of 'tables' names no table.",
            why=str(error),
            data="Nothing was read or written.",
            next="Write the entry as schema.table.",
        ) from None


def _config(pipeline: Pipeline, table: TableName, rule: TableRule) -> TableConfig:
    return TableConfig(pipeline=pipeline.name, table=table, settings=rule.settings, path=table_path(pipeline, table, rule.settings))
