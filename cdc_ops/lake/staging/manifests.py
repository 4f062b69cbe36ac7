"""The staging area: landed windows and their manifests. Spark-free; cdc_ops.lake.staging.landing writes and reads the rows.

    <operation's staging folder>/<attempt>/part-*.parquet    the rows of one try
    <operation's staging folder>/manifest.json               names the try that is complete; written last, at once

Files without a manifest are not landed, whoever left them. A manifest whose files are not all there says that they were landed and are
damaged now: the operation reads its frozen window again, into a new try. Nothing is deleted on the way out of a step: `expire` clears up
later.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from cdc_ops.core import json_codec
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.errors import StateError
from cdc_ops.lake.file_io import open_filesystem, read_text, write_text

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What the staging area has of an operation.

    Args:
        manifest: Of its rows, None unless all of them are there as they were written.
        damage: Why rows that had been landed cannot be used any more, "" if they can or there are none.
    """

    manifest: Manifest | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """One Parquet file of a try: its path in the file system, its size."""

    path: str
    bytes: int


def read_manifest(staging: str) -> Manifest | None:
    """Reads the manifest of an operation's staging folder, None if it is not completely landed.

    Raises:
        StateError: the manifest was written by another version of the package, or damaged.
    """
    path = f"{staging.rstrip('/')}/{MANIFEST}"
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise StateError(f"{path} is not a text file.", why=str(error), data="Nothing was read or written.") from error
    return json_codec.loads(Manifest, text)


def find_manifest(staging: str) -> Manifest | None:
    """Reads a manifest for what it says of a commit that is done; None if there is none, or it cannot be read any more."""
    try:
        return read_manifest(staging)
    except StateError:
        return None


def find_landed(operation: Operation) -> Landed:
    """Looks whether an operation's rows are in the staging area, read with the columns that it has, and all of them."""
    try:
        manifest = read_manifest(operation.target.staging)
    except StateError as error:
        return Landed(damage=f"the manifest cannot be read ({error.why})")
    wanted = (operation.operation_id, operation.source.schema.fingerprint)
    if manifest is None or (manifest.operation_id, manifest.schema_fingerprint) != wanted:
        return Landed()
    damage = find_damage(operation.target.staging, manifest)
    return Landed(damage=damage) if damage else Landed(manifest=manifest)


def find_damage(staging: str, manifest: Manifest) -> str:
    """Returns what is missing of landed files, "" if they are there with the sizes that were written."""
    wanted = [(manifest.attempt, manifest.landed.files, manifest.landed.bytes)]
    if manifest.landed.feed_files:
        wanted.append((feed_name(manifest.attempt), manifest.landed.feed_files, manifest.landed.feed_bytes))
    for folder, count, size in wanted:
        files = landed_files(staging, folder)
        found = sum(file.bytes for file in files)
        if (len(files), found) != (count, size):
            return f"{len(files):,} of {count:,} files exist, with {found:,} of {size:,} bytes"
    return ""


def feed_name(attempt: str) -> str:
    """Returns the folder name of the feed that a try has landed beside its rows."""
    return f"{attempt}-feed"


def is_landed(operation: Operation) -> bool:
    """True if all rows of an operation are in the staging area; the operation no longer needs the source."""
    return find_landed(operation).manifest is not None


def write_manifest(staging: str, manifest: Manifest) -> None:
    """Writes the manifest of a try, after all its other files."""
    write_text(f"{staging.rstrip('/')}/{MANIFEST}", json_codec.dumps(manifest))


def landed_files(staging: str, attempt: str) -> tuple[LandedFile, ...]:
    """Returns the Parquet files of a try, by name."""
    filesystem, root = open_filesystem(f"{staging.rstrip('/')}/{attempt}")
    try:
        entries = filesystem.ls(root, detail=True)
    except FileNotFoundError:
        return ()
    names = ((str(entry["name"]), int(entry["size"] or 0)) for entry in entries if entry["type"] == "file")
    return tuple(LandedFile(path=name, bytes=size) for name, size in sorted(names) if _is_part(name))


def expire(staging_root: str, older_than: datetime, keep: Collection[str] = ()) -> tuple[str, ...]:
    """Removes the staging folders of operations in which nothing was written since a point in time.

    Args:
        staging_root: The pipeline's staging area.
        older_than: Aware instant; a folder with anything newer stays.
        keep: Staging folders of unfinished operations: they stay, however old they are.

    Returns:
        The folders that were removed, as paths in their file system.
    """
    filesystem, root = open_filesystem(staging_root)
    kept = {open_filesystem(path)[1] for path in keep}
    newest: dict[str, datetime] = {}
    for name, entry in filesystem.find(root, detail=True).items():
        folder = _operation_folder(str(name))
        if folder is not None:
            newest[folder] = max(newest.get(folder, datetime.min.replace(tzinfo=UTC)), _modified(entry))
    removed = tuple(sorted(folder for folder, when in newest.items() if when < older_than and folder not in kept))
    for folder in removed:
        filesystem.rm(folder, recursive=True)
    return removed


def expire_folders(root: str, older_than: datetime) -> tuple[str, ...]:
    """Removes the folders right below a folder in which nothing was written since a point in time.

    Args:
        root: The folder; it may be missing.
        older_than: Aware instant; a folder with anything newer stays.

    Returns:
        The folders that were removed, as paths in their file system.
    """
    filesystem, inner = open_filesystem(root)
    newest: dict[str, datetime] = {}
    for name, entry in filesystem.find(inner, detail=True).items():
        below = str(name)[len(inner.rstrip("/")) + 1 :]
        if "/" in below:
            folder = f"{inner.rstrip('/')}/{below.partition('/')[0]}"
            newest[folder] = max(newest.get(folder, datetime.min.replace(tzinfo=UTC)), _modified(entry))
    removed = tuple(sorted(folder for folder, when in newest.items() if when < older_than))
    for folder in removed:
        filesystem.rm(folder, recursive=True)
    return removed


def _is_part(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.startswith("part-") and base.endswith(".parquet")


def _operation_folder(name: str) -> str | None:
    parent, _, base = name.rpartition("/")
    if base == MANIFEST:
        return parent
    return parent.rpartition("/")[0] if _is_part(name) else None


def _modified(entry: dict[str, object]) -> datetime:
    value = entry.get("mtime") or entry.get("LastModified") or entry.get("last_modified") or entry.get("created")
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.fromtimestamp(float(str(value)), UTC) if value is not None else datetime.now(UTC)
