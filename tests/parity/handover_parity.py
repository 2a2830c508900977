"""Exports language models of every kind that llama.cpp knows, with their types of tokenizers, writes them as GGUF, and runs `pipeline verify`:
by transformers, and each tensor by gguf; where transformers reads GGUF itself, it must say the same of both. What is spoilt must be found.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import contextlib
import io
import json
import os
import pathlib
import random
import sys
import tempfile

from comparison import run, started

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../core/handover"))

SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=128)
LONG = dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=512,
            short_factor=[1.0 + 0.1 * i for i in range(8)], long_factor=[1.0 + i for i in range(8)])
GEMMA = dict(SIZES, head_dim=16, query_pre_attn_scalar=16, sliding_window=16)
# The class, the tokenizer, its configuration, and whether transformers reads its GGUF: others it does not know, or it passes over what is
# particular, such as positions, biases, windows and caps. llama.cpp reads all of them.
MODELS = {
    "gpt2": ("GPT2", "gpt2", dict(n_embd=64, n_layer=2, n_head=4, n_positions=256), False),
    "llama": ("Llama", "llama3", dict(SIZES, rope_parameters=LLAMA3, head_dim=32, tie_word_embeddings=True), False),
    "llama-plain": ("Llama", "smol_lm", SIZES, True),
    "mistral": ("Mistral", "pieces", dict(SIZES, sliding_window=None), True),
    "qwen2": ("Qwen2", "qwen2", dict(SIZES, tie_word_embeddings=True), True),
    "qwen3": ("Qwen3", "qwen2", dict(SIZES, head_dim=32, tie_word_embeddings=True, rope_parameters=YARN), False),
    "smollm3": ("SmolLM3", "llama3", SIZES, False),
    "olmo2": ("Olmo2", "llama3", SIZES, False),
    "phi3": ("Phi3", "pieces", dict(SIZES, original_max_position_embeddings=512, max_position_embeddings=2048, rope_parameters=LONG), False),
    "gemma2": ("Gemma2", "pieces", GEMMA, False),
    "gemma3": ("Gemma3", "pieces", dict(GEMMA, num_hidden_layers=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"]), False),
}
ENDS = {"gpt2": "<|endoftext|>", "smol_lm": "<|endoftext|>", "qwen2": "<|endoftext|>", "llama3": "<|end_of_text|>", "pieces": "</s>"}
BEGINS = {"llama3": "<|begin_of_text|>", "pieces": "<s>"}


def pieces(vocab_size):
    """BPE in the form that SentencePiece's becomes."""
    import tokenizer_samples
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator(tokenizer_samples.TRAINING, trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["id"] < 3]
    return Tokenizer.from_str(json.dumps(file))


def write_model(folder, name):
    import tokenizer_kinds
    import tokenizers
    import torch
    import transformers

    of_class, kind, options, _ = MODELS[name]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer = (tokenizer_kinds.trained("gpt2", 400, alphabet, [ENDS["gpt2"]]) if kind == "gpt2" else
                 pieces(700) if kind == "pieces" else getattr(tokenizer_kinds, kind)(500))
    size = (tokenizer.get_vocab_size() + 31) // 32 * 32  # rows that no token has, as published models have them
    begins = {"bos_token": BEGINS[kind]} if kind in BEGINS else {}
    tokens = dict(vocab_size=size, eos_token_id=tokenizer.token_to_id(ENDS[kind]), pad_token_id=None,
                  bos_token_id=tokenizer.token_to_id(BEGINS[kind]) if begins else None)
    torch.manual_seed(1)
    config = getattr(transformers, ("Gemma3Text" if of_class == "Gemma3" else of_class) + "Config")(**options, **tokens)
    model = getattr(transformers, of_class + ("LMHeadModel" if of_class == "GPT2" else "ForCausalLM"))(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases that are not 1 and 0
            parameter.mul_(3) if parameter.dim() >= 2 else None
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=ENDS[kind], **begins).save_pretrained(folder)


def write_config(work, name):
    data = "{ " + ", ".join(f'{split} = "texts.txt"' for split in ("train", "val", "test")) + " }"
    with open(os.path.join(work, name + ".toml"), "w") as file:
        file.write(f'[run]\ndir = "run-{name}"\ncache_dir = "cache"\ndevice = "cpu"\n[task]\nplugin = "pretraining"\ndata = {data}\nsequence.max_tokens = 48\n'
                   f'[train]\ninit_from = "{name}"\nmax_steps = 1\n')


