"""Texts of any character set of MySQL and MariaDB, as the server itself reads them.

    number of a collation, bytes -> charset_of -> Charset.decode -> str, or BadText

Python's codecs differ from the servers' tables in a few characters, all of which are listed here: they were compared byte by byte with
`CONVERT(... USING utf32)` of MySQL 9.7 and MariaDB 11.4. Bytes that the server itself cannot convert are no text: `BadText`.
"""

import codecs
from dataclasses import dataclass, field
from functools import cache
from typing import Final

BINARY: Final = 63
"""The collation of bytes."""
_UNDEFINED: Final = "\ufffe"
_NOPAD: Final = 1024
"""MariaDB's collations without padding have the number of the padded one, plus this."""


@dataclass(frozen=True, slots=True)
class BadText:
    """Bytes that are no text of their column's character set.

    Args:
        raw: The bytes.
        charset: The server's name of the character set, or the number of a collation that is not known.
    """

    raw: bytes
    charset: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charset:
    """A character set.

    Args:
        name: As the server names it.
        codec: Python's codec; empty = `table` has all characters.
        table: The 256 characters of a set of single bytes.
        changed: Characters of the codec that the server reads as others; an empty one is none for the server.
        limit: The highest character; 0 = none.
        refused: Bytes of one character that the codec reads as another one which bytes of their own stand for.
    """

    name: str
    codec: str = ""
    table: str = ""
    changed: dict[int, str] = field(default_factory=dict)
    limit: int = 0
    refused: bytes = b""

    def decode(self, raw: bytes) -> str | BadText:
        """Returns the text that bytes stand for."""
        try:
            text = codecs.charmap_decode(raw, "strict", self.table)[0] if self.table else raw.decode(self.codec)
        except UnicodeDecodeError:
            return BadText(raw, self.name)
        if self.changed and not text.isascii():
            if any(not self.changed.get(ord(character), character) for character in text):
                return BadText(raw, self.name)
            text = text.translate(self.changed)
        if self.refused and self.refused in raw:
            return BadText(raw, self.name)
        if self.limit and text and max(map(ord, text)) > self.limit:
            return BadText(raw, self.name)
        return text


def charset_of(collation: int) -> Charset | None:
    """Returns the character set of a collation; None for a number that neither server has."""
    name = _name_of(collation)
    return None if name is None else CHARSETS.get(name)


@cache
def _name_of(collation: int) -> str | None:
    for name, ranges in _COLLATIONS.items():
        if any(first <= collation <= last for first, last in ranges):
            return name
    return _name_of(collation - _NOPAD) if _NOPAD < collation < 2 * _NOPAD else None


def _single(codec: str, changed: dict[int, str] | None = None) -> str:
    """Returns the 256 characters of a codec of single bytes."""
    characters = [bytes((byte,)).decode(codec, "replace").replace("\ufffd", _UNDEFINED) for byte in range(256)]
    for byte, character in (changed or {}).items():
        characters[byte] = character
    return "".join(characters)


def _undefined(*bytes_of: int) -> dict[int, str]:
    return dict.fromkeys(bytes_of, _UNDEFINED)


