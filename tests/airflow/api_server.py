"""Airflow's API server with a new database and the environment's pipelines as DAGs: `api_server.py PORT FILE`, for a viewer's token.

An administrator's is beside it, in FILE.admin.
"""

import sys
from pathlib import Path

import uvicorn
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.configuration import conf
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.utils.db import initdb

initdb()
DagBundlesManager().sync_bundles_to_db()
bag = DagBag(dag_folder=conf.get("core", "dags_folder"), bundle_name="dags-folder")
assert not bag.import_errors, bag.import_errors
sync_bag_to_db(bag, "dags-folder", None)
app = create_app(apps="core")
for name, role in ((sys.argv[2], "viewer"), (f"{sys.argv[2]}.admin", "admin")):
    Path(name).write_text(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="reader", role=role)))
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
