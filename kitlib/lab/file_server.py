"""A server of one folder's files, on 127.0.0.1 alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kitlib.errors import LabError


class _Handler(SimpleHTTPRequestHandler):
    """Knows the types that a browser insists on, whatever the machine's own table says, and logs nothing."""

    extensions_map = {  # noqa: RUF012 - the library's own name for it
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".zip": "application/zip",
    }

    def log_message(self, *_: Any) -> None:
        pass


def make(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server that is not started yet; `server_port` is its port. LabError when the port is taken."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(folder)))
    except OSError as error:
        raise LabError(f"port {port} cannot be used ({error.strerror}). Choose another one with --port, or leave it out.") from error
    server.daemon_threads = True
    return server


def serve(folder: Path, port: int, told: Callable[[str], None]) -> None:
    """Serve the folder until Ctrl-C; `told` gets the address. LabError when the port is taken."""
    with make(folder, port) as server:
        told(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()
