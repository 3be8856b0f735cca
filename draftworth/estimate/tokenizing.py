"""Makes token ids of prompts and outputs from the files of the target's tokenizer, without torch.

A chat template is rendered in Jinja's sandbox, with the settings and names that transformers gives
to templates (transformers, `utils/chat_template_utils.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from draftworth.errors import UserInputError
from draftworth.records.readings import Output
from draftworth.untrusted import one_line

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE = "tokenizer.json"
_TEMPLATE_FILE = "chat_template.jinja"
_CONFIG_FILE = "tokenizer_config.json"
_TEMPLATE = "chat_template"
_SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True)
class TargetTokenizer:
    """The tokenizer and chat template in a model's folder; UserInputError: they cannot be read."""

    folder: Path

    def output_ids(self, output: Output) -> Sequence[int]:
        if output.token_ids is not None:
            return output.token_ids
        ids: list[int] = self._tokenizer.encode(output.text, add_special_tokens=False).ids
        return ids

    def prompt_ids(self, output: Output, *, enable_thinking: bool) -> Sequence[int]:
        """Return the token ids of an output's prompt, as the target's server saw them."""
        asked, is_chat = output.asked, "messages" in output.asked
        text = (
            self._rendered(asked, enable_thinking=enable_thinking) if is_chat else asked["prompt"]
        )
        # A chat template writes the special tokens itself.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=not is_chat).ids
        return ids

    def _rendered(self, asked: Mapping[str, Any], *, enable_thinking: bool) -> str:
        template, special_tokens = self._template, self._special_tokens
        try:
            return template.render(
                messages=list(asked["messages"]),
                tools=asked.get("tools"),
                documents=None,
                add_generation_prompt=True,
                enable_thinking=enable_thinking,
                **special_tokens,
            )
        except Exception as error:  # a template is a program of others, and may raise anything
            raise UserInputError(
                f"{self.folder}: its chat template refuses a prompt: {one_line(str(error))}"
            ) from error

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        # Imported here, because not everybody who reads readings has installed it.
        from tokenizers import Tokenizer

        path = self.folder / TOKENIZER_FILE
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises Exception itself
            raise UserInputError(
                f"{path}: no tokenizer can be read there: {one_line(str(error), characters=200)}; "
                f"allowed: the {TOKENIZER_FILE} of the target; next: give its folder (--target)"
            ) from error

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
            raise UserInputError(f"{self.folder}: its chat template: {error}") from error

    def _template_text(self) -> str:
        own = self.folder / _TEMPLATE_FILE
        try:
            given = own.read_text(encoding="utf-8") if own.is_file() else None
        except (OSError, ValueError) as error:
            raise UserInputError(f"{own}: cannot be read: {error}") from error
        found = self._config.get(_TEMPLATE) if given is None else given
        if isinstance(found, list):  # several templates: the one for chat has this name
            named = (t for t in found if isinstance(t, dict) and t.get("name") == "default")
            found = next(named, {}).get("template")
        if not isinstance(found, str):
            raise UserInputError(
                f"{self.folder}: given: no chat template, allowed: {_TEMPLATE_FILE}, or "
                f"{_TEMPLATE} in {_CONFIG_FILE}; next: copy all files of the target's tokenizer"
            )
        return found

    @cached_property
    def _special_tokens(self) -> dict[str, str]:
        given = {name: self._config.get(name) for name in _SPECIAL_TOKENS}
        texts = {n: t.get("content") if isinstance(t, dict) else t for n, t in given.items()}
        return {name: text for name, text in texts.items() if text is not None}

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        path = self.folder / _CONFIG_FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserInputError(f"{path}: cannot be read: {error}") from error
        return found if isinstance(found, dict) else {}


def _json(value: object, **options: Any) -> str:
    # Unlike Jinja's own filter, it does not replace characters that HTML uses.
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
