"""The command that shows the status page in a browser: ui. It reads the ledger, and writes nothing."""

import threading
from contextlib import suppress
from typing import Annotated

import typer

from cdc_ops.cli.commands.pipelines import app, guarded
from cdc_ops.cli.session import ledger_reader
from cdc_ops.errors import EnvironmentSetupError


@app.command()
def ui(
    port: Annotated[int, typer.Option(metavar="PORT", help="Where the page listens; 0 = any port that is free.", min=0, max=65535)] = 8790,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in this user's browser.")] = False,
) -> None:
    """Serve the status page on this machine until Ctrl-C: the page that Airflow shows, without Airflow.

    It only reads the ledger. It listens on 127.0.0.1, without a login: whoever works on this machine can look.
    """
    with guarded(as_json=False), ledger_reader() as reader:
        try:
            from cdc_ops.web.local import listen, local_app, serve
        except ImportError as error:
            raise EnvironmentSetupError(
                "The page cannot be served: a package is missing.",
                why=str(error),
                data="Nothing was read or written.",
                next="pip install fastapi uvicorn jinja2",
            ) from error
        listener = listen(port)
        address = f"http://{listener.getsockname()[0]}:{listener.getsockname()[1]}/ui"
        with suppress(KeyboardInterrupt):
            typer.echo(f"{address}  (Ctrl-C ends it)")
            if opens:
                threading.Thread(target=_open, args=(address,), daemon=True).start()  # a browser in the terminal waits for the page
            serve(local_app(lambda: reader), listener)


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
