"""Starts the program `teacher_forcing.py` in the engine's interpreter, and reads its results."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError, UserInputError, exit_words
from draftworth.estimate.process_limits import TOO_LATE, too_late
from draftworth.estimate.run_program import run_module
from draftworth.records.codec import RecordError, load_record
from draftworth.records.readings import Output, PassSettings, Reading, TokenLimits

_PROGRAM = "draftworth.estimate.teacher_forcing"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Runs a model's forward pass over outputs, and returns its results: the readings.

    python: the interpreter with torch and transformers, which runs the model.
    target: the folder with the target's tokenizer.
    folder: where readings are kept, so that an interrupted pass can continue.
    enable_thinking: a variable of the chat template.
    precision: type of the model's weights, as PyTorch calls it; "auto": that of the checkpoint.
    """

    python: Path
    target: Path
    folder: Path
    enable_thinking: bool
    precision: str = "auto"

    def readings(
        self,
        model: Path,
        outputs: Sequence[Output],
        *,
        temperature: float = 1.0,
        fixed_length: bool = False,
    ) -> list[Reading]:
        """Return a model's readings of the outputs; readings of earlier calls are reused.

        A reading says how likely the output's tokens are under the model, and which of them the
        model would have chosen.

        model: its folder. temperature: divides the model's logits.
        fixed_length: all outputs have a fixed length, so the server drew no token that ends one.
        UserInputError: the model cannot read the outputs. DraftworthError: the pass failed.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass  # only a test that the folder can be written, before a model is loaded
        except OSError as error:
            raise UserInputError(
                f"--out: {self.folder}: cannot be written: {error.strerror}; give another folder"
            ) from error
        settings = PassSettings(
            model=str(model.resolve()),
            target=str(self.target.resolve()),
            folder=str(self.folder.resolve()),
            precision=self.precision,
            temperature=temperature,
            enable_thinking=self.enable_thinking,
            fixed_length=fixed_length,
        )
        path = self._run(model, (settings, *outputs))
        try:
            lines = path.read_bytes().splitlines(keepends=True)[1:]
            return [load_record(Reading, line) for line in lines]
        except (OSError, RecordError) as error:
            raise DraftworthError(f"{path}: cannot be read back: {error}") from error

    def _run(self, model: Path, records: Iterable[Any]) -> Path:
        done = run_module(
            _PROGRAM,
            records,
            python=self.python,
            variables={"HF_HUB_OFFLINE": "1"},
            folder=self.folder,
        )
        if done.returncode == UserInputError.exit_code:
            raise UserInputError(f"{model}: cannot read these outputs: see the line above")
        if done.returncode == TOO_LATE:
            raise too_late(self.target, TokenLimits())
        if done.returncode:
            raise DraftworthError(
                f"{model}: the pass {exit_words(done.returncode)}; its readings so far are "
                f"kept in {self.folder}; next: run the command again"
            )
        return Path(os.fsdecode(done.stdout.splitlines()[-1]))
