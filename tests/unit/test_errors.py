"""The error tree: one place, four answers, and nothing lost between processes."""

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cdc_ops.core
from cdc_ops import errors
from cdc_ops.errors import CdcError, ConfigError, JobError, from_payload

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, CdcError)]
CORE = sorted(Path(cdc_ops.core.__path__[0]).rglob("*.py"))


def documented() -> dict[str, tuple[str, bool]]:
    """Name, parent and retryability of each class as the module's docstring draws them."""
    path: list[str] = []
    found = {}
    for line in (errors.__doc__ or "").splitlines():
        if drawn := re.match(r"    ([| `-]*)(\w+Error)(.*)", line):
            depth = len(drawn[1]) // 4
            path = [*path[:depth], drawn[2]]
            found[drawn[2]] = (path[depth - 1] if depth else "Exception", "(retryable)" in drawn[3])
    return found


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert documented() == {cls.__name__: (cls.__bases__[0].__name__, cls.retryable) for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_crosses_processes_as_payload_and_as_pickle(cls: type[CdcError]) -> None:
    error = cls("what", why="why", data="data", next="next")
    for copy in (from_payload(error.to_payload()), pickle.loads(pickle.dumps(error))):
        assert type(copy) is cls
        assert copy.to_payload() == error.to_payload()
        assert str(copy) == "what\n  why:  why\n  data: data\n  next: next"


@pytest.mark.parametrize("payload", [{"what": "text"}, {"error": "KeyError", "what": "text"}, {"error": "NewerError", "what": "text"}])
def test_an_unknown_class_keeps_its_text(payload: dict[str, str]) -> None:
    error = from_payload(payload)
    assert type(error) is JobError
    assert str(error) == "text"


def test_parts_that_are_not_known_are_not_printed() -> None:
    assert str(ConfigError("what", next="next")) == "what\n  next: next"


def raised(path: Path) -> Iterator[ast.Call]:
    names = {cls.__name__ for cls in CLASSES}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_every_error_of_core_answers_all_four_questions(path: Path) -> None:
    for call in raised(path):
        given = {keyword.arg for keyword in call.keywords if not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)}
        assert given >= {"why", "data", "next"}, f"{path.name}:{call.lineno} leaves open: {sorted({'why', 'data', 'next'} - given)}"
        assert call.args, f"{path.name}:{call.lineno} does not say what failed"


def test_core_raises_errors_at_all() -> None:
    assert sum(1 for path in CORE for _ in raised(path)) > 10
