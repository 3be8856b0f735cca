"""Fingerprints of checkpoints' vocabularies."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftworth.records.checkpoints import tokenizer_fingerprint
from draftworth.records.codec import RecordError

Vocabulary = dict[str, int]
FORMS = ("BPE", "Unigram", "slow")
vocabularies = st.lists(st.text(min_size=1), min_size=2, max_size=12, unique=True)


def write(folder: Path, form: str, tokens: list[str], added: Vocabulary) -> str | None:
    """A checkpoint whose tokens have the ids 0, 1, ... in one of the forms; its fingerprint."""
    for file in folder.iterdir():
        file.unlink()
    mapped = {token: number for number, token in enumerate(tokens)}
    entries = [{"id": number, "content": token} for token, number in added.items()]
    if form == "slow":
        (folder / "vocab.json").write_text(json.dumps(mapped))
        (folder / "added_tokens.json").write_text(json.dumps(added))
        return tokenizer_fingerprint(folder)
    vocabulary: Any = mapped if form == "BPE" else [[token, -1.5] for token in tokens]
    tokenizer = {"model": {"type": form, "vocab": vocabulary}, "added_tokens": entries}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return tokenizer_fingerprint(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizer")


@given(tokens=vocabularies)
def test_the_form_of_a_vocabulary_does_not_matter(folder: Path, tokens: list[str]) -> None:
    *plain, special = tokens
    added = {special: len(plain)}
    assert len({write(folder, form, plain, added) for form in FORMS}) == 1


@given(tokens=vocabularies, data=st.data())
def test_the_order_of_a_vocabulary_does_not_matter(
    folder: Path, tokens: list[str], data: st.DataObject
) -> None:
    ids = {token: number for number, token in enumerate(tokens)}
    shuffled = {token: ids[token] for token in data.draw(st.permutations(tokens))}
    before = write(folder, "BPE", tokens, {})
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": shuffled}}))
    assert tokenizer_fingerprint(folder) == before


@given(tokens=vocabularies, form=st.sampled_from(FORMS), data=st.data())
def test_any_other_id_or_token_is_another_fingerprint(
    folder: Path, tokens: list[str], form: str, data: st.DataObject
) -> None:
    *plain, special = tokens
    before = write(folder, form, plain, {special: len(plain)})
    other = data.draw(st.permutations(plain))
    if other != plain:
        assert write(folder, form, other, {special: len(plain)}) != before
    moved = data.draw(st.integers(min_value=0, max_value=99))
    if moved != len(plain):
        assert write(folder, form, plain, {special: moved}) != before
    assert write(folder, form, plain[:-1], {special: len(plain)}) != before
    assert write(folder, form, plain, {}) != before


def test_a_slow_tokenizers_added_tokens_have_two_places(tmp_path: Path) -> None:
    before = write(tmp_path, "slow", ["a"], {"<s>": 1})
    (tmp_path / "added_tokens.json").unlink()
    decoder = {"1": {"content": "<s>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    assert tokenizer_fingerprint(tmp_path) == before


def test_a_checkpoint_without_a_vocabulary_has_no_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert tokenizer_fingerprint(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tokenizer.json", "{", "tokenizer.json: not JSON"),
        ("tokenizer.json", "[]", "given list, allowed: an object"),
        ("tokenizer.json", '{"model": {}}', "model.vocab: allowed: an object or a list"),
        ("tokenizer.json", '{"model": {"vocab": {"a": "0"}}}', "given 'a' with id '0'"),
        ("tokenizer.json", '{"model": {"vocab": ["a"]}}', r"model.vocab\[0\]: given None"),
        ("tokenizer.json", '{"model": {"vocab": {}}}', "no tokens"),
        ("tokenizer.json", '{"model": {"vocab": {}}, "added_tokens": {}}', "allowed: a list"),
        ("tokenizer.json", '{"model": {"vocab": {}}, "added_tokens": ["a"]}', "added_tokens: "),
        ("vocab.json", '{"a": true}', "given 'a' with id True"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=message):
        tokenizer_fingerprint(tmp_path)
