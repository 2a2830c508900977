"""Walks all fields of transformers' configuration classes: each is changed in a folder's config.json, and `pipeline check` must say what is
promised here: the option that follows it, that it has no effect, or its name in a refusal. A field that is not listed here fails: decide
what becomes of it in the model's table (plugins/models/hugging_face/config_fields.hpp) first. The unchanged folders also train.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import dataclasses
import json
import os
import re
import subprocess
import tempfile

from peer_packages import needed, use_their_python

NO_EFFECT = {  # fields of every class
    "transformers_version": "4.0", "architectures": ["Other"], "output_hidden_states": True, "return_dict": False, "dtype": "float16",
    "chunk_size_feed_forward": 2, "id2label": {"0": "a"}, "label2id": {"a": 0}, "problem_type": "regression", "use_cache": False,
    "bos_token_id": 3, "eos_token_id": [3, 4], "pad_token_id": 5, "torch_dtype": "float16", "_name_or_path": "x", "max_length": 30}
REFUSED = {"is_encoder_decoder": True, "is_decoder": True, "add_cross_attention": True, "quantization_config": {"bits": 4},
           "field_of_tomorrow": 3, "model_type": "bert"}

ROPE = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
LIKE_LLAMA = dict(
    follows={
        "hidden_size": (48, "language.hidden_size"), "intermediate_size": (80, "language.intermediate_size"),
        "num_hidden_layers": (3, "language.num_hidden_layers"), "num_attention_heads": (4, "language.num_attention_heads"),
        "num_key_value_heads": (2, "language.num_key_value_heads"), "head_dim": (8, "language.head_dim"),
        "max_position_embeddings": (128, "language.max_position_embeddings"), "rms_norm_eps": (0.001, "language.norm_eps"),
        "initializer_range": (0.5, "language.initializer_range"), "attention_dropout": (0.25, "language.dropout"),
        "tie_word_embeddings": (False, "language.tie_word_embeddings"), "rope_parameters": (ROPE, "language.rope_scaling.factor", 2.0),
        "vocab_size": (1000, "language.vocab_size")},
    no_effect={},
    refused={"hidden_act": "gelu", "partial_rotary_factor": 0.5})


def like_llama(follows=None, no_effect=None, refused=None):
    more = dict(follows=follows, no_effect=no_effect, refused=refused)
    return {kind: {**LIKE_LLAMA[kind], **(more[kind] or {})} for kind in LIKE_LLAMA}


BIAS = {"attention_bias": (True, "language.attention_bias")}
QWEN = dict(follows={"use_sliding_window": (True, "language.sliding_window", 16, {"sliding_window": 16})}, no_effect={"sliding_window": 16, "max_window_layers": 1},
            refused={"layer_types": ["sliding_attention"]})
GEMMA = {**BIAS, **{name: (value, "language." + name) for name, value in {
    "final_logit_softcapping": 40.0, "query_pre_attn_scalar": 64, "sliding_window": 128}.items()},
    "layer_types": (["full_attention"], "language.full_attention_every", 1)}
CAP = {"attn_logit_softcapping": (20.0, "language.attn_logit_softcapping")}
NO_GEMMA = {"hidden_activation": "gelu", "use_bidirectional_attention": True, "layer_types": ["full_attention", "sliding_attention"]}
LONG_ROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
LOCAL_ROPE = {"full_attention": ROPE, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
LANGUAGE = {
    "LlamaConfig": like_llama({**BIAS, "mlp_bias": (True, "language.mlp_bias")}, {"pretraining_tp": 2}, {"sliding_window": 16}),
    "MistralConfig": like_llama({"sliding_window": (128, "language.sliding_window")}, refused={"attention_bias": True}),
    "Qwen2Config": like_llama(**QWEN),
    "Qwen3Config": like_llama(**{**QWEN, "follows": {**QWEN["follows"], **BIAS}}),
    "Gemma2Config": like_llama({**GEMMA, **CAP}, refused=NO_GEMMA),
    "SmolLM3Config": like_llama({**BIAS, "mlp_bias": (True, "language.mlp_bias"), "no_rope_layers": ([0], "language.no_rope_layers")},
                                {"no_rope_layer_interval": 2, "sliding_window": 16}, {"use_sliding_window": True, "layer_types": ["sliding_attention"]}),
    "Olmo2Config": like_llama(BIAS),
    "Phi3Config": like_llama({"sliding_window": (128, "language.sliding_window"), "rope_parameters": (LONG_ROPE, "language.rope_scaling.type", "longrope")},
                             {"embd_pdrop": 0.1, "original_max_position_embeddings": 64}, {"resid_pdrop": 0.1}),
    "Gemma3TextConfig": like_llama({**GEMMA, "rope_parameters": (LOCAL_ROPE, "language.rope_scaling.factor", 2.0)},
                                   refused={**NO_GEMMA, "attn_logit_softcapping": 20.0}),
}
SMALL_TOKENS = ("SmolLM3Config", "Olmo2Config", "Phi3Config")  # their usual tokens are beyond a small vocabulary
VISION = dict(
    follows={
        "hidden_size": (48, "vision.hidden_size"), "intermediate_size": (80, "vision.intermediate_size"),
        "num_hidden_layers": (3, "vision.num_hidden_layers"), "num_attention_heads": (4, "vision.num_attention_heads"),
        "image_size": (64, "vision.image_size"), "patch_size": (8, "vision.patch_size"), "hidden_act": ("gelu", "vision.hidden_act"),
        "layer_norm_eps": (0.001, "vision.layer_norm_eps"), "initializer_range": (0.5, "vision.initializer_range")},
    no_effect={"projection_dim": 64, "initializer_factor": 2.0, "vision_use_head": False},
    refused={"num_channels": 1, "attention_dropout": 0.1})
# SigLIP 2's NaFlex has a number of positions in place of a size.
NAFLEX = dict(
    follows={**{field: value for field, value in VISION["follows"].items() if field != "image_size"}, "num_patches": (9, "vision.image_size", 48)},
    no_effect={"vision_use_head": False}, refused=VISION["refused"])
DINO = dict(
    follows={**{field: value for field, value in VISION["follows"].items() if field != "intermediate_size"},
             "mlp_ratio": (3, "vision.intermediate_size", 96, {"hidden_size": 32})},
    no_effect={"layerscale_value": 0.5, "apply_layernorm": False, "reshape_hidden_states": False, "stage_names": ["stem"],
               "out_features": ["stage1"], "out_indices": [1], "_out_features": ["stage1"], "_out_indices": [1], "use_mask_token": False},
    refused={"num_channels": 1, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "drop_path_rate": 0.1, "qkv_bias": False,
             "use_swiglu_ffn": True})
ENCODERS = ("CLIPVisionConfig", "SiglipVisionConfig", "Siglip2VisionConfig", "Dinov2Config", "Dinov2WithRegistersConfig", "CLIPConfig",
            "SiglipConfig")
LLAVAS = ("LlavaConfig", "LlavaNextConfig", "Idefics3Config", "SmolVLMConfig")
IDEFICS = dict(follows={"scale_factor": (1, "projector.scale_factor")}, no_effect={"vocab_size": 3, "image_seq_len": 4},
               refused={"image_token_id": 5, "tie_word_embeddings": True, "vision_config": {"model_type": "idefics3_vision", "num_channels": 1},
                        "text_config": {"model_type": "llama", "partial_rotary_factor": 0.5}})
LLAVA_REFUSED = {"image_token_index": 5, "image_seq_length": 7, "projector_hidden_act": "relu", "vision_feature_select_strategy": "full",
                 "multimodal_projector_bias": False, "tie_word_embeddings": True, "vision_config": {"model_type": "clip_vision_model",
                 "num_channels": 1}, "text_config": {"model_type": "llama", "partial_rotary_factor": 0.5}}
BERT = dict(
    follows={
        "vocab_size": (1000, "model.vocab_size"), "max_position_embeddings": (128, "model.max_position_embeddings"),
        "hidden_size": (48, "model.hidden_size"), "num_hidden_layers": (2, "model.num_hidden_layers"),
        "num_attention_heads": (4, "model.num_attention_heads"), "intermediate_size": (80, "model.intermediate_size"),
        "hidden_act": ("gelu_new", "model.hidden_act"), "initializer_range": (0.5, "model.initializer_range"),
        "hidden_dropout_prob": (0.25, "model.hidden_dropout"), "attention_probs_dropout_prob": (0.125, "model.attention_dropout"),
        "layer_norm_eps": (0.001, "model.layer_norm_eps"), "type_vocab_size": (3, "model.type_vocab_size")},
    no_effect={"classifier_dropout": 0.3, "tie_word_embeddings": False}, refused={"model_type": "t5", "hidden_act": "relu"})
ROBERTA = {**BERT, "refused": {**BERT["refused"], "pad_token_id": 5}}
MODERN_BERT = dict(
    follows={
        "vocab_size": (1000, "model.vocab_size"), "max_position_embeddings": (128, "model.max_position_embeddings"),
        "hidden_size": (48, "model.hidden_size"), "num_hidden_layers": (3, "model.num_hidden_layers", 3, {"layer_types": None}),
        "num_attention_heads": (4, "model.num_attention_heads"), "intermediate_size": (80, "model.intermediate_size"),
        "initializer_range": (0.5, "model.initializer_range"), "embedding_dropout": (0.25, "model.hidden_dropout"),
        "attention_dropout": (0.125, "model.attention_dropout"), "norm_eps": (0.001, "model.layer_norm_eps"),
        "local_attention": (64, "model.local_attention"), "classifier_pooling": ("mean", "model.classifier_pooling"),
        "layer_types": (["full_attention"] * 2, "model.global_attn_every_n_layers", 1, {"num_hidden_layers": 2}),
        "rope_parameters": ({"full_attention": {"rope_theta": 500.0}}, "model.global_rope_theta", 500.0)},
    no_effect={"classifier_dropout": 0.3, "initializer_cutoff_factor": 3.0, "cls_token_id": 3, "sep_token_id": 4, "deterministic_flash_attn": True,
               "sparse_prediction": True, "sparse_pred_ignore_index": -1, "tie_word_embeddings": False},
    refused={"model_type": "t5", "hidden_activation": "silu", "norm_bias": True, "attention_bias": True, "mlp_bias": True, "mlp_dropout": 0.1,
             "decoder_bias": False, "classifier_bias": True, "classifier_activation": "relu"})
THEIR_NAMES = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
               "hidden_act": "activation", "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"}
TEXT_ENCODERS = {"BertConfig": BERT, "RobertaConfig": ROBERTA, "XLMRobertaConfig": ROBERTA, "DistilBertConfig": dict(
    follows={THEIR_NAMES.get(field, field): value for field, value in BERT["follows"].items() if field not in ("layer_norm_eps", "type_vocab_size")},
    no_effect={"sinusoidal_pos_embds": True, "qa_dropout": 0.3, "seq_classif_dropout": 0.3, "tie_word_embeddings": False},
    refused={"model_type": "t5", "activation": "relu"})}
TEXT_ENCODERS["ModernBertConfig"] = MODERN_BERT
CLASSES = {
    **TEXT_ENCODERS,
    "GPT2Config": dict(
        follows={
            "n_positions": (64, "language.max_position_embeddings"), "n_embd": (48, "language.hidden_size"),
            "n_layer": (2, "language.num_hidden_layers"), "n_head": (4, "language.num_attention_heads"),
            "n_inner": (80, "language.intermediate_size"), "layer_norm_epsilon": (0.001, "language.norm_eps"),
            "initializer_range": (0.5, "language.initializer_range"), "vocab_size": (1000, "language.vocab_size"),
            "resid_pdrop": (0.125, "language.residual_dropout"), "embd_pdrop": (0.25, "language.embedding_dropout"),
            "attn_pdrop": (0.375, "language.dropout")},
        no_effect={"summary_type": "mean", "summary_use_proj": False, "summary_activation": "tanh",
                   "summary_proj_to_labels": False, "summary_first_dropout": 0.5, "reorder_and_upcast_attn": True},
        refused={"activation_function": "relu", "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True,
                 "tie_word_embeddings": False}),
    **LANGUAGE,
    "CLIPVisionConfig": VISION,
    "SiglipVisionConfig": VISION,
    "Siglip2VisionConfig": NAFLEX,
    "Dinov2Config": DINO,
    "Dinov2WithRegistersConfig": {**DINO, "follows": {**DINO["follows"], "num_register_tokens": (2, "vision.num_register_tokens")}},
    "CLIPConfig": dict(
        follows={}, no_effect={"projection_dim": 64, "logit_scale_init_value": 1.0, "initializer_factor": 2.0, "text_config": {"x": 1}},
        refused={"vision_config": {"model_type": "clip_vision_model", "num_channels": 1}, "vision_config_dict": {"num_hidden_layers": 9}}),
    "SiglipConfig": dict(follows={}, no_effect={"initializer_factor": 2.0, "text_config": {"x": 1}},
                         refused={"vision_config": {"model_type": "siglip_vision_model", "num_channels": 1}}),
    "LlavaConfig": dict(
        follows={"vision_feature_layer": (-1, "vision.num_hidden_layers", 2), "image_aspect_ratio": ("pad", "vision.resize")},
        no_effect={"ignore_index": 3}, refused={**LLAVA_REFUSED, "image_aspect_ratio": "anyres"}),
    "LlavaNextConfig": dict(
        follows={"vision_feature_layer": (-1, "vision.num_hidden_layers", 2),
                 "image_grid_pinpoints": ([[32, 96]], "vision.grids", ["1x3"])},
        no_effect={"use_image_newline_parameter": True, "image_aspect_ratio": "anyres"},
        refused={**LLAVA_REFUSED, "image_aspect_ratio": "pad", "use_image_newline_parameter": False, "image_grid_pinpoints": [[32, 48]]}),
    "Idefics3Config": IDEFICS,
    "SmolVLMConfig": IDEFICS,
    "EsmConfig": dict(
        follows={
            "hidden_size": (48, "esm2.hidden_dim"), "num_hidden_layers": (2, "esm2.num_layers"),
            "num_attention_heads": (4, "esm2.num_heads"), "intermediate_size": (80, "esm2.intermediate_dim"),
            "hidden_dropout_prob": (0.25, "esm2.hidden_dropout"), "attention_probs_dropout_prob": (0.125, "esm2.attention_dropout"),
            "layer_norm_eps": (0.001, "esm2.layer_norm_epsilon"), "token_dropout": (False, "esm2.token_dropout")},
        no_effect={"max_position_embeddings": 64, "initializer_range": 0.5},
        refused={"vocab_size": 34, "mask_token_id": 31, "rope_theta": 5000.0, "position_embedding_type": "absolute",
                 "emb_layer_norm_before": True, "is_folding_model": True, "esmfold_config": {"x": 1}, "vocab_list": ["a"],
                 "tie_word_embeddings": False, "pad_token_id": 2}),
    "EsmcConfig": dict(
        follows={
            "hidden_size": (48, "esmc.hidden_dim", 48, {"head_dim": 24}), "num_hidden_layers": (2, "esmc.num_layers"),
            "num_attention_heads": (4, "esmc.num_heads", 4, {"head_dim": 8, "num_key_value_heads": 4}),
            "intermediate_size": (80, "esmc.intermediate_dim"), "attention_dropout": (0.25, "esmc.attention_dropout")},
        no_effect={"max_position_embeddings": 64, "initializer_range": 0.5, "classifier_dropout": 0.3},
        refused={"vocab_size": 33, "mask_token_id": 31, "rope_theta": 5000.0, "rope_parameters": {"rope_theta": 5000.0},
                 "hidden_act": "gelu", "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "num_key_value_heads": 1,
                 "head_dim": 8, "bos_token_id": 3, "eos_token_id": [3, 4], "pad_token_id": 5}),
}


# The walk of one class has seen the options that these classes share with it.
SHARED = {**{name: "LlamaConfig" for name in LANGUAGE if name != "LlamaConfig"}, "SiglipVisionConfig": "CLIPVisionConfig",
          "Siglip2VisionConfig": "CLIPVisionConfig", "Dinov2WithRegistersConfig": "Dinov2Config", "SiglipConfig": "CLIPConfig",
          "LlavaNextConfig": "LlavaConfig", "SmolVLMConfig": "Idefics3Config", "RobertaConfig": "BertConfig", "XLMRobertaConfig": "BertConfig",
          "DistilBertConfig": "BertConfig"}


def write_tokenizer(folder, texts, special=()):
    """special: the first tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=280, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, file)
    return tokenizer.get_vocab_size()


