"""Taking a shell command line apart into its single commands, for permission rules.

The rule is to be certain or to say so: what this reader does not fully understand raises `TooComplex`, and the
caller must then treat the line as not allowed.
"""

import re
import shlex

WRITES_FILE = re.compile(r">(?!&(?:\d+|-)(?:\s|$)|\s*/dev/null(?:\s|$))")
"""A redirection into a file, in the text of one simple command (a quoted `>` counts too, to be on the safe side)."""

_SEPARATORS = re.compile(r"&&|\|\||\|&|;;|[;|\n()]|(?<![<>])&(?!>)")
_NOT_UNDERSTOOD = re.compile(r"<<|[<>]\(|\$['\"]|[^\S \t\n]")
"""Also white space that separates words for Python but not for a shell."""
_RESERVED = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "for", "in", "case", "esac", "fi", "done", "!", "{", "}")
)
_WRAPPERS = frozenset(
    ["command", "exec", "nohup", "nice", "time", "timeout", "stdbuf", "env", "sudo", "xargs", "builtin", "setsid"]
)
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "eval"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRAPPER_ARGUMENT = re.compile(r"-.*|\d+(\.\d+)?[smhd]?")


class TooComplex(ValueError):  # noqa: N818 - says what the line is
    """The command line cannot be taken apart with certainty."""


def simple_commands(line: str) -> list[str]:
    """All single commands of a line, those inside `$(…)` and backticks included. Raises `TooComplex`."""
    commands: list[str] = []
    _split(line, commands)
    return [command for command in (part.strip() for part in commands) if command]


def rough_commands(line: str) -> list[str]:
    """Single commands of a line that is too complex: split wherever one might begin, quoted or not."""
    return [part.strip() for part in re.split(r"[;&|\n(){}`]", line) if part.strip()]


def words(line: str) -> list[str]:
    """The words of a line as a shell would hand them on, as far as can be told; also what follows a `=`."""
    try:
        found = shlex.split(line, comments=False)
    except ValueError:
        found = line.split()
    pieces = [piece for word in found for piece in re.split(r"[\s;&|<>()=]+", word) if piece]
    return list(dict.fromkeys([*found, *pieces]))


def spellings(command: str, depth: int = 3) -> list[str]:
    """The ways one command may also be written: without quotes, assignments, wrappers, folder of the program.

    Commands handed to a shell (`sh -c '…'`) come with their own spellings, `depth` levels deep.
    """
    found = [command]
    try:
        parts = shlex.split(command)
    except ValueError:
        return found
    found.append(" ".join(parts))
    parts = _without_prefix(parts)
    if parts:
        program = parts[0].rsplit("/", 1)[-1]
        found += [" ".join(parts), " ".join([program, *parts[1:]])]
        if program in _SHELLS and depth:
            for script in parts[1:]:
                for inner in rough_commands(script):
                    found += spellings(inner, depth - 1)
    return list(dict.fromkeys(found))


def _without_prefix(parts: list[str]) -> list[str]:
    position = 0
    wrapped = False
    while position < len(parts):
        part = parts[position]
        program = part.rsplit("/", 1)[-1]
        if program in _WRAPPERS:
            wrapped = True
        elif not (program in _RESERVED or _ASSIGNMENT.match(part) or (wrapped and _WRAPPER_ARGUMENT.fullmatch(part))):
            break
        position += 1
    return parts[position:]


def _split(line: str, commands: list[str]) -> None:
    if _NOT_UNDERSTOOD.search(line):
        raise TooComplex("here-documents, process substitution, $'…' and odd white space are not taken apart")
    position = start = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
        elif character == "'":
            position = _closing(line, position, "'")
        elif character == '"':
            position = _double_quoted(line, position, commands)
        elif character == "`" or line.startswith("$(", position):
            position = _substitution(line, position, commands)
        elif line.startswith("${", position):
            position = _closing(line, position, "}")
        elif character == "#" and (position == start or line[position - 1].isspace()):
            raise TooComplex("comments are not taken apart")
        elif separator := _SEPARATORS.match(line, position):
            commands.append(line[start:position])
            position = start = separator.end()
        else:
            position += 1
    commands.append(line[start:])


def _closing(line: str, position: int, mark: str) -> int:
    end = line.find(mark, position + 1)
    if end < 0:
        raise TooComplex(f"{mark} is missing")
    if mark == "}" and re.search(r"[`'\"\\(]", line[position:end]):
        raise TooComplex("an expansion inside an expansion")
    return end + 1


def _double_quoted(line: str, position: int, commands: list[str]) -> int:
    position += 1
    while position < len(line):
        if line[position] == '"':
            return position + 1
        if line[position] == "\\":
            position += 2
        elif line[position] == "`" or line.startswith("$(", position):
            position = _substitution(line, position, commands)
        else:
            position += 1
    raise TooComplex('" is missing')


def _substitution(line: str, position: int, commands: list[str]) -> int:
    """Read one `$(…)` or backtick substitution, add its commands, and return where it ends."""
    if line[position] == "`":
        end = line.find("`", position + 1)
        inner = line[position + 1 : end]
        if end < 0 or "\\" in inner:
            raise TooComplex("` is missing or nested")
        _split(inner, commands)
        return end + 1
    depth = 0
    for end in range(position + 1, len(line)):
        if line[end] in "'\"\\":
            raise TooComplex("quotes inside $(…)")
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            _split(line[position + 2 : end], commands)
            return end + 1
    raise TooComplex(") is missing")
