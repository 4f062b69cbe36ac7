# One image for all Airflow services, the Spark master and worker, and the command line: Airflow, Java, cdc-ops and the jars are the same
# everywhere. Build it from the root of the repository (docker-compose.yaml does). No secret is needed to build it, and none is in it.
FROM apache/airflow:3.3.2-python3.11

USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

ENV JAVA_HOME=/usr/lib/jvm/default-java \
    TZ=UTC \
    CDC_OPS_JARS=/opt/cdc-ops/jars
RUN ln -sfn "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /usr/lib/jvm/default-java \
    && mkdir -p /opt/cdc-ops/jars /opt/spark-work \
    && chown -R airflow:0 /opt/cdc-ops /opt/spark-work

USER airflow
WORKDIR /opt/cdc-ops/source
COPY --chown=airflow:0 pyproject.toml constraints.txt LICENSE README.md ./
COPY --chown=airflow:0 cdc_ops cdc_ops
COPY --chown=airflow:0 spark_jobs spark_jobs
COPY --chown=airflow:0 dags dags
COPY --chown=airflow:0 docs docs
# s3fs must have the revision of fsspec that constraints.txt pins; it is what the Spark-free steps read the object store with.
RUN pip install --no-cache-dir -c constraints.txt "apache-airflow==3.3.2" . "s3fs==2026.9.0"

# Delta, the JDBC drivers and what s3a:// needs.
RUN python -m cdc_ops.lake.spark.jars "$CDC_OPS_JARS"

WORKDIR /opt/airflow
