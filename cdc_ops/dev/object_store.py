"""A real S3 endpoint on loopback, for tests and benchmarks: moto's server in a thread of this process; it pages listings like S3."""

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from cdc_ops.core.pipeline.extras import install_command
from cdc_ops.errors import EnvironmentSetupError

LOGIN: Final = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback", "AWS_DEFAULT_REGION": "us-east-1"}
"""The login of the endpoint, which any process on this machine can use."""


_ACCOUNT: Final = "123456789012"
"""The account that moto assigns to every login."""


class ObjectStore:
    """An S3 endpoint that runs until `close`.

    Args:
        bucket: The bucket to create at the start.
    """

    def __init__(self, bucket: str = "archive") -> None:
        try:
            from moto.server import ThreadedMotoServer
        except ImportError as error:
            raise EnvironmentSetupError(
                "The S3 endpoint on loopback is not installed.", why=str(error), next=install_command("demo")
            ) from None
        os.environ.update({name: value for name, value in LOGIN.items() if name not in os.environ})
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line per request otherwise
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        self.bucket = bucket
        self.put_many({})

    @property
    def options(self) -> dict[str, Any]:
        """Returns fsspec's options for this endpoint, as `open_archive` takes them."""
        return {"endpoint_url": self.endpoint, "client_kwargs": {"region_name": LOGIN["AWS_DEFAULT_REGION"]}}

    def put_many(self, files: Mapping[str, bytes]) -> None:
        """Writes objects into the server's memory without requests: 100,000 in seconds instead of minutes."""
        from moto.s3.models import s3_backends

        backend = s3_backends[_ACCOUNT]["aws"]
        if self.bucket not in backend.buckets:
            backend.create_bucket(self.bucket, LOGIN["AWS_DEFAULT_REGION"])
        for key, content in files.items():
            backend.put_object(self.bucket, key, content)

    def remove(self, key: str) -> None:
        """Removes an object, as a lifecycle rule does."""
        from moto.s3.models import s3_backends

        s3_backends[_ACCOUNT]["aws"].delete_object(self.bucket, key)

    def close(self) -> None:
        """Stops the server and drops its objects."""
        self._server.stop()
