"""pipeline gguf FOLDER: the folder of a language model, or of a LoRA adapter, as a GGUF file for llama.cpp and what is built on it.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Names of tensors and keys, and quantized types, are those of the
Python package `gguf`. llama.cpp turns pairs of neighbours where Llama's architecture rotates, and has no "offset" in a Gemma's norms: what
differs so is changed here, and FAMILIES says where.
"""
import argparse
import dataclasses
import math
import os
import pathlib
import sys

from folder import Problem, fail, np, read_json, tensors_of

try:
    import gguf
except ImportError:
    gguf = None

QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
TYPES = ("f32", "f16", "bf16", *QUANTIZED)


@dataclasses.dataclass
class Family:
    """How llama.cpp has the models of one model_type."""

    arch: str
    turns_neighbours: bool = False  # rows of q and k go from halves to pairs
    norm_offset: float = 0.0  # added to the weights of all norms
    transposes: bool = False  # GPT-2's matrices are (in, out)
    windows: bool = False  # it knows windows of attention
    activation: str = "silu"


FAMILIES = {
    "gpt2": Family("gpt2", transposes=True, activation="gelu_new"),
    "llama": Family("llama", turns_neighbours=True),
    "mistral": Family("llama", turns_neighbours=True),
    "smollm3": Family("smollm3", turns_neighbours=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "olmo2": Family("olmo2"),
    "phi3": Family("phi3"),
    "gemma2": Family("gemma2", norm_offset=1.0, windows=True, activation="gelu_pytorch_tanh"),
    "gemma3_text": Family("gemma3", norm_offset=1.0, windows=True, activation="gelu_pytorch_tanh"),
}

# What llama.cpp calls how a text is cut before its merges, by the expression in tokenizer.json.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
EXPRESSIONS = {LLAMA3: "llama-bpe", LLAMA3.replace("{1,3}", ""): "qwen2"}


def family_of(config, where):
    family = FAMILIES.get(config.get("model_type"))
    if family is None:
        raise Problem(f"{where}: model_type is {config.get('model_type')!r}, which has no form in GGUF here; there are {', '.join(FAMILIES)}")
    return family


def rope_of(config):
    """Parameters of the rotation, of layers with full attention and of those with a window, whatever form config.json has them in."""
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    local = rope.get("sliding_attention", {})
    rope = dict(rope.get("full_attention", rope))
    rope.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope, local.get("rope_theta", config.get("rope_local_base_freq"))


def llama3_factors(rope, width):
    """What each frequency is divided by; Llama 3.1's interpolation between long and short waves."""
    frequencies = 1.0 / rope["rope_theta"] ** (np.arange(0, width, 2, dtype=np.float64) / width)
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def refuse_what_it_lacks(config, family):
    """llama.cpp would compute something else, and say nothing."""
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    uses_window = config.get("use_sliding_window", config["model_type"] in ("mistral", "phi3"))
    if uses_window and (window := config.get("sliding_window")) and not family.windows and window < config["max_position_embeddings"]:
        print(f"note: llama.cpp has no windows of attention for {config['model_type']}: it says the same of texts of up to {window} tokens (-c {window})")
    activation = config.get("hidden_activation") or config.get("hidden_act") or config.get("activation_function")
    if activation not in (None, family.activation):
        raise Problem(f"the activation {activation}: llama.cpp computes {family.activation} for {config['model_type']}")
    if (share := rope_of(config)[0].get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))) != 1.0:
        raise Problem(f"partial_rotary_factor = {share}: has no form in GGUF here")
    if family.arch == "smollm3":
        ours = config.get("no_rope_layers") or [1] * layers
        if any(bool(rotates) != bool((i + 1) % 4) for i, rotates in enumerate(ours)):
            raise Problem("no_rope_layers: llama.cpp has every fourth layer of SmolLM3 without a rotation, and this model others")
    if family.arch in ("gemma2", "gemma3"):
        width = config.get("head_dim", 256)
        if config.get("query_pre_attn_scalar", width) != width and not (family.arch == "gemma2" and layers == 46):
            raise Problem(f"query_pre_attn_scalar = {config['query_pre_attn_scalar']}: llama.cpp divides by the square root of head_dim ({width})")


