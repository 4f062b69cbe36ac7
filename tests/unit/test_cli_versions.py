"""`cdc-ops --version` says what is installed, and loads none of it."""

import subprocess
import sys
from importlib.metadata import version

from cdc_ops import __version__

SCRIPT = """
import sys
from cdc_ops.cli import app
try:
    app(["--version"])
finally:
    print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "delta", "airflow", "py4j", "sqlglot"}), file=sys.stderr)
"""


def test_the_versions_of_what_is_installed_are_shown_and_nothing_of_it_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found == {
        "cdc-ops": __version__,
        "Python": sys.version.split()[0],
        "PySpark": version("pyspark"),
        "Delta": version("delta-spark"),
        "Airflow": version("apache-airflow"),
    }
    assert done.stderr == "[]\n"
