"""Names of the columns that cdc-ops adds, at the plan: they come when a table is to have them, and stay under the name that they have."""

from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.apply.scd import TableStorage
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.schema_evolution import COPY_ANEW
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.errors import SchemaChangedError

_NOTHING = "Nothing was read or written; the watermark stays."
_SETTING = "'metadata_columns'"
_NAMED = ("op", "synced_at", "operation", "deleted", "deleted_at", "sequence")


def check_names(stored: TableStorage, config: TableConfig, head: LakeHead | None, request: RunRequest) -> None:
    """Checks that a table has its metadata columns under the names that the settings say, or not yet.

    Raises:
        SchemaChangedError: it has one under another name, or something else under theirs.
    """
    if head is None or head.record is None or request.replaces_table:
        return
    have = {name.lower(): canonical_type(kind) for name, kind in head.columns}
    if renamed := next((field for field in _NAMED if _is_renamed(field, stored.own, head.record.columns.own, have, config)), ""):
        before, now = getattr(head.record.columns.own, renamed), getattr(stored.own, renamed)
        raise stored_otherwise(
            config,
            f"has the metadata column {before!r}, which the pipeline file " + (f"calls {now!r}" if now else "no longer names"),
            "Its values of existing rows would be lost, and the old column would count as a column of the source.",
            _SETTING,
        )
    for name, kind in stored.own.typed_columns(marks_deleted=bool(config.settings.deleted_column)):
        found = have.get(name.lower(), canonical_type(kind))
        if found != canonical_type(kind):
            why = f"As a metadata column it must be {kind}."
            raise stored_otherwise(config, f"has a column {name!r} of type {found}", why, _SETTING)


def _is_renamed(field: str, now: MetadataColumns, before: MetadataColumns, have: dict[str, str], config: TableConfig) -> bool:
    old = str(getattr(before, field)).lower()
    if not old or old not in have or old == str(getattr(now, field)).lower():
        return False
    # A table that had them may have a column of the source by that name; deletes that are hard again have a check of their own.
    return field != "deleted" or bool(config.settings.deleted_column)


def stored_otherwise(config: TableConfig, how: str, why: str, settings: str) -> SchemaChangedError:
    """Returns the refusal of a table that is not stored as its settings say.

    Args:
        config: The table.
        how: How it is stored, after "The Delta table of ...".
        why: What would become of it.
        settings: Those that can be put back.
    """
    return SchemaChangedError(
        f"The Delta table of {config.table} {how}.",
        why=why,
        data=_NOTHING,
        next=f"cdc-ops resync --pipeline {config.pipeline} --table {config.table} --mode full   # replaces the table\n"
        f"        or restore the setting ({settings}), or {COPY_ANEW}",
    )
