"""Random, hostile and damaged events of MongoDB."""

import json
import random
from typing import Any, Final

VALUES: Final[dict[str, tuple[str, ...]]] = {
    "_id": ('{"$oid": "596e275826f08b2730779e01"}', '{"$oid": "596E275826F08B2730779E02"}'),
    "name": ('"Ann"', '""', '"\\u00fc\\n\\"x"', '"changed in part: x"', '"7"'),
    "n": ("7", "-2147483648", '{"$numberInt": "5"}', '{"$numberLong":"6"}'),
    "big": ('{"$numberLong": "9007199254740993"}', "9007199254740993", "-1"),
    "price": ('{"$numberDecimal": "12.50"}', '{"$numberDecimal": "NaN"}', "3", '{"$numberDecimal": "1E+3"}', '{"$numberDecimal": "-0.00"}'),
    "rate": ('{"$numberDecimal": "1.500E-3"}', '{"$numberDecimal": "Infinity"}', "12345678901234567890123"),
    "seen": ('{"$date": 1709283600123}', '{"$date": "2024-03-01T09:00:00.5Z"}', '{"$date": {"$numberLong": "-1"}}'),
    "code": ('{"$binary": "AP8=", "$type": "00"}', '{"$binary": {"base64": "AP8=", "subType": "0"}}', '{"$binary": "", "$type": "00"}'),
    "score": ("0.1", "1.0E300", "7", '{"$numberDouble": "NaN"}', '{"$numberDouble": "-Infinity"}', "-0.0", "123456789012345"),
    "flag": ("true", "false"),
    "tags": ("[]", '["a", {"b": 1.5}]'),
    "doc": ("{}", '{"z": 1, "a": {"$numberLong": "5"}}'),
    "any": ('"x"', "null", '{"a":[1,2]}', "1.5", "true", '"\\u001f\\/\\\\"'),
}
HOSTILE: Final = (
    *("null", '"5"', "5", "5.5", "true", "{}", "[]", '{"$date": 9223372036854776}', '{"$numberLong": "99999999999999999999"}', '"true"'),
    *('{"$oid": "xyz"}', '{"$numberLong": 5}', '{"$numberLong": "5", "x": 1}', '{"$binary": "A", "$type": "00"}', "1234567890123456"),
    *('{"$date": "2024-02-30T00:00:00Z"}', '{"$numberDecimal": "1.005"}', '{"$numberDouble": "x"}', '{"$numberInt": "2147483648"}'),
    "1.0E10",
)
FLAT: Final[dict[str, tuple[str, ...]]] = {
    "_id": ('"596e275826f08b2730779e01"',),
    "name": ('"Ann"', '""', '"changed in part: x"'),
    "n": ("7", "-1"),
    "big": ("9007199254740993",),
    "price": ('"12.50"', '"NaN"', "3", '"1E+3"', '"1e3"'),
    "rate": ('"1.500E-10"', '"Infinity"', "5"),
    "seen": ("1709283600123", "-1"),
    "code": ('"AP8="', '""'),
    "score": ("0.1", '"NaN"', "7", "1.0E300"),
    "flag": ("true", "false"),
}
TYPES: Final = {"n": "int32", "big": "int64", "seen": "int64", "code": "bytes", "score": "double", "flag": "boolean"}
DESCRIPTIONS: Final = (
    *(
        "null",
        "{}",
        '{"updatedFields": "{\\"name\\": \\"Bob\\", \\"n\\": 8}"}',
        '{"updatedFields": "{\\"doc.z\\": 2}", "removedFields": ["flag"]}',
    ),
    *('{"removedFields": ["flag", "doc.a", "n"], "updatedFields": null}', '{"truncatedArrays": [{"field": "tags", "size": 1}]}'),
    *('{"updatedFields": "{\\"tags.0\\": 1, \\"tags\\": []}"}', '{"updatedFields": "no document"}', '{"updatedFields": 5}'),
    *('{"removedFields": "flag"}', '{"removedFields": [1, null]}', '{"truncatedArrays": [{"field": "doc.b", "size": 1}]}', "7"),
)


