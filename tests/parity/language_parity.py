"""Compares our language models with transformers, live, for random weights: logits, loss, every gradient, three steps of AdamW and greedy
generation of folders of one and of several files, in float32, bf16 and fp16; with positions that are scaled, biases, heads of another
width, LoRA; and the folder that we save.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import os
import tempfile

from comparison import ask, started

TOLERANCE = 1e-6  # of the norm, in float32
OF_ONE_GRADIENT = 5e-6  # transformers' own in float32 and in float64 differ by as much
# eps is above what rounding makes of gradients: below it, an element whose gradient is that alone takes whole steps, and
# transformers' own float32 and float64 differ by up to 2e-6.
ADAMW = {"steps": 3, "lr": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.1}
NEW_TOKENS = 12
SIZES = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=512, attention_dropout=0.0)
GPT2 = dict(vocab_size=131, n_embd=48, n_layer=2, n_head=6, n_positions=512, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0,
            bos_token_id=0, eos_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=32)
YARN_IN_FULL = dict(**YARN, beta_fast=20.0, beta_slow=2.0, mscale=1.5, mscale_all_dim=0.5)
GEMMA3 = dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=500.0),
              sliding_attention=dict(rope_type="default", rope_theta=100.0))
LINEAR = dict(rope_type="linear", factor=2.5, rope_theta=10000.0)
LONG = dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=64,
            short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 1.9, 3.5, 7.0])
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)  # for classes whose usual ones are beyond these small vocabularies
SMOLLM3 = dict(TOKENS, num_hidden_layers=4, rope_parameters=dict(rope_type="default", rope_theta=500.0))
# The class, what is particular, its configuration, options of save_pretrained, peft's LoRA.
MODELS = [
    ("GPT2", "plain", {}, {}, None),
    ("Llama", "plain", {}, {}, None),
    ("Llama", "shards, tied", dict(tie_word_embeddings=True), dict(max_shard_size="40KB"), None),
    ("Llama", "llama3 positions, wide heads", dict(rope_parameters=LLAMA3, head_dim=16), dict(max_shard_size="60KB"), None),
    ("Llama", "linear positions", dict(rope_parameters=LINEAR), {}, None),
    ("Llama", "biases", dict(attention_bias=True, mlp_bias=True), {}, None),
    ("Llama", "LoRA of attention", {}, {}, dict(target_modules=ATTENTION)),
    ("Llama", "LoRA of all", {}, {}, dict(target_modules="all-linear")),
    ("Llama", "LoRA of some", {}, {}, dict(target_modules=["v_proj", "up_proj"], use_rslora=True)),
    ("Llama", "LoRA of several ranks", {}, {},
     dict(target_modules="all-linear", use_rslora=True, rank_pattern={"layers.0.self_attn.q_proj": 7, "q_proj": 2, r".*\.(up|gate)_proj": 5},
          alpha_pattern={"^model.layers.1.*": 3, "o_proj": 1.5, "no_such": 3})),
    ("Llama", "LoRA of one layer", {}, {}, dict(target_modules=["q_proj", "down_proj"], layers_to_transform=[1])),
    ("Llama", "LoRA and the embedding, tied", dict(tie_word_embeddings=True), {},
     dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    ("Llama", "LoRA, the embedding, the head and a norm", dict(attention_bias=True), {},
     dict(target_modules=["k_proj"], modules_to_save=["embed_tokens", "lm_head", "model.norm"])),
    ("GPT2", "LoRA as usual", {}, {}, dict()),
    ("GPT2", "LoRA of all", {}, {}, dict(target_modules=["c_attn", "c_proj", "c_fc"], use_rslora=True)),
    ("Mistral", "no window", dict(sliding_window=None), {}, None),
    ("Mistral", "a window of 20 tokens", dict(sliding_window=20), dict(max_shard_size="40KB"), None),
    ("Mistral", "a window of 5 tokens", dict(sliding_window=5, tie_word_embeddings=True), {}, None),
    ("Qwen2", "plain", {}, {}, None),
    ("Gemma2", "plain", dict(head_dim=8, sliding_window=20, hidden_activation="gelu_pytorch_tanh", num_hidden_layers=4), {}, None),
    ("Gemma2", "wide heads, no caps", dict(head_dim=20, sliding_window=9, query_pre_attn_scalar=30, attn_logit_softcapping=None,
                                           final_logit_softcapping=None), dict(max_shard_size="40KB"), None),
    ("Gemma3", "plain", dict(head_dim=8, sliding_window=20, num_hidden_layers=7), {}, None),
    ("Gemma3", "other positions", dict(head_dim=16, sliding_window=9, num_hidden_layers=3, rope_parameters=GEMMA3,
                                       layer_types=["sliding_attention", "full_attention", "sliding_attention"]), {}, None),
    ("Gemma3", "LoRA of some", dict(head_dim=8, sliding_window=20), {}, dict(target_modules=["q_proj", "o_proj", "down_proj"])),
    ("Qwen2", "yarn positions", dict(rope_parameters=YARN), {}, None),
    ("Qwen3", "yarn positions, all of their options", dict(rope_parameters=YARN_IN_FULL, head_dim=16), {}, None),
    ("Qwen2", "shards, tied", dict(tie_word_embeddings=True), dict(max_shard_size="40KB"), None),
    ("Qwen2", "LoRA of all", {}, {}, dict(target_modules="all-linear")),
    ("Qwen3", "plain", dict(head_dim=8), {}, None),
    ("Qwen3", "wide heads, biases, tied", dict(head_dim=20, attention_bias=True, tie_word_embeddings=True), {}, None),
    ("Qwen3", "LoRA of some", dict(head_dim=16), {}, dict(target_modules=["q_proj", "down_proj"])),
    ("Qwen2", "windows in the last layers", dict(use_sliding_window=True, sliding_window=20, max_window_layers=1, num_hidden_layers=3), {}, None),
    ("Qwen3", "a window in the second layer", dict(head_dim=8, use_sliding_window=True, sliding_window=9,
                                                   layer_types=["full_attention", "sliding_attention"]), {}, None),
    ("Qwen3", "windows in any order of layers", dict(head_dim=8, use_sliding_window=True, sliding_window=9, num_hidden_layers=4,
                                                     layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"]), {}, None),
    ("Gemma3", "windows in any order of layers", dict(head_dim=8, sliding_window=9, num_hidden_layers=4,
                                                      layer_types=["full_attention", "full_attention", "sliding_attention", "full_attention"]), {}, None),
    ("Llama", "yarn positions of the whole length, limits between channels",
     dict(rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, truncate=False, beta_slow=1.5)), {}, None),
    ("Llama", "long positions", dict(rope_parameters=LONG), {}, None),
    ("Llama", "long positions, from within a text", dict(rope_parameters=dict(LONG, original_max_position_embeddings=14)), {}, None),
    ("Mistral", "long positions without a factor", dict(sliding_window=None, rope_parameters={k: v for k, v in LONG.items() if k != "factor"}), {}, None),
    ("SmolLM3", "every fourth layer without positions", SMOLLM3, {}, None),
    # Without positions a bias of keys has no gradient but for rounding.
    ("SmolLM3", "others without positions, biases of the MLP", dict(SMOLLM3, no_rope_layers=[0, 1, 1, 0], mlp_bias=True),
     dict(max_shard_size="40KB"), None),
    ("SmolLM3", "LoRA of all", dict(SMOLLM3, no_rope_layer_interval=2), {}, dict(target_modules="all-linear")),
    ("Olmo2", "plain", TOKENS, {}, None),
    ("Olmo2", "wide heads, tied, yarn positions", dict(TOKENS, head_dim=16, tie_word_embeddings=True, rope_parameters=YARN),
     dict(max_shard_size="40KB"), None),
    ("Olmo2", "LoRA of all", TOKENS, {}, dict(target_modules="all-linear")),
    ("Phi3", "plain", TOKENS, {}, None),
    ("Phi3", "a window of 20 tokens", dict(TOKENS, sliding_window=20, num_key_value_heads=6), dict(max_shard_size="40KB"), None),
    ("Phi3", "long positions", dict(TOKENS, original_max_position_embeddings=64, rope_parameters=LONG), {}, None),
    ("Phi3", "LoRA of all", TOKENS, {}, dict(target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    ("Llama", "dynamic positions", dict(rope_parameters=dict(LINEAR, rope_type="dynamic")), {}, None),
]


class Case:
    """A model of transformers, sequences of tokens and what is to be predicted."""

    def __init__(self, name, options, seed, dtype):
        import torch
        import transformers

        torch.manual_seed(seed)
        config = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else name + "Config")(**(GPT2 if name == "GPT2" else {**SIZES, **options}))
        self.kind = getattr(transformers, name + ("LMHeadModel" if name == "GPT2" else "ForCausalLM"))
        # With longrope transformers' cache keeps keys of the positions that a text has while it is short.
        self.is_long = "longrope" in str(options)
        self.model = self.kind(config).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():  # norms and biases that are not 1 and 0
                parameter.mul_(3) if parameter.dim() >= 2 else None
                parameter.add_(torch.randn_like(parameter) * 0.05)
        self.model = self.model.to(getattr(torch, dtype))
        # Not Gemma's padding, 0: transformers gives its embedding no gradient.
        self.sequences = [torch.randint(1, config.vocab_size, (length,)).tolist() for length in (300, 1, 40)]
        self.targets = [[token if i % 4 else -1 for i, token in enumerate(row[1:])] + [-1] for row in self.sequences]
        self.prompts = [row[:9] for row in self.sequences if len(row) > 9]

    def save(self, folder, saving, lora):
        """The model, and beside it the adapter, whose LoRA is not zero."""
        import peft

        self.model.save_pretrained(folder, **saving)
        if lora is None:
            return ""
        adapted = peft.get_peft_model(self.model, peft.LoraConfig(r=3, lora_alpha=6, task_type="CAUSAL_LM", **lora))
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                parameter.data.add_(0.1 * parameter.data.new_empty(parameter.shape).normal_())
        adapted.save_pretrained(folder + "-adapter")
        return folder + "-adapter"

    def read(self, folder, adapter=""):
        """What was saved in another type is read, and trained, in float32."""
        import peft
        import torch

        self.model = self.kind.from_pretrained(folder, dtype=torch.float32).eval()
        if adapter:
            self.model = peft.PeftModel.from_pretrained(self.model, adapter, is_trainable=True).eval()
        return self

    def logits(self, model):
        import torch

        return torch.cat([model(input_ids=torch.tensor([tokens])).logits[0] for tokens in self.sequences])

    def loss(self):
        import torch

        targets = torch.tensor([t for row in self.targets for t in row])
        return torch.nn.functional.cross_entropy(self.logits(self.model), targets, ignore_index=-1)

    def greedy(self, prompt):
        import torch

        made = self.model.generate(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                                   max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, eos_token_id=-1,
                                   use_cache=not self.is_long)
        return made[0, len(prompt):].tolist()

    def gradients(self, dtype):
        """By the names of the folder, or of the adapter."""
        self.model.to(dtype).zero_grad()
        self.loss().backward()
        self.model.float()
        if hasattr(self.model, "peft_config"):
            return {name.replace(".default", "").replace(".modules_to_save", ""): p.grad
                    for name, p in self.model.named_parameters() if p.requires_grad}
        head = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        return {name: p.grad for name, p in self.model.state_dict(keep_vars=True).items() if name not in head}

    def train(self):
        import torch

        groups = [{"params": [p for p in self.model.parameters() if p.requires_grad and (p.dim() >= 2) == decays],
                   "weight_decay": ADAMW["weight_decay"] if decays else 0.0} for decays in (True, False)]
        optimizer = torch.optim.AdamW(groups, lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"])
        for _ in range(ADAMW["steps"]):
            optimizer.zero_grad()
            self.loss().backward()
            optimizer.step()


def difference(ours, theirs):
    return (ours.double() - theirs.double()).norm().item() / max(theirs.double().norm().item(), 1e-12)


def of_gradients(folder, case):
    """Of all together; and the largest of one tensor's. By name: the same tensors in a folder of ours. Theirs are computed in float64, so
    that the difference is ours alone; where it is large, that of theirs in float32 is allowed."""
    import torch
    from safetensors.torch import load_file

    theirs = {name: gradient.clone() for name, gradient in case.gradients(torch.float64).items()}
    file = next(file for file in os.listdir(folder) if file.endswith(".safetensors"))
    ours = load_file(os.path.join(folder, file))
    tied_head = {"base_model.model.lm_head.weight"} - theirs.keys()  # an adapter of ours has it: the embedding again
    assert ours.keys() - tied_head == theirs.keys(), sorted(ours.keys() ^ theirs.keys())

    def together(tensors):
        return difference(*(torch.cat([some[name].flatten() for name in theirs]) for some in (tensors, theirs)))

    whole = together(ours)
    if whole > TOLERANCE:
        own = together(case.gradients(torch.float32))
        assert whole <= 1.2 * own, f"gradients differ by {whole:.1e}, theirs in float32 by {own:.1e}"
        whole = TOLERANCE
    return whole, max((difference(ours[name], theirs[name]), name) for name in theirs)


def compare(probe, name, what, options, saving, lora, seed, dtype="float32"):
    from safetensors.torch import load_file

    import torch

    case = Case(name, options, seed, dtype)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        adapter = case.save(source, saving, lora)
        shards = [file for file in os.listdir(source) if file.endswith(".safetensors")]
        assert (len(shards) > 2) == bool(saving), shards
        request = {"sequences": case.sequences, "targets": case.targets, "adapter": adapter, "prompts": case.prompts,
                   "new_tokens": NEW_TOKENS, "adamw": ADAMW}
        answer = ask(probe, source, folder, request)
        with torch.no_grad():
            unchanged = case.read(source).logits(case.model)
        case.read(source, adapter)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        again, info = case.kind.from_pretrained(os.path.join(folder, "model"), output_loading_info=True)
        for kind, names in info.items():
            assert not names, f"{kind} in the folder that we saved: {names}"
        with torch.no_grad():
            theirs, saved = case.logits(case.model), case.logits(again.eval().float())
        found["our folder's logits"] = difference(saved, ours)
        found["logits"] = difference(ours, theirs)
        if adapter:
            moved = difference(theirs, unchanged)
            assert moved > 0.01, f"LoRA moves the logits by {moved:.2e}"
            with torch.no_grad():
                case.read(source, os.path.join(folder, "adapter"))
                found["our adapter's logits"] = difference(case.logits(case.model), theirs)
            case.read(source, adapter)
        assert answer["greedy"] == [case.greedy(prompt) for prompt in case.prompts], f"{name}, {what}: other tokens are generated"
        with torch.no_grad():
            found["loss"] = abs(answer["loss"] / case.loss().item() - 1)
        found["gradients"], worst = of_gradients(os.path.join(folder, "gradients"), case)
        assert worst[0] <= OF_ONE_GRADIENT, f"{name}, {what}: the gradient of {worst[1]} differs by {worst[0]:.1e}"
        case.train()
        trained = case.kind.from_pretrained(os.path.join(folder, "trained")).eval()
        with torch.no_grad():
            found["logits after three steps"] = difference(case.logits(trained), case.logits(case.model))
    text = ", ".join(f"{part} {value:.1e}" for part, value in found.items())
    assert max(found.values()) <= TOLERANCE, f"{name}, {what}, {dtype}: more than {TOLERANCE}: {text}"
    print(f"equal to transformers: {name}, {what}, {dtype}: {text}", flush=True)


def main():
    arguments = started("probe", "peft", "torch", "transformers")
    for seed, model in enumerate(MODELS):
        compare(arguments.probe, *model, seed)
        if model[1] == "plain" and model[0] != "GPT2":
            for dtype in ("bfloat16", "float16"):
                compare(arguments.probe, *model, seed, dtype)


if __name__ == "__main__":
    main()
