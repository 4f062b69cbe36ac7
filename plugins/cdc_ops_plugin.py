"""For those who copy files into Airflow's plugins folder instead of installing the package; an installed cdc-ops is found without it.

Two plugins of one name would make Airflow drop others, so this defines none where the installed package has registered its own.
"""

from importlib.metadata import entry_points

if not any(point.name == "cdc_ops" for point in entry_points(group="airflow.plugins")):
    from cdc_ops.airflow.plugin import CdcOpsPlugin  # noqa: F401
