"""Compares our model of several squares a picture with transformers' LlavaNextForConditionalGeneration: see vlm_parity.py."""
import os
import tempfile

import picture_files
from comparison import ask, check

CLIP = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=24, patch_size=8)
LLAMA = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=512)
GRIDS = [[24, 48], [48, 24], [48, 48], [72, 24], [24, 72]]
MODELS = [
    ("clip", CLIP, "Llama", LLAMA, GRIDS, dict(vision_feature_layer=-2, vision_feature_select_strategy="default")),
    ("siglip", dict(CLIP, image_size=16), "Mistral", dict(LLAMA, sliding_window=None), [[16, 32], [48, 32], [16, 16]],
     dict(vision_feature_layer=-1, vision_feature_select_strategy="full")),
    ("clip", CLIP, "Qwen2", dict(LLAMA, tie_word_embeddings=True), [[24, 24]], dict(vision_feature_layer=-1,
                                                                                      vision_feature_select_strategy="default")),
]
# Wide, tall, square, tiny, strips, those of a grid's own shape, and sizes by which rounding is told apart.
SIZES = [(60, 41), (30, 77), (48, 48), (5, 3), (200, 9), (7, 150), (24, 48), (97, 24), (1, 1), (333, 250), (49, 47), (640, 427), (63, 129)]
NEW_TOKENS = 12


def make_model(kind, vision, text, language, grids, options):
    import transformers as t
    import vlm_parity

    towers = {"clip": t.CLIPVisionConfig, "siglip": t.SiglipVisionConfig}
    config = t.LlavaNextConfig(vision_config=towers[kind](**vision), text_config=getattr(t, text + "Config")(**language),
                               image_token_index=language["vocab_size"] - 1, image_grid_pinpoints=grids,
                               tie_word_embeddings=language.get("tie_word_embeddings", False), **options)
    return vlm_parity.shake(t.LlavaNextForConditionalGeneration(config))


def make_processor(kind, vision, grids):
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    side = vision["image_size"]
    means = {} if kind == "clip" else dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return LlavaNextImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side},
                                      image_grid_pinpoints=grids, do_pad=False, **means)


def rows_of(processor, vision, width, height):
    """What the processor writes for a picture: LlavaNextProcessor, without a tokenizer."""
    from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor

    counter = LlavaNextProcessor.__new__(LlavaNextProcessor)
    counter.image_processor, counter.patch_size, counter.num_additional_image_tokens = processor, vision["patch_size"], 0
    return counter._get_number_of_features(height, width, vision["image_size"], vision["image_size"])


def forward(model, sequences, pixels, sizes, image_token):
    """Logits of all rows and the summed loss, a sequence at a time."""
    import torch

    logits, loss = [], 0
    for sequence in sequences:
        out = model(attention_mask=torch.ones(1, len(sequence["tokens"]), dtype=torch.long),
                    **inputs(sequence, pixels, sizes, image_token))
        rows = out.logits[0]
        loss = loss + torch.nn.functional.cross_entropy(rows[:, :image_token], torch.tensor(sequence["targets"]), ignore_index=-1,
                                                        reduction="sum")
        logits.append(rows[:, :image_token])
    return torch.cat(logits), loss


def inputs(sequence, pixels, sizes, image_token):
    import torch

    given = {"input_ids": torch.tensor([[image_token if t < 0 else t for t in sequence["tokens"]]])}
    if sequence["pictures"]:
        most = max(len(pixels[p]) for p in sequence["pictures"])
        padded = [torch.nn.functional.pad(pixels[p], (0, 0, 0, 0, 0, 0, 0, most - len(pixels[p]))) for p in sequence["pictures"]]
        given.update(pixel_values=torch.stack(padded), image_sizes=torch.tensor([sizes[p][::-1] for p in sequence["pictures"]]))
    return given


def make_samples(rows, vocabulary):
    """Each picture at some place: one, two and three in a sequence, and none."""
    import torch

    def text(count):
        return torch.randint(0, vocabulary - 1, (count,)).tolist()

    samples, left = [], list(range(len(rows)))
    for count in (1, 2, 0, 3, *[1] * len(rows)):
        mine, left = left[:count], left[count:]
        tokens = text(3)
        for picture in mine:
            tokens += [-1] * rows[picture] + text(4)
        if mine or not count:
            samples.append({"tokens": tokens, "pictures": mine})
    for sample in samples:
        row = sample["tokens"]
        sample["targets"] = [row[i + 1] if i + 1 < len(row) and row[i + 1] >= 0 and i % 3 != 1 else -1 for i in range(len(row))]
    return samples


def compare(probe, model_of, seed):
    import torch
    import transformers
    import vlm_parity
    from PIL import Image
    from safetensors.torch import load_file

    kind, vision, text, language, grids, options = model_of
    torch.manual_seed(seed)
    model, image_token = make_model(*model_of), language["vocab_size"] - 1
    processor = make_processor(kind, vision, grids)
    with tempfile.TemporaryDirectory() as folder:
        paths = picture_files.write_pictures(folder, SIZES, seed)
        pixels = [torch.from_numpy(processor(Image.open(path))["pixel_values"][0]) for path in paths]
        rows = [rows_of(processor, vision, *size) for size in SIZES]
        samples = make_samples(rows, language["vocab_size"])
        prompts = [sample for sample in samples if len(sample["pictures"]) != 1][:3] + samples[:1]
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        request = {"pictures": paths, "sequences": samples, "prompts": prompts, "new_tokens": NEW_TOKENS}
        answer = ask(probe, source, folder, request)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        squares = load_file(os.path.join(folder, "pixels.safetensors"))["pixels"]
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))
        layers = vision["num_hidden_layers"] + 1 + options["vision_feature_layer"]
        again = vlm_parity.check_export(model, os.path.join(folder, "model"), layers)
    assert answer["rows"] == rows, f"rows of pictures: ours {answer['rows']}, transformers {rows}"
    assert again.config.image_grid_pinpoints == grids, again.config.image_grid_pinpoints
    expected = torch.cat(pixels)
    assert squares.shape == expected.shape and (squares - expected).abs().max() < 1e-6, \
        f"pixels of {len(expected)} squares: differ by up to {(squares - expected).abs().max()}"
    logits, loss = forward(model, samples, pixels, SIZES, image_token)
    loss.backward()
    worst = {"logits": check("logits", ours, logits.detach()),
             "loss": check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1))}
    with torch.no_grad():
        worst["logits of the folder that we saved"] = check(
            "logits of our folder", forward(again, samples, pixels, SIZES, image_token)[0], logits)
        for sample, written in zip(prompts, answer["generated"], strict=True):
            given = inputs(sample, pixels, SIZES, image_token)
            seen = torch.ones(1, len(sample["tokens"]), dtype=torch.long)
            theirs = model.generate(**given, attention_mask=seen, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0,
                                    suppress_tokens=[image_token])[0, len(sample["tokens"]):].tolist()
            assert theirs == written, f"greedy answer: ours {written}, transformers {theirs}"
    worst.update(vlm_parity.check_gradients(model, gradients, language["vocab_size"]))
    print("  differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))
    print(f"equal to transformers {transformers.__version__}: LlavaNext of {kind} and {text}, grids {grids}: {len(SIZES)} pictures as "
          f"{len(expected)} squares, {len(prompts)} greedy answers")


def main(probe):
    for seed, model_of in enumerate(MODELS):
        compare(probe, model_of, seed)