def make_folders(work):
    """A tiny model of each class, and the TOML that fine-tunes it: three lines besides data and steps."""
    import transformers as t
    from PIL import Image

    pairs = [{"document": f"apples {i} and pears {i}", "summary": f"fruit {i}"} for i in range(8)]
    vocabulary = write_tokenizer(os.path.join(work, "tokenizer"), [p["document"] for p in pairs])
    text = dict(vocab_size=vocabulary, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                intermediate_size=64, max_position_embeddings=256, tie_word_embeddings=True)
    vision = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=16)
    words = dict(vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=1,
                 bos_token_id=2, eos_token_id=3)

    tokens = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def of(without):
        return {field: value for field, value in vision.items() if field != without}

    llava = t.LlavaConfig(vision_config=t.CLIPVisionConfig(**vision), text_config=t.LlamaConfig(**{**text, "tie_word_embeddings": False}))
    llava_next = t.LlavaNextConfig(vision_config=t.CLIPVisionConfig(**vision), image_grid_pinpoints=[[32, 64]],
                                   text_config=t.LlamaConfig(**{**text, "tie_word_embeddings": False}))
    encoder = dict(vocab_size=vocabulary, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, max_position_embeddings=66)
    models = {
        **{name: getattr(t, name.replace("Config", "Model"))(getattr(t, name)(**encoder, **({"pad_token_id": 0} if name == "ModernBertConfig" else {})))
           for name in TEXT_ENCODERS if name != "DistilBertConfig"},
        "DistilBertConfig": t.DistilBertModel(t.DistilBertConfig(vocab_size=vocabulary, dim=32, n_layers=1, n_heads=2, hidden_dim=64,
                                                                 max_position_embeddings=66)),
        "GPT2Config": t.GPT2LMHeadModel(t.GPT2Config(vocab_size=vocabulary, n_positions=128, n_embd=32, n_layer=1, n_head=2)),
        **{name: getattr(t, name.replace("Text", "").replace("Config", "ForCausalLM"))(getattr(t, name)(**text, **(tokens if name in SMALL_TOKENS else {})))
           for name in LANGUAGE},
        "CLIPVisionConfig": t.CLIPVisionModel(t.CLIPVisionConfig(**vision)),
        "SiglipVisionConfig": t.SiglipVisionModel(t.SiglipVisionConfig(**vision)),
        "Siglip2VisionConfig": t.Siglip2VisionModel(t.Siglip2VisionConfig(**of("image_size"), num_patches=4)),
        "Dinov2Config": t.Dinov2Model(t.Dinov2Config(**of("intermediate_size"))),
        "Dinov2WithRegistersConfig": t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**of("intermediate_size"))),
        "CLIPConfig": t.CLIPModel(t.CLIPConfig(vision_config=vision, text_config=words)),
        "SiglipConfig": t.SiglipModel(t.SiglipConfig(vision_config=vision, text_config=words)),
        "LlavaConfig": t.LlavaForConditionalGeneration(llava),
        "LlavaNextConfig": t.LlavaNextForConditionalGeneration(llava_next),
        **{name + "Config": getattr(t, name + "ForConditionalGeneration")(getattr(t, name + "Config")(
            vision_config=vision, text_config=t.LlamaConfig(**{**text, "tie_word_embeddings": False}), image_token_id=vocabulary))
           for name in ("Idefics3", "SmolVLM")},
        "EsmConfig": t.EsmForMaskedLM(t.EsmConfig(vocab_size=33, mask_token_id=32, pad_token_id=1, hidden_size=32, num_hidden_layers=1,
                                                 num_attention_heads=2, intermediate_size=64, position_embedding_type="rotary",
                                                 emb_layer_norm_before=False, token_dropout=True)),
        "EsmcConfig": t.EsmcForMaskedLM(t.EsmcConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)),
    }
    for name, model in models.items():
        folder = os.path.join(work, name)
        model.save_pretrained(folder)
        if name in ("GPT2Config", *LANGUAGE, *LLAVAS, *TEXT_ENCODERS):
            # RoBERTa's positions begin behind the number of the token for padding
            write_tokenizer(folder, [p["document"] for p in pairs], ("<s>", "<pad>") if "Roberta" in name else ())
    with open(os.path.join(work, "pairs.jsonl"), "w") as file:
        file.writelines(json.dumps(p) + "\n" for p in pairs)
    with open(os.path.join(work, "captions.jsonl"), "w") as file:
        file.writelines(json.dumps({"image": "picture.png", "caption": p["summary"]}) + "\n" for p in pairs)
    Image.new("RGB", (40, 30), (200, 30, 30)).save(os.path.join(work, "picture.png"))
    steps = "\n[train]\nglobal_batch = 2\nmicro_batch = 2\nmax_steps = 1\n"
    small = ("[task.language]\nhidden_size = 32\nnum_hidden_layers = 1\nnum_attention_heads = 2\n[task.tokenizer]\nvocab_size = 280\n")
    tasks = {name: f'[task]\nplugin = "vlm"\nvision.init_from = "{name}"\ndata.train = "captions.jsonl"\n' + small
             for name in ENCODERS}
    for name in LANGUAGE:
        tasks[name] = (f'[task]\nplugin = "vlm"\nlanguage.init_from = "{name}"\ndata.train = "captions.jsonl"\n'
                       "[task.vision]\nimage_size = 32\npatch_size = 16\nhidden_size = 32\nnum_hidden_layers = 1\n"
                       "num_attention_heads = 2\nintermediate_size = 64\n")
    tasks["GPT2Config"] = '[task]\nplugin = "summarization"\ndata.train = "pairs.jsonl"\n'
    for name in TEXT_ENCODERS:
        tasks[name] = '[task]\nplugin = "embedding"\ndata = { train = "pairs.jsonl", query_column = "summary", positive_column = "document" }\n'
    for name in LLAVAS:
        tasks[name] = '[task]\nplugin = "vlm"\ndata.train = "captions.jsonl"\n'
    tasks["EsmConfig"] = tasks["EsmcConfig"] = '[task]\nplugin = "protein"\npdb_path = "."\n'
    for name, task in tasks.items():
        whole = f'init_from = "{name}"\n' if name in ("GPT2Config", *LLAVAS, "EsmConfig", "EsmcConfig", *TEXT_ENCODERS) else ""
        with open(os.path.join(work, name + ".toml"), "w") as file:
            file.write(f'[run]\ndir = "run-{name}"\ncache_dir = "cache"\n' + task + steps + whole)
    return models


