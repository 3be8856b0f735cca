"""What the logs in `logs/` hold: an example of each form, made by us after the form's sources."""

from pathlib import Path

LOGS = Path(__file__).with_name("logs")
OCEAN, PACIFIC = ("You are brief.", "Which ocean is the largest?"), "The Pacific."
RIVER, RHINE = ("Name a river.",), "The Rhine."
LAKE, BAIKAL = ("Name a lake.",), "Baikal."
WEATHER, RAIN = ("Weather in Oslo?", "rain"), "It rains."
# For each file: its form, the texts of each prompt with the answer, and what is left out.
EXAMPLES: dict[str, tuple[str, list[tuple[tuple[str, ...], str | None]], str]] = {
    "openai_responses.jsonl": (
        "openai-responses",
        [
            (("Answer in one word.", OCEAN[1]), "Pacific."),
            (("Be short.", *RIVER), None),
            (WEATHER, RAIN),
        ],
        (
            "2 left out: 1 with images (line 4), 1 with previous_response_id, whose messages the "
            "log does not have (line 5)"
        ),
    ),
    "anthropic.jsonl": (
        "anthropic",
        [(OCEAN, PACIFIC), (("Weather in Oslo?", "I look.", "rain"), RAIN)],
        "1 left out: 1 with images (line 3)",
    ),
    "opentelemetry.json": (
        "opentelemetry",
        [
            (OCEAN, PACIFIC),
            (WEATHER, RAIN),
            (("You are brief.", *RIVER), RHINE),
            (LAKE, BAIKAL),
        ],
        (
            "3 left out: 1 of spans without messages (object 1, request 1), 1 with images (object "
            "1, request 4), 1 of spans that call no model (object 1, request 5)"
        ),
    ),
    "opentelemetry_logs.jsonl": (
        "opentelemetry",
        [(OCEAN, PACIFIC), (RIVER, RHINE)],
        "0 left out",
    ),
    "langsmith.jsonl": (
        "langsmith",
        [(OCEAN, PACIFIC), (RIVER, RHINE), (WEATHER, RAIN), (("Once",), " upon")],
        "1 left out: 1 of a run_type other than llm (line 4)",
    ),
    "langfuse.json": (
        "langfuse",
        [(OCEAN, PACIFIC), (RIVER, RHINE)],
        "1 left out: 1 of a type other than GENERATION (object 1, request 3)",
    ),
    "langfuse_export.jsonl": (
        "langfuse",
        [(LAKE, BAIKAL), (("Write a city as JSON.",), '{"city": "Oslo"}')],
        "0 left out",
    ),
    "alpaca.json": (
        "alpaca",
        [(("Translate into French.\n\nGood morning.",), "Bonjour."), (RIVER, RHINE)],
        "1 left out: 1 without an instruction (element 3)",
    ),
    "questions.csv": (
        "csv",
        [(('Which ocean is\n"largest"?',), PACIFIC), (RIVER, RHINE)],
        "1 left out: 1 without messages or prompt (line 5)",
    ),
}
MODELS = {
    "openai_responses.jsonl": {"gpt-5-mini": 3},
    "anthropic.jsonl": {"claude-sonnet-4-5": 2},
    "opentelemetry.json": {"qwen3-32b": 4},
    "langsmith.jsonl": {"qwen3-32b": 4},
    "langfuse.json": {"qwen3-32b": 2},
    "langfuse_export.jsonl": {"qwen3-32b": 2},
    "questions.csv": {"qwen3-32b": 2},
}
