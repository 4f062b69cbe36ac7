"""A DAG that runs when rows of the table shop.orders have reached the lake: which versions of it are new, and how many rows changed.

It follows the events of the pipeline `shop` by the asset's name, and needs neither its path nor its schedule. Copy it into the DAGs folder.
"""

from airflow.sdk import DAG, Asset, get_current_context, task

ORDERS = Asset.ref(name="cdc/shop/shop.orders")

with DAG(dag_id="report_on_orders", schedule=[ORDERS], catchup=False, tags=["report"]):

    @task
    def read_orders() -> dict[str, object]:
        """Returns what has changed since the run before: several commits may have come in between, each with an event."""
        events = [event for found in get_current_context()["triggering_asset_events"].values() for event in found]
        told = sorted((event.extra for event in events), key=lambda extra: extra["delta_version"])
        if not told:  # triggered by hand
            return {"versions": None, "rows": 0}
        # What to read with `cdc_ops.changes`. `begin` is None for a first load: then read the table as it is at `end`.
        versions = {"begin": told[0]["delta_versions"]["begin"], "end": told[-1]["delta_version"]}
        rows = sum(extra["counts"][name] for extra in told for name in ("inserted", "updated", "deleted"))
        print(f"{rows} rows of {told[-1]['table']} changed, complete until {told[-1]['complete_until']}: versions {versions}")
        return {"versions": versions, "rows": rows}

    read_orders()
