"""Starts the program `tokenizing.py`, which makes token ids of outputs and their prompts."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError, counted, exit_words
from draftworth.estimate.process_limits import NEXT, TOO_LATE, too_late
from draftworth.estimate.run_program import run_module
from draftworth.records.codec import RecordError, load_record
from draftworth.records.readings import Output, TokenIds, TokenizingSettings, TokenLimits
from draftworth.untrusted import one_line

_PROGRAM = "draftworth.estimate.tokenizing"


@dataclass(frozen=True)
class TargetTokenizer:
    """The tokenizer and chat template in a model's folder, which only a separate process reads."""

    folder: Path
    limits: TokenLimits = field(default_factory=TokenLimits)

    def token_ids(self, outputs: Sequence[Output], *, enable_thinking: bool) -> list[TokenIds]:
        """Return the token ids of outputs and their prompts, as the target's server makes them.

        enable_thinking: a variable of the chat template. UserInputError: files are missing or
        wrong. DraftworthError: the process that makes the ids failed or reached a limit.
        ModuleNotFoundError: the library `tokenizers` is not installed.
        """
        # The library is optional (the package's extra `estimate`), and only the separate process
        # uses it. It is imported here so that ModuleNotFoundError is raised in this process: the
        # separate process could report the error only by an exit code.
        importlib.import_module("tokenizers")
        settings = TokenizingSettings(
            target=str(self.folder), enable_thinking=enable_thinking, limits=self.limits
        )
        done = run_module(
            _PROGRAM,
            (settings, *outputs),
            python=Path(sys.executable),
            variables={"TOKENIZERS_PARALLELISM": "false"},
            keeps_errors=True,
        )
        if done.returncode:
            raise self._error(done.returncode, done.stderr)
        try:
            ids = [load_record(TokenIds, line) for line in done.stdout.splitlines()]
        except RecordError as error:
            raise DraftworthError(f"{self.folder}: no token ids: {error}; {NEXT}") from error
        if len(ids) != len(outputs):
            raise DraftworthError(
                f"{self.folder}: given token ids of {counted(len(ids), 'output')}, allowed: of "
                f"{len(outputs)}; {NEXT}"
            )
        return ids

    def _error(self, code: int, errors: bytes) -> DraftworthError:
        words = errors.decode(errors="replace").strip()
        if code == UserInputError.exit_code:
            return UserInputError(words.rpartition("\n")[2])
        if code == TOO_LATE:
            return too_late(self.folder, self.limits)
        return DraftworthError(
            f"{self.folder}: the process that reads its tokenizer and chat template "
            f"{exit_words(code)}: {one_line(words, characters=200) or 'no words'}; allowed: "
            f"{self.limits}; {NEXT}"
        )
