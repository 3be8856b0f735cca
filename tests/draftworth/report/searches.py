"""A built search for tests: two drafts, of which one does not pay, and a failed candidate."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from draftworth.records import search_result
from draftworth.records.codec import dump_record
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import Run
from tests.draftworth.report import runs
from tests.support.blocks import each_request

CLASSES = ("structured", "open_ended")
# By variant: draft, window, cost, and the cost that was predicted before the measurement (if any).
CANDIDATES = {
    "a-k4": ("hub/a", 4, 0.70, 0.66),
    "a-k6": ("hub/a", 6, 0.60, None),
    "a-k8": ("hub/a", 8, 0.62, None),
    "b-k4": ("hub/b", 4, 1.20, 0.90),
}
ORDER = ("a-k6", "a-k4", "b-k4")
# How many times as long each candidate's blocks take as the blocks of the built run's variant. The
# mean time of these is about the baseline's, so the numbers are about the candidates' costs.
FACTORS = {"a-k6": 0.6, "a-k4": 0.7, "b-k4": 1.2}


def around(cost: float, *, half: float = 0.02) -> search_result.CostInterval:
    return search_result.CostInterval(value=cost, low=cost - half, high=cost + half)


def make_candidate_result(variant: str, **overrides: Any) -> search_result.CandidateResult:
    _, window, cost, predicted = CANDIDATES[variant]
    fields: dict[str, Any] = {
        "variant": variant,
        "cost": around(cost),
        "cost_by_class": {"structured": cost - 0.1, "open_ended": cost + 0.1},
        "measured": around(cost, half=0.01) if variant in ORDER else None,
        "predicted": around(predicted, half=0.05) if predicted else None,
        "step_cost": 1 + 0.1 * window,
        "tokens_per_step": {"structured": 0.5 * window, "open_ended": 0.3 * window},
        "chance": 0.0 if variant in ORDER else 0.07,
    }
    return search_result.CandidateResult(**{**fields, **overrides})


def make_search(**overrides: Any) -> search_result.Search:
    candidates = tuple(
        search_result.Candidate(variant=name, draft=draft, window=window, checked=window)
        for name, (draft, window, _, _) in CANDIDATES.items()
    )
    fields: dict[str, Any] = {
        "candidates": candidates,
        "drafts_read_text": True,
        "step_cost_per_draft": (0.0, 0.5),
        "within": 0.03,
    }
    return search_result.Search(**{**fields, **overrides})


def make_search_result(**overrides: Any) -> search_result.SearchResult:
    fields: dict[str, Any] = {
        "run_id": "built-run",
        "search": make_search(),
        "load": "c4",
        "results": tuple(map(make_candidate_result, CANDIDATES)),
        "order": ORDER,
        "best": "a-k6",
        "expected_to_pay": True,
        "sureness": 0.93,
        "ended": "no other candidate is likely to be cheaper by more than 3%",
        "failed": {"b-k8": "its server was not ready in 600 s."},
    }
    return search_result.SearchResult(**{**fields, **overrides})


# A search that has measured no candidate.
NOTHING_MEASURED = make_search_result(results=(), order=(), best="", failed={})


def make_search_run(result: search_result.SearchResult | None = None, **overrides: Any) -> Run:
    """Return the run of a search, with blocks of its measured candidates."""
    order = (result or make_search_result()).order
    blocks = [
        block
        for place, variant in enumerate(order)
        for number, name in enumerate(CLASSES)
        for block in (
            runs.make_plain_block(100 * place + 10 * number + 1, name, round=place + 1),
            runs.make_drafted_block(
                100 * place + 10 * number + 2, name, round=place + 1, variant=variant
            ),
        )
    ]
    measured = runs.two_rounds(*blocks)

    def changed(number: int, block: BlockResult) -> BlockResult:
        return replace(
            each_request(
                runs.slower(block, FACTORS.get(block.variant, 1.0)),
                lambda r: replace(r, request_id=f"{number}-{r.request_id}"),
            ),
            block=number,
            round=block.round + len(order) * (number > len(blocks)),
        )

    run = runs.make_run(
        blocks=tuple(changed(number, block) for number, block in enumerate(measured, start=1)),
        variants=(runs.BASELINE, *order),
        max_tokens_per_step={runs.BASELINE: 1, **dict.fromkeys(order, 8)},
        **overrides,
    )
    return replace(run, search=result or make_search_result())


def write_search(folder: Path, result: search_result.SearchResult | None = None) -> Path:
    """Write the folder of a search's run, with `search.json`; return the folder."""
    runs.write_run(make_search_run(result), folder)
    (folder / search_result.SEARCH_FILE).write_bytes(dump_record(result or make_search_result()))
    return folder
