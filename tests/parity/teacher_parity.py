"""Learns from a teacher, and the same with transformers and PyTorch, by the formulas that TRL's GKD has: losses, divergences and norms
of gradients of four steps are the same.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import random
import tempfile

from comparison import plain_training, run, started, steps_of, worst_of

WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()
BATCH, STEPS, RATE = 4, 4, 1e-3
# Of the teacher: its kind; then beta, temperature, weight, top_k.
CASES = [("qwen3", 0.0, 1.0, 0.5, 0), ("qwen3", 1.0, 2.0, 1.0, 0), ("gemma2", 0.3, 0.7, 0.8, 0), ("qwen3", 0.0, 1.0, 0.5, 8), ("gemma2", 0.3, 0.7, 0.8, 3)]


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 9)))


def divergence(student, teacher, beta, temperature, top_k):
    """The sum over rows of logits; as trl.experimental.gkd's generalized_jsd_loss(). With top_k, over the teacher's likeliest tokens and
    all others together."""
    import torch
    from torch.nn.functional import kl_div, log_softmax

    student, teacher = log_softmax(student / temperature, -1), log_softmax(teacher / temperature, -1)
    if top_k:
        ids = teacher.topk(top_k).indices
        student, teacher = (torch.cat([of.gather(1, ids), torch.log1p(-of.gather(1, ids).exp().sum(1, keepdim=True))], 1)
                            for of in (student, teacher))
    if beta == 0:
        return kl_div(student, teacher, reduction="sum", log_target=True)
    if beta == 1:
        return kl_div(teacher, student, reduction="sum", log_target=True)
    mixture = torch.logsumexp(torch.stack([student + torch.log1p(torch.tensor(-beta)), teacher + torch.log(torch.tensor(beta))]), dim=0)
    return beta * kl_div(mixture, teacher, reduction="sum", log_target=True) + (1 - beta) * kl_div(
        mixture, student, reduction="sum", log_target=True)


def theirs(work, rows, beta, temperature, weight, top_k):
    """[(loss, divergence, gradient norm)] of the steps."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(os.path.join(work, "student"))
    student, teacher = (AutoModelForCausalLM.from_pretrained(os.path.join(work, name), dtype=torch.float32, attn_implementation="eager")
                        for name in ("student", "teacher"))
    optimizer = torch.optim.AdamW(student.parameters(), lr=RATE, weight_decay=0.0)
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        parts = []
        for row in rows[step * BATCH : (step + 1) * BATCH]:
            begin = tokenizer.apply_chat_template([row["messages"][0]], add_generation_prompt=True, tokenize=False)
            begin, end = (tokenizer(one, add_special_tokens=False)["input_ids"]
                          for one in (begin, row["messages"][1]["content"] + "<|im_end|>"))
            ids = torch.tensor([begin + end])
            mine = student(input_ids=ids).logits[0, len(begin) - 1 : -1]
            with torch.no_grad():
                right = teacher(input_ids=ids).logits[0, len(begin) - 1 : -1, : mine.shape[1]]
            parts.append((torch.nn.functional.cross_entropy(mine, ids[0, len(begin) :], reduction="sum"),
                          divergence(mine, right, beta, temperature, top_k), len(end)))
        count = sum(part[2] for part in parts)
        own, apart = (sum(part[i] for part in parts) / count for i in range(2))
        loss = (1 - weight) * own + weight * apart
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), 1e9).item()
        optimizer.step()
        seen.append((loss.item(), apart.item(), norm))
    return seen


def compare(program, work, kind, beta, temperature, weight, top_k):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    import chat_tokenizers

    random.seed(1)
    torch.manual_seed(0)
    for name, of, width in (("student", "qwen2", 48), ("teacher", kind, 64)):
        folder = os.path.join(work, name)
        os.makedirs(folder)
        tokenizer = chat_tokenizers.save("qwen2", [], "<|im_end|>", chat_tokenizers.CHATML, folder)
        rows_behind = 0 if name == "student" else 7
        own = {"head_dim": 16, "query_pre_attn_scalar": 16} if of == "gemma2" else {"head_dim": 16} if of == "qwen3" else {}
        config = AutoConfig.for_model(
            of, vocab_size=len(tokenizer) + rows_behind, hidden_size=width, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.1, **own, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=None)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    rows = [{"messages": [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]} for _ in range(BATCH * STEPS)]
    with open(os.path.join(work, "chat.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with open(os.path.join(work, "chat.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
cache_dir = "cache"
device = "cpu"
[task]
plugin = "chat"
data.train = "chat.jsonl"
chat.max_tokens = 96
generate.max_tokens = 8
teacher = {{ init_from = "teacher", beta = {beta}, temperature = {temperature}, weight = {weight}, top_k = {top_k} }}
{plain_training("student", BATCH, STEPS, RATE)}""")
    run(program, work, "run", "chat.toml")
    ours = steps_of(os.path.join(work, "run"), "loss", "divergence", "grad_norm")
    worst = worst_of(ours, theirs(work, rows, beta, temperature, weight, top_k), f"{kind} beta {beta}")
    print(f"  {kind} beta {beta}, temperature {temperature}, weight {weight}, top_k {top_k}: losses, divergences and norms differ by at most "
          + ", ".join(f"{one:.1e}" for one in worst))


def main():
    options = started("program", "transformers")
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            compare(options.program, work, *case)


if __name__ == "__main__":
    main()
