"""Secrets in pipeline files that only their value gives away: URLs whose path is a secret, and free-form options of Airflow."""

from pathlib import Path

import pytest

from cdc_ops.config.loading import load_pipeline
from cdc_ops.config.reading.diagnostics import redacted
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import ConfigError

HEAD = """\
pipeline: shop
source: {kind: mysql, connection: shop_db}
target: {root: /lake, staging: /staging}
tables: {shop.orders: {cursor: id}}
"""


def loaded(folder: Path, lines: str) -> Pipeline:
    (folder / "shop.yaml").write_text(f"{HEAD}{lines}\n")
    return load_pipeline(folder / "shop.yaml", {})


def said(folder: Path, lines: str) -> str:
    with pytest.raises(ConfigError) as raised:
        loaded(folder, lines)
    return str(raised.value)


@pytest.mark.parametrize(
    "lines",
    [
        "notify: {{a: {{webhook:\n  {url}}}}}",
        "notify: {url}",
        "notify: {{a: {url}}}",
        "notify: {{a: {{webhok: {url}}}}}",
        "notify: {{a: {{webhook: h}}}}\nurl: {url}",
        "notify: {{a: {{notifier: b.C, arguments: {{webhook_url: {url}}}}}}}",
    ],
)
@pytest.mark.parametrize("url", ["'https://hooks.example/T0/hunter2'", '"HTTP://hooks.example:8443?room=hunter2"'])
def test_no_error_shows_more_of_a_url_than_its_server(tmp_path: Path, lines: str, url: str) -> None:
    error = said(tmp_path, lines.format(url=url))
    assert "://hooks.example" in error
    assert "hunter2" not in error


@pytest.mark.parametrize("end", ["/a,hunter2", "/a}hunter2", "/hunter2 and more", "?a=hunter2", "#hunter2"])
def test_whatever_a_url_of_the_web_ends_in_is_masked(end: str) -> None:
    assert redacted(f"see https://me@h.example:1{end}").startswith("see https://me@h.example:1")
    assert "hunter2" not in redacted(f"see https://me@h.example:1{end}")
    assert redacted("see https://h.example/ and s3://lake/tables") == "see https://h.example/ and s3://lake/tables"


def test_arguments_of_a_notifier_may_be_a_server_a_picture_or_a_text_with_a_link(tmp_path: Path) -> None:
    given = "{host: 'https://chat.example/', icon_url: https://wiki.example/cdc.png, text: see https://wiki.example/alerts}"
    pipeline = loaded(tmp_path, f"notify: {{a: {{notifier: b.C, arguments: {given}}}}}")
    assert len(pipeline.notify[0].arguments) == 3


@pytest.mark.parametrize("config", ["{db_password: x}", "{env: {API_KEY: 12}}", "{overrides: [{env: [{name: DB_PASSWORD, value: x}]}]}"])
def test_a_secret_among_the_options_of_an_executor_is_refused(tmp_path: Path, config: str) -> None:
    error = said(tmp_path, f"airflow: {{spark_tasks: {{executor_config: {config}}}}}")
    assert "is a secret. Pipeline files must not contain secrets." in error


def test_a_pod_may_name_secrets_and_keys_and_tags_are_no_secrets(tmp_path: Path) -> None:
    volume = "{name: v, secret: {secretName: shop}}, {name: c, csi: {driver: d, volumeAttributes: {secretProviderClass: vault}}}"
    pod = f"{{spec: {{volumes: [{volume}], tolerations: [{{key: team, value: data}}]}}}}"
    pipeline = loaded(tmp_path, f"airflow: {{tasks: {{executor_config: {{pod_override: {pod}, tags: [{{key: team, value: data}}]}}}}}}")
    assert "secretProviderClass" in pipeline.airflow.tasks.executor_config
