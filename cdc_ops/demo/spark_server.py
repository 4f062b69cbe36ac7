"""The Spark server of the demo, and the pipeline files that name it; outside the data path."""

import shutil
from typing import Final

from cdc_ops.demo import jvm
from cdc_ops.demo.layout import Layout
from cdc_ops.dev.connect_server import ConnectServer

_SECTION: Final = "\nspark:\n"
_MEMORY: Final = "1g"


def copy_pipelines(layout: Layout) -> None:
    """Copies the pipeline files into the demo's folder."""
    layout.pipelines.mkdir(parents=True)
    for path in layout.shipped_pipelines.glob("*.yaml"):
        shutil.copyfile(path, layout.pipelines / path.name)


def use_server(layout: Layout, *, outlive: bool) -> str:
    """Starts a Spark Connect server, names it in the pipeline files, and returns its address.

    Args:
        layout: The demo's folders and files.
        outlive: True if the server keeps running after this process.

    Raises:
        EnvironmentSetupError: the server does not start.
    """
    conf = {"spark.driver.defaultJavaOptions": jvm.options(layout), "spark.sql.shuffle.partitions": "2"}
    server = ConnectServer(layout.spark_server, jars=layout.jars, conf=conf, memory=_MEMORY, outlive=outlive)
    (layout.logs / "spark-server.log").symlink_to(server.log)
    server.start()
    name_server(layout, server.url)
    return server.url


def name_server(layout: Layout, address: str) -> None:
    """Names a server in the pipeline files: the tasks that start from now on work on it."""
    for path in layout.pipelines.glob("*.yaml"):
        before, section, after = path.read_text("utf-8").partition(_SECTION)
        assert section
        path.write_text(f'{before}{section}  connect: "{address}"\n{after}', "utf-8")
