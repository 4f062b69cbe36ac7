"""Variables in values: `${NAME}` and `${NAME:-default}`, for what differs between machines and is no secret. `$${` is a plain `${`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.config.reading.diagnostics import has_login, is_secret_name
from cdc_ops.core.text import did_you_mean

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_INSIDE: Final = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$", re.DOTALL)


@dataclass(slots=True)
class Interpolation:
    """A text with its references replaced; references that could not be stay as they are and are in `problems`."""

    text: str = ""
    problems: list[str] = field(default_factory=list)
    used: dict[str, str | None] = field(default_factory=dict)


def interpolate(text: str, environ: Mapping[str, str]) -> Interpolation:
    """Replaces references to environment variables; an empty variable counts as not set, as `:-` does in a shell.

    Args:
        text: A value from a pipeline file.
        environ: The variables.
    """
    result = Interpolation()
    result.text = _REFERENCE.sub(lambda found: _replacement(found, environ, result), text)
    if has_login(result.text) and not has_login(text):
        names = ", ".join(result.used)
        result.problems.append(f"{names} holds a URL with a password. Pipeline files name connections by their id.")
    return result


def _replacement(found: re.Match[str], environ: Mapping[str, str], result: Interpolation) -> str:
    if found[0] == "$${":
        return "${"
    inside = _INSIDE.match(found[1])
    if not inside or not found[2]:
        result.problems.append(f"{found[0]!r} is not of the form ${{NAME}} or ${{NAME:-default}}; write $${{ for a plain ${{.")
        return found[0]
    name, default = inside[1], inside[2]
    if is_secret_name(name):
        result.problems.append(
            f"${{{name}}} looks like a secret. Pipeline files must not contain secrets; they name connections by their id."
        )
        return found[0]
    value = environ.get(name)
    result.used[name] = value
    if value:
        return value
    if default is None:
        hint = did_you_mean(name, (one for one in environ if not is_secret_name(one)), limit=0)
        near = f" {hint}" if hint.startswith("Did you mean") else ""
        state = "empty" if value == "" else "not set"
        result.problems.append(f"The environment variable {name} is {state}.{near} Set it, or write ${{{name}:-default}}.")
        return found[0]
    return default
