"""The subcommand `serve`."""

from __future__ import annotations

import argparse


class ServeSubcommand:
    @staticmethod
    def cmd(args: argparse.Namespace) -> None:
        raise SystemExit(f"the API server would run: {args}")
