"""Which extra of the package brings what reads a store. Pure."""

from typing import Final

from cdc_ops.errors import EnvironmentSetupError

EXTRAS: Final = {
    "s3": ("s3", "s3a"),
    "oss": ("oss",),
    "azure": ("abfs", "abfss", "az", "adl"),
    "gcs": ("gs", "gcs"),
}
"""The schemes of URLs by the extra that brings their package."""


def install_command(extra: str) -> str:
    """Returns the command that installs an extra, where the package is a clone or a wheel: no registry has it.

    >>> install_command("s3")
    "pip install -c constraints.txt '.[s3]'   # in the clone; with a wheel: its path in place of the dot"
    """
    return f"pip install -c constraints.txt '.[{extra}]'   # in the clone; with a wheel: its path in place of the dot"


def missing_package(url: str, why: str) -> EnvironmentSetupError:
    """Returns the error for a store whose Python package is not installed.

    Args:
        url: A place in the store.
        why: What Python says.
    """
    scheme = url.partition("://")[0]
    extra = next((name for name, schemes in EXTRAS.items() if scheme in schemes), "")
    return EnvironmentSetupError(
        f"The Python package for {scheme}:// is not installed.",
        why=why,
        data="Nothing was read or written.",
        next=install_command(extra) if extra else "Install the package that fsspec names, wherever cdc-ops runs.",
    )
