"""The command that says what is wrong by the ledger, and tells those who have to know: alerts. It asks no source and starts no Spark."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_ops.cli.chosen.pipeline_names import Names, pipeline_argument
from cdc_ops.cli.commands.pipelines import TABLES_FAILED, TRY_AGAIN, Folder, Json, app, guarded
from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import print_sentence
from cdc_ops.cli.session import chosen_pipelines, ledger_reader
from cdc_ops.config.connections import connection_text
from cdc_ops.config.settings import load_settings

if TYPE_CHECKING:
    from cdc_ops.alerts.channels import Channel
    from cdc_ops.alerts.host import Host
    from cdc_ops.alerts.notify import Delivery
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.core.pipeline.receivers import Receiver


@app.command()
@pipeline_argument
def alerts(
    folder: Folder = None,
    pipeline: Names = None,
    notify: Annotated[bool, typer.Option("--notify", help="Tell the receivers in 'notify' what they have not been told.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is wrong by the ledger: failures, tables behind their max_lag, gaps, refused deletes, failed verifications, alerts of runs.

    Connects to no source and starts no Spark, so it also notices what no run can tell: a paused DAG, a cron job that has stopped, a
    question that waits in Airflow, a disk of this machine that is nearly full. Exits with 5 if something needs somebody, with 6 if a
    receiver was not told, and with 0 else; for cron and Kubernetes jobs.
    """
    with guarded(as_json):
        chosen = chosen_pipelines(folder, pipeline or [])
        looked = _notify(chosen) if notify else _look(chosen)
    if as_json:
        render.print_json([_document(name, one) for name, one in looked])
    else:
        for name, one in looked:
            _print(name, one)
    if any(condition.subject.kind.lasts for _, one in looked for condition in one.conditions):
        raise typer.Exit(TABLES_FAILED)
    if any(one.errors for _, one in looked):
        raise typer.Exit(TRY_AGAIN)


def _look(pipelines: "tuple[Pipeline, ...]") -> "list[tuple[str, Delivery]]":
    from cdc_ops.alerts.conditions import read_conditions
    from cdc_ops.alerts.notify import Delivery

    with ledger_reader() as reader:
        return [(pipeline.name, Delivery(conditions=read_conditions(reader, pipeline, _host(pipeline)))) for pipeline in pipelines]


def _notify(pipelines: "tuple[Pipeline, ...]") -> "list[tuple[str, Delivery]]":
    from cdc_ops.alerts.notify import notify_receivers
    from cdc_ops.state.sql import open_store

    with ledger_reader():
        pass  # a store would make a ledger where none is, in which nothing is wrong
    with open_store(load_settings(os.environ).ledger) as store:
        return [(pipeline.name, notify_receivers(pipeline, store, find_channel, _host(pipeline))) for pipeline in pipelines]


def _host(pipeline: "Pipeline") -> "Host":
    """Returns what this process knows: its disks, and nothing of Airflow's runs."""
    from cdc_ops.alerts.host import Host
    from cdc_ops.alerts.space import places_of

    return Host(places=places_of(pipeline, load_settings(os.environ).ledger))


def find_channel(receiver: "Receiver") -> "Channel | None":
    """Returns how to reach a receiver from the command line: its connection is in the environment; None for a notifier of Airflow.

    Raises:
        ConfigError: the connection is missing, or is not of that kind.
    """
    from functools import partial

    from cdc_ops.alerts.addresses import mail_address, webhook_address
    from cdc_ops.alerts.channels import mail_message, post_message

    if receiver.webhook:
        url = connection_text(receiver.webhook, "https://host/path")
        return partial(post_message, receiver, webhook_address(receiver.webhook, url))
    if receiver.mail:
        url = connection_text(receiver.mail, "smtp://user:password@host:587")
        return partial(mail_message, receiver, mail_address(receiver.mail, url))
    return None


def _document(name: str, one: "Delivery") -> dict[str, Any]:
    from cdc_ops.core import json_codec

    return {
        "pipeline": name,
        "alerts": [json_codec.to_data(condition) for condition in one.conditions],
        "notified": [{"receiver": receiver, "subject": message.subject} for receiver, message in one.notified],
        "not_notified": [{"receiver": receiver, "error": _left_out(receiver)} for receiver in one.left_out],
        "errors": [error.to_payload() for error in one.errors],
    }


def _print(name: str, one: "Delivery") -> None:
    from cdc_ops.alerts.messages import condition_text

    if not one.conditions:
        print_sentence(render.out, "nothing is wrong", name=name, colour="green")
    for condition in one.conditions:
        colour = "red" if condition.subject.kind.lasts else "yellow"
        print_sentence(render.out, condition_text(condition), name=f"{name} {condition.subject.kind}", colour=colour)
    for receiver, message in one.notified:
        print_sentence(render.out, f"told {receiver}: {message.subject}", colour="dim")
    for receiver in one.left_out:
        print_sentence(render.err, _left_out(receiver), name="not told")
    for error in one.errors:
        render.print_error(error, as_json=False)


def _left_out(receiver: str) -> str:
    return (
        f"the receiver {receiver!r} is a notifier of Airflow, which the command line cannot use. The DAG 'cdc-ops-alerts' tells it; for the"
        " command line give it a 'webhook' or 'mail'."
    )
