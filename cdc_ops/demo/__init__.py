"""The demo behind `make demo`: a real shop database, a Delta lake and real Airflow runs between them; drives all of it from outside.

    layout      where everything of the demo is kept, below .local/demo
    shop        the source: a MariaDB server with the tables `sales` and `orders`
    writer      a process that keeps changing `orders`
    services    processes that are started, remembered and certainly ended
    airflow_home  Airflow's own folder, settings and processes
    api         Airflow's REST API
    jvm         how Spark starts quickly
    check       is the lake equal to the source, and is the password nowhere
    story       the phases: snapshot, increment, backfill, resync
    report      what is printed

Every `up` and every `ui` starts from nothing: what an earlier demo left is stopped and removed first.
"""
