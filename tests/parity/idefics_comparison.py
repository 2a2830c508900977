"""Compares our model with transformers' Idefics3ForConditionalGeneration and SmolVLMForConditionalGeneration: see vlm_parity.py."""
import json
import os
import subprocess
import tempfile

import picture_files
from comparison import ask, check

VISION = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
LLAMA = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=4096)
SPECIAL = ["<|endoftext|>", "<fake_token_around_image>", "<image>", "<end_of_utterance>"]
OF_PLACES = ["<global-img>"] + [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
# Classes, the vision encoder, the factor, the longest edge, whether pictures are cut, and whether the words for places are tokens.
MODELS = [
    ("Idefics3", VISION, "Llama", LLAMA, 2, 96, True, False),
    ("SmolVLM", dict(VISION, image_size=24, patch_size=4, layer_norm_eps=1e-5), "Llama", dict(LLAMA, tie_word_embeddings=True), 3, 96, True, True),
    ("Idefics3", dict(VISION, image_size=48), "Qwen2", LLAMA, 1, 70, False, True),
    ("Idefics3", dict(VISION, image_size=30, patch_size=4), "Llama", LLAMA, 7, 120, True, False),  # 2 pixels a side are not seen
    ("SmolVLM", dict(VISION, image_size=54, patch_size=2), "Llama", LLAMA, 9, 54, True, True),  # rounding moves some of the 27 patches a side
]
SIZES = [(60, 41), (30, 77), (48, 48), (5, 3), (200, 9), (7, 150), (1, 1), (333, 250), (640, 427), (63, 129), (1, 40), (96, 96)]
NEW_TOKENS = 12


def write_tokenizer(folder, has_places):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(["rows and\n\ncolumns, global-img row_1_col_2\n\n"] * 4,
                                  trainers.BpeTrainer(vocab_size=290, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL[:2] + SPECIAL[3:]])
    if has_places:
        tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in OF_PLACES])
    tokenizer.add_special_tokens([AddedToken("<image>", normalized=False, special=True)])  # the last one
    os.makedirs(folder)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, file)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>")


def make_model(name, vision, text, language, factor, vocabulary):
    import transformers as t
    import vlm_parity

    text_config = getattr(t, text + "Config")(vocab_size=vocabulary, **language)
    config = getattr(t, name + "Config")(vision_config=vision, text_config=text_config, image_token_id=vocabulary - 1, scale_factor=factor,
                                         tie_word_embeddings=language.get("tie_word_embeddings", False))
    return vlm_parity.shake(getattr(t, name + "ForConditionalGeneration")(config))


def forward(model, sequences, pixels, image_token):
    """Logits of all rows and the summed loss, a sequence at a time."""
    import torch

    logits, loss = [], 0
    for sequence in sequences:
        rows = model(attention_mask=torch.ones(1, len(sequence["tokens"]), dtype=torch.long), **inputs(sequence, pixels, image_token)).logits[0]
        loss = loss + torch.nn.functional.cross_entropy(rows[:, :image_token], torch.tensor(sequence["targets"]), ignore_index=-1,
                                                        reduction="sum")
        logits.append(rows[:, :image_token])
    return torch.cat(logits), loss


def inputs(sequence, pixels, image_token):
    import torch

    given = {"input_ids": torch.tensor([[image_token if t < 0 else t for t in sequence["tokens"]]])}
    if sequence["pictures"]:
        given["pixel_values"] = torch.cat([pixels[p] for p in sequence["pictures"]])[None]
    return given


