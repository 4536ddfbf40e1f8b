"""Write build/site: the README, all notebooks, the pages of docs/, the glossary and every command, with search, and the live page.

The pages are laid out in build/pages, and Sphinx makes the site of them.
No notebook is run, and no network is asked. The live page comes along where `make page` has built it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

import kitlib
from kitlib.cli import app, load
from kitlib.exercises.course import number_of
from kitlib.words import DOMAINS

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "pages"
SETTINGS = {
    "project": "Delivery Lab",
    "release": kitlib.__version__,
    "extensions": ["myst_nb"],
    "nb_execution_mode": "off",
    "nb_mime_priority_overrides": [
        ["html", "application/vnd.jupyter.widget-view+json", None]
    ],  # a widget's picture is shown instead
    "myst_heading_anchors": 4,
    "html_theme": "furo",
    "html_title": "Delivery Lab",
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "exclude_patterns": ["notebooks/data"],
    # A notebook's cells are Python that highlights, or a shell's line that does not.
    "suppress_warnings": ["misc.highlighting_failure", "mystnb.unknown_mime_type", "myst.header"],
}


def main(out: Path = BUILD / "site") -> int:
    """Write the site; 0, or what Sphinx ends with when a page or a link is wrong."""
    from sphinx.cmd.build import build_main

    shutil.rmtree(PAGES, ignore_errors=True)
    for page, text in pages():
        (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / page).write_text(text, encoding="utf-8")
    for path in (*ROOT.glob("docs/**/*"), *ROOT.glob("notebooks/*.ipynb")):
        if path.is_file() and path.suffix != ".md":
            (PAGES / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, PAGES / path.relative_to(ROOT))
    settings: dict[str, Any] = dict(SETTINGS)
    if has_live_page():
        shutil.copytree(BUILD / "page", PAGES / "live" / "live")
        settings |= {"html_extra_path": ["live"], "exclude_patterns": [*settings["exclude_patterns"], "live"]}
    (PAGES / "conf.py").write_text(
        "\n".join(f"{name} = {value!r}" for name, value in settings.items()) + "\n", encoding="utf-8"
    )
    code: int = build_main(
        ["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-d", str(BUILD / "doctrees"), str(PAGES), str(out)]
    )
    print(f"site: {out / 'index.html'}" if code == 0 else "site: a page or a link is wrong, see above", file=sys.stderr)
    return code


def pages() -> Iterator[tuple[str, str]]:
    """The pages that are made here, as (path, Markdown): the first page, the commands and the words of all traces."""
    notebooks = [
        f"{number_of(path.stem)} {title_of(path)} <notebooks/{path.stem}>" for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    ]
    documents = [f"docs/{path.stem}" for path in sorted(ROOT.glob("docs/*.md"))]
    samples = [f"docs/samples/{path.stem}" for path in sorted(ROOT.glob("docs/samples/*.ipynb"))]
    live = (
        '<p><a href="live/index.html">All experiments in the browser, without a server</a></p>\n\n'
        if has_live_page()
        else ""
    )
    tables = "".join(
        toctree(caption, entries)
        for caption, entries in (
            ("Notebooks", ["notebooks/README", *notebooks]),
            ("Reference", ["kitlib/mechanisms/README", *documents, *samples, "words", "cli/index"]),
            ("For developers", ["CONTRIBUTING", "CHANGELOG"]),
        )
    )
    yield "index.md", read("README.md").replace("## Start", f"{live}## Start", 1) + tables
    named = ("CONTRIBUTING.md", "CHANGELOG.md", "notebooks/README.md", "kitlib/mechanisms/README.md")
    for name in (*named, *(f"{document}.md" for document in documents)):
        yield name, read(name)
    yield "words.md", words()
    load([])
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        yield f"cli/{name}.md", command_page(f"kit {name}", command)
    yield "cli/index.md", "# Every command\n" + toctree("", sorted(group.commands))


def title_of(notebook: Path) -> str:
    """A notebook's first heading, without its number."""
    heading = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"]).splitlines()[0]
    return re.sub(r"^# (\d\d · )?", "", heading).replace("`", "")


def has_live_page() -> bool:
    """Whether `kit page` has built the page in which the experiments run."""
    return (BUILD / "page" / "index.html").is_file()


def read(name: str) -> str:
    """A page of the project. What it links to and is no page, such as a module, stays as words."""

    def is_page(target: str) -> bool:
        path = (ROOT / name).parent / target
        return bool(re.match(r"https?:|#", target)) or (path.is_file() and path.suffix in (".md", ".ipynb"))

    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(
        r"(?<!!)\[([^]\n]+)\]\(([^)#\s]*)(#[^)\s]*)?\)",
        lambda link: link[0] if is_page(link[2] or "#") else link[1],
        text,
    )
    return re.sub(r"(?<!notebooks/)(?<!mechanisms/)README\.md(?=[)#])", "index.md", text)


def toctree(caption: str, entries: list[str]) -> str:
    """A table of contents; one with a caption stands at the side of every page."""
    options = [":hidden:", f":caption: {caption}"] if caption else [":maxdepth: 1"]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def command_page(called: str, command: Any) -> str:
    """What `--help` says of a command, as a page."""
    rows = [
        (", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)) if parameter.param_type_name == "option"
         else f"`{parameter.name.upper()}`", getattr(parameter, "help", "") or "")
        for parameter in command.params
    ]  # fmt: skip
    table = "\n".join(f"| {name} | {cell(told)} |" for name, told in rows)
    subs = [
        command_page(f"{called} {name}", sub).replace("\n# ", "\n## ")
        for name, sub in getattr(command, "commands", {}).items()
    ]
    told = re.sub(r"[ \t]+", " ", command.help or "").replace("\b", "")
    return "\n".join([f"\n# {called}\n", told, "", *(["| | |", "| --- | --- |", table] if rows else []), *subs, ""])


def words() -> str:
    """The verbs in which the traces of each domain are told."""
    parts = [
        "# The words of a trace\n\nA step of a trace says in one verb what happened. Each domain has its verbs, with their fields.\n"
    ]
    for name, domain in DOMAINS.items():
        parts.append(f"\n## {name}\n\n| verb | fields that each step has | its sentence |\n| --- | --- | --- |\n")
        for verb, word in domain.words.items():
            fields = " ".join(f"`{each}`" for each in word.needs.split())
            parts.append(f"| `{verb}` | {fields} | {cell(word.says) if isinstance(word.says, str) else ''} |\n")
    return "".join(parts)


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
