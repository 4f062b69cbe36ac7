"""Checks of the archive's format: its name, and settings that are unknown or lose data of every table."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.reading.diagnostics import Problem
from cdc_ops.config.reading.document import Document
from cdc_ops.config.reading.explain import place_of
from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.formats.checks import losses, unknown_settings
from cdc_ops.core.formats.demanded_settings import archive_settings
from cdc_ops.core.text import did_you_mean
from cdc_ops.events.registry import FORMAT_SPECS, is_own_format

Data = Mapping[str, Any]

_LOSSES_OF_COLUMNS: Final = ("ambiguous-local-time",)


def check_archive_format(data: Data, document: Document, logs: list[str]) -> Iterator[Problem]:
    """Yields what is wrong with the format of an archive.

    Args:
        data: What the adapter returned.
        document: For the lines.
        logs: The entries of `tables` that are fed from the archive; without any, nothing is demanded.
    """
    archive = data.get("archive", {})
    name = archive.get("format", "")
    if not name or is_own_format(name):
        return
    spec = FORMAT_SPECS.get(name)
    if spec is None:
        mark = place_of(document, ("archive", "format")).value
        valid = "'cdc-ops formats list' shows them; 'module:callable' names a custom format."
        yield Problem(mark=mark, message=f"Format {name!r} does not exist. {did_you_mean(name, FORMAT_SPECS, limit=40)}", valid=valid)
        return
    options = FormatOptions(name=name, settings=dict(archive.get("settings", ())), accept_losses=tuple(archive.get("accept_losses", ())))
    for unknown, hint in unknown_settings(spec, options).items():
        mark = place_of(document, ("archive", "settings", unknown)).key
        yield Problem(mark=mark, message=f"Format {name!r} does not know the setting {unknown!r}. {hint}")
    for accepted in options.accept_losses:
        yield from _check_accepted(accepted, spec, document)
    if logs:
        yield from _check_losses(spec, options, document)


def _check_accepted(accepted: str, spec: FormatSpec, document: Document) -> Iterator[Problem]:
    known = [item.name for item in spec.lossy]
    name = accepted.partition("=")[0]
    if accepted in _LOSSES_OF_COLUMNS or any(name == one or (one.endswith(".") and name.startswith(one)) for one in known):
        return
    message = f"'accept_losses' lists {accepted!r}, which is not a loss of format {spec.name!r}. {did_you_mean(name, known, limit=40)}"
    yield Problem(mark=place_of(document, ("archive", "accept_losses")).value, message=message)


def _check_losses(spec: FormatSpec, options: FormatOptions, document: Document) -> Iterator[Problem]:
    found = list(losses(spec, options, None))
    if not found:
        return
    told = "; ".join(f"{one.name}={one.value}: {one.loses.rstrip('.')}" for one in found)
    settings, names = archive_settings(spec), {one.name for one in found}
    state = ", ".join(f"{name}: {value!r}" for name, value in settings.items() if name in names)
    accept = ", ".join(one.accepted_by for one in found if one.name not in settings)
    advice = [
        f"Set these in {spec.tool} and write into 'settings': {{{state}}}." if state else "",
        f"Write into 'accept_losses': [{accept}]." if accept else "",
        f"'cdc-ops formats show {spec.name}' prints the settings to copy.",
    ]
    mark = place_of(document, ("archive", "settings")).key
    yield Problem(
        mark=mark, message=f"{spec.tool}, with these settings in 'archive', loses data. {told}.", valid=" ".join(filter(None, advice))
    )
