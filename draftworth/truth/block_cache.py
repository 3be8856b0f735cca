"""A prefix cache in blocks, as vLLM has it: which tokens of a prompt a server need not compute.

A token is a character here. A block is found again only behind the same prefix, and the last token
of a prompt is always computed, because the first output token follows from it.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class PromptTokens:
    """The length of a prompt in tokens, and how many of them a cache had; None: not said."""

    tokens: int
    cached: int | None = None


@dataclass(kw_only=True)
class BlockCache:
    """Remembers all prompts for good. block_tokens: the number of tokens in a block."""

    block_tokens: int
    _prefixes: set[tuple[str, str]] = field(default_factory=set)

    def cached_tokens(self, prompt: str, *, salt: str = "") -> int:
        """Return how many tokens of a prompt are cached, and remember the prompt.

        salt: prompts with another salt have no block in common with this one.
        """
        size = self.block_tokens
        ends = range(size, len(prompt) + 1, size)
        cached = max((end for end in ends if self._is_hit(prompt, end, salt)), default=0)
        self._prefixes |= {(salt, prompt[:end]) for end in ends}
        return cached

    def _is_hit(self, prompt: str, end: int, salt: str) -> bool:
        return end < len(prompt) and (salt, prompt[:end]) in self._prefixes
