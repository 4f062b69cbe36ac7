"""Checks the options of a format in a pipeline file: settings that lose data, and columns that the format cannot carry. Pure.

`check_settings` needs the file alone, `check_format` the source's columns too. Both name everything that is wrong in one message, so that
one correction is enough.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, LossySetting, setting
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError, SourceTableError

_FIXED_ZONE: Final = re.compile(r"^(UTC|Z|[+-]\d\d:\d\d)$")
_AMBIGUOUS: Final = "ambiguous-local-time"
_NOTHING_DONE: Final = "Nothing was read or written."


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFound:
    """A setting that loses data of a table.

    Args:
        item: What the format declares.
        name: The setting's.
        value: What it is set to, or the tool's default.
        columns: The columns that lose; empty = all, or the table as a whole.
        unstated: True if the value is a guess: nothing in the records would show another one.
    """

    item: LossySetting
    name: str
    value: str
    columns: tuple[str, ...] = ()
    unstated: bool = False

    @property
    def accepted_by(self) -> str:
        """The entry of `accept_losses` for this loss; empty if the setting must be stated."""
        return "" if self.unstated else self.item.accepted_by(self.value, self.name)

    @property
    def loses(self) -> str:
        """The lost data, in words."""
        if self.unstated:
            return f"'settings' does not state it. Records show it only if {self.item.stated_without} is true; values may be misread."
        return self.item.loses

    @property
    def remedy(self) -> str:
        """The remedy, in words."""
        return f"State {self.name} as configured in the connector (its default is {self.value})." if self.unstated else self.item.remedy


def unknown_settings(spec: FormatSpec, options: FormatOptions) -> dict[str, str]:
    """Returns the unknown settings, each with a sentence that suggests the nearest known one."""
    known = {item.name for item in spec.lossy} | set(spec.settings)
    families = tuple(name for name in known if name.endswith("."))
    strange = sorted(name for name in options.settings if name not in known and not name.startswith(families or ("\0",)))
    return {name: did_you_mean(name, known, limit=40) for name in strange}


def losses(spec: FormatSpec, options: FormatOptions, schema: TableSchema | None) -> Iterator[LossFound]:
    """Yields the settings that lose data and are not accepted.

    Args:
        spec: The format's declaration.
        options: The format's options from the pipeline file.
        schema: The table; None = only what is lost of every table.
    """
    for item in spec.lossy:
        columns = tuple(column.name for column in schema.columns if item.touches(column)) if schema and item.families else ()
        if item.families and not columns:
            continue
        for name, value in _stated(item, spec, options):
            if item.loses_at(value):
                if item.accepted_by(value, name) not in options.accept_losses:
                    yield LossFound(item=item, name=name, value=value, columns=columns)
            elif _is_unstated(item, spec, options):
                yield LossFound(item=item, name=name, value=value, columns=columns, unstated=True)


def _stated(item: LossySetting, spec: FormatSpec, options: FormatOptions) -> list[tuple[str, str]]:
    if item.name.endswith("."):
        return [(name, value) for name, value in options.settings.items() if name.startswith(item.name)]
    return [(item.name, setting(spec, options, item.name))]


def _is_unstated(item: LossySetting, spec: FormatSpec, options: FormatOptions) -> bool:
    shown = not item.stated_without or setting(spec, options, item.stated_without) == "true"
    return not shown and item.name not in options.settings


def check_settings(spec: FormatSpec, options: FormatOptions) -> None:
    """Refuses unknown settings, and settings that lose data of every table.

    Raises:
        ConfigError: names all of them.
    """
    _raise(spec, None, [*_unknown(spec, options), *_as_errors(spec, "every table", list(losses(spec, options, None)))])


def check_format(spec: FormatSpec, options: FormatOptions, schema: TableSchema, keys: Iterable[str]) -> None:
    """Refuses settings and columns that would lose data, before anything is read.

    Args:
        spec: The format's declaration.
        options: The format's options from the pipeline file.
        schema: The table.
        keys: The columns that identify its rows.

    Raises:
        ConfigError: settings are unknown or lose data and are not accepted, a zone is missing.
        SourceTableError: the table has no key, or columns that the format cannot carry.
    """
    names = tuple(keys)
    problems: list[ConfigError | SourceTableError] = [*_unknown(spec, options)]
    if not names:
        problems.append(_keyless(schema))
    problems += _as_errors(spec, str(schema.table), list(losses(spec, options, schema)))
    problems += _of_columns(spec, options, schema)
    _raise(spec, schema, problems)


def _raise(spec: FormatSpec, schema: TableSchema | None, problems: list[ConfigError | SourceTableError]) -> None:
    """Raises the problem, or one error for several problems."""
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    kind = ConfigError if any(isinstance(problem, ConfigError) for problem in problems) else SourceTableError
    raise kind(
        f"{schema.table if schema else 'Tables'} cannot be fed by format {spec.name!r} for {len(problems)} reasons: "
        + " ".join(problem.what for problem in problems),
        why=" ".join(f"({number}) {problem.why}" for number, problem in enumerate(problems, 1)),
        data=_NOTHING_DONE,
        next=" ".join(f"({number}) {problem.next}" for number, problem in enumerate(problems, 1)),
    )


def _unknown(spec: FormatSpec, options: FormatOptions) -> Iterator[ConfigError]:
    unknown = unknown_settings(spec, options)
    if unknown:
        yield ConfigError(
            f"Format {spec.name!r} does not know the setting {', '.join(unknown)}.",
            why=" ".join(f"{name}: {hint}" for name, hint in unknown.items()),
            data=_NOTHING_DONE,
            next=f"Correct 'settings' of the format; 'cdc-ops formats show {spec.name}' lists them.",
        )


def _keyless(schema: TableSchema) -> SourceTableError:
    return SourceTableError(
        f"{schema.table} cannot be fed from change events: it has no key.",
        why="cdc-ops applies an event to the row that has its key.",
        data=_NOTHING_DONE,
        next="Name its 'keys', or use the query method with 'cursor: []'.",
    )


def _as_errors(spec: FormatSpec, table: str, found: list[LossFound]) -> list[ConfigError]:
    """Returns the losses as one error, each with its remedy."""
    if not found:
        return []
    told = [f"{one.name}={one.value}" + (f" ({', '.join(one.columns)})" if one.columns else "") for one in found]
    accepted = ", ".join(repr(one.accepted_by) for one in found if one.accepted_by)
    many = len(found) > 1
    anyway = f" To accept the loss, add {accepted} to 'accept_losses'." if accepted else ""
    shown = f" 'cdc-ops formats show {spec.name}' prints all of these settings to copy." if many else ""
    state = "If they are already set this way, state them" if many else "If it is already set this way, state it"
    verb = "loses" if not all(one.unstated for one in found) else "may lose"
    return [
        ConfigError(
            f"{spec.tool} with {'; '.join(told)} {verb} data of {table}.",
            why=" ".join(f"{one.name}: {one.loses}" if many else one.loses for one in found),
            data=_NOTHING_DONE,
            next=f"{' '.join(dict.fromkeys(one.remedy for one in found))} {state} in 'settings' of the archive.{anyway}{shown}",
        )
    ]


def _of_columns(spec: FormatSpec, options: FormatOptions, schema: TableSchema) -> Iterator[ConfigError | SourceTableError]:
    families = {column.name: logical_type_of(column) for column in schema.columns}
    for name, family in families.items():
        if family in spec.unreadable:
            yield SourceTableError(
                f"Format {spec.name!r} cannot carry column {name!r} of {schema.table} exactly.",
                why=spec.unreadable[family],
                data=_NOTHING_DONE,
                next="Exclude the column ('except_column_list'), or use the query method for this table.",
            )
    strange = [name for name in families if spec.files.column_names and not re.fullmatch(spec.files.column_names, name)]
    if strange:
        yield SourceTableError(
            f"Format {spec.name!r} cannot carry some column names of {schema.table}: {', '.join(map(repr, strange))}.",
            why=f"Names in its files have only letters, digits and underscores, so {spec.tool} renames these columns.",
            data=_NOTHING_DONE,
            next="Exclude the columns ('except_column_list'), or archive this table as JSON.",
        )
    if spec.local_instants and LogicalType.INSTANT in families.values():
        yield from _zone_problems(spec, options, schema)


def _zone_problems(spec: FormatSpec, options: FormatOptions, schema: TableSchema) -> Iterator[ConfigError]:
    if not options.time_zone:
        yield ConfigError(
            f"Format {spec.name!r} needs 'time_zone' for the instants of {schema.table}.",
            why=f"{spec.tool} writes them as local time without the time zone.",
            data=_NOTHING_DONE,
            next="Set 'time_zone' to the time zone of the process that writes the events; UTC is best.",
        )
    elif not _FIXED_ZONE.match(options.time_zone) and _AMBIGUOUS not in options.accept_losses:
        yield ConfigError(
            f"Instants of {schema.table} written in {options.time_zone} are ambiguous when clocks are set back.",
            why="Two instants then have the same local time, and records do not distinguish them.",
            data=_NOTHING_DONE,
            next=f"Run the writing process in UTC or at a fixed offset such as '+08:00'; or add {_AMBIGUOUS!r} to 'accept_losses'.",
        )
