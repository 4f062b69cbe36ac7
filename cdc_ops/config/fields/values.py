"""Values as people write them: durations, sizes, cron expressions, dates, names. Each parser raises ValueError that says what to write."""

import itertools
import re
import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from cdc_ops.core.pipeline.connect_address import ConnectAddress
from cdc_ops.core.pipeline.pipeline import ARCHIVE
from cdc_ops.core.text import did_you_mean

_UNITS: Final = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)} | {
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|w)\s*")
_ISO: Final = re.compile(
    r"^P(?=.)(?:(?P<w>\d{1,9})W|(?:(?P<d>\d{1,9})D)?(?:T(?=.)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)S)?)?)$"
)
DURATION_PATTERN: Final = r"^((\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+|P(?=.)(\d+W|(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?))$"

_BYTES: Final = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)
}
_SIZE: Final = re.compile(r"^(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)$")
SIZE_PATTERN: Final = r"^\d+(\.\d+)?\s*(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"

CRON_PRESETS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
CRON_PATTERN: Final = r"^(\S+(\s+\S+){4}|@(hourly|daily|weekly|monthly|quarterly|yearly))?$"
SCHEDULE_PATTERN: Final = CRON_PATTERN.replace("|@", "|archive|@")

START_PATTERN: Final = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$"
TABLE_PATTERN: Final = r"^(?!.*\$\{)[^.\s/\\]+\.[^/\\]*[^/\\\s.]$"
LOCATION_PATTERN: Final = r"^(/|[A-Za-z][A-Za-z0-9+.-]*://)\S.*$|^/$"
FOLDER_PATTERN: Final = r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$"
RECEIVER_PATTERN: Final = r"^[a-z][a-z0-9_]{0,63}$"
ADDRESS_PATTERN: Final = r"^[^@\s,<>]+@[^@\s,<>]+$"
IMPORT_PATTERN: Final = r"^([A-Za-z_]\w*(\.[A-Za-z_]\w*)+)?$"
BINLOG_PATTERN: Final = r"^([^/\s]+\.\d{6,})?$"
_RUNS: Final = 50
"""Runs of a schedule that are looked at for its longest wait."""
_OFFSET: Final = re.compile(r"^[+-](0\d|1[0-4]):[0-5]\d$")


def parse_ratio(value: Any) -> float:
    """Reads a share of a whole, e.g. `0.1`.

    Raises:
        ValueError: it is no number from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{value!r} is not a share. Write a number from 0 to 1, e.g. 0.1 for ten percent")
    return float(value)


def parse_duration(value: Any) -> timedelta:
    """Parses `30s`, `5m`, `1h30m`, `7d` or ISO 8601 (`PT30S`, `P7D`)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value} has no unit. Write {value}s for seconds, {value}m for minutes, {value}h for hours, {value}d for days")
    text = value.strip() if isinstance(value, str) else ""
    parts = _PART.findall(text)
    iso = _ISO.fullmatch(text)
    try:
        if parts and not _PART.sub("", text):
            return sum((_UNITS[unit] * float(number) for number, unit in parts), timedelta())
        if iso:
            return sum((_UNITS[unit] * float(number) for unit, number in iso.groupdict(default="0").items()), timedelta())
    except OverflowError:
        raise ValueError(f"{value!r} is too long a duration") from None
    raise ValueError(
        f"{value!r} is not a duration. Write a number and a unit: 500ms, 30s, 5m, 2h, 1d, 2w, also 1h30m, or ISO 8601{_clock_hint(text)}"
    )


def _clock_hint(text: str) -> str:
    found = re.match(r"^(\d{1,4}):(\d\d)(?::(\d\d))?$", text)
    if not found:
        return ""
    first, second, third = found.groups()
    return f" (for {text}: {first}h{second}m{third}s)" if third else f" (for {text}: {first}m{second}s, or {first}h{second}m)"


