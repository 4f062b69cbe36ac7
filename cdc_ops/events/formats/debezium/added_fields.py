"""The names of the fields that ExtractNewRecordState adds to flat records."""

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, setting
from cdc_ops.events.formats.debezium.declared.flat import FIELDS, PREFIX


def added_fields(spec: FormatSpec, options: FormatOptions) -> dict[str, str]:
    """Returns the names in records of the fields in `add.fields`, by the fields' names as they are written there."""
    declared = [name.strip() for name in setting(spec, options, FIELDS).split(",") if name.strip()]
    prefix = setting(spec, options, PREFIX)
    return {name: f"{prefix}{name.replace('.', '_')}" for name in declared}


def added_name(added: dict[str, str], name: str, *, top: bool = True) -> str:
    """Returns the name in records of a field of the envelope or of its `source`, "" if it is not added.

    Args:
        added: What `added_fields` returned.
        name: The field.
        top: False if the envelope has another field of that name.
    """
    return next((added[each] for each in ((name,) if top else ()) + (f"source.{name}",) if each in added), "")
