"""The folders and files of the demo; outside the data path."""

import os
from dataclasses import dataclass
from pathlib import Path

from cdc_ops.config.settings import load_settings

PIPELINE = "shop"
ARCHIVE_PIPELINE = "shop_events"
"""The pipeline whose table is loaded from archived change events."""
BINLOG_PIPELINE = "shop_binlogs"
"""The pipeline whose table is loaded from archived binlogs; the same story shows both."""
DATABASE = "shop"
CONNECTION = "shop_db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Folders and files of one demo.

    Args:
        root: The demo's folder; every new demo removes and creates it.
        dags: Airflow's DAG folder, with the pipeline files.
        jars: The folder of Delta's jars and the JDBC drivers.
        cache: The folder that later demos use again: the unpacked database server, an empty Airflow database.
        command: The command that runs a part of the demo, up to the part's name.
        pipeline: The name of one of its pipelines.
        endpoint: URL of the object store that holds the archive, "" if the pipeline reads no archive.
    """

    root: Path
    dags: Path
    jars: Path
    cache: Path
    command: str = "python -m cdc_ops.demo "
    pipeline: str = PIPELINE
    endpoint: str = ""

    @classmethod
    def default(cls, pipeline: str = PIPELINE) -> "Layout":
        """Returns the layout of the clone that holds this file; of an installed package, one below `CDC_OPS_HOME`."""
        package = Path(__file__).resolve().parents[1]
        clone = package.parent
        if (clone / "dags" / "pipelines").is_dir() and (clone / "pyproject.toml").is_file():
            local = clone / ".local"
            return cls(
                root=local / "demo",
                dags=clone / "dags",
                jars=local / "jars",
                cache=local / "cache",
                command="make demo-",
                pipeline=pipeline,
            )
        settings = load_settings(os.environ)
        cache = Path(os.environ.get("CDC_OPS_CACHE") or settings.home / "cache").absolute()
        jars = (settings.jars or settings.home / "jars").absolute()
        return cls(root=settings.home / "demo", dags=package / "demo" / "dags", jars=jars, cache=cache, pipeline=pipeline)

    @property
    def dag_id(self) -> str:
        """Returns the id of the pipeline's DAG."""
        return f"cdc_{self.pipeline}"

    @property
    def mariadb(self) -> Path:
        """Returns the database server's folder."""
        return self.root / "mariadb"

    @property
    def writer(self) -> Path:
        """Returns the writer's folder: its pid, log, orders and status."""
        return self.root / "writer"

    @property
    def airflow(self) -> Path:
        """Returns AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def services(self) -> Path:
        """Returns the folder of pid files, one for each Airflow process."""
        return self.root / "services"

    @property
    def logs(self) -> Path:
        """Returns the folder of logs, one for each process."""
        return self.root / "logs"

    @property
    def lake(self) -> Path:
        """Returns the folder of the Delta tables: `<lake>/<schema>/<table>`."""
        return self.root / "lake"

    @property
    def staging(self) -> Path:
        """Returns the folder of landed windows, manifests, job specs and results."""
        return self.root / "staging"

    @property
    def ledger(self) -> Path:
        """Returns the path of the ledger's SQLite file."""
        return self.root / "ledger" / "ledger.db"

    @property
    def environment(self) -> Path:
        """Returns the path of a shell file with the environment for `cdc-ops` commands on the demo."""
        return self.root / "env.sh"

    @property
    def spark_server(self) -> Path:
        """Returns the folder of the Spark server on which runs work: all of archives, and the second half of the others."""
        return self.root / "spark-server"

    @property
    def pipelines(self) -> Path:
        """Returns the folder of the pipeline files: copies, because the demo names its Spark server in them."""
        return self.root / "pipelines"

    @property
    def shipped_pipelines(self) -> Path:
        """Returns the folder of the pipeline files that the demo copies."""
        files = self.dags / "pipelines"
        return files if self.pipeline == PIPELINE else files / "examples" / "archive"

    def settings(self) -> dict[str, str]:
        """Returns the environment variables with which cdc-ops uses this demo; none of them is secret."""
        return {
            "CDC_OPS_LAKE": str(self.lake),
            "CDC_OPS_STAGING": str(self.staging),
            "CDC_OPS_LEDGER": f"sqlite:///{self.ledger}",
            "CDC_OPS_PIPELINES": str(self.pipelines),
            "CDC_OPS_JARS": str(self.jars),
            "CDC_OPS_CACHE": str(self.cache),
            "CDC_OPS_CLASSES": "off",  # the demo keeps an archive of its own (`demo.jvm`)
            **({"CDC_OPS_ARCHIVE_ENDPOINT": self.endpoint} if self.endpoint else {}),
        }
