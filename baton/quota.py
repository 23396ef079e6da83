"""The provider's limits as all agents of an account see them: how many calls go at once, and when the next may begin.

Pure decisions; the clock and the dice are given. `RateView` is one account's view on one host. It opens slowly (one
more call for each that succeeded), halves when the provider is overloaded, and lets a single call try after a back-off
that all share, so that an overload costs a few calls a minute however many agents wait.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from baton.models import Stored

FIRST_WINDOW = 8.0
"""A sudden fan-out draws acceleration limits, so an account begins with so many calls at once."""
WINDOW_AFTER_WALL = 4.0
"""With so many it goes on after a time in which everything was refused."""
WIDEST_WINDOW = 256.0
FIRST_BACK_OFF = timedelta(seconds=1)
LONGEST_BACK_OFF = timedelta(seconds=60)
JITTER = 0.25
"""A back-off is longer by up to this part of itself: hosts that were refused together do not come back together."""
LONGEST_WAIT = timedelta(seconds=90)
"""So long a call waits in a worker's slot; one that would have to wait longer gives the slot up and comes again."""
COME_AGAIN = timedelta(seconds=15)
"""So much later comes a call that found no place."""
PAUSED_FROM = timedelta(minutes=5)
"""A provider that wants more patience than this has a usage limit: everything pauses until it says."""
LONGEST_PAUSE = timedelta(days=31)
LITTLE_LEFT = 0.05
"""With less than this part of a limit left, one call goes at a time."""

LIMIT_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
PREFIX = "anthropic-ratelimit"

PauseKind = Literal["busy", "usage", "person"]


PAUSE_MEMO = "pause"
"""The memo of a quota workflow holds its `Pause` under this name."""
ACCOUNT = "account"
"""What a person is asked when no agent of the account can go on: see `Pause`, kind `person`."""


class Pause(Stored):
    """Why no call leaves now. `busy`: others go first. `usage`: the provider's limit, until its reset. `person`: the
    account needs a person (a spend limit, a refused key).

    `workflow_id`: the quota workflow that holds it, where one does. `since` tells one pause from the next of the same
    account.
    """

    kind: PauseKind
    reason: str
    since: datetime
    until: datetime | None = None
    workflow_id: str = ""


@dataclass(frozen=True)
class Left:
    """What the provider says of one of its limits. `resets_at`: when it is full again."""

    kind: str
    limit: int
    remaining: int
    resets_at: datetime | None

    @property
    def is_little(self) -> bool:
        """Whether it is nearly used up."""
        return self.remaining < max(1, self.limit * LITTLE_LEFT)


@dataclass(frozen=True)
class RateView:
    """How one account stands with the provider. `window`: calls that may be under way at once; `threshold`: up to there
    it opens by one for each success, beyond it by one for each whole window. `refusals`: in a row."""

    window: float = FIRST_WINDOW
    threshold: float = WIDEST_WINDOW
    under_way: int = 0
    refusals: int = 0
    probing: bool = False
    not_before: datetime | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more call may be under way; after a refusal a single one tries."""
        return self.under_way < (1 if self.probing else max(1, int(self.window)))

    def delay(self, now: datetime) -> timedelta:
        """How long nobody begins a call."""
        return max(self.not_before - now, timedelta()) if self.not_before is not None else timedelta()

    def may_begin(self, now: datetime) -> bool:
        """Whether a call may begin now."""
        return self.has_room and not self.delay(now)

    def begun(self) -> "RateView":
        """A call begins."""
        return replace(self, under_way=self.under_way + 1)

    def ended(self) -> "RateView":
        """A call ended, whatever came of it."""
        return replace(self, under_way=max(0, self.under_way - 1))

    def accepted(self) -> "RateView":
        """The provider took a call, and begins to answer; after a wall it goes on as at first."""
        if not self.probing:
            return self
        return replace(self, probing=False, window=max(self.window, WINDOW_AFTER_WALL))

    def succeeded(self) -> "RateView":
        """A call was answered."""
        grown = self.window + (1.0 if self.window < self.threshold else 1.0 / self.window)
        return replace(self, window=min(grown, WIDEST_WINDOW), refusals=0, probing=False)

    def heard(self, left: tuple[Left, ...], now: datetime) -> "RateView":
        """As the provider's own figures want it: nothing left waits for the reset, little left goes one by one."""
        resets = [one.resets_at for one in left if one.remaining <= 0 and one.resets_at and one.resets_at > now]
        requests = min((one.remaining for one in left if one.kind == "requests"), default=WIDEST_WINDOW)
        window = 1.0 if any(one.is_little for one in left) else max(1.0, min(self.window, float(requests)))
        return replace(self, window=window, not_before=_later(self, max(resets)) if resets else self.not_before)

    def refused(
        self, retry_after: timedelta | None, left: tuple[Left, ...], now: datetime, dice: float
    ) -> tuple["RateView", timedelta]:
        """The provider was overloaded or its rate limit reached; `dice`: from 0 to 1. Also how long all wait now.

        Refusals of calls that began before the back-off did not ignore it, so they count as one.
        """
        view = self
        if not self.delay(now):
            refusals, half = self.refusals + 1, max(1.0, self.window / 2)
            # A call that went alone and was refused was not one too many: that is a wall, and says nothing of a width.
            wall = refusals > 1
            window, threshold = (1.0, WIDEST_WINDOW) if wall else (half, half)
            view = replace(self, refusals=refusals, probing=True, window=window, threshold=threshold)
            own = min(FIRST_BACK_OFF * 2 ** min(refusals - 1, 10), LONGEST_BACK_OFF)
            view = replace(view, not_before=now + own * (1 + JITTER * dice))
        if retry_after is not None:
            view = replace(view, not_before=_later(view, now + retry_after * (1 + JITTER * dice)))
        view = view.heard(left, now)
        return view, view.delay(now)

    def narrowed(self) -> "RateView":
        """A pause begins: no call joins those that are under way."""
        half = max(1.0, self.window / 2)
        return replace(self, window=1.0, threshold=self.threshold if self.window == 1.0 else half)

    def resumed(self) -> "RateView":
        """The pause is held elsewhere, or over: the next call goes alone, and from there it opens again."""
        return replace(self.narrowed(), refusals=0, probing=False, not_before=None)


