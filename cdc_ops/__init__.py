"""cdc-ops: keeps Delta Lake tables equal to operational database tables, in batches."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc_ops.lake.read.change_feed import changes
    from cdc_ops.lake.read.current import current
    from cdc_ops.steps.history.as_of import as_of

__all__ = ["__version__", "as_of", "changes", "current"]
__version__ = "0.1.0"
_FUNCTIONS = {"as_of": "cdc_ops.steps.history.as_of", "changes": "cdc_ops.lake.read.change_feed", "current": "cdc_ops.lake.read.current"}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants to see its lines adds a handler of their own


def __getattr__(name: str) -> Any:
    """Brings a function when it is asked for: whoever imports the package does not load Spark."""
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
