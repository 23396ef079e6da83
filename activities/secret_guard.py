"""What a workspace's agent must not show and must not put into the repository: known secrets, whatever their form.

Known are the credentials of the worker, and the values of `.env`-like files and private keys on disk; what lay there
once stays known. A secret may stand where the base commit has it already: in the same file, or anywhere when it stands
there in a file that is not made for secrets (an example, a fixture). What an agent made up itself is no secret of the
user's: a file that this step added does not bar its own values. Tokens and private keys that tell by their form what
they are need not be known; and the mask that stands for a secret in what a model sees is no content of a file either.
"""

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from activities.disk_secrets import SecretFiles
from activities.programs import capture
from baton.printed_secrets import printed, printed_values
from baton.redaction import MASK, is_key_file, is_secret_file, redacted, tokens_in
from baton.secret_forms import known

TIME_LIMIT = timedelta(seconds=60)
PIECE_BYTES = 4_000_000
OVERLAP_BYTES = 4_000
LISTING_LIMIT_BYTES = 20_000_000
_SAFE_GIT = ("-c", "core.fsmonitor=false", "-c", "submodule.recurse=false", "-c", "core.quotePath=false")


class SecretGuard:
    """Secrets around one workspace, for one turn or one attempt.

    `git` reads the workspace's repository (with an explicit `--git-dir`). `base_commit` is where the step began,
    `commit` the checkpoint that the workspace stands at now. `readable` are folders outside that commands can read;
    `files` looks for secrets in both.
    """

    def __init__(
        self,
        root: Path,
        *,
        git: Sequence[str] = ("git",),
        environment: Mapping[str, str],
        base_commit: str = "HEAD",
        commit: str = "HEAD",
        credentials: Iterable[str] = (),
        readable: Iterable[Path] = (),
        files: SecretFiles | None = None,
    ) -> None:
        self._root = root
        self._git = (*git, *_SAFE_GIT)
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        self._base_commit = base_commit
        self._commit = commit
        self._outside = frozenset(credentials)
        self._readable = tuple(readable)
        self._files = files or SecretFiles()
        self._unread = self._unread_outside = True
        self._at_start: dict[str, frozenset[str]] | None = None
        self._values = self._outside
        self._by_form: frozenset[str] = frozenset()
        self._at_base: dict[str, frozenset[str]] = {}
        self._untracked: frozenset[str] | None = None

    @property
    def values(self) -> frozenset[str]:
        """Every secret that is known by now."""
        return self._values

    def wrote(self, paths: Collection[str]) -> None:
        """These files of the workspace were written, and nothing else: `learn` looks again."""
        self._unread = self._unread or bool(paths)

    def changed(self) -> None:
        """Something may have been written to the disk, or read outside: `learn` looks again at all."""
        self._unread = self._unread_outside = True

    async def learn(self) -> None:
        """Know what lies on disk now, and do not forget what lay there: a command may print a file and remove it."""
        if self._unread:
            await asyncio.to_thread(self._learn)

    def _learn(self) -> None:
        self._unread = False
        if self._unread_outside:
            self._unread_outside = False
            for folder in self._readable:
                self._outside = self._outside.union(*self._files.below(folder).values())
        found = self._files.below(self._root)
        if self._at_start is None:
            self._at_start = {os.path.relpath(path, self._root): values for path, values in found.items()}
        self._values = self._values.union(self._outside, *found.values())

    def clean(self, text: str) -> str:
        """Text that can be sent and stored: valid Unicode, secrets masked."""
        return redacted(text.encode("utf-8", "replace").decode(), self._values)

    async def clean_printed(self, text: str) -> str:
        """What a command printed, `clean`, without values that only their place makes secret.

        Those that stand in the workspace's commit are content: who prints a file is to see it as it is.
        """
        values = await asyncio.to_thread(printed_values, text)
        harmless: set[str] = set()
        if values:
            output = await self._found_at(self._commit, values)
            harmless = {line.partition("\0")[2] for line in output}
        valid = text.encode("utf-8", "replace").decode()
        return await asyncio.to_thread(printed, valid, self._values, harmless)

    def found_in(self, text: str) -> frozenset[str]:
        """The secrets that stand in a file's text: known ones, what surely is one by its form, and the mask of one."""
        return self._named_in(text) | (frozenset([MASK]) if MASK in text else frozenset())

    def _named_in(self, text: str) -> frozenset[str]:
        tokens = tokens_in(text)
        self._by_form |= tokens
        return known(self._values).found_in(text) | tokens

    async def barred(self, path: str, secrets: frozenset[str]) -> frozenset[str]:
        """Which of these secrets must not get into this file of the workspace."""
        if not secrets:
            return secrets
        await self._look_up(secrets)
        return frozenset([secret for secret in secrets if await self._is_barred(path, secret)])

    async def barred_paths(self, paths: Iterable[str]) -> list[str]:
        """Those of these files of the workspace that hold, or are named by, what must not be committed."""
        held = await asyncio.to_thread(self._held_by, paths)
        return [path for path, secrets in held.items() if await self.barred(path, secrets)]

    def _held_by(self, paths: Iterable[str]) -> dict[str, frozenset[str]]:
        if self._unread:
            self._learn()
        return {path: self._secrets_of(path) for path in paths}

    def _secrets_of(self, path: str) -> frozenset[str]:
        place = self._root / path
        found = self._named_in(path)
        if place.is_symlink() or not place.is_file():
            return found
        try:
            with place.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    # Not UTF-8: Latin-1 gives every byte a character, and secrets are nearly always ASCII.
                    found |= self.found_in(piece.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
                    if len(piece) == PIECE_BYTES:
                        file.seek(-OVERLAP_BYTES, os.SEEK_CUR)
        except OSError:
            return found
        return found

    async def _is_barred(self, path: str, secret: str) -> bool:
        where = self._at_base[secret]
        if any(place == path or _holds_secrets(path) or not _holds_secrets(place) for place in where):
            return False
        if where or secret == MASK or secret in self._by_form or secret in self._outside:
            return True
        return secret in await self._of_untracked_files()

    async def _look_up(self, secrets: frozenset[str]) -> None:
        """In which files of the base commit these secrets stand."""
        new = sorted(secret for secret in secrets if secret not in self._at_base and "\n" not in secret)
        self._at_base |= dict.fromkeys(secrets - self._at_base.keys(), frozenset())
        if not new:
            return
        for line in await self._found_at(self._base_commit, new):
            place, _, secret = line.partition("\0")
            if secret in self._at_base:
                self._at_base[secret] |= {place.removeprefix(f"{self._base_commit}:")}

    async def _found_at(self, commit: str, values: Iterable[str]) -> list[str]:
        """Where these values stand at a commit: `commit:path`, a null byte, the value."""
        # On stdin: the arguments of a process can be seen by everybody on the host.
        patterns = "\n".join(values).encode("utf-8", "surrogateescape")
        options = ("grep", "--no-color", "-a", "-z", "-o", "-F", "-f", "-", commit)
        return (await self._output(*options, stdin=patterns)).decode("utf-8", "surrogateescape").split("\n")

    async def _of_untracked_files(self) -> frozenset[str]:
        """The secrets of files that were there at the start and are not the repository's: ignored, or copied in."""
        if self._untracked is None:
            files = self._at_start or {}
            listed = await self._output(
                "--literal-pathspecs", "ls-tree", "-r", "-z", "--name-only", self._commit, "--", *files
            )
            tracked = set(os.fsdecode(listed).split("\0"))
            self._untracked = frozenset().union(*(values for path, values in files.items() if path not in tracked))
        return self._untracked

    async def _output(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        captured = await capture(
            [*self._git, *arguments],
            cwd=self._root,
            environment=self._environment,
            time_limit=TIME_LIMIT,
            stdin=stdin,
            output_limit_bytes=LISTING_LIMIT_BYTES,
        )
        return captured.stdout


def _holds_secrets(path: str) -> bool:
    return is_secret_file(path) or is_key_file(path)


def refusal(path: str, barred: frozenset[str]) -> str:
    """What a model is told that wrote these secrets."""
    if barred == {MASK}:
        return (
            f"{path} was not written: {MASK} stands for a secret in what you are shown, it is not the text itself. "
            "Change only the lines around it (edit), read the value from the environment at run time, or use a "
            "placeholder of another form, such as <token>."
        )
    return (
        f"{path} was not written: it would hold a secret (a credential, a token, a private key, or a value from a "
        ".env-like file), and everything in the repository is published with the result. Read the value from the "
        "environment at run time, and use a placeholder in examples and tests, such as <token>."
    )


def remark(paths: Sequence[str]) -> str:
    """What a model is told whose command wrote secrets into these files."""
    return (
        "A command put a secret of the user's (a credential, a token, a private key, or a value from a .env-like file) "
        f"or {MASK} in place of one into {', '.join(paths)}. Everything in the repository is published with the "
        "result, so these changes were taken back. Read such values from the environment at run time, and use "
        "placeholders in examples and tests."
    )
