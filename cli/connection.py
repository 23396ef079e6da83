"""Connections to Temporal: which server is configured, and the way to the one that a service uses.

temporalio takes 0.1 s to import, so it is imported inside the functions that need it; looking at the record of
the service, `--help` and bad input stay instant.
"""

from __future__ import annotations

import functools
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from cli.exits import ServiceError

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig
    from temporalio.runtime import Runtime

    from cli.server import Server
    from cli.service_record import Service

DEFAULT_ADDRESS = "localhost:7233"
_CONNECT_LIMIT = timedelta(seconds=5)
_PROFILE_VARIABLES = ("TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE")


def configured() -> ClientConnectConfig | None:
    """The server that TEMPORAL_ADDRESS or a profile of the standard client configuration names, with
    `target_host` and `namespace` filled in; None where the embedded server is to be used. Other TEMPORAL_*
    variables alone name no server. Raises ServiceError where the configuration cannot be read."""
    from temporalio.envconfig import ClientConfig

    profile_only = {name: value for name, value in os.environ.items() if name in _PROFILE_VARIABLES}
    try:
        config = ClientConfig.load_client_connect_config()
        profile = ClientConfig.load_client_connect_config(override_env_vars=profile_only)
    except (RuntimeError, OSError, ValueError) as error:
        raise ServiceError(
            f"the Temporal client configuration cannot be read: {error}; look at "
            "TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE, or unset them to use the embedded server"
        ) from error
    if not config.get("target_host") and not profile:
        return None
    config["target_host"] = config.get("target_host") or DEFAULT_ADDRESS
    config["namespace"] = config.get("namespace") or "default"
    return config


async def connect(service: Service) -> Server:
    """The server of this service. Raises ServiceError where it does not answer in 5 s."""
    from temporalio.service import ConnectConfig, ServiceClient

    from cli.server import Server

    config: ClientConnectConfig = {} if service.embedded else configured() or {}
    try:
        client = await ServiceClient.connect(
            ConnectConfig(
                target_host=service.address,
                api_key=config.get("api_key"),
                tls=config.get("tls"),
                rpc_metadata=dict(config.get("rpc_metadata", {})),
                connect_timeout=_CONNECT_LIMIT,
                runtime=_runtime(),
            )
        )
    except RuntimeError as error:
        raise ServiceError(unreachable(service.address, embedded=service.embedded)) from error
    return Server(client, service.namespace)


def unreachable(address: str, *, embedded: bool) -> str:
    """The message for a server that does not answer."""
    if embedded:
        return f"the embedded Temporal server at {address} does not answer; run `orchestrate doctor`"
    return (
        f"the Temporal server at {address} does not answer. Start it, or correct TEMPORAL_ADDRESS or the profile "
        "that names it, or unset them to use the embedded server"
    )


@functools.cache
def _runtime() -> Runtime:
    """One per process. The SDK's core would write its log to stdout, into our JSON: it goes to Python's logging."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=levels, forwarding=forwarding)))
