"""Cuts or pads prompts to a load's prompt length; the question at a prompt's end stays.

The case's other prompts, repeated, and then the prompt itself make one long text; the new prompt is
the last part of this text. So a prompt is cut or padded at its beginning. In a conversation only
the user's last message changes. The server's own tokenizer counts the tokens (in vLLM
`POST /tokenize`). The same server gives the same counts, so a pod that continues a run makes the
same prompts.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.measuring.http_client import HttpError
from draftworth.measuring.round_counts import RoundCounts
from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec
from draftworth.measuring.server_lifecycle import Environment
from draftworth.measuring.server_tokenizer import NotTokenizedError, chat_settings, tokenized
from draftworth.measuring.streamed_request import prompt_fields
from draftworth.records.chat import texts_of
from draftworth.records.load_shapes import Load
from draftworth.records.prompt_files import Case, Prompt
from draftworth.untrusted import one_line

# A new prompt is never longer than wanted, and shorter by at most this share of the wanted length
# or by this number of tokens, whichever is more.
TOLERANCE, TOLERANCE_TOKENS = 0.01, 8
_SEPARATOR = "\n\n"
# How often the server may fail to count tokens, because it was lost, before the run fails.
MOST_LOSSES = 3
# The most characters of one token in ordinary text; a token of blanks may have more.
_MOST_CHARACTERS_PER_TOKEN = 200
# The most steps of the search for the right number of characters: every third step halves the
# interval, and a text has fewer than 2^30 characters.
_MOST_STEPS = 90


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Counts the tokens of prompts by requests to a server, because only its count is exact.

    The server has the tokenizer and the chat template.
    """

    base_url: str
    shape: RequestShape
    api_key: str | None

    async def count(self, prompt: Prompt) -> int:
        """Return the number of tokens of a prompt, with chat template and tools.

        DraftworthError: the answer has no count. HttpError, TimeoutError: there is no answer.
        """
        try:
            answer = await tokenized(self.base_url, self._body(prompt), api_key=self.api_key)
        except NotTokenizedError as error:
            raise self._error(str(error)) from error
        count = answer.get("count")
        if type(count) is not int or count < 0:
            raise self._error("no number of tokens in it")
        return int(count)

    def _body(self, prompt: Prompt) -> Mapping[str, Any]:
        body: dict[str, Any] = {"model": self.shape.model, **prompt_fields(prompt)}
        for unknown in ("tool_choice", "response_format"):
            body.pop(unknown, None)
        if prompt.text_to_continue is None:
            body |= chat_settings(enable_thinking=self.shape.enable_thinking)
        return body

    def _error(self, answered: str) -> DraftworthError:
        return DraftworthError(
            f"{one_line(self.base_url)}/tokenize: answered: {one_line(answered)}; allowed: a count "
            "of tokens, as vLLM gives it: workload.input_tokens is a list, and prompts are made so "
            "long by the server's own tokenizer; next: give one number there, and prompts that are "
            "as long as you want them"
        )


@dataclass(kw_only=True)
class ContextCases:
    """Cuts or pads the prompts of all cases to each length that a load asks for, at first use."""

    spec: RunSpec
    environment: Environment
    _made: Mapping[int | None, tuple[Case, ...]] | None = None

    async def of(
        self, case: Case, load: Load, *, baseline: Endpoint, wait: Callable[[], Awaitable[None]]
    ) -> Case:
        """Return `case` with prompts of `load.input_tokens` tokens (None: unchanged).

        baseline: its server counts the tokens. wait: waits until this server is ready again.
        """
        if self._made is None:
            self._made = await self._make(baseline, wait)
        return self._made[load.input_tokens][self.spec.cases.index(case)]

    async def _make(
        self, baseline: Endpoint, wait: Callable[[], Awaitable[None]]
    ) -> Mapping[int | None, tuple[Case, ...]]:
        shape, progress = self.spec.shape, self.environment.progress
        tokenizer = Tokenizer(
            base_url=baseline.base_url, shape=shape, api_key=self.environment.api_key
        )
        for left in range(MOST_LOSSES, -1, -1):
            try:
                return await fitted_cases(self.spec, tokenizer, progress)
            except (HttpError, TimeoutError) as error:
                why = f"{baseline.variant} does not count tokens: {error or 'no answer in time'}"
                if not left:
                    raise DraftworthError(why) from error
                progress(why)
                await wait()
        raise AssertionError


