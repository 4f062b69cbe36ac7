"""What Debezium writes for a value that the log lacks because it did not change: one spelling for each kind of type.

Postgres leaves a large value out of an update that did not change it (TOAST), and the connector puts a placeholder there that fits the
column's type. Spellings: Debezium 3.6.1, `UnchangedToastedPlaceholder` and `UnchangedToastedReplicationMessageColumn`
(https://github.com/debezium/debezium, debezium-connector-postgres). For an array of another type than those here it has none: the value
does not fit its field, and the connector stops or, by its `event.converting.failure.handling.mode`, says so.
"""

import base64
import hashlib
import json
import uuid
from typing import Final

from cdc_ops.events.formats.debezium.declared.losses import PLACEHOLDER

_BYTES: Final = PLACEHOLDER.encode()
_BASE64: Final = base64.b64encode(_BYTES).decode()


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


BY_TYPE: Final = {
    "text, numeric as text, json, xml and what else is text": PLACEHOLDER,
    "bytea, as bytes or base64": _BASE64,
    "bytea, as hexadecimal digits": _BYTES.hex(),
    "text[], varchar[], char[], json[], jsonb[]": _compact([PLACEHOLDER]),
    "bytea[]": _compact([_BASE64]),
    "integer[], bigint[], date[]": _compact(list(_BYTES)),
    "uuid[]": _compact([str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3))]),
    "hstore, as JSON or as a map": _compact({PLACEHOLDER: PLACEHOLDER}),
}
"""By the types of Postgres, the text of the placeholder in a record, as JSON without blanks."""

UNCHANGED_FORMS: Final = tuple(BY_TYPE.values())
