"""What `doctor` finds out about the model's API: a key is at hand, and the API takes it. The key is never shown.

One `GET /v1/models` costs nothing. It is made with the standard library: the Anthropic client takes over a second to
import.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from baton.environment import MODEL_CREDENTIALS
from baton.sources import has_credentials
from cli.finding import Finding, fault, note, ok
from cli.service_record import ServiceFiles

DEFAULT_URL = "https://api.anthropic.com"
_LIMIT_SECONDS = 10
_KEY, _TOKEN, _URL = MODEL_CREDENTIALS
_NO_KEY = (
    "export ANTHROPIC_API_KEY=… (or ANTHROPIC_BASE_URL for a server of your own); to see a run without one: "
    "orchestrate demo"
)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key to another host."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


def key_and_model(files: ServiceFiles, environment: Mapping[str, str]) -> list[Finding]:
    """Whether there is a key, from where, and what the API says to it."""
    given = {name: environment[name] for name in MODEL_CREDENTIALS if environment.get(name)}
    where = "from the environment"
    if not given:
        given, where = (
            saved_credentials(files),
            "kept by the service since an earlier command (orchestrate down drops it)",
        )
    if not given:
        return [fault("key", "no API key", _NO_KEY)]
    kind = " and ".join(name for name in MODEL_CREDENTIALS if name in given)
    return [ok("key", f"{kind}, {where}"), _ask(given)]


def saved_credentials(files: ServiceFiles) -> dict[str, str]:
    """What the service keeps for its worker; empty where there is nothing that can be read."""
    try:
        found = json.loads(files.credentials.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: str(found[name]) for name in MODEL_CREDENTIALS if found.get(name)} if isinstance(found, dict) else {}


def _ask(given: Mapping[str, str]) -> Finding:
    base = given.get(_URL) or DEFAULT_URL
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname or has_credentials(base):
        return fault("model", f"{_URL} is no http(s) address without a password in it", f"correct {_URL}")
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    headers = {"anthropic-version": "2023-06-01", "user-agent": "baton-doctor"}
    if _KEY in given:
        headers["x-api-key"] = given[_KEY]
    if _TOKEN in given:
        headers["authorization"] = f"Bearer {given[_TOKEN]}"
    request = urllib.request.Request(f"{base.rstrip('/')}/v1/models?limit=1", headers=headers)  # noqa: S310 - checked
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_LIMIT_SECONDS):
            return ok("model", f"{shown} answers and takes the credentials")
    except urllib.error.HTTPError as error:
        return _refused(shown, error.code)
    except (urllib.error.URLError, TimeoutError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        return fault("model", f"{shown} cannot be reached: {reason}", f"check the network, proxies and {_URL}")
    except ValueError:  # its text would show the key
        return fault("model", "the key holds characters that no key has", "set it again, without line ends or spaces")


def _refused(shown: str, status: int) -> Finding:
    if status in (401, 403):
        return fault("model", f"{shown} refuses the credentials (HTTP {status})", "set a key that is valid there")
    if status == 404:  # gateways often know nothing but the messages
        return ok("model", f"{shown} answers (it has no list of models, so the credentials are not checked)")
    if status == 429 or status >= 500:
        return note("model", f"{shown} is busy or out of order (HTTP {status})", "try again later; tasks wait for it")
    return fault("model", f"{shown} answers with HTTP {status}", f"check {_URL}")
