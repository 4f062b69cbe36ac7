"""One Airflow DAG per file in the folder `pipelines` beside this one (or in CDC_OPS_PIPELINES); cdc_ops.airflow builds them."""

import os
from pathlib import Path

from cdc_ops.airflow.dags import build_dags

globals().update(build_dags(os.environ.get("CDC_OPS_PIPELINES") or Path(__file__).parent / "pipelines"))
