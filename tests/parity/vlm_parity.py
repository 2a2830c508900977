"""Compares our vision-language model with transformers' LlavaForConditionalGeneration, LlavaNextForConditionalGeneration, Idefics3ForConditionalGeneration and SmolVLMForConditionalGeneration, live:
pixels and rows of pictures, logits, loss, every gradient, greedy answers, and the folder that we save, for randomly initialised models;
and the tokens of conversations with its processor's.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import warnings

from comparison import ask, check
from peer_packages import needed, use_their_python

DINO_RENAMED = {"attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key",
                "attention.v_proj": "attention.attention.value", "attention.o_proj": "attention.output.dense"}
DINO_NAMES = re.compile("|".join(map(re.escape, DINO_RENAMED)))
CLIP = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=24, patch_size=8)
LLAMA = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=96)
MODELS = [
    ("clip", CLIP, LLAMA, dict(vision_feature_layer=-2, vision_feature_select_strategy="default")),
    ("clip", dict(CLIP, hidden_act="gelu", layer_norm_eps=1e-6), dict(LLAMA, num_key_value_heads=6, tie_word_embeddings=True, head_dim=12),
     dict(vision_feature_layer=-1, vision_feature_select_strategy="default")),
    ("siglip", dict(CLIP, image_size=19), dict(LLAMA, num_key_value_heads=1, rms_norm_eps=1e-5, rope_parameters={
        "rope_type": "default", "rope_theta": 500000.0}), dict(vision_feature_layer=-1, vision_feature_select_strategy="full")),
]


def make_model(kind, vision, language, options):
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

    towers = {"clip": CLIPVisionConfig, "siglip": SiglipVisionConfig}
    text = LlamaConfig(**language)
    config = LlavaConfig(vision_config=towers[kind](**vision), text_config=text, image_token_index=language["vocab_size"] - 1,
                         tie_word_embeddings=language.get("tie_word_embeddings", False), **options)
    return shake(LlavaForConditionalGeneration(config))


def shake(model):
    """Biases and norms that are not 0 and 1."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3) if parameter.dim() >= 2 else None
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def make_sequences(patches, vocabulary):
    """Two with a picture, at the start and within; one without; one of a single token."""
    import torch

    def text(count):
        return torch.randint(0, vocabulary - 1, (count,)).tolist()

    rows = [[-1] * patches + text(7), text(5) + [-1] * patches + text(20), text(9), text(1)]
    targets = [[row[i + 1] if i + 1 < len(row) and row[i + 1] >= 0 and i % 3 != 1 else -1 for i in range(len(row))] for row in rows]
    return [{"tokens": row, "targets": wanted} for row, wanted in zip(rows, targets)]


def forward(model, sequences, pixels, image_token):
    """Logits of all rows and the summed loss, a sequence at a time."""
    import torch

    logits, loss, picture = [], 0, 0
    for sequence in sequences:
        ids = torch.tensor([[image_token if t < 0 else t for t in sequence["tokens"]]])
        seen = -1 in sequence["tokens"]
        out = model(input_ids=ids, pixel_values=pixels[picture: picture + 1] if seen else None, attention_mask=torch.ones_like(ids))
        picture += seen
        rows = out.logits[0]
        loss = loss + torch.nn.functional.cross_entropy(
            rows[:, :image_token], torch.tensor(sequence["targets"]), ignore_index=-1, reduction="sum")
        logits.append(rows[:, :image_token])
    return torch.cat(logits), loss


def check_export(model, saved, kept_layers):
    """transformers loads what we saved with nothing missing, and computes the same."""
    again, info = type(model).from_pretrained(saved, output_loading_info=True)
    for kind, names in info.items():
        names = [name for name in names if "vision_model.head" not in name and ".vision_tower.head" not in name]
        assert not names, f"{kind} in the folder that we saved: {names}"
    assert again.config.vision_config.num_hidden_layers == kept_layers
    return again.eval()


def check_gradients(model, gradients, vocabulary):
    """Of every parameter that has one."""
    slopes = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:  # behind the layer whose output is used
            continue
        plain = name.removeprefix("model.").replace("vision_tower.vision_model.", "vision_tower.")
        if plain.startswith("language_model."):
            plain = "language_model.model." + plain.removeprefix("language_model.")
        if plain == "lm_head.weight":
            plain = "language_model.lm_head.weight"
        of_clip = plain.replace("vision_tower.", "vision_tower.vision_model.")
        of_dino = DINO_NAMES.sub(lambda found: DINO_RENAMED[found[0]], plain)
        # Ours have the names before transformers 4.52, and DINOv2's those before 5.
        mine = gradients[next(known for known in (name, of_clip, of_dino) if known in gradients)]
        theirs = parameter.grad
        if mine.shape[0] == vocabulary:  # the row of the patches' token is no parameter of ours
            mine, theirs = mine[:-1], theirs[:-1]
        if "vision_" in name and name.endswith("k_proj.bias"):  # moves all of a query's scores alike, so it is 0 but for rounding
            assert mine.abs().max() < 1e-5 and theirs.abs().max() < 1e-5, f"gradient of {name}: must be 0"
            continue
        slopes[name] = check(f"gradient of {name}", mine, theirs)
    assert len(slopes) > 30, f"only {len(slopes)} gradients compared"
    name = max(slopes, key=slopes.get)
    return {f"{len(slopes)} gradients up to (that of {name})": slopes[name]}


