"""The demo behind `make demo`: a real shop database, a Delta lake and real Airflow runs between them, all controlled from outside.

    layout      the demo's folders and files, below .local/demo of a clone, or ~/.cdc-ops/demo
    shop        the source: a MariaDB server with the tables `sales` and `orders`
    writer      a process that keeps changing `orders`
    services    background processes, their pid files, and how they are stopped
    airflow     Airflow's folder, settings, processes and REST API
    jvm         options with which Spark's JVMs start quickly
    stage       starts and stops everything
    stories     the phases: snapshot, increment, backfill, resync; archived events; archived binlogs
    check       compares source and lake
    secrecy     searches for the database password
    report      the screen

Every `up` and every `ui` starts from nothing: processes and files of an earlier demo are stopped and removed first.
"""