class Work:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def export(self, name, *more):
        """The folder that `pipeline export` has written, of the model as it was."""
        there = os.path.join(f"run-{name}", f"export{len(more)}")
        run(self.program, self.folder, "export", name + ".toml", "--checkpoint", name, "--output", there, *more)
        return pathlib.Path(self.folder, there)

    def gguf(self, folder, *arguments):
        import gguf_file

        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            code = gguf_file.main([str(folder), *arguments])
        return code, printed.getvalue()

    def verify(self, name, folder):
        import verify

        os.chdir(self.folder)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = verify.main(["--program", self.program, "--folder", str(folder), "--samples", "2", "--checkpoint", name, "--", name + ".toml"])
        return code, printed.getvalue()


def spoil(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x80]))  # the sign of a weight


def check_model(work, name):
    import verify

    folder = work.export(name)
    for kind in ("f32", "q8_0"):
        assert work.gguf(folder, "--type", kind)[0] == 0
    code, printed = work.verify(name, folder)
    assert code == 0 and printed.count("same") >= 6 and "DIFFERS" not in printed, printed
    if MODELS[name][3]:
        file = next(folder.glob("*-f32.gguf"))
        tokens = list(range(3, 40))
        difference = abs(verify.Transformers(folder, file.name).log_p(tokens) - verify.Transformers(folder).log_p(tokens)).max()
        assert difference < 1e-4, f"{name}: transformers reads its GGUF, with a difference of {difference}"
    print(f"{name}: verified by transformers{' by way of GGUF, too' if MODELS[name][3] else ''}")
    return folder


def check_types(work, folder):
    """All types of GGUF, a model in bf16 and in shards, and what is spoilt."""
    import gguf_file

    for kind in gguf_file.TYPES:
        assert work.gguf(folder, "--type", kind)[0] == 0
    code, printed = work.verify("qwen3", folder)
    assert code == 0 and printed.count("gguf, ") == len(gguf_file.TYPES), printed
    narrow = work.export("qwen3", "--set", "export.dtype=bf16", "--set", "export.shard_size=1")
    code, printed = work.verify("qwen3", narrow)
    assert code == 0 and "rounded to BF16" in printed, printed
    file = next(folder.glob("*-q4_0.gguf"))
    spoil(file, -40)
    code, printed = work.verify("qwen3", folder)
    assert code == 1 and printed.count("DIFFERS") == 2, printed
    file.unlink()
    for file in folder.glob("*.gguf"):
        file.unlink()
    spoil(folder / "model.safetensors", -1)
    code, printed = work.verify("qwen3", folder)
    assert code == 1 and printed.count("DIFFERS") == 3, printed
    print("types: verified, and what is spoilt is found")


def check_refusals(work, folder):
    """What llama.cpp would compute otherwise, and say nothing."""
    def refused(changes):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        code, printed = work.gguf(folder)
        (folder / "config.json").write_text(json.dumps(config))
        assert code == 1 and not list(folder.glob("*.tmp")), printed
        return printed

    assert "yarn with truncate" in refused({"rope_parameters": dict(YARN, truncate=False)})
    assert "'dynamic'" in refused({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 500.0}})
    assert "the activation gelu" in refused({"hidden_act": "gelu"})
    assert "partial_rotary_factor = 0.5" in refused({"partial_rotary_factor": 0.5})
    assert "model_type is 't5'" in refused({"model_type": "t5"})
    assert "no row for" in refused({"vocab_size": 300})
    print("refusals: as they should be")


def main():
    args = started("program", "torch", "transformers", "tokenizers", "gguf")
    random.seed(1)
    words = "apples pears and fruit that people eat in the season 12 3 of many years, it's we're I'll don't 345 A.B. über naïve".split()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "texts.txt").write_text("".join(" ".join(random.choices(words, k=60)) + "\n" for _ in range(20)))
        work = Work(os.path.abspath(args.program), folder)
        for name in MODELS:
            write_model(os.path.join(folder, name), name)
            write_config(folder, name)
            exported = check_model(work, name)
            if name == "qwen3":
                check_refusals(work, exported)
                check_types(work, exported)


if __name__ == "__main__":
    main()
