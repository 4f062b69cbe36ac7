"""Fields and values of pipeline files that had another name before version 0.1.0: an error that meets an old name says the new one."""

from typing import Final

RENAMED_FIELDS: Final = {
    "accept": "accept_losses",
    "before_key": "previous_key",
    "check_endings": "check_file_footers",
    "heal": "on_gap",
    "keep_history": "run_retention",
    "late_window": "tombstone_retention",
    "max_hold": "long_transaction_alert",
    "max_hole": "max_offset_gap",
    "max_readers": "max_connections",
    "not_a_number": "nan_values",
    "operational_columns": "metadata_columns",
    "overlap": "lookback",
    "readers": "parallelism",
    "relist": "full_listing_interval",
    "settle": "min_file_age",
    "start": "initial_load",
    "strangers": "unrecognized_files",
}
"""New names of fields, by their old ones."""

RENAMED_VALUES: Final = {
    ("kind", "declared"): "none",
    ("null_cursor", "sweep"): "checksum",
    ("on_gap", "query"): "reconcile",
    ("on_gap", "stop"): "fail",
}
"""New values, by the field's new name and the old value."""
