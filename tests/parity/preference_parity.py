"""Trains on pairs of answers with each loss, and the same with transformers and PyTorch, by formulas of its own: losses, norms of
gradients and rewards of four steps are the same. TRL 1.16 gives these for dpo, ipo, hinge and simpo, too; its cpo and orpo average the
cross entropy over the tokens of a micro-batch, orpo's also over the prompt, and its dpo passes over label_smoothing.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import random
import tempfile

from comparison import plain_training, run, started, steps_of, worst_of

TEMPLATE = ("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n'}}{% endfor %}"
            "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n'}}{% endif %}")
WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()
BATCH, STEPS, RATE = 4, 4, 1e-3
CASES = [("dpo", {"beta": 0.3}), ("dpo", {"label_smoothing": 0.1}), ("dpo", {"sft_weight": 0.5}), ("ipo", {}), ("hinge", {}), ("cpo", {}),
         ("simpo", {"beta": 2.0, "gamma": 0.5}), ("orpo", {}), ("kto", {"desirable_weight": 1.5})]


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 9)))


def loss_of(kind, chosen, rejected, reference, beta=0.1, label_smoothing=0.0, gamma=1.0, sft_weight=None):
    """chosen, rejected: (T) log-probabilities of the tokens of an answer; reference: the same two of the reference."""
    import torch
    from torch.nn.functional import logsigmoid

    ratio = (chosen.sum() - reference[0].sum()) - (rejected.sum() - reference[1].sum())
    if kind == "dpo":
        loss = -(1 - label_smoothing) * logsigmoid(beta * ratio) - label_smoothing * logsigmoid(-beta * ratio)
    elif kind == "ipo":
        loss = ((chosen - reference[0]).mean() - (rejected - reference[1]).mean() - 1 / (2 * beta)) ** 2
    elif kind == "hinge":
        loss = torch.clamp(1 - beta * ratio, min=0)
    elif kind == "cpo":
        loss = -logsigmoid(beta * (chosen.sum() - rejected.sum()))
    elif kind == "simpo":
        loss = -logsigmoid(beta * (chosen.mean() - rejected.mean()) - gamma)
    else:
        odds = [one.mean().exp() / (1 - one.mean().exp()) for one in (chosen, rejected)]
        loss = -beta * logsigmoid(torch.log(odds[0] / odds[1]))
    weight = sft_weight if sft_weight is not None else 1.0 if kind in ("cpo", "orpo") else 0.0
    return loss - weight * chosen.mean()


def theirs(folder, rows, kind, options):
    """[(loss, gradient norm, mean log-probability of the chosen answers)] of the steps."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model, frozen = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    prompt_of = [tokenizer.apply_chat_template([{"role": "user", "content": row["prompt"]}], add_generation_prompt=True, tokenize=False)
                 for row in rows]

    def tokens_of(network, prompt, answer):
        begin, end = (tokenizer(one, add_special_tokens=False)["input_ids"] for one in (prompt, answer + "<|im_end|>"))
        ids = torch.tensor([begin + end])
        log_p = torch.log_softmax(network(input_ids=ids).logits[0, :-1], -1)
        return log_p.gather(1, ids[0, 1:, None])[len(begin) - 1 :, 0]

    def ratio(i, answer):
        return tokens_of(model, prompt_of[i], answer).sum() - tokens_of(frozen, prompt_of[i], answer).sum().detach()

    seen = []
    for step in range(STEPS):
        total, chosen_sum = 0.0, 0.0
        optimizer.zero_grad()
        if kind == "kto":  # answers by themselves, first the chosen one; a sample half the data away has the other answer
            answers = [(i, row[name], name == "chosen") for i, row in enumerate(rows) for name in ("chosen", "rejected")]
            mine = range(step * BATCH, (step + 1) * BATCH)
            with torch.no_grad():
                point = sum(ratio(answers[k][0], answers[(k + len(answers) // 2) % len(answers)][1]) for k in mine) / BATCH
            for k in mine:
                i, answer, is_wanted = answers[k]
                beta, apart = options.get("beta", 0.1), ratio(i, answer) - point.clamp(min=0)
                weight = options.get("desirable_weight", 1.0) if is_wanted else options.get("undesirable_weight", 1.0)
                loss = weight * (1 - torch.sigmoid(beta * (apart if is_wanted else -apart))) / BATCH
                loss.backward()
                total += loss.item()
                with torch.no_grad():
                    chosen_sum += tokens_of(model, prompt_of[i], answer).sum().item() * is_wanted / (BATCH / 2)
            seen.append((total, torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item(), chosen_sum))
            optimizer.step()
            continue
        for i in range(step * BATCH, (step + 1) * BATCH):
            answers = rows[i]["chosen"], rows[i]["rejected"]
            with torch.no_grad():
                reference = [tokens_of(frozen, prompt_of[i], answer) for answer in answers]
            chosen, rejected = (tokens_of(model, prompt_of[i], answer) for answer in answers)
            loss = loss_of(kind, chosen, rejected, reference, **options) / BATCH
            loss.backward()
            total, chosen_sum = total + loss.item(), chosen_sum + chosen.sum().item() / BATCH
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()
        optimizer.step()
        seen.append((total, norm, chosen_sum))
    return seen


def compare(program, work, rows, kind, options):
    sets = [word for key, value in options.items() for word in ("--set", f"task.preference.{key}={value}")]
    run(program, work, "run", "pairs.toml", "--set", f"task.preference.loss={kind}", *sets, "--fresh")
    ours = steps_of(os.path.join(work, "run"), "loss", "grad_norm", "logp_chosen")
    worst = worst_of(ours, theirs(os.path.join(work, "folder"), rows, kind, options), f"{kind} {options}")
    print(f"  {kind} {options}: losses, norms and log-probabilities differ by at most {worst[0]:.1e}, {worst[1]:.1e}, {worst[2]:.1e}")


def main():
    options = started("program", "transformers")
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    import chat_tokenizers

    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "folder")
        os.mkdir(folder)
        tokenizer = chat_tokenizers.save("qwen2", [], "<|im_end|>", TEMPLATE, folder)
        torch.manual_seed(0)
        config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.1, tie_word_embeddings=True,
                             bos_token_id=None, eos_token_id=tokenizer.eos_token_id)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        random.seed(1)
        rows = [{"prompt": text(), "chosen": text(), "rejected": text()} for _ in range(BATCH * STEPS)]
        with open(os.path.join(work, "pairs.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        with open(os.path.join(work, "pairs.toml"), "w", encoding="utf-8") as file:
            file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "preference"
data.train = "pairs.jsonl"
chat.max_tokens = 128
generate.max_tokens = 8
{plain_training("folder", BATCH, STEPS, RATE)}""")
        for kind, more in CASES:
            compare(options.program, work, rows, kind, more)


if __name__ == "__main__":
    main()
