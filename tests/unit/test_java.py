"""Java of our own is compiled once for each JVM: by two classes of one name py4j would call the methods of the wrong one."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from cdc_ops.lake.spark.jvm.java import new_instance


def test_threads_that_ask_at_the_same_time_compile_a_class_once(tmp_path: Path) -> None:
    source = tmp_path / "Example.java"
    source.write_text("public final class Example {}")
    cooked, jvm, other = list[str](), MagicMock(), MagicMock()

    def cook(text: str) -> None:
        time.sleep(0.02)
        cooked.append(text)

    def instance(one: Any) -> Any:
        return new_instance(one, source, beside=MagicMock())

    jvm.org.codehaus.janino.SimpleCompiler().cook = cook
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(instance, [jvm] * 4))
    assert cooked == ["public final class Example {}"]
    assert all(one is jvm.org.codehaus.janino.SimpleCompiler().getClassLoader().loadClass("Example").newInstance() for one in found)
    instance(other)
    other.org.codehaus.janino.SimpleCompiler().cook.assert_called_once_with("public final class Example {}")
