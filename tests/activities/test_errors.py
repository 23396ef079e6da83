"""Every error of the API, through the real SDK: who reacts, and what Temporal is told."""

from datetime import timedelta

import anthropic
import httpx2
import pytest
from agents_bench import Serve
from temporalio.exceptions import ApplicationError
from test_model import asking, model_of

from activities.errors import MESSAGE_LIMIT, ModelFault, Reaction, git_passes
from activities.model import Model, ModelError, fault_of
from baton.names import CONTEXT_TOO_LONG, NEEDS_PERSON, QUOTA_PAUSED, REQUEST_REFUSED
from baton.quota import FIRST_BACK_OFF, Pause
from emulator.reply import ErrorEvent, HttpError, Reply, Text
from emulator.server import EmulatorServer

SPEND_LIMIT = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."


async def error_of(server: EmulatorServer) -> ApplicationError:
    with pytest.raises(ModelError) as caught:
        await model_of(server).respond(asking(), lambda _: None)
    return caught.value.fault.error()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, "timeout_error"),
        (409, "conflict_error"),
        (500, "api_error"),
        (504, "timeout_error"),
    ],
)
async def test_retried(serve: Serve, status: int, kind: str) -> None:
    error = await error_of(serve(Reply(fault=HttpError(status, kind))))
    assert (error.type, error.non_retryable, error.next_retry_delay) == ("ModelUnavailable", False, None)
    assert str(status) in str(error)


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (503, "api_error"), (529, "overloaded_error")])
async def test_an_overload_is_retried_when_all_may_try_again(serve: Serve, status: int, kind: str) -> None:
    error = await error_of(serve(Reply(fault=HttpError(status, kind))))
    assert (error.type, error.non_retryable) == ("ModelUnavailable", False)
    assert error.next_retry_delay == FIRST_BACK_OFF


async def test_an_overload_inside_a_stream_is_one_too(serve: Serve) -> None:
    error = await error_of(serve(Reply([Text("Hm")], fault=ErrorEvent("overloaded_error"))))
    assert error.next_retry_delay == FIRST_BACK_OFF


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (401, "authentication_error", "invalid x-api-key"),
        (402, "billing_error", "Your credit balance is too low"),
        (403, "permission_error", "Not allowed"),
        (404, "not_found_error", "model: claude-nobody-1"),
        (400, "invalid_request_error", SPEND_LIMIT),
    ],
)
async def test_waits_for_a_person(serve: Serve, status: int, kind: str, message: str) -> None:
    error = await error_of(serve(Reply(fault=HttpError(status, kind, message))))
    assert (error.type, error.non_retryable) == (NEEDS_PERSON, True)
    assert message in str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (422, "invalid_request_error")],
)
async def test_refused_for_good(serve: Serve, status: int, kind: str) -> None:
    error = await error_of(serve(Reply(fault=HttpError(status, kind, "messages.3: not like this"))))
    assert (error.type, error.non_retryable) == (REQUEST_REFUSED, True)
    assert "messages.3" in str(error)


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (413, "request_too_large", "Request exceeds the maximum size"),
        (400, "invalid_request_error", "prompt is too long: 1000001 tokens > 1000000 maximum"),
    ],
)
async def test_what_is_too_long_needs_a_successor(serve: Serve, status: int, kind: str, message: str) -> None:
    error = await error_of(serve(Reply(fault=HttpError(status, kind, message))))
    assert (error.type, error.non_retryable) == (CONTEXT_TOO_LONG, True)


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("7", timedelta(seconds=7)),
        ("1.5", timedelta(seconds=1.5)),
        ("299", timedelta(seconds=299)),
        ("-3", FIRST_BACK_OFF),
        ("1e300", FIRST_BACK_OFF),
        ("nan", FIRST_BACK_OFF),
        ("Mon, 30 Nov 2026 08:00:00 GMT", FIRST_BACK_OFF),
    ],
)
async def test_the_provider_says_when_to_try_again(serve: Serve, value: str, delay: timedelta | None) -> None:
    error = await error_of(serve(Reply(fault=HttpError(429, "rate_limit_error", headers={"retry-after": value}))))
    assert (error.next_retry_delay, error.non_retryable) == (delay, False)


async def test_a_limit_that_resets_later_is_no_failure_but_a_pause(serve: Serve) -> None:
    fault = HttpError(
        429, "rate_limit_error", "Number of request tokens has exceeded your daily limit", {"retry-after": "7200"}
    )
    error = await error_of(serve(Reply(fault=fault)))
    assert (error.type, error.non_retryable) == (QUOTA_PAUSED, True)
    pause = Pause.model_validate(error.details[0])
    assert pause.kind == "usage"
    assert "daily limit" in pause.reason
    assert pause.until is not None
    assert pause.until - pause.since == timedelta(hours=2)


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_a_spend_limit_that_comes_as_429_is_no_rate_limit(code: str) -> None:
    """It lasts until the month ends, so only a person can help."""
    detailed = {"type": "rate_limit_error", "message": "Limit reached", "details": {"error_code": code}}
    response = httpx2.Response(429, request=httpx2.Request("POST", "http://127.0.0.1/v1/messages"))
    error = anthropic.RateLimitError("Limit reached", response=response, body={"type": "error", "error": detailed})
    assert fault_of(error).reaction is Reaction.PERSON


async def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError) as caught:
        await Model(lambda: anthropic.AsyncAnthropic(base_url="http://127.0.0.1:1")).respond(asking(), lambda _: None)
    assert caught.value.fault.reaction is Reaction.PERSON


def test_a_failure_text_is_short_enough_to_be_reported() -> None:
    assert len(str(ModelFault("x" * 3_000_000, status=500).error())) < MESSAGE_LIMIT + 100


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("fatal: unable to access 'https://h/r/': Could not resolve host: h", True),
        ("ssh: Could not resolve hostname h: Temporary failure in name resolution", True),
        (
            "fatal: unable to access 'https://h/r/': Failed to connect to h port 443 after 9 ms: Connection refused",
            True,
        ),
        ("fatal: unable to access 'https://h/r/': The requested URL returned error: 503", True),
        ("fatal: unable to access 'https://h/r/': The requested URL returned error: 429", True),
        ("error: RPC failed; curl 56 GnuTLS recv error (-9)\nfatal: early EOF", True),
        ("fatal: the remote end hung up unexpectedly", True),
        ("stopped at its time limit; Cloning into bare repository", True),
        ("remote: Repository not found.\nfatal: repository 'https://h/r/' not found", False),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", False),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", False),
        ("fatal: Authentication failed for 'https://h/r/'", False),
        ("fatal: unable to access 'https://h/r/': The requested URL returned error: 403", False),
        ("Host key verification failed.\nfatal: the remote end hung up unexpectedly", False),
        ("fatal: '/r' does not appear to be a git repository", False),
        ("fatal: write error: No space left on device", False),
        ("fatal: Unable to find remote helper for 'foo'", False),
    ],
)
def test_what_git_says_of_another_host_passes_or_stays(said: str, passes: bool) -> None:
    assert git_passes(said) is passes
