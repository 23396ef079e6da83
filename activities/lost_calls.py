"""What model calls cost whose response never arrived whole: counted by estimate, once for each attempt of a turn.

A call that broke or was cancelled tells its own input and so much of its output as arrived. Of one whose process was
killed a note in the lock's own file is left, made when the request went out (a kill loses nothing that is written, so
nobody waits for the disk), and what the last heartbeat said of its output, if there was one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from temporalio import activity

from activities.call_telemetry import model_killed
from activities.locking import Note
from activities.model import ModelRequest
from activities.pulse import MODEL
from activities.store import Store
from activities.trace import TurnTrace
from baton.conversation import Turn
from baton.models import Stored
from baton.pricing import Price, Usage, priced


class Asked(Stored):
    """The note of a call that went out: its key, and the attempt that made it, of which activity."""

    key: str
    attempt: int
    activity: str = ""


@dataclass(frozen=True)
class LostCalls:
    """The lost calls of one turn, or of one short call. `lock`: the descriptor of the lock that is held for it.
    `attempt`: the one that runs now. `before`: what the workflow was told already. `doing`: what the heartbeat says
    while the model answers. `turn`: where those of a turn are listed (`place_of_turn`), whichever activity lost them;
    empty for a short call. `number`: the turn's, which the heartbeat says too; 0 for a short call. `activity`: in
    which a turn is taken."""

    store: Store
    key: str
    lock: int
    attempt: int
    before: Usage = field(default_factory=Usage)
    doing: str = MODEL
    turn: str = ""
    number: int = 0
    activity: str = ""

    def watching(self, progress: Callable[[int], None]) -> Callable[[int], None]:
        """The same progress; its first word, that the request goes out, is noted for whoever comes after a kill."""
        noted = False

        def told(tokens: int) -> None:
            nonlocal noted
            if not noted:
                noted = True
                asked = Asked(key=self.key, attempt=self.attempt, activity=self.activity)
                self._asked.write(asked.model_dump_json().encode())
            progress(tokens)

        return told

    def broke(self, spent: Usage | None) -> None:
        """This attempt's call broke, or was cancelled; None where no answer had begun, which costs nothing."""
        if spent is not None:
            self._enter(self.activity, self.attempt, spent)
        self._asked.write(b"")

    def was_killed(
        self, request: ModelRequest, before: Turn | None, prices: Mapping[str, Price] | None, trace: TurnTrace
    ) -> None:
        """Count and tell the call of an earlier attempt that a kill ended, if there was one.

        `request` is what it asked as well; `before`: the turn before, whose input and output it sent again.
        """
        asked = _asked(self._asked, self.activity, self.attempt)
        if asked is None or asked.key != self.key or self._known(asked.activity, asked.attempt) is not None:
            return
        answered = self._answered(asked.attempt) if asked.activity == self.activity else 0
        spent = _sent(request, before) + Usage(output_tokens=answered, model_calls=1)
        spent = priced(request.model, spent, prices)
        self._enter(asked.activity, asked.attempt, spent)
        model_killed(request.model, spent)
        trace.model_killed(request.model, spent, asked.attempt)

    def total(self) -> Usage:
        """All of them so far, this attempt's included where it broke."""
        return self.before + (self._of_turn() if self.turn else self._through(self.attempt))

    def _answered(self, attempt: int) -> int:
        """How many tokens had come, as far as that attempt lived to tell."""
        for told in activity.info().heartbeat_details:
            if isinstance(told, dict) and (told.get("doing"), told.get("attempt")) == (self.doing, attempt):
                tokens, number = told.get("tokens"), told.get("turn")
                return tokens if isinstance(tokens, int) and self.number in {0, number} else 0
        return 0

    @property
    def _asked(self) -> Note:
        return _note(self.lock)

    def _of_turn(self) -> Usage:
        # Those of other times that it was asked for have been told.
        return _sum(self.store, (n for n in _listed(self.store, self.turn) if n.startswith(f"{self.key}/lost-")))

    def _through(self, last: int) -> Usage:
        return _sum(self.store, (self._name("", number) for number in range(1, last + 1)))

    def _known(self, activity: str, attempt: int) -> bytes | None:
        return self.store.entry(self._name(activity, attempt))

    def _enter(self, activity: str, attempt: int, spent: Usage) -> None:
        name = self._name(activity, attempt)
        self.store.enter(name, spent.model_dump_json().encode())
        if self.turn:
            _list(self.store, self.turn, name)

    def _name(self, activity: str, attempt: int) -> str:
        return f"{self.key}/lost-{activity}-{attempt}" if activity else f"{self.key}/lost-{attempt}"


def place_of_turn(run_id: str | None, turn: int) -> str:
    """Where the lost calls of a turn are listed, however often it was asked for. Not by its head: where the turn before
    could not be kept, its calls run again, and it may come to another one."""
    return f"{run_id}/{turn}"


def was_asked(lock: int, place: str, activity: str, attempt: int) -> bool:
    """Whether an attempt before this one made the call of the turn of this place, and no other call since."""
    asked = _asked(_note(lock), activity, attempt)
    return asked is not None and asked.key == place


def _asked(note: Note, activity: str, attempt: int) -> Asked | None:
    """The call that an earlier attempt made last, or an earlier activity."""
    data = note.read()
    try:
        asked = Asked.model_validate_json(data) if data else None
    except ValueError:
        return None
    return asked if asked is not None and (asked.activity != activity or asked.attempt < attempt) else None


def _note(lock: int) -> Note:
    # The first note of a workspace's lock is that of a command. The locks of short calls are shared by some of them:
    # another one's note in place of ours costs the estimate of a call that was killed.
    return Note(lock, 1)


def _sent(request: ModelRequest, before: Turn | None) -> Usage:
    """The input of a request: what its conversation had when it was last answered, else by its length."""
    if before is not None:
        last = before.response.usage
        return Usage(cache_read_tokens=last.total_input_tokens + last.output_tokens)
    tokens = request.estimated_tokens
    # One that goes on from somebody's conversation finds it in the provider's cache.
    return Usage(cache_read_tokens=tokens) if len(request.messages) > 1 else Usage(input_tokens=tokens)


def lost_in_turn(store: Store, turn: str) -> Usage:
    """What all lost calls of the turn of this place cost, of every attempt of every time it was asked for."""
    return _sum(store, _listed(store, turn))


def _sum(store: Store, names: Iterable[str]) -> Usage:
    found = (store.entry(name) for name in names)
    return sum((Usage.model_validate_json(usage) for usage in found if usage is not None), Usage())


def _list(store: Store, turn: str, name: str) -> None:
    known = list(_listed(store, turn))
    if name not in known:
        store.enter(_place(turn, len(known)), name.encode())


def _listed(store: Store, turn: str) -> Iterator[str]:
    number = 0
    while (name := store.entry(_place(turn, number))) is not None:
        yield name.decode()
        number += 1


def _place(turn: str, number: int) -> str:
    return f"{turn}/lost/{number}"