class MongoDbEvents:
    """Makes records.

    Args:
        seed: Of the random choices.
    """

    def __init__(self, seed: int) -> None:
        self._chosen = random.Random(seed)

    def document(self, values: dict[str, tuple[str, ...]]) -> str:
        """A document, of which a field or two may be missing, of another type, or of another name."""
        chosen, fields = self._chosen, {}
        for name, some in values.items():
            if chosen.random() > 0.07 or (name == "_id" and chosen.random() > 0.1):
                fields[name] = chosen.choice(HOSTILE) if chosen.random() < 0.04 else chosen.choice(some)
        if chosen.random() < 0.1:
            fields["other"] = chosen.choice(HOSTILE)
        return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"

    def event(self) -> str:
        """An event as the connector writes it, or nearly so."""
        pick = self._chosen.choice
        members = {
            "op": pick(('"c"', '"u"', '"u"', '"u"', '"d"', '"r"', '"x"', "null", "5")),
            "before": self._image(),
            "after": self._image(),
            "updateDescription": pick(DESCRIPTIONS),
            "source": pick(
                (
                    *('{"db": "shop", "collection": "orders", "ts_ms": 1709283600000, "snapshot": "false", "lsid": "a", "txnNumber": 3}',)
                    * 6,
                    *(
                        '{"db": "shop", "collection": "orders", "snapshot": "last"}',
                        '{"db": "shop", "collection": "orders", "snapshot": true}',
                    ),
                    *('{"db": "shop"}', "{}", "null", '{"db": "shop", "collection": "orders", "ts_ms": 1.5}', '"source"', '{"db": 5}'),
                )
            ),
            "ts_ms": pick(("1709283600500",) * 5 + ("null", '"x"')),
            "status": pick(("null",) * 8 + ('"BEGIN"',)),
            "transaction": pick(("null",) * 5 + ('{"id": "t1"}', '{"id": null}', "5")),
        }
        kept = {name: value for name, value in members.items() if self._chosen.random() > 0.03}
        body = "{" + ", ".join(f'"{name}": {value}' for name, value in kept.items()) + "}"
        if self._chosen.random() < 0.2:
            body = f'{{"schema": {{"type": "struct"}}, "payload": {pick((body, body, "null"))}}}'
        if self._chosen.random() < 0.3:
            id_text = json.dumps(pick(('{"$oid": "596e275826f08b2730779e09"}', "5", '"x"', "{")))
            key = pick((f'{{"id": {id_text}}}', f'{{"schema": {{}}, "payload": {{"id": {id_text}}}}}', "null", "{}", '"key"'))
            body = f'{{"key": {key}, "value": {pick((body, body, body, "null"))}}}'
        return self._damaged(body)

    def _image(self) -> str:
        document = self.document(VALUES)
        pick = self._chosen.choice
        return pick((json.dumps(document), json.dumps(document), json.dumps(document), "null", "null", document, '"no document"', "7"))

    def flat(self) -> str:
        """A flat record, or nearly so."""
        chosen, pick = self._chosen, self._chosen.choice
        row: dict[str, str] = dict(self._members(self.document(FLAT)))
        added = {
            "__deleted": pick(("false", "false", "false", "true", '"true"', "null")),
            "__op": pick(('"c"', '"u"', '"u"', '"u"', '"d"', '"r"', '"x"', "null")),
            "__source_db": pick(('"shop"', '"shop"', "null")),
            "__source_collection": '"orders"',
            "__source_ts_ms": pick(("1709283600000", "null", '"x"')),
            "__source_lsid": pick(("null", '"{\\"id\\": 1}"')),
            "__source_txnNumber": pick(("3", "null")),
            "__updateDescription_updatedFields": pick(('"{}"', "null")),
            "__updateDescription_removedFields": pick(('["flag"]', "null", '["name", "doc.x"]', '"x"', "[]")),
            "__transaction_id": pick(("null", '"t1"')),
        }
        row.update({name: value for name, value in added.items() if chosen.random() > 0.03})
        if chosen.random() < 0.1:
            row["doc.x"] = "5"
        body = "{" + ", ".join(f'"{name}": {value}' for name, value in row.items()) + "}"
        if chosen.random() < 0.8:
            fields = [{"field": name, "type": TYPES.get(name, "string")} for name in FLAT if chosen.random() > 0.02]
            for field in fields:
                if field["field"] == "seen" and chosen.random() > 0.05:
                    field["name"] = "org.apache.kafka.connect.data.Timestamp"
            body = f'{{"schema": {json.dumps({"type": "struct", "fields": fields})}, "payload": {pick((body,) * 9 + ("null",))}}}'
        return self._damaged(body)

    @staticmethod
    def _members(document: str) -> list[tuple[str, str]]:
        found: dict[str, Any] = json.loads(document, parse_float=_Number, parse_int=_Number)
        return [(name, value.text if isinstance(value, _Number) else json.dumps(value)) for name, value in found.items() if _is_flat(value)]

    def _damaged(self, text: str) -> str:
        return text[: self._chosen.randrange(1, len(text))] if self._chosen.random() < 0.02 else text


class _Number:
    """A number as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _is_flat(value: Any) -> bool:
    return not isinstance(value, dict | list)