def format_duration(value: timedelta) -> str:
    """Returns a duration as `parse_duration` reads it, in the largest units that are whole."""
    left, parts = value, []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def parse_size(value: Any) -> int:
    """Parses a number of bytes, `128MiB` or a plain whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found and found[2] in _BYTES:
        size = float(found[1]) * _BYTES[found[2]]
        if size == int(size):
            return int(size)
        raise ValueError(f"{value!r} is not a whole number of bytes")
    hint = ""
    if found:
        unit = next((one for one in ("KiB", "MiB", "GiB", "TiB") if one[0] == found[2][0].upper()), "MiB")
        hint = f". Did you mean {found[1]}{unit}?"
    raise ValueError(f"{value!r} is not a size. Write a number and KiB, MiB, GiB or TiB, such as 128MiB{hint}")


def format_size(value: int) -> str:
    """Returns a number of bytes as `parse_size` reads it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)


def parse_cron(value: Any) -> str:
    """Checks a cron expression of five fields and returns it; presets such as `@daily` are written out, "" stays."""
    if not isinstance(value, str):
        raise ValueError("A schedule is text: put it in quotes, such as '*/15 * * * *'")
    text = " ".join(value.split())
    if text.startswith("@"):
        if text not in CRON_PRESETS:
            raise ValueError(f"{text!r} is not a schedule. {did_you_mean(text, CRON_PRESETS)} For manual runs only, leave the schedule out")
        return CRON_PRESETS[text]
    if not text:
        return ""
    if len(text.split()) != 5:
        raise ValueError(
            f"{value!r} has {len(text.split())} fields. A cron expression has five: minute hour day month weekday, such as '*/15 * * * *'"
        )
    # Airflow's own parser, so that both accept the same; imported late, because only files with a schedule need it.
    from croniter import croniter  # type: ignore[import-untyped]

    try:
        croniter(text, datetime(2026, 1, 1, tzinfo=UTC)).get_next(datetime)
    except ValueError as error:
        reason = str(error).replace(f"[{text}]", "It")
        raise ValueError(
            f"{value!r} is not a valid cron expression, or has no next run. {reason[:1].upper()}{reason[1:].rstrip('.')}"
        ) from None
    return text


def parse_schedule(value: Any) -> str:
    """Checks the schedule of a pipeline: a cron expression (see `parse_cron`), or `archive`."""
    return ARCHIVE if value == ARCHIVE else parse_cron(value)


def longest_wait(cron: str) -> timedelta | None:
    """Returns the longest time between two runs of a schedule, among the first that follow a new year; None without a schedule.

    >>> longest_wait("0 6 * * 1-5")
    datetime.timedelta(days=3)
    """
    if not cron:
        return None
    from croniter import croniter

    runs = croniter(cron, datetime(2026, 1, 1, tzinfo=UTC))
    instants: list[datetime] = [runs.get_next(datetime) for _ in range(_RUNS)]
    return max(later - earlier for earlier, later in itertools.pairwise(instants))


def parse_start(value: Any) -> datetime:
    """Parses a date (midnight in UTC), or a date and time with its zone."""
    text = value.strip() if isinstance(value, str) else str(value)
    try:
        if re.match(r"^\d{4}-\d\d-\d\d$", text):
            return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
        if not re.match(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text):
            raise ValueError("it is not of that form")
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a date: {error}. Write 2026-01-31, or 2026-01-31T06:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone. Write {text}Z for UTC, or add an offset such as +02:00")
    return instant.astimezone(UTC)


def parse_table_pattern(text: str) -> str:
    """Checks a key of `tables`: `schema.table`, or a shell pattern of it."""
    if re.fullmatch(TABLE_PATTERN, text):
        return text
    if "${" in text:
        raise ValueError(f"Names of tables are not interpolated: {text!r}")
    if "." not in text:
        example = "shop.*" if text in ("*", "") else f"shop.{text}"
        raise ValueError(f"{text!r} is not of the form schema.table, or a pattern of it. Did you mean {example!r}, with your schema?")
    raise ValueError(f"{text!r} is not of the form schema.table. Spaces at its ends, slashes and empty parts cannot be in it")


def parse_table_name(text: str) -> str:
    """Checks the name of a declared table: `schema.table`, and no pattern."""
    if any(sign in text for sign in "*?["):
        raise ValueError(f"{text!r} is a pattern, and columns are declared of one table. Write its name")
    return parse_table_pattern(text)


def parse_zone(text: str) -> str:
    """Checks an IANA time zone or an offset; "" stays."""
    if not text or _OFFSET.fullmatch(text):
        return text
    return _parse_zone_name(text, "IANA names such as 'Europe/Berlin' and offsets such as '+02:00'")


