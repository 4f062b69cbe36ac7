"""Functions that a pipeline file names by import path, resolved when Airflow parses the DAG, so that a wrong path is seen before a run."""

import importlib
from collections.abc import Callable
from typing import Any

from cdc_ops.errors import ConfigError


def resolve_callback(path: str, *, origin: str, field: str) -> Callable[..., Any]:
    """Imports a callback.

    Args:
        path: `module.function`, or `module.object` of an object that can be called, such as a notifier.
        origin: The pipeline file.
        field: Where in it the path stands, such as `airflow.tasks.on_failure_callback`.

    Raises:
        ConfigError: it cannot be imported, or cannot be called with a context.
    """
    module, _, name = path.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is somebody else's code, and may fail in any way
        raise _unusable(path, origin, field, f"{type(error).__name__}: {error}") from error
    if isinstance(found, type):
        raise _unusable(path, origin, field, "It is a class. Airflow calls a function, or an object of the class, with the context.")
    if not callable(found):
        raise _unusable(path, origin, field, f"It is {found!r}, which cannot be called.")
    return found  # type: ignore[no-any-return]


def _unusable(path: str, origin: str, field: str, why: str) -> ConfigError:
    return ConfigError(
        f"{origin}: '{field}' names {path!r}, which cannot be used.",
        why=why,
        data="Nothing was read or written; the pipeline's tables are not updated.",
        next="Correct the path, or put the module where Airflow's DAG processor and workers import from: a package, or the DAG bundle.",
    )
