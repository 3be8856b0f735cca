"""The end of a run whose winner goes on serving: which it is, its servers alone, `kept.json`.

`kept.json` is written before `run.json`: who finds the run complete, and would take its nodes,
finds the winner too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftworth.analysis.facts import facts_of
from draftworth.analysis.winner import NoWinnerError, Winner, winner_of
from draftworth.measuring.clock import WallClock
from draftworth.measuring.run_specification import Endpoint, RunSpec, WinnerStays
from draftworth.measuring.runfiles import RunFiles
from draftworth.measuring.servers import Servers
from draftworth.measuring.sink import Store
from draftworth.measuring.threads import in_thread
from draftworth.records.codec import dump_record, load_record
from draftworth.records.live import KEPT_FILE, KeptWinner, kept_key
from draftworth.records.load import ConcurrencyLoad, Load
from draftworth.records.reading import Run


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """Keeps the winner of a run."""

    spec: RunSpec
    after: WinnerStays
    servers: Servers
    files: RunFiles
    progress: Callable[[str], None]
    clock: WallClock

    async def keep(self, run: Callable[[], Run], *, running: Sequence[Endpoint]) -> None:
        """Stop the losers, and say which variant stays; where none can, nothing does, and why.

        Args:
            run: complete.
            running: the servers that run now.
        """
        try:
            winner = await in_thread(self._winner, run)
            staying = self._staying(winner.variant, running)
            self.progress(f"{winner.variant} goes on serving: {winner.headline}")
            await self.servers.run_only(staying, restart=False)
            kept = KeptWinner(
                run_id=self.files.run_id,
                variant=winner.variant,
                servers=tuple(endpoint.server for endpoint in staying),
                since_unix_s=self.clock(),
                break_even_tokens_per_step=break_even(winner),
            )
            self.files.write_now(KEPT_FILE, dump_record(kept, indent=2))
        except NoWinnerError as error:
            self.progress(f"nothing goes on serving: {error}")
        except Exception as error:  # noqa: BLE001 - the run is measured, and ends as any other does
            self.progress(f"nothing goes on serving: {type(error).__name__}: {error}")

    def _winner(self, run: Callable[[], Run]) -> Winner:
        return winner_of(facts_of(run(), self.files.token_ids))

    def _staying(self, variant: str, running: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
        """The winner's server that runs, or else its first; or all of them."""
        own = self.spec.servers_of(variant)
        if self.after.replicas == "every_slot":
            return own
        up = [e for e in running if e.variant == variant]
        return (*up, *own)[:1]


def kept_winner(results: Store, run_id: str) -> KeptWinner | None:
    """Which winner of a run goes on serving; None: no one does.

    Raises:
        SinkError: the results cannot be read.
        RecordError: the file is none of this version.
    """
    name = kept_key(run_id)
    if name not in results.names(run_id):
        return None
    return load_record(KeptWinner, results.read(name))


def break_even(winner: Winner) -> float | None:
    """At the load that was measured nearest to one request in flight, with prompts as they are.

    A probe is alone, and how much else is in flight nobody knows. With more in flight a step of
    several tokens costs more, in steps of one: so this is the least that tokens a step must be.
    """
    figures = [f for f in winner.decisive if f.break_even_tokens_per_step is not None]
    figures.sort(key=lambda f: (_in_flight(f.load), f.load.input_tokens or 0))
    return figures[0].break_even_tokens_per_step if figures else None


def _in_flight(load: Load) -> float:
    return load.concurrency if isinstance(load, ConcurrencyLoad) else float("inf")