def left_of(headers: Mapping[str, str]) -> tuple[Left, ...]:
    """The limits that a response's headers tell of; what cannot be read is as if it were not there."""
    found = []
    for kind in LIMIT_KINDS:
        try:
            limit = int(headers[f"{PREFIX}-{kind}-limit"])
            remaining = int(headers[f"{PREFIX}-{kind}-remaining"])
        except (KeyError, ValueError):
            continue
        resets_at = _moment(headers.get(f"{PREFIX}-{kind}-reset"))
        found.append(Left(kind=kind, limit=limit, remaining=remaining, resets_at=resets_at))
    return tuple(found)


def usage_limit_until(retry_after: timedelta | None, left: tuple[Left, ...], now: datetime) -> datetime | None:
    """The reset of a usage limit, when a refusal tells of one: it is minutes or days away, not seconds."""
    resets = [one.resets_at for one in left if one.remaining <= 0 and one.resets_at is not None]
    until = now + retry_after if retry_after is not None else max(resets, default=now)
    return min(until, now + LONGEST_PAUSE) if until - now >= PAUSED_FROM else None


def account_hash(key: str, base_url: str) -> str:
    """A name for an account that says nothing of its key: the same on every host, 16 hexadecimal digits."""
    return hashlib.sha256(f"baton quota\n{base_url.rstrip('/')}\n{key}".encode()).hexdigest()[:16]


def told(pause: Pause) -> str:
    """A pause in a few words, for people."""
    if pause.kind == "person":
        return "paused: the account needs a person"
    if pause.kind == "usage" and pause.until is not None:
        return f"paused by the provider until {pause.until:%Y-%m-%d %H:%M} UTC"
    return "waiting for the provider"


def question(pause: Pause) -> str:
    """What a person is asked when the account needs one."""
    return (
        f"The provider refuses this account ({pause.reason}). Raise its limit, or set a working ANTHROPIC_API_KEY "
        "where you answer; retry then lets all agents go on."
    )


def _later(view: RateView, moment: datetime) -> datetime:
    return moment if view.not_before is None else max(view.not_before, moment)


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)


class Held(Stored):
    """Input of the quota workflow: the pause it holds, and the workflows that wait for its end."""

    pause: Pause
    waiting: tuple[str, ...] = ()


def merged(held: Pause, other: Pause) -> Pause:
    """One pause from two of the same account: a person counts for more than a reset, a later reset for more than an
    earlier one. It stays the pause that it was."""
    if held.kind == "person" or other.kind == "busy":
        return held
    if other.kind == "person":
        return held.model_copy(update={"kind": "person", "reason": other.reason, "until": None})
    later = max((moment for moment in (held.until, other.until) if moment is not None), default=None)
    return held.model_copy(update={"until": later})
