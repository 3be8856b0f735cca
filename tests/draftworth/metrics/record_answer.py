"""Records what a server answers to one request, for `test_recorded_answers.py`.

    python -m tests.draftworth.metrics.record_answer URL NAME TOKENS PROMPT

writes two files. `recorded/NAME.sse` has the event stream as the server sent it.
`recorded/NAME.metrics` has those of the server's counters that show how many steps it took, from
before and after the request. Nothing else may send requests to the server meanwhile.
"""

import http.client
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from draftworth.measuring.streamed_request import request_body
from draftworth.records.prompt_files import Prompt
from tests.support.specifications import shape

FOLDER = Path(__file__).parent / "recorded"
AFTER = "# after\n"
# How long to wait before the counters are read: servers update them a moment after an answer ends.
SETTLED_SECONDS = 2.0
COUNTERS = re.compile(
    r"(llamacpp:|vllm:)(spec_decode_\w+_total|generation_tokens_total|tokens_predicted_total"
    r"|iteration_tokens_total_count|n_decode_total|request_success_total)\b"
)


def ask(url: str, method: str, path: str, body: bytes | None = None) -> bytes:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=600)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    return connection.getresponse().read()


def counters(url: str) -> str:
    page = ask(url, "GET", "/metrics").decode()
    return "".join(f"{line}\n" for line in page.splitlines() if COUNTERS.match(line))


def main(url: str, name: str, tokens: str, prompt: str) -> None:
    before = counters(url)
    asked_for = shape(model="rehearsal", output_tokens=int(tokens), fixed_output_length=True)
    message = Prompt(id="p1", messages=({"role": "user", "content": prompt},))
    answer = ask(url, "POST", "/v1/chat/completions", request_body(asked_for, message, seed=1))
    time.sleep(SETTLED_SECONDS)
    (FOLDER / f"{name}.sse").write_bytes(answer)
    (FOLDER / f"{name}.metrics").write_text(f"{before}{AFTER}{counters(url)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
