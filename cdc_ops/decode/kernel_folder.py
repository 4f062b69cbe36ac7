"""Where the machine code of compiled functions is kept, for those who do not load numba: will this machine have to compile them?"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FIRST_TIME: Final = "compiling the functions that decode rows, which takes up to a minute; this happens once on a machine"


def kernel_folders() -> Iterator[tuple[Path, bool]]:
    """Yields where the folder may be, and whether somebody chose the place."""
    for variable in ("CDC_OPS_CACHE", "CDC_OPS_HOME"):
        if value := os.environ.get(variable, "").strip():
            yield Path(value).expanduser().absolute() / "kernels", True
    home = os.environ.get("HOME", "").strip()
    if home:
        yield Path(home, ".cdc-ops", "kernels").absolute(), True
    yield Path(tempfile.gettempdir(), f"cdc-ops-{os.getuid()}", "kernels"), False


def is_uncompiled() -> bool:
    """True if nothing is where this process looks for compiled functions first; another version may still have to compile again."""
    folder, _ = next(kernel_folders())
    try:
        return not any(folder.iterdir())
    except OSError:
        return True
