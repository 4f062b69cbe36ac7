"""Pipeline files: found, read once per change, checked, and given to the rest of the package as core values.

DAG parsing loads the folder again and again, so a file that has not changed is not read twice; the environment variables that it names are
part of what may change.
"""

import copy
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cdc_ops.config.build import build_pipeline
from cdc_ops.config.checks.pipeline import check_together
from cdc_ops.config.fields.adapter import document_adapter
from cdc_ops.config.reading.diagnostics import config_error, unreadable
from cdc_ops.config.reading.document import Document, parse_document
from cdc_ops.config.reading.explain import explain
from cdc_ops.config.reading.shown_text import shown_text
from cdc_ops.core.pipeline.pipeline import Pipeline, reconcile_name
from cdc_ops.errors import ConfigError

SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A file as it was read: for which state of it, under which variables."""

    stamp: tuple[int, int, int]
    used: dict[str, str | None]
    pipeline: Pipeline
    name_line: int
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """What a folder of pipeline files holds.

    Args:
        pipelines: Those that can be used, by name.
        errors: Why others cannot: one per file that is wrong, and those of `taken`.
        taken: By pipeline name, why pipelines whose files are right cannot be used: their names are others' too.
    """

    pipelines: tuple[Pipeline, ...]
    errors: tuple[ConfigError, ...]
    taken: Mapping[str, ConfigError]


_cache: Final[dict[str, _Loaded]] = {}


def load_pipeline(path: str | Path, environ: Mapping[str, str] = os.environ) -> Pipeline:
    """Reads one pipeline file.

    Args:
        path: The file.
        environ: Variables for `${NAME}`.

    Raises:
        ConfigError: everything that is wrong with the file, each with its line and the nearest valid name.
    """
    return _load(Path(path), environ).pipeline


OTHER_FOLDER: Final = "Name another folder: --pipelines on the command line, else CDC_OPS_PIPELINES."
"""What is to be done where a folder has no pipeline files."""


def load_pipeline_text(text: str, environ: Mapping[str, str] = os.environ) -> Pipeline:
    """Reads the text of a pipeline file that lies nowhere.

    Args:
        text: YAML.
        environ: Variables for `${NAME}`.

    Raises:
        ConfigError: everything that is wrong with it.
    """
    return _checked(parse_document(text.encode(), environ), "")


def shown_file(pipeline: Pipeline) -> str:
    """Returns the file that a pipeline was loaded from in this process, without comments and secrets; "" for one that was not."""
    known = _cache.get(str(Path(pipeline.origin).absolute())) if pipeline.origin else None
    return shown_text(known.raw) if known and known.pipeline.name == pipeline.name else ""


def load_pipelines(folder: str | Path, environ: Mapping[str, str] = os.environ) -> tuple[Pipeline, ...]:
    """Reads the pipeline files of a folder, not those of folders in it.

    Returns:
        The pipelines, sorted by name.

    Raises:
        ConfigError: a file is wrong, or two have the same pipeline's name; all problems of all files at once.
    """
    contents = read_folder(folder, environ)
    if contents.errors:
        first = contents.errors[0]
        why = "\n        ".join(error.why for error in contents.errors if error.why)
        raise ConfigError("\n".join(error.what for error in contents.errors), why=why, data=first.data, next=first.next)
    return contents.pipelines


def read_folder(folder: str | Path, environ: Mapping[str, str] = os.environ) -> FolderContents:
    """Reads the pipeline files of a folder, so that one that is wrong does not take the others with it.

    Raises:
        ConfigError: there is no such folder.
    """
    loaded: list[_Loaded] = []
    errors: list[ConfigError] = []
    for path in pipeline_files(folder):
        try:
            loaded.append(_load(path, environ))
        except ConfigError as error:
            errors.append(error)
    by_name: dict[str, list[_Loaded]] = {}
    for one in loaded:
        by_name.setdefault(one.pipeline.name, []).append(one)
    # Of two with one name neither can be used: both would write under the same transaction id.
    doubled = {name: _same_name(name, owners) for name, owners in sorted(by_name.items()) if len(owners) > 1}
    reconciled = {reconcile_name(one.pipeline.name): one for one in loaded if one.pipeline.reconcile_schedule}
    reserved = {name: _reserved_name(owners[0], reconciled[name]) for name, owners in sorted(by_name.items()) if name in reconciled}
    taken = {**reserved, **doubled}
    return FolderContents(
        pipelines=tuple(owners[0].pipeline for name, owners in sorted(by_name.items()) if name not in taken),
        errors=(*errors, *doubled.values(), *reserved.values()),
        taken=taken,
    )


def pipeline_files(folder: str | Path) -> tuple[Path, ...]:
    """Returns the pipeline files of a folder, sorted; hidden files, which editors leave, are none.

    Raises:
        ConfigError: there is no such folder.
    """
    try:
        found = [path for path in Path(folder).iterdir() if path.suffix in SUFFIXES and not path.name.startswith(".") and not path.is_dir()]
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise unreadable(str(folder), f"cdc-ops cannot read the folder of pipeline files: {what}.", OTHER_FOLDER) from error
    return tuple(sorted(found))


def _load(path: Path, environ: Mapping[str, str]) -> _Loaded:
    try:
        seen = path.stat()
        stamp = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        key = str(path.absolute())
        known = _cache.get(key)
        if known and _is_current(known, stamp, str(path), environ):
            return known
        raw = path.read_bytes()
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise unreadable(str(path), f"cdc-ops cannot read the pipeline file: {what}.", "Check the path and its permissions.") from error
    document = parse_document(raw, environ)
    pipeline = _checked(document, str(path))
    loaded = _Loaded(stamp=stamp, used=document.used, pipeline=pipeline, name_line=document.places["pipeline",].key.line, raw=raw)
    _cache[key] = loaded
    return loaded


def _is_current(known: _Loaded, stamp: tuple[int, int, int], path: str, environ: Mapping[str, str]) -> bool:
    same_variables = all(environ.get(name) == value for name, value in known.used.items())
    return known.stamp == stamp and known.pipeline.origin == path and same_variables


def _checked(document: Document, path: str) -> Pipeline:
    problems = list(document.problems)
    if document.data is not None:
        suspect: set[tuple[Any, ...]] = set()
        try:
            data: dict[str, Any] | None = document_adapter().validate_python(document.data)
        except ValidationError as error:
            # Only line, field and reason are taken over: pydantic's own text is not for users, and its traceback would show values.
            errors = error.errors(include_url=False)
            problems += explain(errors, document)
            data = _usable_part(document.data, errors)
            suspect = {tuple(error["loc"][:end]) for error in errors for end in (1, 2)}
        if data is not None:
            problems += check_together(data, document, suspect)
        if data is not None and not problems:
            return build_pipeline(data, document, path)
    raise config_error(path, document.lines, problems) from None


def _usable_part(data: dict[str, Any], errors: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the data without what is wrong, so that the other checks can be made in the same go; None if too much is wrong."""
    rest = copy.deepcopy(data)
    for error in errors:
        parts = [part for part in error["loc"] if isinstance(part, str) and part != "[key]"]
        inner: Any = rest
        for part in parts[:-1]:
            inner = inner.get(part) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and parts:
            inner.pop(parts[-1], None)
    try:
        return document_adapter(partial=True).validate_python(rest)
    except ValidationError:
        return None


def _reserved_name(one: _Loaded, other: _Loaded) -> ConfigError:
    return ConfigError(
        f"{one.pipeline.origin}:{one.name_line}:1: The pipeline name {one.pipeline.name!r} is that of the DAG that reconciles"
        f" {other.pipeline.name!r} ({other.pipeline.origin}).",
        why=f"{other.pipeline.name!r} has a 'reconcile_schedule', and two DAGs cannot have the same name.",
        data="Nothing was read or written; the watermark stays.",
        next="Rename the pipeline, or remove 'reconcile_schedule' from the other pipeline.",
    )


def _same_name(name: str, owners: list[_Loaded]) -> ConfigError:
    places = [f"{one.pipeline.origin}:{one.name_line}:1" for one in owners]
    return ConfigError(
        f"{places[-1]}: The pipeline name {name!r} is already used by {', '.join(places[:-1])}.",
        why="The name is part of the transaction id in every Delta commit, so two pipelines with the same name would overwrite each other.",
        data="Nothing was read or written; the watermark stays.",
        next="Rename one of them.",
    )
