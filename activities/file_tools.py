"""`read`, `write`, `append` and `edit` on located paths of one workspace. All of it blocks: call it in a thread.

A file keeps its encoding, its line ends, its byte order mark and its mode, whatever the model sends. Nothing here
decides whether the call is permitted.
"""

from collections.abc import Callable
from typing import NamedTuple

from activities.confinement import Workspace
from activities.text_files import Text, count_lines, cut_middle, decode, in_style_of, line_range, only_crlf, replace
from activities.tool_result import CallRefused, ToolResult
from baton.redaction import is_secret_file, masked_file
from baton.tool_inputs import Append, Edit, Read, Write

_SHOWN_ELSEWHERE = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
_LATIN_NOTE = "[not UTF-8: shown as Latin-1, and edit keeps its bytes]"
_MASKED_NOTE = "[values are masked; names can be used, secrets cannot be read]"


NewText = Callable[[str, str], None]
"""Told the text before and the text that will be written, before it is; raises what keeps it from being written."""


class _Before(NamedTuple):
    """A file as it was; `file` is None when there is none."""

    file: Text | None

    @property
    def text(self) -> str:
        return self.file.text if self.file else ""


def read(workspace: Workspace, path: str, call: Read) -> ToolResult:
    """The text of a file or of a range of its lines. Raises `CallRefused`."""
    if path.lower().endswith(_SHOWN_ELSEWHERE):
        raise CallRefused(f"{path}: images and PDF files cannot be shown. Go by its name, or by text files about it.")
    file = _text_of(workspace, path)
    text = masked_file(file.text) if is_secret_file(path) else file.text
    first = 1
    if call.view_range is not None:
        first = max(1, call.view_range[0])
        text = line_range(text, first, call.view_range[1])
    cut = cut_middle(text, hint="lines {first} to {last}: use view_range [{first}, {last}] or less", first_line=first)
    notes = [_LATIN_NOTE] * (file.encoding != "utf-8") + [_MASKED_NOTE] * is_secret_file(path)
    return ToolResult(
        content="\n".join([cut.text, *notes]),
        read_paths=(path,),
        left_out_bytes=cut.left_out_bytes,
        whole=text if cut.left_out_bytes else None,
    )


def write(workspace: Workspace, path: str, call: Write, look: NewText) -> ToolResult:
    """Create a file or replace all of it. Raises `CallRefused`."""
    before = _before(workspace, path)
    text = in_style_of(before.text, call.content)
    # A whole new content ends the old encoding: nothing of the old bytes stays.
    if not _put(workspace, path, before, text, encoding=Text(""), look=look):
        return ToolResult(content=f"{path} already has exactly this content; nothing was changed.")
    what = "created" if before.file is None else "wrote"
    kept = " with CRLF line ends, as before" if only_crlf(text) and "\r" not in call.content else ""
    kept += "; it was not UTF-8 and is now" if before.file and before.file.encoding != "utf-8" else ""
    message = f"{what} {path}: {len(text.encode())} bytes, {count_lines(text)} lines{kept}"
    return ToolResult(content=message, changed_paths=(path,))


def append(workspace: Workspace, path: str, call: Append, look: NewText) -> ToolResult:
    """Add to a file that has exactly `at_line` lines; `at_line` 0 or 1 creates a missing one. Raises `CallRefused`."""
    before = _before(workspace, path)
    lines = count_lines(before.text)
    if call.at_line != lines and not (lines == 0 and call.at_line == 1):
        have = f"it has {lines} lines" if before.file else "there is no such file"
        raise CallRefused(
            f"{path}: nothing was added, because {have} and at_line is {call.at_line}. "
            f"See what is there already with read, then append what is missing with at_line {lines}."
        )
    crlf = only_crlf(before.text)
    added = call.content.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else call.content
    gap = ("\r\n" if crlf else "\n") if before.text and not before.text.endswith("\n") else ""
    text = f"{before.text}{gap}{added}"
    _put(workspace, path, before, text, encoding=before.file or Text(""), look=look)
    message = f"appended {count_lines(added)} lines to {path}, which has {count_lines(text)} lines now"
    return ToolResult(content=message, changed_paths=(path,))


def edit(workspace: Workspace, path: str, call: Edit, look: NewText) -> ToolResult:
    """Replace text in a file. Raises `CallRefused`."""
    file = _text_of(workspace, path)
    try:
        edited = replace(file.text, call.old_string, call.new_string, replace_all=bool(call.replace_all))
    except CallRefused as refused:
        # What is near to the text that was looked for may be a secret.
        hidden = "The text was not found, or not once. The lines of this file are not shown."
        raise CallRefused(f"{path}: {hidden if is_secret_file(path) else refused}") from refused
    _put(workspace, path, _Before(file), edited.text, encoding=file, look=look)
    lines = ", ".join(map(str, edited.at_lines)) + (", …" if edited.times > len(edited.at_lines) else "")
    message = f"edited {path}: {edited.times} replacement{'s' * (edited.times != 1)}, at line {lines}"
    return ToolResult(content=message, changed_paths=(path,), read_paths=(path,))


def _text_of(workspace: Workspace, path: str) -> Text:
    data = workspace.read(path)
    file = decode(data)
    if file is None:
        raise CallRefused(f"{path}: it is a binary file of {len(data)} bytes and has no text to show or change.")
    return file


def _before(workspace: Workspace, path: str) -> _Before:
    if path == "." or workspace.is_folder(path):
        raise CallRefused(f"{path}: it is a folder; name a file in it.")
    return _Before(_text_of(workspace, path) if workspace.exists(path) else None)


def _put(workspace: Workspace, path: str, before: _Before, text: str, *, encoding: Text, look: NewText) -> bool:
    """Write the file if that changes a byte of it."""
    data = encoding.encoded(text)
    if before.file is not None and before.file.encoded(before.text) == data:
        return False
    look(before.text, text)
    workspace.write(path, data)
    return True
