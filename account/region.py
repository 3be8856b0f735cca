"""AWS in one region, as the commands ask it: a sentence for each refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from account.clients import explained, listed, or_none

# Makes a client of a service in a region: `account.clients.client`, or a test's.
Clients = Callable[[str, str], Any]


@dataclass(frozen=True, kw_only=True)
class Region:
    """A region and its clients, each made once.

    answers_for_all: it is asked about the whole account or every region, and errors do not name it:
    the reader's region may be another.
    """

    name: str
    clients: Clients
    answers_for_all: bool = False

    @cached_property
    def client(self) -> Callable[[str], Any]:
        """Gives the client of a service here."""
        return cache(lambda service: self.clients(service, self.name))

    def ask(self, doing: str, service: str, operation: str, *missing: str, **asked: Any) -> Any:
        """The answer of a call; None at an error whose code begins with one of `missing`.

        At another error an AwsError, which says "could not" with `doing`.
        """
        with explained(doing, region=self._told):
            return or_none(getattr(self.client(service), operation), *missing, **asked)

    def list_all(
        self, doing: str, service: str, operation: str, result: str, **asked: Any
    ) -> list[Any]:
        """Every entry of a listing; `result`: their JMESPath in an answer."""
        with explained(doing, region=self._told):
            return [*listed(self.client(service), operation, result, **asked)]

    @property
    def _told(self) -> str:
        return "" if self.answers_for_all else self.name
