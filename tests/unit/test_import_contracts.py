"""The home-made import contract really refuses: a contract that cannot break proves nothing."""

import sys
from pathlib import Path
from typing import Any

import grimp
import pytest

from tests.import_contracts import OnlyContract


def broken(graph: Any, **options: Any) -> list[tuple[str, str]]:
    contract = OnlyContract("test", {}, options)
    return [(importer, imported) for importer, imported, _ in contract.check(graph, verbose=False).metadata["broken"]]


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    files = {
        "shop/__init__.py": "",
        "shop/core.py": "import json\nimport yaml\nfrom shop import errors\n",
        "shop/errors.py": "",
        "shop/web/__init__.py": "from shop.state import base\n",
        "shop/web/page.py": "def show():\n    from shop.state import store\n",
        "shop/state/__init__.py": "",
        "shop/state/base.py": "",
        "shop/state/store.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    return grimp.build_graph("shop", include_external_packages=True, cache_dir=None)


def test_an_import_within_the_list_is_allowed(graph: Any) -> None:
    assert broken(graph, modules=["shop.core"], may_import=["shop.errors"]) == []
    assert broken(graph, modules=["shop.web"], may_import=["shop.state"]) == []


def test_an_import_outside_the_list_is_refused_also_inside_a_function(graph: Any) -> None:
    assert broken(graph, modules=["shop.web"], may_import=["shop.state.base"]) == [("shop.web.page", "shop.state.store")]


def test_the_root_package_in_the_list_does_not_allow_all_below_it(graph: Any) -> None:
    assert broken(graph, modules=["shop.core"], may_import=["shop"]) == [("shop.core", "shop.errors")]


def test_a_third_party_package_is_refused_where_only_the_standard_library_may_be(graph: Any) -> None:
    options = {"may_import": ["shop.errors"], "standard_library_only": "True"}
    assert broken(graph, modules=["shop.core"], **options) == [("shop.core", "yaml")]
