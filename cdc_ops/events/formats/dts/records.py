"""Opens the formats of Alibaba Cloud DTS."""

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.events.conversion.moments import instant
from cdc_ops.events.format import Format
from cdc_ops.events.formats.dts.avro_records import DtsAvro
from cdc_ops.events.formats.dts.json_records import DtsJson
from cdc_ops.events.formats.dts.specs import DTS_AVRO, DTS_JSON


def open_format(options: FormatOptions) -> Format:
    """Opens the formats `dts-json` and `dts-avro`."""
    if options.name == DTS_AVRO.name:
        return DtsAvro(spec=DTS_AVRO)
    return DtsJson(spec=DTS_JSON, options=options, time=instant(options.time_zone or "UTC"))
