"""`executor_config` of a pipeline file as Airflow's executors take it: plain values, and on Kubernetes a pod."""

import json
from collections.abc import Iterator
from typing import Any, Final

from cdc_ops.core.pipeline.airflow_settings import JsonMapping
from cdc_ops.core.pipeline.extras import install_command
from cdc_ops.errors import ConfigError

_POD: Final = "pod_override"


def executor_config(given: JsonMapping, *, origin: str, field: str) -> dict[str, Any] | None:
    """Returns what a task's `executor_config` is, None for nothing.

    `pod_override` becomes Kubernetes' own object; everything else goes to the executor as it is written.

    Raises:
        ConfigError: there is a pod, and Airflow has no Kubernetes provider, or the pod is not one.
    """
    config: dict[str, Any] = json.loads(given)
    if _POD in config:
        config[_POD] = _pod(config[_POD], origin, field)
    return config or None


def _pod(pod: Any, origin: str, field: str) -> Any:
    try:
        from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise _unusable(origin, field, str(error), install_command("kubernetes")) from error
    try:
        made = PodGenerator.deserialize_model_dict(pod)
        kept = PodGenerator.serialize_pod(made)
    except Exception as error:  # the client of Kubernetes fails in its own ways on what is no pod
        raise _unusable(origin, field, f"{type(error).__name__}: {error}", "Write the pod as Kubernetes does: {spec: ...}") from error
    if unknown := sorted(lost_fields(pod, kept)):
        raise _unusable(origin, field, f"Pods have no field {', '.join(unknown)}.", "Correct the name")
    return made


def lost_fields(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yields the fields of a value that are gone in another: Kubernetes' client leaves out what it does not know, without a word.

    >>> list(lost_fields({"spec": {"containers": [{"name": "base", "imag": "x"}]}}, {"spec": {"containers": [{"name": "base"}]}}))
    ['spec.containers[0].imag']
    """
    if isinstance(given, dict):
        for name, value in given.items():
            here = f"{path}.{name}" if path else name
            if value is not None and name not in (kept or {}):
                yield here
            elif value is not None:
                yield from lost_fields(value, kept[name], here)
    elif isinstance(given, list):
        for index, (value, other) in enumerate(zip(given, kept, strict=False)):
            yield from lost_fields(value, other, f"{path}[{index}]")


def _unusable(origin: str, field: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{origin}: '{field}.{_POD}' cannot be used.",
        why=why,
        data="Nothing was read or written; the pipeline's tables are not updated.",
        next=f"{remedy}; or name a file of a pod in 'pod_template_file'.",
    )