def write_processor(folder, name):
    """How pictures are prepared, as transformers writes it, and what the options are then."""
    from transformers import LlavaImageProcessorPil
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    square = {"height": 32, "width": 32}
    edge = {"size": {"shortest_edge": 32}, "crop_size": square}
    cut = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}
    processor, resize = ((Siglip2ImageProcessorPil(patch_size=16, max_num_patches=6), "squash") if "Siglip2" in name else
                         (BitImageProcessorPil(size={"shortest_edge": 50}, crop_size={"height": 48, "width": 48},
                                               image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]), "crop") if "Dino" in name else
                         (SiglipImageProcessorPil(size=square), "squash") if "Siglip" in name else
                         (Idefics3ImageProcessorPil(**cut), "squash") if "Idefics3" in name else
                         (SmolVLMImageProcessorPil(**cut), "squash") if "SmolVLM" in name else
                         (LlavaNextImageProcessorPil(image_grid_pinpoints=[[32, 64]], **edge), "squash") if "Next" in name else
                         (LlavaImageProcessorPil(do_pad=True, **edge), "pad") if "Llava" in name else
                         (CLIPImageProcessorPil(**edge), "crop"))
    processor.save_pretrained(folder)
    return resize


class Folders:
    def __init__(self, program, work):
        self.program, self.work = program, work

    def call(self, verb, name, *more):
        result = subprocess.run([self.program, verb, name + ".toml", *more], cwd=self.work, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return result.returncode, result.stdout

    def check(self, name, changed):
        """`pipeline check -v` with other values in config.json."""
        path = os.path.join(self.work, name, "config.json")
        with open(path) as file:
            before = file.read()
        with open(path, "w") as file:
            json.dump({**json.loads(before), **changed}, file)
        try:
            return self.call("check", name, "-v")
        finally:
            with open(path, "w") as file:
                file.write(before)

    def option(self, text, key):
        table, _, last = key.rpartition(".")
        found = re.search(rf"\[task\.{re.escape(table)}\]\n(?:.+\n)*?{last} = (\S+)", text)
        assert found, f"no task.{key} in\n{text}"
        return json.loads(found.group(1))


def groups(follows):
    """Fields that are changed at once, as (what is changed, the option, its value). Their options have different values, so that none is
    taken for another."""
    found = []
    for field, (value, option, *other) in follows.items():
        expected, beside = (*other, *(value, {})[len(other):])
        mine = {field: value, **beside}, option, json.dumps(expected)
        group = next((g for g in found if not any(mine[0].keys() & theirs[0].keys() or mine[2] == theirs[2] for theirs in g)), None)
        if group is None:
            found.append(group := [])
        group.append(mine)
    return found


def not_followed(folders, name, group):
    """What is wrong where all of these fields are changed at once: empty where each option follows."""
    code, out = folders.check(name, {field: value for changed, _, _ in group for field, value in changed.items()})
    wrong = [f"{changed}: expected task.{option} = {expected}" for changed, option, expected in group
             if code != 0 or json.dumps(folders.option(out, option)) != expected]
    return f"{name}: {wrong}:\n{out}" if wrong else ""


def names(out, field, value):
    """Whether an error is about the field; that of a part names the field in it."""
    part = [f for f in value if f != "model_type"] if isinstance(value, dict) and field.endswith(("_config", "_dict", "_parameters")) else []
    named = part[0] if part and field not in ("quantization_config", "esmfold_config") else field
    return any("config.json" in line and f"{named} = " in line for line in out.splitlines())


def walk(folders, name, fields):
    code, unchanged = folders.check(name, {})
    assert code == 0, unchanged
    promised = CLASSES[name]
    no_effect = {**{k: v for k, v in NO_EFFECT.items() if k not in promised["refused"]}, **promised["no_effect"]}
    refused = {**REFUSED, **promised["refused"]}
    unknown = [f for f in fields if f not in no_effect and f not in refused and f not in promised["follows"]]
    assert not unknown, f"{name}: {unknown}: decide what becomes of these fields"
    if other := CLASSES.get(SHARED.get(name)):
        no_effect, refused, follows = ({k: v for k, v in mine.items() if theirs.get(k) != v} for mine, theirs in (
            (no_effect, {**NO_EFFECT, **other["no_effect"]}), (refused, {**REFUSED, **other["refused"]}),
            (promised["follows"], other["follows"])))
        promised = {**promised, "follows": follows}
    for group in groups(promised["follows"]):
        if together := not_followed(folders, name, group):
            for one in group:
                assert not (alone := not_followed(folders, name, [one])), alone
            raise AssertionError(f"only together: {together}")
    if no_effect and folders.check(name, no_effect) != (0, unchanged):
        for field, value in no_effect.items():
            code, out = folders.check(name, {field: value})
            assert (code, out) == (0, unchanged), f"{name}.{field} = {value}: expected no effect:\n{out}"
        raise AssertionError(f"{name}: {list(no_effect)} have an effect together")
    # One error names all fields of one object; a class that is another one, or a part of the model, ends the search for others.
    plain = {field: value for field, value in refused.items() if field != "model_type" and not isinstance(value, dict)}
    code, together = folders.check(name, plain) if plain else (2, "")
    for field, value in refused.items():
        code, out = (code, together) if field in plain and names(together, field, value) else folders.check(name, {field: value})
        assert code == 2 and names(out, field, value), f"{name}.{field} = {value}: expected a refusal:\n{out}"
    print(f"{name}: {len(promised['follows'])} fields are followed, {len(no_effect)} have no effect, {len(refused)} are refused")


def summarize(folders, name):
    """The same folder learns to summarize, and what is exported is read again by transformers."""
    import transformers

    run = "summarize-" + name
    with open(os.path.join(folders.work, run + ".toml"), "w") as file:
        file.write(f'[run]\ndir = "{run}"\ncache_dir = "cache"\n[task]\nplugin = "summarization"\ndata.train = "pairs.jsonl"\n'
                   f'[train]\ninit_from = "{name}"\nglobal_batch = 2\nmicro_batch = 2\nmax_steps = 1\n')
    for verb in ("run", "export"):
        code, out = folders.call(verb, run)
        assert code == 0, out
    model, info = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(folders.work, run, "export"), output_loading_info=True)
    assert type(model.config).__name__ == name and not any(info.values()), info


def main():
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", required=True)
    args = parser.parse_args()
    with needed():
        import tokenizers  # noqa: F401
        import transformers
        from PIL import Image  # noqa: F401
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as work:
        make_folders(work)
        folders = Folders(os.path.abspath(args.pipeline), work)
        for name in CLASSES:
            walk(folders, name, [f.name for f in dataclasses.fields(getattr(transformers, name))])
            if name in ("EsmConfig", "EsmcConfig"):
                continue  # needs structures: tests/e2e/protein_test.cpp trains from a folder
            if any(part in name for part in ("CLIP", "Siglip", "Dino", "Llava", "Idefics3", "SmolVLM")):
                resize = write_processor(os.path.join(work, name), name)
                code, out = folders.check(name, {})
                assert code == 0 and folders.option(out, "vision.resize") == resize, out
                sizes = {"vision.max_patches": 6} if "Siglip2" in name else {"vision.crop_size": 48, "vision.shortest_edge": 50}
                for option, size in sizes.items() if "Siglip2" in name or "Dino" in name else ():
                    assert folders.option(out, option) == size, out
            code, out = folders.call("run", name)
            assert code == 0, out
            if name in LANGUAGE:
                summarize(folders, name)


if __name__ == "__main__":
    main()
