"""Makes token ids of outputs and their prompts by the tokenizer of the server that made them.

Whoever measures servers of their own may have no checkpoint of their models on this machine, but
vLLM answers what its tokenizer and its chat template make of a prompt (`server_tokenizer.py`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.measuring.http_client import HttpError
from draftworth.measuring.server_tokenizer import NotTokenizedError, chat_settings, tokenized
from draftworth.records.codec import dump_json
from draftworth.records.readings import Output, TokenIds
from draftworth.untrusted import one_line


@dataclass(kw_only=True)
class ServerTokens:
    """The tokenizer and chat template of a running server.

    base_url: without the trailing `/v1`. model: the name that the server serves.
    """

    base_url: str
    model: str
    api_key: str | None = None
    _answers: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def token_ids(self, outputs: Sequence[Output], *, enable_thinking: bool) -> list[TokenIds]:
        """Return the token ids of outputs and their prompts; each text is asked for once.

        enable_thinking: a variable of the chat template. DraftworthError: the server does not
        answer, or not with token ids.
        """
        return asyncio.run(self._token_ids(outputs, enable_thinking=enable_thinking))

    async def _token_ids(
        self, outputs: Sequence[Output], *, enable_thinking: bool
    ) -> list[TokenIds]:
        settings = chat_settings(enable_thinking=enable_thinking)
        ids = []
        for output in outputs:
            # A chat template writes the special tokens itself, and an output has none before it.
            prompt = {**output.asked, **(settings if "messages" in output.asked else {})}
            text = {"prompt": output.text, "add_special_tokens": False}
            made = output.token_ids if output.token_ids is not None else await self._ids(text)
            ids.append(TokenIds(prompt_ids=await self._ids(prompt), output_ids=made))
        return ids

    async def _ids(self, content: Mapping[str, Any]) -> tuple[int, ...]:
        body = {"model": self.model, **content}
        key = dump_json(body)
        if key not in self._answers:
            self._answers[key] = await self._answered_ids(body)
        return self._answers[key]

    async def _answered_ids(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        try:
            answer = await tokenized(self.base_url, body, api_key=self.api_key)
        except (HttpError, TimeoutError, NotTokenizedError) as error:
            raise self._error(str(error) or "no answer in time") from error
        tokens = answer.get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise self._error("no token ids in it")
        return tuple(tokens)

    def _error(self, answered: str) -> DraftworthError:
        return DraftworthError(
            f"{one_line(self.base_url)}/tokenize: answered: {one_line(answered)}; allowed: the ids "
            "of tokens, as vLLM gives them"
        )
