"""Unpacks programs of Debian's unstable release into a folder and runs them there; outside the data path, for tests.

MySQL, for example, is not in Debian's stable releases. Nothing is installed: an apt-get with separate lists, state and cache reads the
machine's mirror, verifies the release's signature and each package's digest, and the packages are unpacked into one folder. Programs then
run with the unpacked C library and its dynamic linker, so that the machine's own version does not matter.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cdc_ops.dev.processes import run_tool
from cdc_ops.errors import EnvironmentSetupError

RELEASE: Final = "sid"
_KEYRINGS: Final = tuple(Path("/usr/share/keyrings") / f"debian-archive-keyring.{ending}" for ending in ("pgp", "gpg"))
_TOOLS: Final = ("apt-get", "dpkg-deb", "dpkg")
_INDEXES: Final = (
    "apt-get",
    "indextargets",
    "--no-release-info",
    "--format",
    "$(REPO_URI) $(RELEASE) $(COMPONENT)",
    "Created-By: Packages",
)


def unpack(package: str, name_target: Callable[[str], Path], wanted: Callable[[str], bool]) -> Path:
    """Unpacks a package and its dependencies into a folder.

    Args:
        package: The package's name.
        name_target: Returns the folder for a version of the package; the folder must not exist.
        wanted: Whether to unpack a dependency, by its name; only libraries that the program loads are needed.

    Returns:
        The folder.

    Raises:
        EnvironmentSetupError: the machine does not run Debian, the mirror does not answer, or a signature is wrong.
    """
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    keyring = next((path for path in _KEYRINGS if path.exists()), None)
    if missing or keyring is None:
        raise _refused(package, f"there is no {missing[0] if missing else 'keyring of Debian in /usr/share/keyrings'} on this machine")
    with tempfile.TemporaryDirectory(prefix="cdc-ops-apt-") as name:
        apt = _private_apt(Path(name), _mirror(package), keyring)
        run_tool([*apt, "update"], what=f"reading the package lists of Debian {RELEASE}")
        get = ("install", "--yes", "--no-install-recommends", "--download-only", package)
        run_tool([*apt, *get], what=f"downloading {package} of Debian {RELEASE}")
        debs = sorted((Path(name) / "cache" / "archives").glob("*.deb"))
        return _unpack_all(package, debs, name_target, wanted)


def linked_command(root: Path, program: str) -> list[str]:
    """Returns the start of a command that runs a program of an unpacked tree with only that tree's libraries."""
    linkers = [*root.glob("usr/lib64/ld-linux-*"), *root.glob("usr/lib/ld-linux-*")]
    libraries = [str(folder) for folder in root.glob("usr/lib/*-linux-gnu")]
    if not linkers or not libraries:
        raise _refused(program, f"the unpacked folder {root} has no dynamic linker")
    # Without the machine's cache of libraries: a missing library is an error, and never another version.
    return [str(linkers[0]), "--inhibit-cache", "--library-path", ":".join(libraries), str(root / program)]


def mirror_of(indexes: str, release_name: str) -> str | None:
    """Returns the address of the machine's Debian mirror, from apt's list of indexes; not that of security updates.

    Args:
        indexes: Lines of address, release and component.
        release_name: The machine's release, such as `bookworm`.
    """
    for line in indexes.splitlines():
        address, _, rest = line.partition(" ")
        if rest == f"{release_name} main":
            return address
    return None


def _mirror(package: str) -> str:
    known = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE))
    if known.get("ID") != "debian":
        raise _refused(package, f"this machine runs {known.get('ID', 'an unknown system')}, whose mirrors do not carry Debian {RELEASE}")
    listed = subprocess.run(_INDEXES, capture_output=True, text=True, check=False)
    found = mirror_of(listed.stdout, known.get("VERSION_CODENAME", RELEASE))
    if found is None:
        raise _refused(package, "apt has no mirror of this machine's release")
    return found


def _private_apt(folder: Path, mirror: str, keyring: Path) -> list[str]:
    """Returns the command line of an apt-get that reads and writes only in the folder, and reaches mirrors as the machine does."""
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()  # no package counts as installed, so all dependencies are downloaded
    (folder / "sources.list").write_text(f"deb [signed-by={keyring}] {mirror} {RELEASE} main\n", encoding="utf-8")
    folder.chmod(0o755)  # apt drops root for downloads
    options = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Debug::NoLocking": "true",
        "Acquire::Retries": "3",
    }
    settings = folder / "apt.conf"
    # Hooks that the machine runs after an update are for its own lists.
    lines = ["#clear APT::Update;", "#clear DPkg;", *(f'{name} "{value}";' for name, value in options.items())]
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["apt-get", "--config-file", str(settings), "--quiet", "--quiet"]


def _unpack_all(package: str, debs: Sequence[Path], name_target: Callable[[str], Path], wanted: Callable[[str], bool]) -> Path:
    fields = {deb: _fields(deb) for deb in debs}
    version = next((version for name, version in fields.values() if name == package), None)
    if version is None:
        raise _refused(package, "apt downloaded another package")
    target = name_target(re.sub(r"^\d+:|-[^-]*$", "", version))
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for deb, (name, _) in fields.items():
            if name == package or wanted(name):
                run_tool(["dpkg-deb", "--extract", str(deb), str(partial)], what=f"unpacking {deb.name}")
        for ballast in ("doc", "man", "locale", "lintian", "gdb"):
            shutil.rmtree(partial / "usr" / "share" / ballast, ignore_errors=True)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if target.exists():
            return target  # another process was faster
        raise
    print(f"unpacked {package} {version} of Debian {RELEASE} into {target}", file=sys.stderr, flush=True)
    return target


def _fields(deb: Path) -> tuple[str, str]:
    shown = subprocess.run(["dpkg-deb", "--show", str(deb)], capture_output=True, text=True, check=True)
    name, _, version = shown.stdout.strip().partition("\t")
    return name.partition(":")[0], version


def _refused(package: str, why: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        f"{package} cannot be fetched from Debian {RELEASE}",
        why=why,
        data="nothing was changed on this machine",
        next="install the program manually, or skip the commands that need it",
    )