class Arrangement:
    """What a folder's tensors are called in GGUF, and how their values lie there."""

    def __init__(self, config, family):
        self.config, self.family = config, family
        self.layers = config.get("num_hidden_layers", config.get("n_layer"))
        self.names = gguf.get_tensor_name_map({name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[family.arch], self.layers)

    def name_of(self, name):
        of_gpt2 = self.family.transposes and not name.startswith("transformer.")  # whose folders may leave it out
        found = self.names.get_name("transformer." + name if of_gpt2 else name, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise Problem(f"the tensor {name} has no name in GGUF's {self.family.arch}")
        return found

    def tensors_of(self, folder):
        """{name in GGUF: (name in the folder, its tensor)}"""
        is_head_again = self.config.get("tie_word_embeddings")
        return {self.name_of(name): (name, tensor) for name, tensor in tensors_of(folder).items()
                if name != "lm_head.weight" or not is_head_again}

    def is_transposed(self, name, shape):
        return self.family.transposes and len(shape) == 2 and ".c_" in name

    def arranged(self, name, values):
        """Values of a tensor of the folder as llama.cpp has them."""
        if self.family.norm_offset and name.endswith("norm.weight"):
            return values + np.float32(self.family.norm_offset)
        if self.is_transposed(name, values.shape):
            return np.ascontiguousarray(values.T)
        return self.turned(name, values)

    def turned(self, name, values):
        """Of queries and keys that are turned as pairs of neighbours: each head's rows, of which a pair was its halves' i-th rows."""
        heads = {"q_proj": self.config.get("num_attention_heads"),
                 "k_proj": self.config.get("num_key_value_heads", self.config.get("num_attention_heads"))}
        part = next((heads[key] for key in heads if f".{key}." in name), None)
        if not self.family.turns_neighbours or part is None:
            return values
        return np.ascontiguousarray(values.reshape(part, 2, -1, *values.shape[1:]).swapaxes(1, 2)).reshape(values.shape)


class Writer(Arrangement):
    """A GGUF file that is written from front to back: first what is known of it, then its tensors one by one."""

    def __init__(self, path, config, family):
        super().__init__(config, family)
        self.path = path
        self.file = gguf.GGUFWriter(str(path) + ".tmp", family.arch)
        self.tensors = []  # (name, what gives its values, its type)

    def add(self, name, shape, values, type_name):
        """values: called when the tensor is written."""
        kind = gguf.GGMLQuantizationType[type_name.upper()]
        size = gguf.quant_shape_to_byte_shape(shape, kind) if type_name in QUANTIZED else shape
        width = {"f32": 4, "f16": 2, "bf16": 2}.get(type_name, 1)
        dtype = {"f32": np.float32, "f16": np.float16}.get(type_name, np.uint8)
        if type_name == "bf16":
            size = (*shape[:-1], shape[-1] * 2)
            width = 1
        self.file.add_tensor_info(name, size if dtype == np.uint8 else shape, np.dtype(dtype), math.prod(size) * width, kind)
        self.tensors.append((name, values, kind))

    def finish(self):
        """Writes everything; the file appears whole."""
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_ti_data_to_file()
        for _, values, kind in self.tensors:
            self.file.write_tensor_data(gguf.quants.quantize(values(), kind))
        self.file.close()
        os.replace(str(self.path) + ".tmp", self.path)


def type_of(name, shape, wanted):
    """Norms and biases stay in float32, embeddings and output head have 8 bits at least, and rows that do not go into blocks have 16."""
    if len(shape) < 2 or name == "position_embd.weight":
        return "f32"
    if wanted in QUANTIZED and shape[-1] % 32:
        return "f16"
    return "q8_0" if wanted in QUANTIZED and name in ("token_embd.weight", "output.weight") else wanted


def add_hyperparameters(writer, wanted):
    """What llama.cpp must know of the model besides its tensors."""
    file, config, family = writer.file, writer.config, writer.family
    get = lambda *names: next((config[name] for name in names if config.get(name) is not None), None)  # noqa: E731
    file.add_block_count(writer.layers)
    file.add_context_length(get("max_position_embeddings", "n_positions", "n_ctx"))
    file.add_embedding_length(get("hidden_size", "n_embd"))
    file.add_feed_forward_length(get("intermediate_size", "n_inner") or 4 * config["n_embd"])
    file.add_head_count(get("num_attention_heads", "n_head"))
    file.add_vocab_size(config["vocab_size"])
    file.add_file_type(gguf.LlamaFileType[{"f32": "ALL_F32"}.get(wanted, f"MOSTLY_{wanted.upper()}")])
    if wanted in QUANTIZED:
        file.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if family.arch == "gpt2":
        return file.add_layer_norm_eps(config["layer_norm_epsilon"])
    file.add_head_count_kv(get("num_key_value_heads", "num_attention_heads"))
    file.add_layer_norm_rms_eps(config["rms_norm_eps"])
    width = get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    file.add_key_length(width)
    file.add_value_length(width)
    file.add_rope_dimension_count(width)
    rope, local = rope_of(config)
    file.add_rope_freq_base(rope["rope_theta"])
    if local is not None and family.windows:
        file.add_rope_freq_base_swa(local)
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        file.add_rope_scaling_type(gguf.RopeScalingType(kind))
        file.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        file.add_rope_scaling_orig_ctx_len(rope.get("original_max_position_embeddings") or config["max_position_embeddings"])
        for key, add in (("beta_fast", file.add_rope_scaling_yarn_beta_fast), ("beta_slow", file.add_rope_scaling_yarn_beta_slow)):
            if rope.get(key) is not None:
                add(rope[key])
        if other := [key for key in ("attention_factor", "mscale", "mscale_all_dim") if rope.get(key) is not None] + (
                [] if rope.get("truncate", True) else ["truncate"]):
            raise Problem(f"positions by yarn with {', '.join(other)}: have no form in GGUF here")
    if kind == "llama3":
        factors = llama3_factors(rope, width)
        writer.add("rope_freqs.weight", factors.shape, lambda: factors, "f32")
    if family.arch == "phi3":
        original = config.get("original_max_position_embeddings") or rope.get("original_max_position_embeddings") or config["max_position_embeddings"]
        file.add_rope_scaling_orig_ctx_len(original)
        file.add_sliding_window(config.get("sliding_window") or 0)
        if kind == "longrope":
            print(f"note: llama.cpp has one set of positions for a context, long where it is set (-c) to more than {original} tokens, and this model "
                  "one for each text: for short texts keep the context short")
            scale = config["max_position_embeddings"] / original
            file.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
            for length in ("long", "short"):
                factors = np.array(rope[f"{length}_factor"], np.float32)
                writer.add(f"rope_factors_{length}.weight", factors.shape, lambda values=factors: values, "f32")
    elif kind not in ("default", "linear", "yarn", "llama3"):
        raise Problem(f"rope_type = {kind!r}: has no form in GGUF here")
    if family.windows and config.get("sliding_window"):
        file.add_sliding_window(config["sliding_window"])
        add_windows(writer, config.get("sliding_window_pattern") or (2 if family.arch == "gemma2" else 6))
    for key, add in (("attn_logit_softcapping", file.add_attn_logit_softcapping), ("final_logit_softcapping", file.add_final_logit_softcapping)):
        if config.get(key) is not None:
            add(config[key])


def add_windows(writer, usual):
    """Which layers attend to all: every so many-th, or those that layer_types names."""
    def windows(every):
        return [(i + 1) % every != 0 for i in range(writer.layers)]

    types = writer.config.get("layer_types")
    has = [one == "sliding_attention" for one in types] if types else windows(usual)
    every = next((one for one in range(1, writer.layers + 2) if has == windows(one)), None)
    if every is not None:
        return writer.file.add_sliding_window_pattern(every)
    print("note: layers have windows in an order of their own (layer_types), which llama.cpp knows since 2026: older ones say something else")
    return writer.file.add_sliding_window_pattern(has)


def pre_tokenizer_name(tokenizer, given):
    """What llama.cpp calls how a text is cut into pieces."""
    if given:
        return given
    steps = tokenizer.get("pre_tokenizer") or {}
    steps = steps.get("pretokenizers", [steps])
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True) and not steps[0].get("add_prefix_space"):
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
        return "smollm"
    if kinds == ["Split", "ByteLevel"] and steps[0].get("behavior") == "Isolated":
        name = EXPRESSIONS.get(steps[0]["pattern"].get("Regex"))
        if name == "llama-bpe" and not tokenizer["model"].get("ignore_merges"):
            name = "dbrx"  # the same pieces, and merges decide also where a piece is a token
        if name:
            return name
    raise Problem("tokenizer.json cuts texts in a way that this does not know by llama.cpp's name: give it with --pre, as in --pre qwen2")


def add_tokenizer(writer, folder, given_pre):
    """Tokens, their types, merges or scores, what texts begin and end with, and the chat template."""
    file, folder = writer.file, pathlib.Path(folder)
    tokenizer = read_json(folder / "tokenizer.json")
    config = read_json(folder / "tokenizer_config.json", {})
    model = tokenizer["model"]
    if model["type"] != "BPE":
        raise Problem(f"{folder}/tokenizer.json: is of type {model['type']}: a language model's in GGUF is BPE")
    is_pieces = bool(model.get("byte_fallback"))  # as SentencePiece makes it: merges become scores
    added = {token["id"]: token for token in tokenizer.get("added_tokens", [])}
    texts = {number: text for text, number in model["vocab"].items()}
    texts.update({number: token["content"] for number, token in added.items()})
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    tokens, types = [], []
    for number in range(writer.config["vocab_size"]):
        text = texts.get(number)
        kind = gguf.TokenType.NORMAL
        if text is None:
            text, kind = f"[PAD{number}]", gguf.TokenType.UNUSED
        elif is_pieces and text == model.get("unk_token"):
            kind = gguf.TokenType.UNKNOWN
        elif number in added:
            kind = gguf.TokenType.CONTROL if added[number]["special"] else gguf.TokenType.USER_DEFINED
        elif is_pieces and len(text) == 6 and text.startswith("<0x"):
            kind = gguf.TokenType.BYTE
        tokens.append(text)
        types.append(kind)
    too_many = [number for number in texts if number >= len(tokens)]
    if too_many:
        raise Problem(f"{folder}: the tokenizer has {len(too_many)} tokens that the model's vocab_size of {len(tokens)} has no row for")
    file.add_tokenizer_model("llama" if is_pieces else "gpt2")
    file.add_tokenizer_pre("default" if is_pieces else pre_tokenizer_name(tokenizer, given_pre))
    file.add_token_list(tokens)
    if is_pieces:
        rank = {}
        for merge in merges:
            rank.setdefault(merge.replace(" ", ""), len(rank))
        file.add_token_scores([-float(rank.get(text, len(rank))) for text in tokens])
        normalizer = str(tokenizer.get("normalizer")) + str(tokenizer.get("pre_tokenizer"))
        file.add_add_space_prefix("'Prepend'" in normalizer or "'prepend_scheme': 'first'" in normalizer or "'prepend_scheme': 'always'" in normalizer)
    else:
        file.add_token_merges(merges)
    file.add_token_types(types)
    add_special_tokens(file, folder, tokenizer, config, {text: number for number, text in texts.items()})


def add_special_tokens(file, folder, tokenizer, config, numbers):
    def number_of(key):
        token = config.get(key)
        return numbers.get(token.get("content") if isinstance(token, dict) else token)

    begins, ends, pads = number_of("bos_token"), number_of("eos_token"), number_of("pad_token")
    if begins is not None:
        file.add_bos_token_id(begins)
    generation = read_json(folder / "generation_config.json", {}).get("eos_token_id", read_json(folder / "config.json").get("eos_token_id"))
    all_ends = [one for one in ([generation] if isinstance(generation, int) else generation or []) if one != ends]
    if ends is None and all_ends:
        ends = all_ends.pop(0)
    if ends is not None:
        file.add_eos_token_id(ends)
    if all_ends:
        file.add_eot_token_id(all_ends[0])
    if pads is not None:
        file.add_pad_token_id(pads)
    steps = tokenizer.get("post_processor") or {}
    template = next((one for one in steps.get("processors", [steps]) if one.get("type") == "TemplateProcessing"), {"single": []})
    around = [next(iter(part.items())) for part in template["single"]]
    file.add_add_bos_token(bool(around) and around[0][0] == "SpecialToken" and numbers.get(around[0][1]["id"]) == begins)
    file.add_add_eos_token(bool(around) and around[-1][0] == "SpecialToken" and numbers.get(around[-1][1]["id"]) == ends)
    template = folder / "chat_template.jinja"
    text = template.read_text(encoding="utf-8") if template.is_file() else config.get("chat_template")
    if isinstance(text, str):
        file.add_chat_template(text)


def write_model(folder, output, wanted, pre):
    config = read_json(folder / "config.json")
    family = family_of(config, folder)
    refuse_what_it_lacks(config, family)
    writer = Writer(output, config, family)
    writer.file.add_type("model")
    writer.file.add_name(folder.resolve().name)
    add_hyperparameters(writer, wanted)
    add_tokenizer(writer, folder, pre)
    for there, (name, tensor) in writer.tensors_of(folder).items():
        shape = tensor.shape[::-1] if writer.is_transposed(name, tensor.shape) else tensor.shape
        writer.add(there, shape, lambda n=name, t=tensor: writer.arranged(n, t.values()), type_of(there, shape, wanted))
    writer.finish()


def write_adapter(folder, output, wanted, base):
    """A LoRA adapter as PEFT writes it. wanted: f32, f16 or bf16."""
    adapter = read_json(folder / "adapter_config.json")
    if wanted in QUANTIZED:
        raise Problem(f"--type {wanted}: an adapter is written in f32, f16 or bf16")
    base = base or adapter.get("base_model_name_or_path")
    if not base or not pathlib.Path(base, "config.json").is_file():
        raise Problem(f"{folder}: its base model {base!r} is no folder here: give it with --base, for its config.json")
    if adapter.get("use_dora") or adapter.get("modules_to_save") or adapter.get("rank_pattern") or adapter.get("alpha_pattern"):
        raise Problem(f"{folder}: DoRA, modules_to_save and patterns of ranks have no form in a GGUF adapter: export the whole model "
                      "(task.language.lora.merge = true) and convert that")
    config = read_json(pathlib.Path(base, "config.json"))
    family = family_of(config, base)
    writer = Writer(output, config, family)
    writer.file.add_type("adapter")
    writer.file.add_string(gguf.Keys.Adapter.TYPE, "lora")
    alpha, rank = adapter["lora_alpha"], adapter["r"]
    # llama.cpp multiplies by alpha / rank.
    writer.file.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha * math.sqrt(rank) if adapter.get("use_rslora") else alpha)
    for name, tensor in tensors_of(folder, "adapter_model.safetensors").items():
        plain = name.removeprefix("base_model.model.")
        side = next((one for one in ("lora_A", "lora_B") if f".{one}." in plain), None)
        if side is None:
            raise Problem(f"{folder}: the tensor {name} is no matrix of LoRA")
        of = plain.replace(f".{side}.", ".")
        there = f"{writer.name_of(of)}.{side.lower()}"

        def values(of=of, side=side, tensor=tensor):  # rows of the second matrix are those of the base's
            return writer.turned(of, tensor.values()) if side == "lora_B" else tensor.values()

        writer.add(there, tensor.shape, values, wanted)
    writer.finish()


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="pipeline gguf", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="that `pipeline export` or transformers wrote")
    parser.add_argument("--type", default="f16", choices=TYPES, help="of matrices; default: f16")
    parser.add_argument("--output", type=pathlib.Path, help="default: NAME-TYPE.gguf in the folder")
    parser.add_argument("--pre", help="how a text is cut into pieces, by llama.cpp's name, if it is not known from tokenizer.json")
    parser.add_argument("--base", help="of an adapter: the folder of its model, if it is not where the adapter says")
    args = parser.parse_args(arguments)
    if gguf is None:
        return fail(f"{sys.executable} has no package gguf: pip install gguf, or name another Python with PIPELINE_PYTHON")
    folder = args.folder
    path = folder.resolve()
    output = args.output or folder / f"{path.parent.name if path.name == 'export' else path.name}-{args.type}.gguf"
    try:
        if not folder.is_dir():
            raise Problem(f"{folder}: there is no such folder")
        if (folder / "adapter_config.json").is_file():
            write_adapter(folder, output, args.type, args.base)
        else:
            write_model(folder, output, args.type, args.pre)
    except Problem as error:
        return fail(error)
    except OSError as error:  # numpy has no other words for a full disk than how much was written
        return fail(f"{output}: cannot be written from {folder}: {error}")
    except KeyError as error:
        return fail(f"{folder}: its config.json or tokenizer.json has no {error}")
    finally:
        pathlib.Path(f"{output}.tmp").unlink(missing_ok=True)
    print(f"written to {output}, {output.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
