"""`.env`: the variables of cdc-ops for the command line, as the shell would read them from the file.

Only names that begin with `CDC_OPS_` are taken, and only those that the process does not have. References such as `$PWD` and `${HOME}` are
resolved as by `set -a; . ./.env`; what only a shell can tell, such as `$(pwd)`, is refused instead of taken as it is written. No message
shows a value.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cdc_ops.errors import ConfigError

if TYPE_CHECKING:
    from dotenv.parser import Binding

VARIABLE: Final = "CDC_OPS_ENV_FILE"
OFF: Final = "off"

_PREFIX: Final = "CDC_OPS_"
_DATA: Final = "Nothing was read or written."
_REFERENCE: Final = re.compile(r"\\([$`])|\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})|(`|\$[({])")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFile:
    """What a file of variables holds for a process.

    Args:
        path: The file, absolute.
        variables: Values of the variables that the process does not have, by name.
        kept: Names of those that it has: they keep their values.
        others: Number of variables with other names, which are left out.
    """

    path: Path
    variables: Mapping[str, str]
    kept: tuple[str, ...] = ()
    others: int = 0

    @property
    def words(self) -> str:
        """The file, and the names of the variables that come from it; no value."""
        kept = f"; already set, so not from the file: {', '.join(self.kept)}" if self.kept else ""
        others = f"; {self.others} without {_PREFIX} in front left out" if self.others else ""
        return f"{self.path}: {', '.join(self.variables) or 'nothing taken'}{kept}{others}"


def find_env_file(environ: Mapping[str, str], folder: Path, user: int) -> Path | None:
    """Returns the file that `CDC_OPS_ENV_FILE` names, else `.env` in a folder; None if there is none, or none is wanted.

    Args:
        environ: The variables of the process.
        folder: The working directory, absolute.
        user: Id of the user of the process.

    Raises:
        ConfigError: the file that is named cannot be read; or the other one may come from somebody else.
    """
    named = environ.get(VARIABLE, "").strip()
    if named == OFF:
        return None
    path = folder / Path(named or ".env").expanduser()
    try:
        found, above = path.stat(), path.parent.stat()
    except OSError as error:
        if not named:
            return None
        what = f"The file of variables {path} cannot be read."
        raise ConfigError(what, why=error.strerror or "", data=_DATA, next=f"Correct {VARIABLE}, or unset it.") from error
    if not named and not stat.S_ISREG(found.st_mode):  # the folder of a virtual environment may have that name
        return None
    by_anybody = found.st_mode & stat.S_IWOTH or (above.st_mode & stat.S_IWOTH and found.st_uid != user)
    if not named and by_anybody:
        raise ConfigError(
            f"The file of variables {path} is not read.",
            why="Everybody can write it, or its folder, in which it belongs to another user.",
            data=_DATA,
            next=f"If you trust it: export {VARIABLE}={path}; to do without it: export {VARIABLE}={OFF}",
        )
    return path


def read_env_file(path: Path, environ: Mapping[str, str]) -> EnvFile:
    """Reads the variables of a file.

    Args:
        path: The file, absolute; `$PWD` in it is its folder.
        environ: The variables of the process; they win over those of the file.

    Raises:
        ConfigError: the file cannot be read, or the value of a variable of cdc-ops not be told from it.
    """
    taken, others = dict[str, str](), dict[str, str]()
    kept = list[str]()
    for binding in _bindings(path):
        name = binding.key or ""
        known = {**others, **taken, **environ, "PWD": str(path.parent)}
        if not name.startswith(_PREFIX):
            others[name] = ""
            with suppress(ConfigError):  # it is another program's; a variable of ours may refer to it
                others[name] = _value(binding, known, path)
        elif name in environ:
            kept.append(name)
        else:
            taken[name] = _value(binding, known, path)
    return EnvFile(path=path, variables=taken, kept=tuple(kept), others=len(others))


def _bindings(path: Path) -> "Iterator[Binding]":
    """Yields the assignments of a file.

    Raises:
        ConfigError: it cannot be read, or a line that may be one of ours is no assignment.
    """
    from dotenv.parser import parse_stream

    try:
        with path.open(encoding="utf-8") as file:
            bindings = list(parse_stream(file))
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else "It is not UTF-8."
        what = f"The file of variables {path} cannot be read."
        raise ConfigError(what, why=why, data=_DATA, next=f"Correct it, or do without it: export {VARIABLE}={OFF}") from error
    for binding in bindings:
        if binding.error and _PREFIX in binding.original.string:
            raise _unclear(path, binding, "A quote is not closed, or something stands behind the value.", "Write it as NAME='value'.")
        if binding.value is not None:
            yield binding


def _value(binding: "Binding", known: Mapping[str, str], path: Path) -> str:
    """Returns the value of a variable, its references resolved where the shell would do so."""
    text = binding.value or ""
    if binding.original.string.partition("=")[2].lstrip().startswith("'"):
        return text

    def resolved(found: re.Match[str]) -> str:
        literal, bare, braced, default, shell = found.groups()
        if literal:
            return str(literal)
        if shell:
            raise _unclear(path, binding, "Its value needs a shell.", "Read the file in the shell: set -a; . ./.env; set +a")
        value = known.get(bare or braced, "")
        if not value and default is None:
            why = "Its value refers to a variable that is not set."
            raise _unclear(path, binding, why, "Put a value with the sign $ in single quotes, or set that variable.")
        return value or str(default)

    return _REFERENCE.sub(resolved, text)


def _unclear(path: Path, binding: "Binding", why: str, following: str) -> ConfigError:
    lines = binding.original.string
    line = binding.original.line + len(lines[: len(lines) - len(lines.lstrip())].splitlines())
    name = f" ({binding.key})" if binding.key else ""
    return ConfigError(f"{path}:{line}{name} cannot be read as a variable.", why=why, data=_DATA, next=following)
