"""Large payloads in S3-compatible storage, for workers on several hosts: the SDK's own driver.

Credentials, region and endpoint are those of the standard AWS configuration (`AWS_*` variables, profiles).
"""

from contextlib import AsyncExitStack

from temporalio.converter import StorageDriver


async def s3_payload_storage(bucket: str, stack: AsyncExitStack) -> StorageDriver:
    """The driver for a bucket that exists; its connections are open as long as the stack is.

    Raises RuntimeError, with what to install, where the `s3` extra is missing.
    """
    try:
        import aioboto3
        from temporalio.contrib.aws.s3driver import S3StorageDriver
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client
    except ImportError as error:
        raise RuntimeError("a payload bucket needs the s3 extra: pip install 'baton[s3]'") from error
    client = await stack.enter_async_context(aioboto3.Session().client("s3"))
    return S3StorageDriver(client=new_aioboto3_client(client), bucket=bucket)
