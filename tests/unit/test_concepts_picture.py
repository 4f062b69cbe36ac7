"""The pictures of docs/concepts.md are the imports: every arrow is one, and every import between two parts is an arrow."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cdc_ops"
APART = {"demo", "dev", "testing"}
"""Folders outside the data path: servers for tests, the demo, suites for third parties."""

Arrows = set[tuple[str, str]]


def folders(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}


def pictures() -> list[str]:
    return re.findall(r"^```mermaid\n(.*?)^```", (ROOT / "docs/concepts.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def drawn(picture: str) -> tuple[set[str], Arrows]:
    """Returns the parts and arrows of a picture: `a & b --> c & d` is four arrows, a name alone is a part."""
    parts: set[str] = set()
    arrows: Arrows = set()
    for line in picture.splitlines()[1:]:
        sides = [{name.strip() for name in side.split("&")} for side in line.split("-->")]
        parts |= set().union(*sides)
        arrows |= set(product(*sides)) if len(sides) == 2 else set()
    return parts, arrows


def part_of(module: str) -> str:
    """Returns the folder of the first picture that a module is in, or the module at the root."""
    return module.split(".")[1] if "." in module else ""


def step_of(module: str) -> str:
    """Returns the folder of `steps` that a module is in, `context`, or `verbs`; "" outside of steps."""
    names = module.split(".")
    if names[1:2] != ["steps"] or len(names) < 3:
        return ""
    return names[2] if names[2] == "context" or names[2] in folders(PACKAGE / "steps") else "verbs"


@pytest.fixture(scope="module")
def graph() -> Any:
    return grimp.build_graph("cdc_ops", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize(("number", "place"), [(0, part_of), (1, step_of)], ids=["folders", "steps"])
def test_the_picture_shows_who_imports_whom(graph: Any, number: int, place: Any) -> None:
    parts, arrows = drawn(pictures()[number])
    assert len(arrows) > 20
    pairs = {(place(one), place(other)) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)}
    assert {(one, other) for one, other in pairs if one != other and {one, other} <= parts} == arrows


def test_every_part_is_drawn() -> None:
    first, second = (drawn(picture)[0] for picture in pictures())
    assert first == folders(PACKAGE) - APART | {"jobs"}
    assert second == folders(PACKAGE / "steps") | {"verbs", "context"}
