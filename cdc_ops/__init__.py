"""cdc-ops: keeps Delta Lake tables equal to operational database tables, in batches."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc_ops.lake.change_feed import changes
    from cdc_ops.lake.current import current

__all__ = ["__version__", "changes", "current"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Brings `changes` and `current` when they are asked for: whoever imports the package does not load Spark."""
    if name == "changes":
        return importlib.import_module("cdc_ops.lake.change_feed").changes
    if name == "current":
        return importlib.import_module("cdc_ops.lake.current").current
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
