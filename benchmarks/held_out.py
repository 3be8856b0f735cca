"""Measures 400 prompts once as the truth, and counts how often 32 of them would have said it.

    python -m benchmarks.held_out [--choices 200]

Two servers on this machine's loopback stand for a baseline and a variant. A prompt's text says how
many tokens its answer has and in how many steps the variant yields them; a step takes 1.3 times as
long as one of the baseline. `draftworth compare` measures each prompt once on both. The forecast
for a prompt is its number of steps times a random factor. Then 32 prompts are chosen many times by
the deployed choice, and the cost ratio of all 400 is estimated from their requests alone. All is
seeded but the machine's own noise.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import correlation, fmean, median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.ratios import cost_amounts, log_cost_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import groups_of
from draftworth.analysis.traffic_ratio import TrafficRatio, traffic_ratio
from draftworth.cli import main as draftworth
from draftworth.importing.choosing import chosen_prompts
from draftworth.records.logged_traffic import LoggedTraffic, PromptForecast
from draftworth.records.run_folder import read_run
from draftworth.truth.token_timeline import MODEL, Chunk, events_of

PROMPTS, CASES, CHOSEN = 400, 10, 32
_MEAN_TOKENS, _LENGTHS, _MOST_TOKENS = 40, 0.6, 200
_BASELINE_STEP_S, _STEP_COST, _TTFT_S = 0.004, 1.3, 0.01
_CLASS = "log"
_PLANTED = re.compile(r"(\d+) tokens in (\d+) steps")


def planted_prompts(generator: random.Random) -> list[PromptForecast]:
    """Return prompts of which half are drafted well; `steps` are the true ones."""
    prompts = []
    for number in range(PROMPTS):
        tokens = min(
            _MOST_TOKENS, max(8, round(generator.lognormvariate(math.log(_MEAN_TOKENS), _LENGTHS)))
        )
        yields = generator.choice((1.3, 3.0)) * generator.lognormvariate(0, 0.2)
        steps = min(tokens, max(1, round(tokens / yields)))
        case = f"{_CLASS}-{number % CASES}"
        prompts.append(
            PromptForecast(
                prompt_class=_CLASS, case=case, id=f"{number:03d}", tokens=tokens, steps=steps
            )
        )
    return prompts


def forecast_of(
    prompts: Sequence[PromptForecast], error: float, generator: random.Random
) -> list[PromptForecast]:
    """Return forecasts that differ from the true steps by a log-normal factor with this sigma."""
    return [
        replace(p, steps=max(1, round(p.steps * generator.lognormvariate(0, error))))
        for p in prompts
    ]


def write_prompts(prompts: Sequence[PromptForecast], folder: Path) -> None:
    """Write the prompt files of a class, whose texts say how long answers are, and their steps."""
    (folder / _CLASS).mkdir(parents=True)
    for prompt in prompts:
        text = f"Prompt {prompt.id}: {prompt.tokens} tokens in {prompt.steps} steps."
        with (folder / _CLASS / f"{prompt.case}.jsonl").open("a") as file:
            file.write(json.dumps({"id": prompt.id, "prompt": text}) + "\n")


def chunks_of(tokens: int, steps: int, step_s: float) -> list[Chunk]:
    """Return the chunks of an answer: one for each step, which have equal numbers of tokens."""
    ends = [round(tokens * number / steps) for number in range(steps + 1)]
    return [
        Chunk(offset_ns=round((_TTFT_S + number * step_s) * 1e9), tokens=end - start)
        for number, (start, end) in enumerate(pairwise(ends))
    ]


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, drafts: bool
) -> None:
    """Answer one request, and close its connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    planted = _PLANTED.search(body.decode())
    if planted is None:
        models = json.dumps({"data": [{"id": MODEL}]})
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(models)}\r\n\r\n{models}".encode())
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        tokens = min(int(planted[1]), json.loads(body)["max_tokens"])
        await _play(writer, tokens, min(tokens, int(planted[2])), drafts=drafts)
    with suppress(ConnectionError):
        await writer.drain()
    writer.close()


async def _play(writer: asyncio.StreamWriter, tokens: int, steps: int, *, drafts: bool) -> None:
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    step_s = _BASELINE_STEP_S * (_STEP_COST if drafts else 1)
    for event in events_of(
        chunks_of(tokens, steps if drafts else tokens, step_s), usage="every_chunk"
    ):
        await asyncio.sleep(start_s + event.offset_ns / 1e9 - loop.time())
        if writer.is_closing():  # the client has measured enough, and hung up
            return
        writer.write(event.data)


async def _serve(ports: Connection) -> None:
    servers = [
        await asyncio.start_server(partial(_answer, drafts=drafts), "127.0.0.1", 0)
        for drafts in (False, True)
    ]
    ports.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.gather(*(server.serve_forever() for server in servers))


