"""The program that makes token ids of prompts and outputs; `run_tokenizing.py` starts it.

Its standard input has a line with the settings and a line for each output (JSON). It prints a line
for each output, in the same order: the token ids of the output and of its prompt, made with the
files of the target's tokenizer. It is a separate process, because those files can come from anybody
(`process_limits.py`).

Exit codes: 0 each output has its ids, 2 the input is wrong. A signal ends it at the time limit.

A chat template is rendered in Jinja's sandbox, with the settings and names that transformers gives
to templates (transformers, `utils/chat_template_utils.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from draftworth.errors import DraftworthError, UserInputError
from draftworth.estimate.process_limits import NEXT, limited
from draftworth.records.checkpoints import TOKENIZER_FILE, TOKENIZER_LIMIT_BYTES
from draftworth.records.codec import RecordError, dump_json, load_object, load_record
from draftworth.records.readings import Output, TokenizingSettings, TokenLimits
from draftworth.untrusted import TooLargeError, one_line, read_file

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TEMPLATE_FILE = "chat_template.jinja"
_CONFIG_FILE = "tokenizer_config.json"
_TEMPLATE = "chat_template"
_SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


def main(data: bytes) -> int:
    """Print the token ids of the outputs in `data`, and return the exit code."""
    try:
        _print_ids(data)
    except DraftworthError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


def _print_ids(data: bytes) -> None:
    first, _, lines = data.partition(b"\n")
    settings = load_record(TokenizingSettings, first)
    outputs = [load_record(Output, line) for line in lines.splitlines()]
    tokenizer, limits = FolderTokenizer(Path(settings.target)), settings.limits
    left = limits.tokens_in_all
    with limited(tokenizer.folder, limits):
        for output in outputs:
            prompt = tokenizer.prompt_ids(output, enable_thinking=settings.enable_thinking)
            ids = {"prompt_ids": prompt, "output_ids": tokenizer.output_ids(output)}
            left -= sum(map(len, ids.values()))
            if left < 0 or max(map(len, ids.values())) > limits.tokens:
                raise _too_many(tokenizer.folder, limits)
            sys.stdout.buffer.write(dump_json(ids))


def _too_many(folder: Path, limits: TokenLimits) -> UserInputError:
    return UserInputError(
        f"{folder}: its tokenizer or chat template makes more tokens than allowed: {limits}; {NEXT}"
    )


@dataclass(frozen=True)
class FolderTokenizer:
    """The tokenizer and chat template in a model's folder.

    Its methods raise UserInputError if a file cannot be read or the template refuses a prompt.
    """

    folder: Path

    def output_ids(self, output: Output) -> Sequence[int]:
        if output.token_ids is not None:
            return output.token_ids
        ids: list[int] = self._tokenizer.encode(output.text, add_special_tokens=False).ids
        return ids

    def prompt_ids(self, output: Output, *, enable_thinking: bool) -> Sequence[int]:
        """Return the token ids of an output's prompt, as the target's server makes them."""
        content, is_chat = output.asked, "messages" in output.asked
        text = (
            self._rendered(content, enable_thinking=enable_thinking)
            if is_chat
            else content["prompt"]
        )
        # A chat template writes the special tokens itself.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=not is_chat).ids
        return ids

    def _rendered(self, content: Mapping[str, Any], *, enable_thinking: bool) -> str:
        template, special_tokens = self._template, self._special_tokens
        try:
            return template.render(
                messages=list(content["messages"]),
                tools=content.get("tools"),
                documents=None,
                add_generation_prompt=True,
                enable_thinking=enable_thinking,
                **special_tokens,
            )
        except MemoryError:
            raise
        except Exception as error:  # a template is somebody's program, and may raise any error
            reason = one_line(str(error), characters=200)
            raise UserInputError(
                f"{self.folder}: its chat template refuses a prompt: {reason}; next: leave that "
                "kind of prompt out, or give the folder of another version of the model (--target)"
            ) from error

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        # Imported here, because this library is optional (the package's extra `estimate`), and all
        # modules must be importable without it.
        from tokenizers import Tokenizer

        path = self.folder / TOKENIZER_FILE
        try:
            tokenizer = Tokenizer.from_buffer(read_file(path, TOKENIZER_LIMIT_BYTES))
        except Exception as error:  # the library raises plain `Exception`
            raise UserInputError(
                f"{path}: no tokenizer can be read there: {one_line(str(error), characters=200)}; "
                f"allowed: the {TOKENIZER_FILE} of the target; next: give its folder (--target)"
            ) from error
        # A tokenizer's file can ask for truncation and padding, for example for training. A server
        # does neither with a prompt.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _template(self) -> Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _json
        environment.globals |= {
            "raise_exception": _refuse,
            "strftime_now": datetime.now().astimezone().strftime,
        }
        try:
            return environment.from_string(self._template_text())
        except TemplateError as error:
            reason = one_line(str(error), characters=200)
            raise UserInputError(f"{self.folder}: its chat template: {reason}") from error

    def _template_text(self) -> str:
        template = self._template_file()
        if template is None:
            template = self._config.get(_TEMPLATE)
        if isinstance(template, list):  # of several templates, that for chat is named `default`
            named = (t for t in template if isinstance(t, dict) and t.get("name") == "default")
            template = next(named, {}).get("template")
        if not isinstance(template, str):
            raise UserInputError(
                f"{self.folder}: given: no chat template, allowed: {_TEMPLATE_FILE}, or "
                f"{_TEMPLATE} in {_CONFIG_FILE}; next: copy all files of the target's tokenizer"
            )
        return template

    def _template_file(self) -> Any:
        path = self.folder / _TEMPLATE_FILE
        try:
            return read_file(path, TOKENIZER_LIMIT_BYTES).decode()
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TooLargeError) as error:
            raise _unreadable(path, error) from error

    @cached_property
    def _special_tokens(self) -> dict[str, str]:
        entries = {name: self._config.get(name) for name in _SPECIAL_TOKENS}
        texts = {n: t.get("content") if isinstance(t, dict) else t for n, t in entries.items()}
        return {name: text for name, text in texts.items() if text is not None}

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        path = self.folder / _CONFIG_FILE
        try:
            return load_object(read_file(path, TOKENIZER_LIMIT_BYTES))
        except (OSError, RecordError, TooLargeError) as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserInputError:
    return UserInputError(f"{path}: cannot be read: {one_line(str(error), characters=200)}; {NEXT}")


def _json(value: object, **options: Any) -> str:
    # Unlike Jinja's own filter `tojson`, it does not escape <, >, & and ' for HTML.
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.stdin.buffer.read()))
    except KeyboardInterrupt:
        sys.exit(1)  # no message: the process that started this one reports the interruption