_ASCII: Final = "".join(map(chr, range(128)))
_LATIN1: Final = {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
"""MySQL's latin1 is cp1252, and these five bytes are control characters."""
_DEC8: Final = {0xA8: "\xa4", 0xD7: "\u0152", 0xDD: "\u0178", 0xF7: "\u0153", 0xFD: "\xff"} | _undefined(
    0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF
)
_SWE7: Final = _ASCII.translate(dict(zip(map(ord, "@[\\]^`{|}~"), "\xc9\xc4\xd6\xc5\xdc\xe9\xe4\xf6\xe5\xfc", strict=True)))[:127]
_ARMSCII8: Final = (
    "\xa0\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c\u055b\u055e\u0531\u0561\u0532\u0562\u0533\u0563\u0534"
    "\u0564\u0535\u0565\u0536\u0566\u0537\u0567\u0538\u0568\u0539\u0569\u053a\u056a\u053b\u056b\u053c\u056c\u053d\u056d\u053e"
    "\u056e\u053f\u056f\u0540\u0570\u0541\u0571\u0542\u0572\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577\u0548"
    "\u0578\u0549\u0579\u054a\u057a\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f\u0550\u0580\u0551\u0581\u0552"
    "\u0582\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
)
_KEYBCS2: Final = (
    "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1\xc9\u017e\u017d\xf4\xf6\xd3\u016f"
    "\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4\u0161\u0159\u0155\u0154\xbc\xa1\xab"
    "\xbb\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563\u2551\u2557\u255d\u255c\u255b\u2510\u2514\u2534\u252c"
    "\u251c\u2500\u253c\u255e\u255f\u255a\u2554\u2569\u2566\u2560\u2550\u256c\u2567\u2568\u2564\u2565\u2559\u2558\u2552\u2553"
    "\u256b\u256a\u2518\u250c\u2588\u2584\u258c\u2590\u2580\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5\u03c4\u03a6\u0398\u03a9"
    "\u03b4\u221e\u03c6\u03b5\u2229\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219\xb7\u221a\u207f\xb2\u25a0\xa0"
)
_GEOSTD8: Final = (
    "\u20ac\ufffe\u201a\ufffe\u201e\u2026\u2020\u2021\ufffe\u2030\ufffe\u2039\ufffe\ufffe\ufffe\ufffe\ufffe\u2018\u2019\u201c"
    "\u201d\u2022\u2013\u2014\ufffe\ufffe\ufffe\u203a\ufffe\ufffe\ufffe\ufffe\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab"
    "\xac\xad\xae\xaf\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5"
    "\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc\u10f2\u10dd\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6"
    "\u10e7\u10e8\u10e9\u10ea\u10eb\u10ec\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
    "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\u2116\ufffe\ufffe"
)

UTF8: Final = Charset(name="utf8mb4", codec="utf-8")
CHARSETS: Final = {
    charset.name: charset
    for charset in (
        UTF8,
        Charset(name="binary", codec="utf-8"),
        Charset(name="utf8mb3", codec="utf-8", limit=0xFFFF),
        Charset(name="latin1", table=_single("cp1252", _LATIN1)),
        Charset(name="ascii", codec="ascii"),
        Charset(name="ucs2", codec="utf-16-be", limit=0xFFFF),
        Charset(name="utf16", codec="utf-16-be"),
        Charset(name="utf16le", codec="utf-16-le"),
        Charset(name="utf32", codec="utf-32-be"),
        Charset(name="latin2", table=_single("iso8859-2")),
        Charset(name="latin5", table=_single("iso8859-9")),
        Charset(name="latin7", table=_single("iso8859-13")),
        Charset(name="cp850", table=_single("cp850")),
        Charset(name="cp852", table=_single("cp852")),
        Charset(name="cp866", table=_single("cp866", {0xFC: "\u207f", 0xFD: "\xb2"})),
        Charset(name="cp1250", table=_single("cp1250")),
        Charset(name="cp1251", table=_single("cp1251")),
        Charset(name="cp1256", table=_single("cp1256", _undefined(0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF))),
        Charset(name="cp1257", table=_single("cp1257")),
        Charset(name="dec8", table=_single("latin-1", _DEC8)),
        Charset(name="hp8", table=_single("hp-roman8")),
        Charset(name="koi8r", table=_single("koi8-r")),
        Charset(name="koi8u", table=_single("koi8-u", {0x95: "\u2022"})),
        Charset(name="swe7", table=_SWE7),
        Charset(name="hebrew", table=_single("iso8859-8", {0xAF: "\u203e"})),
        Charset(name="tis620", table=_single("tis-620")),
        Charset(name="greek", table=_single("iso8859-7", {0xA1: "\u02bd", 0xA2: "\u02bc"} | _undefined(0xA4, 0xA5, 0xAA))),
        Charset(name="armscii8", table=_ASCII + "".join(map(chr, range(0x80, 0xA0))) + _ARMSCII8),
        Charset(name="keybcs2", table=_ASCII + _KEYBCS2),
        Charset(name="macce", table=_single("mac-latin2")),
        Charset(name="macroman", table=_single("mac-roman")),
        Charset(name="geostd8", table=_ASCII + _GEOSTD8),
        Charset(name="big5", codec="big5", changed=dict.fromkeys(map(ord, "\u2574\uffe3\u02cd\uff0f\uff3c\u5341\u5345"), "")),
        Charset(name="sjis", codec="shift_jis", changed={0xFF3C: "\\"}),
        Charset(name="cp932", codec="cp932"),
        Charset(name="ujis", codec="euc_jp", changed={0xFF3C: "\\"}),
        Charset(
            name="eucjpms",
            codec="euc_jp",
            refused=b"\x8f\xa2\xb7",
            changed={0x301C: "\uff5e", 0x2016: "\u2225", 0x2212: "\uff0d", 0xA2: "\uffe0", 0xA3: "\uffe1", 0xAC: "\uffe2", 0xA6: "\uffe4"},
        ),
        Charset(name="euckr", codec="cp949"),
        Charset(name="gb2312", codec="gb2312"),
        Charset(name="gbk", codec="gbk"),
        Charset(name="gb18030", codec="gb18030", changed={0xE7C7: "", 0x1E3F: ""}),
    )
}
"""By their names. Some hold fewer characters than the server's: those give `BadText`, never another character."""

_COLLATIONS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    name: tuple((int(first), int(last or first)) for first, _, last in (part.partition("-") for part in numbers.split()))
    for name, numbers in {
        "utf8mb4": "45-46 224-247 255-275 277-294 296-323 608-610 2304-2559",
        "utf8mb3": "33 76 83 192-215 223 576-578 2048-2303",
        "latin1": "5 8 15 31 47-49 94",
        "ascii": "11 65",
        "ucs2": "35 90 128-151 159 640-642 2560-2815",
        "utf16": "54-55 101-124 672-674 2816-3071",
        "utf16le": "56 62",
        "utf32": "60-61 160-183 736-738 3072-3327",
        "binary": "63",
        "big5": "1 84",
        "latin2": "2 9 21 27 77",
        "dec8": "3 69",
        "cp850": "4 80",
        "hp8": "6 72",
        "koi8r": "7 74",
        "swe7": "10 82",
        "ujis": "12 91",
        "sjis": "13 88",
        "cp1251": "14 23 50-52",
        "hebrew": "16 71",
        "tis620": "18 89",
        "euckr": "19 85",
        "latin7": "20 41-42 79",
        "koi8u": "22 75",
        "gb2312": "24 86",
        "greek": "25 70",
        "cp1250": "26 34 44 66 99",
        "gbk": "28 87",
        "cp1257": "29 58-59",
        "latin5": "30 78",
        "armscii8": "32 64",
        "cp866": "36 68",
        "keybcs2": "37 73",
        "macce": "38 43",
        "macroman": "39 53",
        "cp852": "40 81",
        "cp1256": "57 67",
        "geostd8": "92-93",
        "cp932": "95-96",
        "eucjpms": "97-98",
        "gb18030": "248-250",
    }.items()
}
