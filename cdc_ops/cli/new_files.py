"""Files that a command writes for its user: never over one that exists, and pipeline files only if they load."""

import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from cdc_ops.errors import ConfigError, RequestError


def write_new(
    files: Mapping[Path, str], *, pipelines: Iterable[Path], environ: Mapping[str, str] | None = None, private: Collection[Path] = ()
) -> None:
    """Writes files, and the folders above them.

    Args:
        files: Texts by path.
        pipelines: Those that are pipeline files; each is loaded before anything is written.
        environ: Variables that they may name beside those of this process.
        private: Those that only their owner may read.

    Raises:
        RequestError: one exists, or a place cannot be written.
        ConfigError: a pipeline file would not load.
    """
    if found := [str(path) for path in files if path.exists() or path.is_symlink()]:
        raise RequestError(
            f"{', '.join(found)} already exists." if len(found) == 1 else f"These files exist already: {', '.join(found)}.",
            data="Nothing was written.",
            next="Choose another name or folder, or remove what is there.",
        )
    for path in pipelines:
        _check(path, files[path], {**os.environ, **(environ or {})})
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", encoding="utf-8", opener=_private if path in private else None) as file:
                file.write(text)
    except OSError as error:
        raise RequestError(
            f"{error.filename} cannot be written.",
            why=error.strerror or type(error).__name__,
            data="Files that were written before it stay.",
            next="Choose another folder, or correct its permissions.",
        ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _check(path: Path, text: str, environ: Mapping[str, str]) -> None:
    from cdc_ops.config.expressions.table_conditions import check_conditions
    from cdc_ops.config.loading import load_pipeline

    with tempfile.TemporaryDirectory(prefix="cdc-ops-") as folder:
        file = Path(folder) / path.name
        file.write_text(text, "utf-8")
        try:
            check_conditions(load_pipeline(file, environ))
        except ConfigError as error:  # whoever reads it knows the file by the place that it was meant for
            what, why = (part.replace(str(file), str(path)) for part in (error.what, error.why))
            raise ConfigError(what, why=why, data="Nothing was written.", next="Choose other options for this command.") from None
