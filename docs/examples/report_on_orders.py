"""A DAG that runs when rows of the table shop.orders have reached the lake: which versions of it are new, and how many rows changed.

It follows the events of the pipeline `shop` by the asset that the table is for Airflow: its name, and the URI of its folder. Put the
pipeline's `target.root` in place of /data/lake (`s3a://...` as it is written there), and copy this file into the DAGs folder.
"""

from airflow.sdk import DAG, Asset, get_current_context, task

ORDERS = Asset(name="cdc/shop/shop.orders", uri="file:///data/lake/shop/orders", group="cdc")

with DAG(dag_id="report_on_orders", schedule=[ORDERS], catchup=False, tags=["report"]):

    @task
    def read_orders() -> dict[str, object]:
        """Returns what has changed since the run before: several commits may have come in between, each with an event."""
        events = get_current_context()["triggering_asset_events"].get(ORDERS, ())
        told = sorted((event.extra for event in events), key=lambda extra: extra["delta_version"])
        if not told:  # triggered by hand
            return {"versions": None, "rows": 0}
        # What to read with `cdc_ops.changes`. `begin` is None for a first load: then read the table as it is at `end`.
        versions = {"begin": told[0]["delta_versions"]["begin"], "end": told[-1]["delta_version"]}
        rows = sum(extra["counts"][name] for extra in told for name in ("inserted", "updated", "deleted"))
        print(f"{rows} rows of {told[-1]['table']} changed, complete until {told[-1]['complete_until']}: versions {versions}")
        return {"versions": versions, "rows": rows}

    read_orders()