def compare(probe, kind, vision, language, options, seed):
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(seed)
    model = make_model(kind, vision, language, options)
    image_token = language["vocab_size"] - 1
    patches = (vision["image_size"] // vision["patch_size"]) ** 2
    sequences = make_sequences(patches, language["vocab_size"])
    pixels = torch.randn(2, 3, vision["image_size"], vision["image_size"])
    layers = vision["num_hidden_layers"] + 1 + options["vision_feature_layer"]
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        os.mkdir(os.path.join(source, "input"))
        save_file({"pixels": pixels}, os.path.join(source, "input", "model.safetensors"))
        answer = ask(probe, source, folder, {"sequences": sequences})
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))
        again = check_export(model, os.path.join(folder, "model"), layers)

    logits, loss = forward(model, sequences, pixels, image_token)
    loss.backward()
    worst["logits"] = check("logits", ours, logits.detach())
    worst["loss"] = check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1))
    with torch.no_grad():
        worst["logits of the folder that we saved"] = check("logits of our folder", forward(again, sequences, pixels, image_token)[0], logits)
    worst.update(check_gradients(model, gradients, language["vocab_size"]))
    print("  differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


def compare_adapter(probe, seed):
    """peft's LoRA of the language model, and a projector that is trained beside them: its folder read, and ours read by peft."""
    import peft
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import LlavaForConditionalGeneration

    torch.manual_seed(seed)
    kind, vision, language, options = MODELS[0]
    base, image_token = make_model(kind, vision, language, options), language["vocab_size"] - 1
    sequences = make_sequences((vision["image_size"] // vision["patch_size"]) ** 2, language["vocab_size"])
    pixels = torch.randn(2, 3, vision["image_size"], vision["image_size"])
    with tempfile.TemporaryDirectory() as folder:
        source, adapter = os.path.join(folder, "source"), os.path.join(folder, "theirs")
        base.save_pretrained(source)
        os.mkdir(os.path.join(source, "input"))
        save_file({"pixels": pixels}, os.path.join(source, "input", "model.safetensors"))
        model = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=6, target_modules=r"model\.language_model\..*(q_proj|down_proj)",
                                                          modules_to_save=["multi_modal_projector"]))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(adapter)
        subprocess.run([probe, source, folder], input=json.dumps({"sequences": sequences, "adapter": adapter}), text=True, check=True)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        with torch.no_grad():
            plain = LlavaForConditionalGeneration.from_pretrained(source).eval()
            before = forward(plain, sequences, pixels, image_token)[0]
            theirs = forward(model.eval(), sequences, pixels, image_token)[0]
            again = peft.PeftModel.from_pretrained(plain, os.path.join(folder, "adapter")).eval()
            worst = {"logits": check("logits", ours, theirs),
                     "our adapter": check("our adapter", forward(again, sequences, pixels, image_token)[0], theirs),
                     "moved": ((before - theirs).norm() / theirs.norm()).item()}
        assert worst["moved"] > 0.01, f"the adapter moves the logits by {worst['moved']:.1e}"
    print(f"equal to peft {peft.__version__}: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


def main():
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", required=True, help="the program vlm_probe")
    parser.add_argument("--chat-probe", required=True, help="the program vlm_chat_probe")
    parser.add_argument("--tokenizer-tool", required=True, help="the program tokenizer_tool")
    arguments = parser.parse_args()
    with needed():
        import peft  # noqa: F401
        import torch
        import transformers
    import chat_comparison
    import idefics_comparison
    import llava_next_comparison
    import tower_comparison

    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("error", message="Found missing adapter keys")
    torch.set_num_threads(1)  # small models: threads only wait for each other
    chat_comparison.main(arguments.chat_probe, arguments.tokenizer_tool)
    for seed, (kind, vision, language, options) in enumerate(MODELS):
        compare(arguments.probe, kind, vision, language, options, seed)
        print(f"equal to transformers {transformers.__version__}: {kind} {vision} {language} {options}")
    compare_adapter(arguments.probe, seed=7)
    llava_next_comparison.main(arguments.probe)
    idefics_comparison.main(arguments.probe, arguments.chat_probe)
    tower_comparison.main(arguments.probe)


if __name__ == "__main__":
    main()
