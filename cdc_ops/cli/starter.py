"""The files of a new project: one pipeline with comments, the DAG file, and the variables that a run reads."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cdc_ops.cli.chosen.found_tables import FoundTable
from cdc_ops.core.pipeline.connections import ConnectionUrl, variable_name
from cdc_ops.core.pipeline.pipeline import SourceKind

DAGS: Final = '''\
"""One Airflow DAG per file in the folder `pipelines` beside this one (or in CDC_OPS_PIPELINES); cdc_ops.airflow builds them."""

import os
from pathlib import Path

from cdc_ops.airflow.dags import build_dags

globals().update(build_dags(os.environ.get("CDC_OPS_PIPELINES") or Path(__file__).parent / "pipelines"))
'''
"""The repository's own `dags/cdc_pipelines.py`."""

_PIPELINE: Final = """\
# One pipeline: which tables of one source are kept equal in Delta Lake, where, and when.
# 'cdc-ops validate' checks this file, 'cdc-ops check {name}' what a run needs. Every field: docs/configuration.md of cdc-ops.

pipeline: {name}                    # part of every Delta commit: under a new name these tables are refused
# schedule: "*/15 * * * *"          # cron, in UTC; without this line the pipeline runs by hand
# reconcile_schedule: "0 3 * * *"   # finds rows that were deleted at the source, which a cursor does not show

source:
  kind: {kind}                      # mysql, mariadb or postgres
  connection: {connection}          # {variable} on the command line; in Airflow the connection with this id
  reader: auto                      # rows come by the server's own protocol where that is possible, else by JDBC

target:
  root: "${{CDC_OPS_LAKE}}"           # tables are at <root>/<schema>/<table>
  staging: "${{CDC_OPS_STAGING}}"     # temporary; not the same place

defaults:
  cursor: updated_at                # the column that every insert and update sets; give it an index
  lookback: 30s                     # how far below the watermark each run looks for rows that were committed late

tables:
{tables}
"""

_EXAMPLES: Final = """\
  {schema}.orders: {{}}
  # {schema}.customers: {{cursor: [updated_at, id]}}   # the id makes the order total where many rows share one time
  # {schema}.countries: {{cursor: []}}                 # no such column: each run compares the whole table
  # {schema}.log_*: {{cursor: id}}                     # rows are only added: a pattern, and an auto-increment column"""

_COPY: Final = """\
# Copy to .env, which stays out of version control: cdc-ops reads it in its working directory. For other programs: set -a; . ./.env; set +a
"""

_OWN: Final = """\
# cdc-ops reads this file in its working directory; it stays out of version control. For other programs: set -a; . ./.env; set +a
"""

_ENVIRONMENT: Final = """\
# In user and password write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25.
{variable}='{url}'

CDC_OPS_LAKE="$PWD/data/lake"                      # or s3a://bucket/lake
CDC_OPS_STAGING="$PWD/data/staging"                # or s3a://bucket/staging
CDC_OPS_JARS="$PWD/data/jars"                      # the first run fills it; or: python -m cdc_ops.lake.spark.jars "$CDC_OPS_JARS"
CDC_OPS_LEDGER="sqlite:///$PWD/data/ledger.db"     # several machines need one on Postgres or MySQL
CDC_OPS_PIPELINES="$PWD/dags/pipelines"
"""

_PORTS: Final = {SourceKind.MYSQL: 3306, SourceKind.MARIADB: 3306, SourceKind.POSTGRES: 5432}

IGNORED: Final = (".env", ".venv/", "data/")
"""What stays out of version control."""


def starter_files(
    folder: Path, name: str, kind: SourceKind, found: Sequence[FoundTable] = (), url: ConnectionUrl | None = None
) -> dict[Path, str]:
    """Returns the texts of a new project by path.

    Args:
        folder: The project.
        name: The pipeline's name; also that of the database in the examples.
        kind: The kind of the source.
        found: Tables of the source; without any the file has examples.
        url: Where they were found; its password is not written.
    """
    schema = "public" if kind is SourceKind.POSTGRES else name
    example = f"{'postgresql' if kind is SourceKind.POSTGRES else kind.value}://USER:PASSWORD@HOST:{_PORTS[kind]}/{name}"
    parts = {
        "name": name,
        "kind": kind.value,
        "connection": connection_id(name),
        "variable": variable_name(connection_id(name)),
        "tables": "\n".join(one.line for one in found) or _EXAMPLES.format(schema=schema),
        "url": replace(url, password="PASSWORD").render() if url else example,
    }
    return {
        folder / "dags" / "cdc_pipelines.py": DAGS,
        pipeline_path(folder, name): _PIPELINE.format(**parts),
        folder / ".env.example": _COPY + _ENVIRONMENT.format(**parts),
        folder / ".gitignore": "".join(f"{line}\n" for line in IGNORED),
    }


def environment_file(name: str, url: ConnectionUrl | None) -> str:
    """Returns the text of `.env` for a source that has answered.

    Args:
        name: The pipeline's name.
        url: The source with its password; None leaves the connection to the variable that is set already.
    """
    variable = variable_name(connection_id(name))
    text = _OWN + _ENVIRONMENT.format(variable=variable, url=url.render() if url else "")
    return text if url else text.replace(f"{variable}=''", f"# {variable} was set already when this file was written")


def connection_id(name: str) -> str:
    """Returns the id of the connection of a new pipeline."""
    return f"{name}_db"


def pipeline_path(folder: Path, name: str) -> Path:
    """Returns the path of the pipeline file in a new project."""
    return folder / "dags" / "pipelines" / f"{name}.yaml"
