"""The published sample's prompts are what their description gives."""

from benchmarks.published_prompts import PUBLISHED, prompt_files, read_description


def test_the_prompts_are_those_of_the_description() -> None:
    files = dict(prompt_files(read_description()))
    assert len(files) == 8
    for name, text in files.items():
        assert (PUBLISHED / name).read_text(encoding="utf-8") == text


def test_a_phrase_fills_the_instructions_remaining_tokens() -> None:
    files = dict(prompt_files(read_description()))
    # 37 tokens are left: four lines of 8 tokens, then five characters of the next line.
    phrases = "counting numbers from 1 \\n" * 4 + 'count"'
    assert files["phrases/counting.jsonl"].rstrip("}\n").endswith(f"tokens:\\n\\n{phrases}")
