"""What the page on stability promises of Python is what the modules list."""

import re
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "stability.md"
ROW = re.compile(r"^\| `(cdc_ops[\w.]*)` \| (`[^|]+`) \|", re.MULTILINE)


def promised() -> dict[str, list[str]]:
    """Returns the names of the page, by module."""
    return {module: re.findall(r"`(\w+)`", names) for module, names in ROW.findall(PAGE.read_text("utf-8"))}


def test_the_names_that_may_be_relied_on_are_those_of_the_modules() -> None:
    listed = {module: sorted(import_module(module).__all__) for module in promised()}
    assert len(listed) >= 8
    assert listed == {module: sorted(names) for module, names in promised().items()}


def test_each_of_them_exists_and_says_what_it_is_for() -> None:
    found = [(name, getattr(import_module(module), name)) for module, names in promised().items() for name in names]
    assert len(found) >= 16
    silent = [name for name, one in found if callable(one) and (not one.__doc__ or one.__doc__.startswith(f"{name}("))]
    assert silent == []
