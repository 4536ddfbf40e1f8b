"""Pages of all notebooks: for reading without a lab, and for seeing at a glance that all of them run.

A page is one file that needs no network: the scripts that nbconvert would load from elsewhere are
left out, and a policy in the page's head forbids all others, because a notebook's output may hold
what a stranger has put into a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
from nbconvert import HTMLExporter

from kitlib.lab import workspace
from kitlib.lab.notebooks import Result

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
PAGE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}<meta http-equiv="Content-Security-Policy" content="POLICY">{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
""".replace("POLICY", POLICY)
INDEX = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<title>Delivery Lab: the notebooks</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #8888; vertical-align: top; }
td.seconds { text-align: right; white-space: nowrap; }
</style>
</head>
<body>
<h1>Delivery Lab: the notebooks</h1>
<p>{{ passed }} of {{ results | length }} notebooks ran to their end.</p>
<table>
<thead><tr><th>Notebook</th><th>Result</th><th>Time</th></tr></thead>
<tbody>
{%- for page, title, result in results %}
<tr><td><a href="{{ page }}">{{ title }}</a></td>
<td>{{ "Failed: " ~ result.problem if result.problem else "Passed" }}</td>
<td class="seconds">{{ "%.1f" | format(result.seconds) }} s</td></tr>
{%- endfor %}
</tbody>
</table>
</body>
</html>
""")


def write_page(result: Result, out: Path) -> Path:
    """Write the page of one notebook, as far as it came, and return its path."""
    exporter = HTMLExporter(raw_template=PAGE)  # type: ignore[no-untyped-call]
    body, _ = exporter.from_notebook_node(result.notebook, resources={"metadata": {"name": result.path.stem}})
    path = out / f"{result.path.stem}.html"
    make_folder(out)
    workspace.write_atomic(path, body)
    return path


def write_index(results: Sequence[Result], out: Path) -> Path:
    """Write the page that says which notebook ran, how long, and what stopped the others; its path."""
    rows = [(f"{result.path.stem}.html", title(result), result) for result in results]
    passed = sum(result.problem is None for result in results)
    path = out / "index.html"
    make_folder(out)
    workspace.write_atomic(path, INDEX.render(policy=POLICY, results=rows, passed=passed))
    return path


def title(result: Result) -> str:
    """The notebook's first heading, or the name of its file."""
    for cell in result.notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return str(cell.source.splitlines()[0].removeprefix("# ").strip())
    return result.path.stem


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise workspace.disk_error(f"{out} could not be made", error, out) from error
