"""Payloads in S3-compatible storage come back as they were. Runs where the `s3` extra and a local S3 are installed."""

from contextlib import AsyncExitStack

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverRetrieveContext, StorageDriverStoreContext

from activities.store_s3 import s3_payload_storage

aioboto3 = pytest.importorskip("aioboto3")
moto_server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.filterwarnings("default")


async def test_payloads_come_back_from_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        async with aioboto3.Session().client("s3") as client:
            await client.create_bucket(Bucket="payloads")
        async with AsyncExitStack() as stack:
            driver = await s3_payload_storage("payloads", stack)
            sent = [Payload(data=b"x" * 300_000), Payload(data=b"small")]
            claims = await driver.store(StorageDriverStoreContext(), sent)
            assert list(await driver.retrieve(StorageDriverRetrieveContext(), claims)) == sent
    finally:
        server.stop()
