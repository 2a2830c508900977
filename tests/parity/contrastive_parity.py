"""Compares our two towers with transformers' CLIPModel and SiglipModel, live: logits, loss, every gradient of a step, and the folder
that we save, for randomly initialised models.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import subprocess
import tempfile

from comparison import ask, check, started

VISION = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=24, patch_size=8)
TEXT = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, max_position_embeddings=24,
            bos_token_id=129, eos_token_id=130, pad_token_id=130)
MODELS = [
    ("clip", VISION, TEXT, dict(projection_dim=20)),
    ("clip", dict(VISION, hidden_act="gelu", layer_norm_eps=1e-6), dict(TEXT, hidden_act="gelu", num_hidden_layers=1),
     dict(projection_dim=40, logit_scale_init_value=1.5)),
    ("siglip", VISION, dict(TEXT, projection_size=32), {}),
    ("siglip", dict(VISION, hidden_act="gelu", num_hidden_layers=1), dict(TEXT, hidden_size=30, projection_size=32), {}),
]


def classes(kind):
    import transformers as t

    return (t.CLIPConfig, t.CLIPModel) if kind == "clip" else (t.SiglipConfig, t.SiglipModel)


def make_model(kind, vision, text, options):
    import torch

    config, model = classes(kind)
    model = model(config(vision_config=vision, text_config=text, **options)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms that are not 0 and 1
            if name.startswith("logit_"):
                parameter.add_(0.3)
                continue
            parameter.mul_(3) if parameter.dim() >= 2 else None
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def make_texts(kind, text, count):
    """Of several lengths, the longest one too; SigLIP's are padded to it."""
    import torch

    longest, begin, end = text["max_position_embeddings"], text["bos_token_id"], text["eos_token_id"]
    texts = []
    for i in range(count):
        length = longest - 2 if i == 0 else 1 + 5 * i % (longest - 2)
        words = torch.randint(0, 128, (length,)).tolist()
        texts.append([begin] + words + [end] if kind == "clip" else (words + [end] * longest)[:longest])
    return texts


def forward(model, texts, pixels, pad):
    """Logits of each picture, and the loss."""
    import torch

    longest = max(map(len, texts))
    ids = torch.tensor([text + [pad] * (longest - len(text)) for text in texts])
    out = model(input_ids=ids, pixel_values=pixels, return_loss=True)
    return out.logits_per_image, out.loss


