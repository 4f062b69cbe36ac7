"""What Airflow's grid shows for a mapped task: the tables of its group from the start, and then what the task says."""

from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import Environment

from cdc_ops.airflow.task_context import LABEL, label

GROUPS = [["shop.orders"], ["shop.a", "shop.b"], ["shop.a", "shop.b", "shop.z"]]


@pytest.mark.parametrize("names", GROUPS, ids=len)
def test_a_mapped_task_is_called_by_its_tables_before_it_says_anything(names: list[str]) -> None:
    for task in (SimpleNamespace(op_kwargs={"tables": names}), SimpleNamespace(tables=names)):
        assert _shown(task=task) == label(names)


def test_a_mapped_task_is_called_by_what_it_says_as_soon_as_it_does() -> None:
    assert _shown(task=SimpleNamespace(tables=["shop.orders"]), label=label(["shop.orders"], "idle")) == "idle: shop.orders"


def _shown(**context: Any) -> str:
    return Environment().from_string(LABEL).render(context)
