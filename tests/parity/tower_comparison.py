"""Compares our model with vision encoders of transformers that see pictures otherwise than CLIP does: SigLIP 2's NaFlex, which keeps their
shape, and DINOv2, without and with registers; see vlm_parity.py."""
import os
import tempfile

import picture_files
from comparison import ask, check

LLAMA = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=512)
NAFLEX = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, patch_size=8, num_patches=25)
DINO = dict(hidden_size=32, mlp_ratio=2, num_hidden_layers=3, num_attention_heads=4, image_size=40, patch_size=8)
# The class of the vision encoder, its configuration, LLaVA's own options, and how pictures are prepared.
MODELS = [
    ("Siglip2Vision", NAFLEX, dict(vision_feature_layer=-1, vision_feature_select_strategy="full"), dict(max_patches=20)),
    ("Siglip2Vision", dict(NAFLEX, patch_size=4, num_patches=9), dict(vision_feature_layer=-2, vision_feature_select_strategy="full"),
     dict(max_patches=49)),
    ("Dinov2", DINO, dict(vision_feature_layer=-2, vision_feature_select_strategy="default"), dict(crop_size=24, shortest_edge=30)),
    ("Dinov2", dict(DINO, layer_norm_eps=1e-5), dict(vision_feature_layer=-1, vision_feature_select_strategy="default"),
     dict(crop_size=56, shortest_edge=56)),
    ("Dinov2WithRegisters", dict(DINO, num_register_tokens=3), dict(vision_feature_layer=-1, vision_feature_select_strategy="default"),
     dict(crop_size=24, shortest_edge=24)),
    ("Dinov2WithRegisters", dict(DINO, image_size=24), dict(vision_feature_layer=-1, vision_feature_select_strategy="default"),
     dict(crop_size=24, shortest_edge=28)),
]
# No picture of one column and several rows of patches: to such torch 2.11's interpolate() gives the first row's positions in all rows, on a
# CPU and with antialias.
SIZES = [(60, 41), (30, 77), (48, 48), (5, 3), (200, 9), (30, 150), (1, 1), (333, 250)]
NEW_TOKENS = 8


def make_model(name, vision, options):
    import transformers as t
    import vlm_parity

    config = t.LlavaConfig(vision_config=getattr(t, name + "Config")(**vision), text_config=t.LlamaConfig(**LLAMA),
                           image_token_index=LLAMA["vocab_size"] - 1, **options)
    return vlm_parity.shake(t.LlavaForConditionalGeneration(config))


def make_processor(name, vision, prepared):
    if name == "Siglip2Vision":
        from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

        return Siglip2ImageProcessorPil(patch_size=vision["patch_size"], max_num_patches=prepared["max_patches"])
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

    crop = prepared["crop_size"]
    return BitImageProcessorPil(size={"shortest_edge": prepared["shortest_edge"]}, crop_size={"height": crop, "width": crop},
                                image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])


def rows_of(model, made):
    """What the language model sees of a picture: (rows, C)."""
    import torch

    given = {key: torch.stack([torch.as_tensor(one) for one in value]) for key, value in made.items()}
    rows = model.get_image_features(**given, return_dict=True, vision_feature_layer=model.config.vision_feature_layer,
                                    vision_feature_select_strategy=model.config.vision_feature_select_strategy).pooler_output[0]
    return rows[: given["spatial_shapes"].prod()] if "spatial_shapes" in given else rows  # behind them NaFlex has padding


def logits_of(model, tokens, pictures, made, image_token):
    """LlavaForConditionalGeneration's, whose forward pass takes no shapes of pictures: their rows are made before."""
    import torch
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    ids = torch.tensor([[image_token if token < 0 else token for token in tokens]])
    seen = BaseModelOutputWithPooling(pooler_output=[rows_of(model, made[picture]) for picture in pictures])
    more = {"mm_encoder_outputs": {"image": seen}} if pictures else {}
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0][:, :image_token]


def forward(model, samples, made, image_token):
    """Logits of all rows and the summed loss, a sequence at a time."""
    import torch

    logits, loss = [], 0
    for sample in samples:
        rows = logits_of(model, sample["tokens"], sample["pictures"], made, image_token)
        loss = loss + torch.nn.functional.cross_entropy(rows, torch.tensor(sample["targets"]), ignore_index=-1, reduction="sum")
        logits.append(rows)
    return torch.cat(logits), loss


def answer_of(model, prompt, made, image_token):
    tokens = list(prompt["tokens"])
    for _ in range(NEW_TOKENS):
        tokens.append(int(logits_of(model, tokens, prompt["pictures"], made, image_token)[-1].argmax()))
    return tokens[len(prompt["tokens"]):]


def squares_of(made, patch):
    """As ours: (squares, 3, S, S), of NaFlex the patches."""
    import torch

    pixels = torch.as_tensor(made["pixel_values"][0])[None].float()
    if "spatial_shapes" not in made:
        return pixels
    count = int(torch.as_tensor(made["spatial_shapes"][0]).prod())
    return pixels[0, :count].view(count, patch, patch, 3).permute(0, 3, 1, 2)


def compare(probe, seed, name, vision, options, prepared):
    import llava_next_comparison
    import torch
    import transformers
    import vlm_parity
    from PIL import Image
    from safetensors.torch import load_file

    torch.manual_seed(seed)
    model, image_token = make_model(name, vision, options), LLAMA["vocab_size"] - 1
    processor = make_processor(name, vision, prepared)
    with tempfile.TemporaryDirectory() as folder:
        paths = picture_files.write_pictures(folder, SIZES, seed)
        made = [dict(processor(Image.open(path))) for path in paths]
        with torch.no_grad():
            rows = [len(rows_of(model, one)) for one in made]
        samples = llava_next_comparison.make_samples(rows, LLAMA["vocab_size"])
        prompts = [sample for sample in samples if len(sample["pictures"]) != 1][:3]
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        request = {"pictures": paths, "sequences": samples, "prompts": prompts, "new_tokens": NEW_TOKENS, **prepared}
        answer = ask(probe, source, folder, request)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        squares = load_file(os.path.join(folder, "pixels.safetensors"))["pixels"]
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))
        again = vlm_parity.check_export(model, os.path.join(folder, "model"), vision["num_hidden_layers"] + 1 + options["vision_feature_layer"])
    assert answer["rows"] == rows, f"rows of pictures: ours {answer['rows']}, transformers {rows}"
    expected = torch.cat([squares_of(one, vision["patch_size"]) for one in made])
    assert squares.shape == expected.shape and (squares - expected).abs().max() < 1e-6, \
        f"pixels of {len(expected)} squares: {tuple(squares.shape)}, differ by up to {(squares - expected).abs().max()}"
    logits, loss = forward(model, samples, made, image_token)
    loss.backward()
    worst = {"logits": check("logits", ours, logits.detach()),
             "loss": check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1))}
    with torch.no_grad():
        worst["logits of the folder that we saved"] = check("logits of our folder", forward(again, samples, made, image_token)[0],
                                                                       logits)
        for prompt, written in zip(prompts, answer["generated"], strict=True):
            theirs = answer_of(model, prompt, made, image_token)
            assert theirs == written, f"greedy answer: ours {written}, transformers {theirs}"
    worst.update(vlm_parity.check_gradients(model, gradients, LLAMA["vocab_size"]))
    print("  differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))
    print(f"equal to transformers {transformers.__version__}: {name} {prepared}: {len(SIZES)} pictures as {len(expected)} squares, "
          f"{len(prompts)} greedy answers")


def main(probe):
    for seed, model_of in enumerate(MODELS):
        compare(probe, seed, *model_of)