def _run_servers(ports: Connection) -> None:
    asyncio.run(_serve(ports))


@contextmanager
def servers() -> Iterator[tuple[str, str]]:
    """Run the baseline and the variant in a process of their own; yield their addresses."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_run_servers, args=(sending,), daemon=True)
    process.start()
    try:
        baseline, variant = receiving.recv()
        yield f"http://127.0.0.1:{baseline}", f"http://127.0.0.1:{variant}"
    finally:
        process.terminate()
        process.join()


def measured(prompts: Sequence[PromptForecast]) -> tuple[list[Pair], Traffic]:
    """Measure each prompt once on both servers with `draftworth compare`."""
    with TemporaryDirectory() as folder, servers() as (baseline, variant):
        write_prompts(prompts, Path(folder) / "prompts")
        words = ["compare", "--baseline", baseline, "--variant", f"drafts={variant}"]
        words += ["--model", MODEL, "--prompts", f"{folder}/prompts", "--out", f"{folder}/runs"]
        words += ["--requests-per-case", str(PROMPTS // CASES), "--rounds", "1"]
        words += ["--concurrency", "4", "--output-tokens", str(_MOST_TOKENS)]
        if draftworth(words):
            raise SystemExit("the run did not end well, so there is no truth")
        (run_folder,) = (Path(folder) / "runs").iterdir()
        run = read_run(run_folder)
    (group,) = groups_of(run.blocks)
    traffic = Traffic.of(group)
    pairs = paired(run.blocks, traffic, variant="drafts", baseline="baseline")
    return [_in_one_case(pair) for pair in pairs], traffic


def _in_one_case(pair: Pair) -> Pair:
    """Return the pair as if its prompt were in the one case of the chosen prompts."""
    return replace(pair, place=pair.place._replace(stratum=_CLASS, case=_CLASS))


def cost_of(pairs: Sequence[Pair]) -> Mapping[str, float]:
    """Return each prompt's cost ratio, by its id."""
    ratios = {}
    for pair in pairs:
        amounts = [cost_amounts(record) for record in (pair.plain, pair.drafted)]
        (plain_s, plain), (drafted_s, drafted) = (each or (1.0, 1.0) for each in amounts)
        ratios[pair.plain.prompt_id] = (drafted_s / drafted) / (plain_s / plain)
    return ratios


def estimated(
    pairs: Sequence[Pair], forecasts: Sequence[PromptForecast], seed: int
) -> TrafficRatio:
    """Return the cost ratio of all prompts, from the requests of those that a seed chooses."""
    tokens = sum(forecast.tokens for forecast in forecasts)
    ratio = traffic_ratio(
        pairs,
        LoggedTraffic(
            prompt_class=_CLASS,
            case=_CLASS,
            draft="planted",
            window=5,
            prompts=len(forecasts),
            tokens=tokens,
            steps_per_token=sum(forecast.steps for forecast in forecasts) / tokens,
            seed=seed,
            chosen=chosen_prompts(forecasts, CHOSEN, seed=seed),
        ),
    )
    if not isinstance(ratio, TrafficRatio):
        raise SystemExit("too few of the chosen prompts were measured")
    return ratio


def _cells(estimates: Sequence[Estimate], truth: float) -> tuple[str, str]:
    ends = [estimate.interval or (0.0, math.inf) for estimate in estimates]
    covers = fmean(low <= truth <= high for low, high in ends)
    return f"{covers:.3f}", f"{median(e.relative_width or math.inf for e in estimates):.1%}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the truth, and print how often and how narrowly the chosen prompts say it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--choices", type=int, default=200, help="of 32 prompts (%(default)s)")
    arguments = parser.parse_args(argv)
    generator = random.Random(0)  # noqa: S311 (the same prompts each time)
    prompts = planted_prompts(generator)
    pairs, traffic = measured(prompts)
    of_all = log_cost_ratio(pairs, traffic)
    if of_all is None:
        raise SystemExit("no tokens were counted, so there is no truth")
    truth, costs = math.exp(of_all.value), cost_of(pairs)
    table = Table("correlation", "covers", "width", "without forecast", "width", box=None)
    for error in (0.1, 0.2, 0.45, 2.0):
        forecasts = forecast_of(prompts, error, generator)
        in_advance = [math.log(forecast.steps_per_token) for forecast in forecasts]
        afterwards = [math.log(costs[forecast.id]) for forecast in forecasts]
        ratios = [estimated(pairs, forecasts, seed) for seed in range(arguments.choices)]
        table.add_row(
            f"{correlation(in_advance, afterwards):.2f}",
            *_cells([ratio.cost_ratio for ratio in ratios], truth),
            *_cells([ratio.without_forecast for ratio in ratios], truth),
        )
    Console(width=100).print(f"{len(costs)} prompts cost {truth:.3f} of the baseline.", table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