def compare(probe, kind, vision, text, options, seed):
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(seed)
    model = make_model(kind, vision, text, options)
    count, pad = 7, text["pad_token_id"]
    texts = make_texts(kind, text, count)
    pixels = torch.randn(count, 3, vision["image_size"], vision["image_size"])
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        os.mkdir(os.path.join(source, "input"))
        save_file({"pixels": pixels}, os.path.join(source, "input", "model.safetensors"))
        request = {"texts": texts, "begin": text["bos_token_id"], "end": text["eos_token_id"]}
        answer = ask(probe, source, folder, request)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))
        again, info = classes(kind)[1].from_pretrained(os.path.join(folder, "model"), output_loading_info=True)
        for what, names in info.items():
            assert not names, f"{what} in the folder that we saved: {names}"

    logits, loss = forward(model, texts, pixels, pad)
    loss.backward()
    worst["logits"] = check("logits", ours, logits.detach())
    worst["loss"] = check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1))
    with torch.no_grad():
        worst["logits of the folder that we saved"] = check("logits of our folder", forward(again.eval(), texts, pixels, pad)[0], logits)
    slopes = {}
    for name, parameter in model.named_parameters():
        mine, theirs = gradients[name], parameter.grad
        if name.endswith("in_proj_bias"):  # has parts of query, key and value; for the key's see below
            part = theirs.shape[0] // 3
            mine, theirs = torch.cat([mine[:part], mine[2 * part:]]), torch.cat([theirs[:part], theirs[2 * part:]])
        if name.endswith("k_proj.bias"):  # moves all of a query's scores alike, so it is 0 but for rounding
            assert mine.abs().max() < 1e-5 and theirs.abs().max() < 1e-5, f"gradient of {name}: must be 0"
            continue
        slopes[name] = check(f"gradient of {name}", mine, theirs)
    assert len(slopes) > 30, f"only {len(slopes)} gradients compared"
    name = max(slopes, key=slopes.get)
    worst[f"{len(slopes)} gradients up to (that of {name})"] = slopes[name]
    print("  differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


# Texts of people and of those who mean harm: what SigLIP 1's tokenizer takes out of them, and what the library makes of the rest.
TEXTS = ["A photo of 2 cats.", "a photo of a cat", "", " ", "...", " leading", "  two  leading", "trailing ", "\ttab\nand line\r\n",
         "\u2581", "\u2581\u2581a", "a\u2581b", "a \u2581 b", "don't! (it's) {x}[y]<z>", "<unk>", "a<unk>b", "unk", "\x1cfs\x1dgs\x1e\x1f",
         "no\u00a0break\u3000wide\u2003em\u200bzero\ufeffbom\u0085nel\u2028ls", "\u00c4\u00d6\u00dc \u00df \u0130I\u0131 \u01c5", "na\u00efve cafe\u0301",
         "\u732b\u306e\u5199\u771f", "\U0001f408\u200d\u2b1b photo", "\ufb01ne \uff21\uff22\uff23 \u2460 \u00bd \u00a8 a", "\u201cquoted\u201d \u2014 dash\u2026",
         "a" * 300, "cat " * 80, "the cat\x00 on the mat", "CAT\u0301 \ud55c\uae00 \u1112\u1161\u11ab", "a - b", "- a", "a -", "_a_ b_c", "\\ / | ~ ` ^ $ + = < >"]


def compare_texts(probe):
    """SiglipTokenizer's ids, over a small model of the kind that it has: unigrams, with and without folded characters."""
    import io
    import shutil

    import sentencepiece
    import transformers

    corpus = ["a photo of a cat", "two cats on the mat", "the cat and the dog", "a picture of a red car", "naive cafe", "quoted fine photo"] * 20
    for normalization, lower in (("nmt_nfkc", None), ("nmt_nfkc_cf", True), ("identity", False)):
        with tempfile.TemporaryDirectory() as folder:
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(corpus), model_writer=model, vocab_size=60, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
                normalization_rule_name=normalization, hard_vocab_limit=False, minloglevel=2)
            path = os.path.join(folder, "spiece.model")
            with open(path, "wb") as file:
                file.write(model.getvalue())
            options = {} if lower is None else {"do_lower_case": lower}
            theirs = transformers.SiglipTokenizer(path, **options)
            saved = os.path.join(folder, "saved")
            theirs.save_pretrained(saved)
            for place in (saved, folder):  # as the class saves itself, and as it was published
                if place == folder:
                    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
                        json.dump({"tokenizer_class": "SiglipTokenizer", "eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>",
                                   "model_max_length": 64, **options}, file)
                result = subprocess.run([probe, "--texts", place], input=json.dumps(TEXTS), stdout=subprocess.PIPE, text=True, check=True)
                ours = json.loads(result.stdout)
                assert (ours["padding"], ours["end"]) == (theirs.pad_token_id, theirs.eos_token_id), ours
                for text, tokens in zip(TEXTS, ours["tokens"]):
                    plain = text.replace("<unk>", "unk")  # what people wrote becomes no special token here
                    wanted = theirs(plain)["input_ids"]
                    assert tokens + [ours["end"]] == wanted, f"{normalization} {text!r}: ours {tokens}, transformers {wanted}"
            shutil.rmtree(saved)
        print(f"equal to SiglipTokenizer: {len(TEXTS)} texts, {normalization}, do_lower_case {lower}")


def main():
    arguments = started("probe", "sentencepiece", "torch", "transformers")
    import transformers

    compare_texts(arguments.probe)
    for seed, (kind, vision, text, options) in enumerate(MODELS):
        compare(arguments.probe, kind, vision, text, options, seed)
        print(f"equal to transformers {transformers.__version__}: {kind} {vision} {text} {options}")


if __name__ == "__main__":
    main()
