"""What an engine is made with."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any


@dataclass
class AsyncEngineArgs:
    model: str
    max_num_seqs: int
    speculative_config: dict[str, Any]

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> AsyncEngineArgs:
        return cls(args.model, args.max_num_seqs, args.speculative_config)
