"""What can still be made out of a pipeline file that cannot be used: its name, its schedule, and whom it says to tell."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc_ops.config.loading import load_pipeline, load_pipeline_text, pipeline_files
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.errors import ConfigError

_HEAD: Final = re.compile(r"^(pipeline|schedule):[ \t]*([^#\n]+?)[ \t]*(?:#.*)?$", re.MULTILINE)
_NOTIFY: Final = re.compile(r"^notify:.*?(?=^[^\s#]|\Z)", re.MULTILINE | re.DOTALL)

_FRAME: Final = """\
pipeline: broken
source: {kind: mysql, connection: none}
target: {root: /none/lake, staging: /none/staging}
tables: {none.none: {cursor: none}}
"""
"""A pipeline file that is right, for the part of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """A pipeline file that cannot be used.

    Args:
        name: Of its pipeline, as far as it can be made out; else made of the file's name.
        schedule: As the file has it, "" if it cannot be made out: it may be what is wrong.
        notify: Its receivers, as far as they can be made out.
        error: What is wrong with it.
    """

    name: str
    schedule: str
    notify: tuple[Receiver, ...]
    error: ConfigError


def broken_files(folder: str | Path, environ: Mapping[str, str] = os.environ) -> tuple[BrokenFile, ...]:
    """Returns the pipeline files of a folder that cannot be used, by their paths.

    Args:
        folder: With the pipeline files.
        environ: Variables for `${NAME}`.

    Raises:
        ConfigError: there is no such folder.
    """
    found = []
    for path in pipeline_files(folder):
        try:
            load_pipeline(path, environ)
        except ConfigError as error:
            found.append(_made_out(path, environ, error))
    return tuple(found)


def _made_out(path: Path, environ: Mapping[str, str], error: ConfigError) -> BrokenFile:
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    head = {name: value.strip("'\" ") for name, value in _HEAD.findall(text)}
    name = head.get("pipeline", "")
    return BrokenFile(
        name=name if re.fullmatch(r"[a-z][a-z0-9_]*", name) else re.sub(r"\W+", "_", path.stem),
        schedule=head.get("schedule", ""),
        notify=_receivers(text, environ),
        error=error,
    )


def _receivers(text: str, environ: Mapping[str, str]) -> tuple[Receiver, ...]:
    """Returns the receivers of a file, if what is wrong is not just them."""
    block = _NOTIFY.search(text)
    if block is None:
        return ()
    try:
        return load_pipeline_text(f"{_FRAME}{block[0]}", environ).notify
    except ConfigError:
        return ()
