"""The settings that a format demands of the tool that writes it, and of the pipeline file, so that no data is lost. Pure."""

from dataclasses import dataclass, field

from cdc_ops.core.events.format_spec import FormatSpec, LossySetting, Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the tools on the way to an archive are to be configured with.

    Args:
        tool: The tool that reads the source's log; for Kafka Connect the whole configuration without the login.
        sink: The sink of Kafka Connect that writes the archive; empty for tools outside of it.
    """

    tool: dict[str, str]
    sink: dict[str, str] = field(default_factory=dict)


def advised(item: LossySetting) -> str:
    """Returns a value of a setting that loses no data; empty if there is none."""
    return "" if item.where is Where.NOWHERE else item.advised or next(iter(item.safe), "")


def demanded(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings that must be set and stated because the tool's default loses data."""
    return tuple(item for item in spec.lossy if item.loses_at(item.default) and not item.only.declared)


def only_accepted(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the losses that no setting prevents; they can only be accepted."""
    return tuple(item for item in demanded(spec) if not advised(item))


def for_some_types(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings that only tables with certain column types need."""
    return tuple(item for item in spec.lossy if item.loses_at(item.default) and item.only.declared)


def left_at_default(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings whose default loses no data, while other values do."""
    return tuple(item for item in spec.lossy if not item.loses_at(item.default))


def archive_settings(spec: FormatSpec) -> dict[str, str]:
    """Returns the settings to state in `archive.settings`."""
    return {item.name: advised(item) for item in demanded(spec) if advised(item)}


def tool_settings(spec: FormatSpec) -> dict[str, str]:
    """Returns the demanded settings of the tool itself, by its own names."""
    found = {item.written or item.name: advised(item) for item in demanded(spec) if item.where is not Where.SINK}
    return {name: value for name, value in found.items() if value}
