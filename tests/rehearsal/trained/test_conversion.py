"""The engine's interpreter converts a small GGUF file with random weights."""

import subprocess
from pathlib import Path

import pytest

from rehearsal.trained import fetching
from tests.rehearsal.engines import engine_python

# Writes a model to a GGUF file as llama.cpp does (rows of q and k in another order), converts the
# file, and prints the largest difference of the logits, the number of tokens of `ab 1` (a and b are
# one token), and whether the output head is the embedding table. In the file the head is missing, a
# copy of the table, or another tensor.
PROGRAM = """
import sys, gguf, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode
root, converter, *outputs = sys.argv[1:]
sys.path.append(converter)
from conversion import convert
torch.manual_seed(0)
for output in outputs:
    folder = root + "/" + output
    Path(folder).mkdir()
    sizes = dict(vocab_size=258, hidden_size=64, intermediate_size=96, num_hidden_layers=2)
    heads = dict(num_attention_heads=4, num_key_value_heads=2)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=output != "another"))
    writer = gguf.GGUFWriter(folder + "/x.gguf", "llama")
    for name, value in dict(context_length=64, embedding_length=64, block_count=2, head_count=4,
                            feed_forward_length=96, head_count_kv=2, layer_norm_rms_eps=1e-6,
                            vocab_size=258, tokenizer_model="gpt2", token_merges=["a b"],
                            token_list=[*bytes_to_unicode().values(), "ab", "</s>"],
                            token_types=[1] * 257 + [3], eos_token_id=257).items():
        getattr(writer, "add_" + name)(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    for name, weights in model.state_dict().items():
        if name == "lm_head.weight" and output == "copy":
            weights = weights + 1e-6 * torch.randn_like(weights)
        if name != "lm_head.weight" or output != "none":
            if number := {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2]):
                rows = weights.reshape(number, 2, weights.shape[0] // number // 2, -1)
                weights = rows.swapaxes(1, 2).reshape(weights.shape).contiguous()
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weights.numpy())
    for write in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{write}_to_file")()
    convert(Path(folder, "x.gguf"), Path(folder, "converted"))
    found, ids = AutoModelForCausalLM.from_pretrained(folder + "/converted"), torch.arange(40)[None]
    tokenizer = AutoTokenizer.from_pretrained(folder + "/converted")
    print((found(ids).logits - model(ids).logits).abs().max().item(), len(tokenizer.encode("ab 1")))
    print(found.config.tie_word_embeddings)
"""


OUTPUTS = ("none", "copy", "another")


@pytest.mark.engine
def test_a_converted_model_says_what_the_file_says(tmp_path: Path) -> None:
    where = Path(fetching.__file__).parent
    command = [str(engine_python()), "-c", PROGRAM, str(tmp_path), str(where), *OUTPUTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    printed = dict(
        zip(OUTPUTS, zip(words[::3], words[1::3], words[2::3], strict=True), strict=True)
    )
    for output, (difference, tokens, is_one_tensor) in printed.items():
        assert float(difference) < 1e-4, output
        assert tokens == "3"
        assert is_one_tensor == str(output != "another")
