"""What a host must offer: what the worker relies on and `orchestrate doctor` looks at."""

OLDEST_GIT = (2, 38)
"""The first with `git merge-tree --write-tree`."""
ISOLATION = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
"""What bubblewrap starts every command with. Where `bwrap *ISOLATION true` fails, no command can be sandboxed."""
