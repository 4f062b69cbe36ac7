"""The images of docker-compose.yaml without a container engine: what their Dockerfiles copy behind .dockerignore, and the wheel of it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.unit.test_built_package import build, contents

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Image:
    """An image that compose builds.

    Args:
        context: The folder that is sent to the engine, as far as its .dockerignore lets it.
        dockerfile: How the image is built.
    """

    context: Path
    dockerfile: Path

    def copies(self) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
        """What is copied from the context, and whither, below the working folder."""
        for line in re.findall(r"^COPY[ \t]+(.+)$", self.dockerfile.read_text("utf-8").replace("\\\n", " "), re.MULTILINE):
            words = line.split()
            flags = [word for word in words if word.startswith("--")]
            *sources, target = words[len(flags) :]
            if not any(flag.startswith("--from=") for flag in flags):
                yield from ((PurePosixPath(source), PurePosixPath(target)) for source in sources)

    def sent(self) -> list[PurePosixPath]:
        """The files of the context that .dockerignore does not leave out."""
        ignore = self.context / ".dockerignore"
        lines = ignore.read_text("utf-8").splitlines() if ignore.exists() else []
        rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        tops = {source.parts[0] for source, _ in self.copies()}
        files = (path for top in sorted(tops) for path in [self.context / top, *(self.context / top).rglob("*")] if path.is_file())
        names = (PurePosixPath(path.relative_to(self.context).as_posix()) for path in files)
        return [name for name in names if not left_out(name, rules)]

    def copy_to(self, folder: Path) -> None:
        """Copies as the engine does.

        Raises:
            AssertionError: something that is named is not sent: the engine stops there.
        """
        sent = self.sent()
        for source, target in self.copies():
            mine = [name for name in sent if name == source or source in name.parents]
            assert mine, f"{self.dockerfile.name} copies {source}, which .dockerignore leaves out or which does not exist"
            for name in mine:
                place = folder / target / (name.name if name == source else name.relative_to(source))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.context / name, place)


def left_out(name: PurePosixPath, rules: list[str]) -> bool:
    """Docker's rule: the last line that fits a path, or a folder above it, decides."""
    decided = False
    for rule in rules:
        words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        parts = re.split(r"(\*\*/|\*\*|\*|\?)", rule.removeprefix("!").strip("/"))
        pattern = "".join(words.get(part, re.escape(part)) for part in parts)
        if any(re.fullmatch(pattern, str(one)) for one in (name, *name.parents)):
            decided = not rule.startswith("!")
    return decided


def images() -> dict[str, Image]:
    """The images by the names of their Dockerfiles."""
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))
    builds = [one["build"] for one in (compose["x-image"], *compose["services"].values()) if "build" in one]
    found = {Path(one["dockerfile"]).name: Image(ROOT / one["context"], ROOT / one["context"] / one["dockerfile"]) for one in builds}
    return dict(sorted(found.items()))


def test_every_dockerfile_is_built_by_compose() -> None:
    assert list(images()) == sorted(path.name for path in (ROOT / "docker").glob("*Dockerfile*"))


@pytest.mark.parametrize("name", list(images()))
def test_all_that_a_dockerfile_copies_is_sent_to_the_engine(name: str, tmp_path: Path) -> None:
    images()[name].copy_to(tmp_path)


def test_the_files_that_the_image_copies_build_the_wheel_of_the_repository(tmp_path: Path) -> None:
    """By the front end that the Dockerfile uses. Only what it would fetch is left to this environment, which has the same build tool."""
    image, source = images()["airflow.Dockerfile"], tmp_path / "source"
    assert re.search(r"^RUN pip install .* \. ", image.dockerfile.read_text("utf-8"), re.MULTILINE)
    image.copy_to(source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(tmp_path / "wheel"), "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (tmp_path / "wheel").iterdir()
    ours, theirs = contents(wheel), contents(build(ROOT, tmp_path / "whole", "wheel"))
    assert {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)} == set()


@pytest.mark.parametrize(
    ("name", "is_left_out"), [("a", True), ("kept/a/b.py", False), ("kept/__pycache__/b.pyc", True), ("kept/a/__pycache__/b", True)]
)
def test_the_last_rule_that_fits_decides(name: str, is_left_out: bool) -> None:
    assert left_out(PurePosixPath(name), ["*", "!kept", "**/__pycache__"]) is is_left_out
