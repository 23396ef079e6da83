"""The report as one HTML page: nothing is loaded from anywhere, nothing in it runs.

A report quotes models and files, so raw HTML in it stays text, and the page forbids scripts and requests to itself.
"""

import html
import os
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1, h2 {{ line-height: 1.2; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border: 1px solid #8886; padding: .25rem .6rem; text-align: left; vertical-align: top; }}
code {{ font-size: .9em; background: #8882; padding: .1em .3em; border-radius: .2em; overflow-wrap: anywhere; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(markdown: str) -> str:
    """The page of a report."""
    body = MarkdownIt("commonmark", {"html": False}).disable("image").enable("table").render(markdown)
    title = html.escape(markdown.partition("\n")[0].lstrip("# ").strip() or "Report")
    return _PAGE.format(title=title, body=body)


def write_page(report: Path) -> Path:
    """Write the page beside its report, in a temporary folder where that cannot be written; where it is."""
    text = page(report.read_text(encoding="utf-8"))
    target = report.with_suffix(".html")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError:
        target = Path(tempfile.mkdtemp(prefix="baton-report-")) / target.name
        target.write_text(text, encoding="utf-8")
    return target