def compare(probe, seed, name, vision, text, language, factor, edge, splits, has_places):
    import torch
    import transformers as t
    import vlm_parity
    from PIL import Image
    from safetensors.torch import load_file
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    torch.manual_seed(seed)
    side = vision["image_size"]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = write_tokenizer(os.path.join(folder, "tokens"), has_places)
        vocabulary, image_token = len(tokenizer), len(tokenizer) - 1
        model = make_model(name, vision, text, language, factor, vocabulary)
        images = Idefics3ImageProcessorPil(size={"longest_edge": edge}, max_image_size={"longest_edge": side}, do_image_splitting=splits)
        # SmolVLMProcessor writes the same, and needs a package more.
        processor = t.Idefics3Processor(images, tokenizer, image_seq_len=(side // vision["patch_size"] // factor) ** 2)
        paths = picture_files.write_pictures(folder, SIZES, seed)
        pixels, tokens = [], []
        for path in paths:
            made = processor(text="<image>", images=[Image.open(path)], add_special_tokens=False)
            pixels.append(torch.as_tensor(made["pixel_values"])[0].float())
            tokens.append([-1 if token == image_token else int(token) for token in made["input_ids"][0]])
        samples, left = [], list(range(len(SIZES)))
        for count in (1, 2, 0, 3, *[1] * len(SIZES)):
            mine, left = left[:count], left[count:]
            row = torch.randint(0, image_token, (3,)).tolist()
            for picture in mine:
                row += tokens[picture] + torch.randint(0, image_token, (4,)).tolist()
            if mine or not count:
                targets = [row[i + 1] if i + 1 < len(row) and row[i + 1] >= 0 and i % 3 != 1 else -1 for i in range(len(row))]
                samples.append({"tokens": row, "targets": targets, "pictures": mine})
        prompts = [sample for sample in samples if len(sample["pictures"]) != 1][:3]
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        request = {"pictures": paths, "sequences": samples, "prompts": prompts, "new_tokens": NEW_TOKENS, "longest_edge": edge,
                   "split": splits, "tokenizer": os.path.join(folder, "tokens"), "smol": name == "SmolVLM"}
        answer = ask(probe, source, folder, request)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        squares = load_file(os.path.join(folder, "pixels.safetensors"))["pixels"]
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))
        again = vlm_parity.check_export(model, os.path.join(folder, "model"), vision["num_hidden_layers"])
    assert answer["tokens"] == tokens, "\n".join(f"{size}: ours {a}\n  transformers {b}" for size, a, b in zip(SIZES, answer["tokens"], tokens) if a != b)
    expected = torch.cat(pixels)
    assert squares.shape == expected.shape and (squares - expected).abs().max() < 1e-6, \
        f"pixels of {len(expected)} squares: {squares.shape}, differ by up to {(squares - expected).abs().max()}"
    logits, loss = forward(model, samples, pixels, image_token)
    loss.backward()
    worst = {"logits": check("logits", ours, logits.detach()),
             "loss": check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1))}
    with torch.no_grad():
        worst["logits of the folder that we saved"] = check("logits of our folder", forward(again, samples, pixels, image_token)[0],
                                                                       logits)
        for sample, written in zip(prompts, answer["generated"], strict=True):
            seen = torch.ones(1, len(sample["tokens"]), dtype=torch.long)
            theirs = model.generate(**inputs(sample, pixels, image_token), attention_mask=seen, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None,
                                    pad_token_id=0, suppress_tokens=[image_token])[0, len(sample["tokens"]):].tolist()
            assert theirs == written, f"greedy answer: ours {written}, transformers {theirs}"
    worst.update(vlm_parity.check_gradients(model, gradients, vocabulary))
    print("  differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))
    print(f"equal to transformers {t.__version__}: {name} of {text}, {side} pixels, factor {factor}, longest edge {edge}: {len(SIZES)} pictures as "
          f"{len(expected)} squares, {len(prompts)} greedy answers")


# The template of SmolVLM's folders.
TEMPLATE = ("<|endoftext|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == 'image' %}{{':'}}"
            "{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
            "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
            "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
CONVERSATIONS = [["<image>\nWhat is in it?", "Rows and columns."], ["<image>\n<image>\nWhich?", "Both", "And <image>", "that, too."],
                 ["No picture", "None.", "<image>", "a caption"]]


def compare_chat(chat_probe):
    """The tokens of conversations, with a picture's words in their places."""
    import transformers as t
    from PIL import Image
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    def parts(text):
        made = []
        for i, piece in enumerate(text.split("<image>")):
            made += [{"type": "image"}] if i else []
            piece = piece[1:] if i and piece.startswith("\n") else piece
            made += [{"type": "text", "text": piece}] if piece else []
        return made

    rows = 3
    for has_places in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            tokens = os.path.join(folder, "tokens")
            tokenizer = write_tokenizer(tokens, has_places)
            with open(os.path.join(tokens, "chat_template.jinja"), "w") as file:
                file.write(TEMPLATE)
            images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
            process = t.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=TEMPLATE)
            picture = Image.new("RGB", (60, 40))
            alone = process(text="<image>", images=[picture], add_special_tokens=False)["input_ids"][0]
            result = subprocess.run([chat_probe, "auto", tokens, str(rows)], input=json.dumps(CONVERSATIONS), stdout=subprocess.PIPE, text=True,
                                    check=True)
            for turns, ours in zip(CONVERSATIONS, json.loads(result.stdout), strict=True):
                messages = [{"role": "assistant" if i % 2 else "user", "content": parts(turn)} for i, turn in enumerate(turns)]
                text = process.apply_chat_template(messages, tokenize=False).removesuffix("\n")  # nothing is learnt of that
                theirs = process(text=text, images=[picture] * text.count("<image>"), add_special_tokens=False)["input_ids"][0]
                expected, at = [], 0
                while at < len(theirs):
                    is_picture = theirs[at:at + len(alone)] == alone
                    expected += [-1] * rows if is_picture else [int(theirs[at])]
                    at += len(alone) if is_picture else 1
                assert ours == expected, f"{turns}\n  ours         {ours}\n  transformers {expected}"
        print(f"  Idefics3Processor: the tokens of {len(CONVERSATIONS)} conversations are equal")


def main(probe, chat_probe):
    compare_chat(chat_probe)
    for seed, model_of in enumerate(MODELS):
        compare(probe, seed, *model_of)