async def fitted_cases(
    spec: RunSpec, tokenizer: Tokenizer, progress: Callable[[str], None]
) -> dict[int | None, tuple[Case, ...]]:
    """Return, for each `Load.input_tokens`, cases with prompts of this length (None: unchanged).

    New cases have only as many prompts as the run can measure.
    DraftworthError: a prompt cannot be cut or padded to this length, or the server's answer has no
    count of tokens. HttpError, TimeoutError: the server does not answer.
    """
    by_length: dict[int | None, tuple[Case, ...]] = {None: spec.cases}
    # The most prompts of one case that can be measured for one variant.
    most = RoundCounts.of(spec).most * spec.sampling.requests_per_round
    for length in dict.fromkeys(load.input_tokens for load in spec.loads):
        if length is not None:
            progress(f"making prompts of {length} tokens")
            fitted = [await _fitted_case(case, length, tokenizer, most) for case in spec.cases]
            by_length[length] = tuple(fitted)
    return by_length


async def _fitted_case(case: Case, length: int, tokenizer: Tokenizer, most: int) -> Case:
    texts = [_changeable_text(prompt) for prompt in case.prompts]
    prompts = []
    for index, prompt in enumerate(case.prompts[:most]):
        where = f"{case.prompt_class}/{case.name}, {prompt.id}"
        text = texts[index]
        if text is None:
            raise DraftworthError(
                f"{where}: no message of the user in it; allowed with a list in "
                "workload.input_tokens: prompts with one, which is what is made longer or shorter"
            )
        other_texts = [t for t in (*texts[index + 1 :], *texts[:index]) if t] or [text]
        fit = _Fit(
            prompt=prompt, text=text, before=_SEPARATOR.join(other_texts), tokenizer=tokenizer
        )
        prompts.append(await fit.to(length, where))
    return replace(case, prompts=tuple(prompts))


def _changeable_text(prompt: Prompt) -> str | None:
    if prompt.text_to_continue is not None:
        return prompt.text_to_continue
    questions = [message for message in prompt.messages if message["role"] == "user"]
    return "\n".join(texts_of(questions[-1:])) or None


def _with_text(prompt: Prompt, text: str) -> Prompt:
    if prompt.text_to_continue is not None:
        return replace(prompt, text_to_continue=text)
    last = max(i for i, message in enumerate(prompt.messages) if message["role"] == "user")
    messages = [*prompt.messages]
    messages[last] = {**messages[last], "content": text}
    return replace(prompt, messages=tuple(messages))


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Cuts or pads one prompt.

    text: the part of the prompt that may change: the user's last message or the text to continue.
    before: the texts of other prompts, which are put before `text` to make it longer.
    """

    prompt: Prompt
    text: str
    before: str
    tokenizer: Tokenizer

    async def to(self, length: int, where: str) -> Prompt:
        """Return the prompt, cut or padded to `length` tokens or slightly fewer (`TOLERANCE`).

        where: the prompt's name in messages. DraftworthError: the prompt cannot get this length.
        """
        low, low_count = 1, await self._count(1)
        if low_count > length:
            raise DraftworthError(
                f"{where}: {low_count} tokens without the user's last message, allowed: fewer than "
                f"the {length} of workload.input_tokens: system prompts, tools and earlier "
                "messages stay as they are; give a larger number, or leave this prompt out"
            )
        high, high_count = await self._too_long(length, where)
        for step in range(_MOST_STEPS):
            if low_count >= length - max(TOLERANCE_TOKENS, TOLERANCE * length):
                return _with_text(self.prompt, self._end(low))
            if high - low <= 1:
                break
            # Aim below `length` by half of `TOLERANCE`, because a prompt that is too long cannot be
            # used. Every third step halves the interval, so that the search ends.
            wanted = length * (1 - TOLERANCE / 2) - low_count
            share = wanted / (high_count - low_count) if step % 3 < 2 else 0.5
            tried = min(high - 1, max(low + 1, low + round((high - low) * share)))
            count = await self._count(tried)
            if count > length:
                high, high_count = tried, count
            else:
                low, low_count = tried, count
        raise DraftworthError(
            f"{where}: cannot be made {length} tokens long: the next character after {low_count} "
            "tokens makes it longer; leave this prompt out"
        )

    async def _too_long(self, length: int, where: str) -> tuple[int, int]:
        characters = 2 * length
        while (count := await self._count(characters)) <= length:
            if characters > _MOST_CHARACTERS_PER_TOKEN * length:
                raise DraftworthError(
                    f"{where}: {count} tokens of {characters} characters before it: the server "
                    f"does not count them; allowed: up to {_MOST_CHARACTERS_PER_TOKEN} per token"
                )
            characters *= 2
        return characters, count

    async def _count(self, characters: int) -> int:
        return await self.tokenizer.count(_with_text(self.prompt, self._end(characters)))

    def _end(self, characters: int) -> str:
        missing = characters - len(self.text) - len(_SEPARATOR)
        if missing <= 0:
            return f"{_SEPARATOR}{self.text}"[-characters:]
        again = self.before + _SEPARATOR
        padding = (again * (missing // len(again) + 2)).removesuffix(_SEPARATOR)
        return f"{padding[-missing:]}{_SEPARATOR}{self.text}"