def _parse_zone_name(text: str, valid: str) -> str:
    if text == "UTC":  # which a machine without data on zones knows, too
        return text
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = did_you_mean(text, zoneinfo.available_timezones(), limit=0)
        hint = near if near.startswith("Did you mean") else f"Valid are {valid}."
        raise ValueError(f"{text!r} is not a time zone. {hint}".rstrip(".")) from None
    return text


def parse_schedule_zone(text: str) -> str:
    """Checks the time zone of a schedule: an IANA name, because an offset knows no changes of clocks."""
    if not text or _OFFSET.fullmatch(text):
        raise ValueError(f"{text!r} is not a time zone of a schedule. Write an IANA name such as 'Europe/Berlin', or 'UTC'")
    return _parse_zone_name(text, "IANA names such as 'Europe/Berlin'")


def _matching(pattern: str, text: str, form: str) -> str:
    """Returns the text if it has a form; `form` says which, and how to write it."""
    if re.fullmatch(pattern, text):
        return text
    raise ValueError(f"{text!r} is not {form}")


def parse_web_address(text: str) -> str:
    """Checks an address of a page."""
    return _matching(r"https?://[^\s/]\S*", text, "an address of a page. Write https://host:port")


def parse_callback_path(text: str) -> str:
    """Checks the form of an import path: a module, and a name in it. Whether it exists is seen where it is used."""
    return _matching(
        r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", text, "an import path. Write module and function, such as company.alerts.page_on_call"
    )


def parse_location(text: str) -> str:
    """Checks a URI or an absolute folder."""
    if re.fullmatch(LOCATION_PATTERN, text):
        return text
    raise ValueError(f"{text!r} is neither an absolute folder nor a URI. Write /data/lake, s3a://bucket/lake or file:///data/lake")


def parse_folder_name(text: str) -> str:
    """Checks the name of one folder of an archive."""
    return _matching(FOLDER_PATTERN, text, "a folder's name. Use letters, digits, . _ and -, such as shop-primary")


def parse_binlog(text: str) -> str:
    """Checks the name of a binlog."""
    return _matching(BINLOG_PATTERN, text, "a binlog's name. Write it as SHOW BINARY LOGS does, such as binlog.000120")


def parse_memory(text: str) -> str:
    """Checks an amount of memory as Spark writes it."""
    if re.fullmatch(r"[1-9]\d{0,6}[kmgtKMGT]", text):
        return text.lower()
    found = re.match(r"^(\d+)\s*([kmgtKMGT])(i?[bB])?$", text)
    hint = f". Did you mean {found[1]}{found[2].lower()}?" if found else ""
    raise ValueError(f"{text!r} is not an amount of memory as Spark writes it, such as 512m or 2g{hint}")


def parse_connect(text: str) -> str:
    """Checks the address of a Spark Connect server."""
    ConnectAddress.parse(text)
    return text


def parse_connection(text: str) -> str:
    """Checks a connection id."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        return text
    if "://" in text:
        raise ValueError(
            "A URL. Connections are named, not written here: give an id such as shop_db, and its URL in CDC_OPS_CONN_SHOP_DB or Airflow"
        )
    raise ValueError(f"{text!r} is not a connection id. Use letters, digits, _ . and -, such as shop_db")


def parse_receiver(text: str) -> str:
    """Checks the name of a receiver."""
    return _matching(RECEIVER_PATTERN, text, "a receiver's name. Use small letters, digits and _, beginning with a letter, such as on_call")


def parse_address(text: str) -> str:
    """Checks an address of mail, without a name before it."""
    return _matching(ADDRESS_PATTERN, text, "an address of mail. Write it as data-team@example.com, without a name")


def parse_import_path(text: str) -> str:
    """Checks the import path of a class; nothing is imported."""
    return _matching(IMPORT_PATTERN, text, "an import path. Write it as airflow.providers.smtp.notifications.smtp.SmtpNotifier")


def parse_pipeline_name(text: str) -> str:
    """Checks a pipeline's name."""
    if re.fullmatch(r"[a-z][a-z0-9_]{0,99}", text):
        return text
    better = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_").lstrip("0123456789_")
    hint = f". Did you mean {better!r}?" if better else ""
    raise ValueError(f"{text!r} is not a pipeline name. Use small letters, digits and _, beginning with a letter{hint}")
