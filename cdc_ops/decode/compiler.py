"""Compiles the decoder's functions once per machine: a process finds their machine code on disk, or puts it there.

    <cache>/kernels/<key>/...     machine code of one version of the sources; numba's own files

`<cache>` is `CDC_OPS_CACHE`, else `CDC_OPS_HOME`, else `~/.cdc-ops`, else a folder of this user's below the temporary folder. The key
stands for the text of all modules of kernels: numba compares a function's own file only, and not those of the functions that it calls.

Python executes what is in such a folder, so one is not used that others can write, or have made (`private_folder`); the functions are
compiled in each process then, which is said.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import types

from cdc_ops.decode.kernel_folder import kernel_folders
from cdc_ops.decode.private_folder import private_folder

Function = TypeVar("Function", bound=Callable[..., Any])

Bytes = npt.NDArray[np.uint8]
"""Input: a buffer of bytes, which may be read-only. Annotations of kernels are for readers; numba goes by the signatures."""
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
"""numba's type of an input; arrays that can be written are taken too."""
BYTES_OUT: Final = types.uint8[::1]
INT64S: Final = types.int64[::1]
INT32S: Final = types.int32[::1]

_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
_log = logging.getLogger("cdc_ops.decode")
_A_KEY: Final = re.compile("[0-9a-f]{16}")
_KEPT: Final = 8
"""Folders of machine code that stay, some MB each: those of other versions."""


class Kernel:
    """A function that Python calls, compiled for one signature at its first call, or by `warm_up`; its machine code is kept on disk.

    Args:
        function: What is compiled.
        signature: numba's types of its arguments and its result.
        options: numba's options.
    """

    def __init__(self, function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> None:
        self._function = function
        self._signature = signature
        self._options = options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Calls the compiled function; arguments that do not fit its signature are refused, none makes it compile again."""
        return (self._compiled or self.compiled())(*arguments)

    def compiled(self) -> Any:
        """Returns numba's dispatcher, compiled or loaded."""
        if self._compiled is None:
            with _cache_folder(Path(self._function.__code__.co_filename).parent) as cached:
                dispatcher = numba.njit(cache=cached, **self._options)(self._function)
                dispatcher.compile(self._signature)
            dispatcher.disable_compile()
            self._compiled = dispatcher
        return self._compiled


kernels: Final[list[Kernel]] = []
"""All kernels of the modules that are imported."""


def helper(function: Function) -> Function:
    """Compiles a function that only kernels and other helpers call: it becomes a part of theirs."""
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compiles a helper into its caller's code: for loops over values, where passing arrays on would cost more than the work."""
    return numba.njit(forceinline=True, **_OPTIONS)(function)  # type: ignore[no-any-return]


def kernel(signature: Any, *, makes_arrays: bool = True) -> Callable[[Function], Function]:
    """Makes a function that Python calls a kernel; what kernels share is a `helper`, because they cannot call each other.

    Args:
        signature: numba's types, e.g. `types.int64(BYTES, types.int64)`.
        makes_arrays: False if neither it nor a helper of its makes one. Then numba need not count who holds them, which takes half of the
            time where helpers get arrays.
    """

    def decorate(function: Function) -> Function:
        made = Kernel(function, signature, _OPTIONS if makes_arrays else {**_OPTIONS, "_nrt": False})
        kernels.append(made)
        return made  # type: ignore[return-value]

    return decorate


def warm_up() -> int:
    """Compiles or loads all kernels of the modules that are imported; returns their number. Takes some seconds once per machine."""
    for made in kernels:
        made.compiled()
    return len(kernels)


@contextmanager
def _cache_folder(sources: Path) -> Iterator[bool]:
    """Names the folder to numba, for what is compiled within; yields False if there is none."""
    folder = cache_folder()
    if folder is None:
        yield False
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder / _key(sources))
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = before


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """Returns the folder of machine code, None if no folder can be written, or others can write it or a folder above it."""
    for candidate, named in kernel_folders():
        folder = private_folder(candidate, make=True, named=named)
        if folder is not None and os.access(folder, os.W_OK):
            return folder
    _log.warning("No folder for compiled functions is this user's alone, so each process compiles its own; set CDC_OPS_CACHE to one.")
    return None


@lru_cache(maxsize=16)
def _key(sources: Path) -> str:
    """Returns what stands for the text of the modules in this package and beside a kernel's own."""
    digest = hashlib.sha256()
    for folder in sorted({Path(__file__).parent, sources}):
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    key = digest.hexdigest()[:16]
    if (cache := cache_folder()) is not None:
        _remove_old(cache, key)
    return key


def _remove_old(folder: Path, key: str) -> None:
    """Removes folders of other versions, by the names that only such folders have."""
    try:
        others = [path for path in folder.iterdir() if _A_KEY.fullmatch(path.name) and path.name != key]
        others.sort(key=lambda path: path.lstat().st_mtime, reverse=True)
    except OSError:
        return
    for path in others[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
