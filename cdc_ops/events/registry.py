"""The formats of change records by name. What a format declares is there without its decoder, and without Arrow.

Each tool has a package in `formats`. Its `specs` has what its formats declare (`SPECS`), and where that is more than the demanded settings,
the configuration of the tool (`configuration`). Its `records` opens its formats (`open_format`). Both are loaded when asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.formats.demanded_settings import Configuration, tool_settings
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

if TYPE_CHECKING:
    from cdc_ops.events.format import Format

BINLOG: Final = "mysql-binlog"
"""The format of binlogs as their servers write them: the one that needs the numbers of its files."""

_SERVERS: Final = ("mysql", "postgres", "sqlserver", "oracle", "mongodb")
_DEBEZIUM: Final = tuple(f"debezium-{server}{suffix}" for suffix in ("", "-unwrapped", "-avro") for server in _SERVERS)
_TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "debezium": (*_DEBEZIUM, *(f"debezium-{server}-unwrapped-avro" for server in _SERVERS if server != "mongodb")),
    "dts": ("dts-json", "dts-avro"),
    "maxwell": ("maxwell",),
    "canal": ("canal", "ticdc-canal"),
    "dms": ("aws-dms-csv", "aws-dms-parquet"),
    "goldengate": ("goldengate-json",),
    "hudi": ("hudi-cdc",),
    "binlog": (BINLOG,),
}
"""The formats of each package."""
_PACKAGES: Final = {name: f"cdc_ops.events.formats.{tool}" for tool, names in _TOOLS.items() for name in names}


class _Specs(Mapping[str, FormatSpec]):
    """The declared properties by name; those of a tool are loaded when one of them is asked for."""

    def __getitem__(self, name: str) -> FormatSpec:
        specs: tuple[FormatSpec, ...] = _specs_of(name).SPECS
        return next(spec for spec in specs if spec.name == name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PACKAGES)

    def __len__(self) -> int:
        return len(_PACKAGES)

    def __contains__(self, name: object) -> bool:
        return name in _PACKAGES


FORMAT_SPECS: Final[Mapping[str, FormatSpec]] = _Specs()
"""The declared properties of each supported format."""


def _specs_of(name: str) -> Any:
    return import_module(f"{_PACKAGES[name]}.specs")


def is_own_format(name: str) -> bool:
    """True for `module:callable`: a third-party format, which only the job that reads the records can load."""
    return ":" in name


def format_spec(name: str) -> FormatSpec:
    """Returns the declared properties of a format.

    Raises:
        ConfigError: there is none of that name.
    """
    if name in FORMAT_SPECS:
        return FORMAT_SPECS[name]
    raise ConfigError(
        f"Format {name!r} does not exist. {did_you_mean(name, FORMAT_SPECS)}",
        why="A custom format is named as 'module:callable'.",
        data="Nothing was read or written.",
        next="Correct the name of the format; 'cdc-ops formats list' shows all formats.",
    )


def configuration(spec: FormatSpec) -> Configuration:
    """Returns what the tool of a supported format is to be configured with, so that no data is lost."""
    make: Callable[[FormatSpec], Configuration] | None = getattr(_specs_of(spec.name), "configuration", None)
    return Configuration(tool=tool_settings(spec)) if make is None else make(spec)


def open_format(options: FormatOptions) -> "Format":
    """Opens a format with its options; the name `module:callable` is that of a third party's format.

    Raises:
        ConfigError: there is no format of that name.
    """
    if is_own_format(options.name):
        module, _, factory = options.name.partition(":")
    else:
        module, factory = f"{_PACKAGES[format_spec(options.name).name]}.records", "open_format"
    make: Callable[[FormatOptions], Format] = getattr(import_module(module), factory)
    return make(options)


def spec_of(options: FormatOptions) -> FormatSpec:
    """Returns what a format declares of itself, a third party's too.

    Raises:
        ConfigError: there is no format of that name.
    """
    return open_format(options).spec if is_own_format(options.name) else format_spec(options.name)
