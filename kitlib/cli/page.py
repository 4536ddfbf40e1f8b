"""`kit page`: all experiments as a site of plain files, with Python in the browser."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError, LabError


@app.command()
def page(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to build it; a site that the kit has made there is replaced.")
    ] = Path("build/page"),
    serve: Annotated[bool, typer.Option("--serve", help="Then serve it on 127.0.0.1, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(help="The port to serve it on; 0 takes a free one.")] = 0,
) -> None:
    """Build a site of all experiments, with knobs that work in the reader's browser alone; it needs no network.

    Any server of files can serve it. Pyodide, which is Python for browsers, is fetched the first time (6 MB).
    """
    if not 0 <= port <= 65535:
        raise KnobError(f"--port {port} is not a port. Choose one from 1 to 65535, or leave it out.")
    from kitlib.views.browser.site import build

    site = build(out, lambda line: typer.echo(f"kit: {line}", err=True))
    size = f"{site.size / 1e6:.1f} MB, of which a browser loads at most {site.sent / 1e6:.1f} MB"
    typer.echo(f"{site.experiments} experiments in {site.folder}: {size}.")
    if serve:
        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), partial(SimpleHTTPRequestHandler, directory=str(site.folder)))
        except OSError as error:
            raise LabError(f"port {port} cannot be used ({error.strerror}). Choose another one with --port, or leave it out.") from error
        with server:
            typer.echo(f"Open http://127.0.0.1:{server.server_port}/ in a browser; Ctrl-C ends it.", err=True)
            server.serve_forever()
