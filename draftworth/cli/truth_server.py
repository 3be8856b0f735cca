"""`draftworth truth-server` runs a server with a known token timeline and a log of what it sent."""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

from draftworth.cli.arguments import positive_int, positive_number, whole_number
from draftworth.errors import UserInputError, counted
from draftworth.truth.server import serve
from draftworth.truth.token_timeline import TRAPS

_TIMELINE = (
    'fields that replace those of the trap, such as {"output_tokens": 8, "chunk_tokens": [1, 4]} '
    "for 1 to 4 tokens per chunk; an answer has these tokens whatever the request's max_tokens"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the token timeline, the log file, and when the server stops by itself."""
    add = parser.add_argument
    words = "; ".join(f"{name}: {trap.mistake}" for name, trap in TRAPS.items())
    add("--trap", choices=TRAPS, default="plain", help=words)
    add("--timeline", default="{}", metavar="JSON", help=_TIMELINE)
    add("--log", required=True, type=Path, metavar="FILE", help="new file, one line per request")
    port = partial(whole_number, at_most=65_535)
    add("--port", type=port, default=0, help="port on 127.0.0.1; 0, the default, takes a free one")
    add(
        "--seconds", type=positive_number, default=3600.0, help="stop after this long (%(default)g)"
    )
    add("--requests", type=positive_int, default=10_000, help="stop after this many (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Print the server's URL; serve until interrupted or after --seconds or --requests."""
    spec = TRAPS[arguments.trap].spec.changed(arguments.timeline)
    if arguments.log.exists() or not arguments.log.parent.is_dir():
        raise UserInputError(
            f"--log: given {arguments.log}, which exists or lies in no folder, allowed: a new file "
            "in a folder that exists; next: give another name"
        )
    try:
        with arguments.log.open("xb") as log:
            requests = asyncio.run(
                serve(spec, log, arguments.port, arguments.seconds, arguments.requests)
            )
    except OSError as error:
        raise UserInputError(
            f"--port: given {arguments.port}, --log: given {arguments.log}: {error.strerror}; "
            "allowed: a free port, and a file that can be written; next: leave --port out"
        ) from error
    print(f"{counted(requests, 'request')}: {arguments.log}", file=sys.stderr)
    return 0
