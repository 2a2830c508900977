"""Fine-tunes models of transformers on eight conversations until they know them, and lets transformers answer from the exported folder
alone: with the same answers, which end by themselves. Ours answers the same from the run and from that folder, at the terminal as well.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import tempfile

from comparison import run, started, table

ANSWERS = ["The cat sat.", "7 words", "Nothing, as before.", "It's text;\nwith a line.", "yes", "A mat is flat - very.", "No.", "12 of them"]
QUESTIONS = ["What did the cat do?", "how many?", "And now?", "Which text?", "so?", "What is a mat?", "Really?", "Words; how many of them?"]
# Model, template, kind of tokenizer, special tokens besides its own, what ends an answer, and how the data are written.
CASES = [
    ("Qwen3", "turns", "qwen2", [], "<|im_end|>", "messages"),
    ("Llama", "headers", "llama3", ["<|start_header_id|>", "<|end_header_id|>"], "<|eot_id|>", "prompt"),
    ("Mistral", "brackets", "sentence_piece", [], "</s>", "sharegpt"),
]
SIZES = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
             max_position_embeddings=160, initializer_range=0.1)
NEW = 48


def record(form, question, answer):
    if form == "messages":
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
    if form == "prompt":
        return {"prompt": question, "completion": answer}
    return {"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]}


def their_answers(folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    answers = []
    for question in QUESTIONS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True,
                                               return_tensors="pt", date_string="26 Jul 2024")  # task.chat.date, which it learnt with
        written = model.generate(**prompt, do_sample=False, max_new_tokens=NEW)[0, prompt["input_ids"].shape[1]:]
        answers.append((tokenizer.decode(written, skip_special_tokens=True).strip(), len(written) < NEW))
    return answers


def compare(program, work, model, template, kind, special, end, form):
    import torch
    import transformers

    import chat_tokenizers

    folder = os.path.join(work, "folder")
    os.mkdir(folder)
    tokenizer = chat_tokenizers.save(kind, special, end, chat_tokenizers.template(template), folder)
    torch.manual_seed(1)
    config = getattr(transformers, model + "Config")(vocab_size=len(tokenizer), **SIZES, bos_token_id=tokenizer.bos_token_id, eos_token_id=0)
    getattr(transformers, model + "ForCausalLM")(config).save_pretrained(folder)
    with open(os.path.join(work, "train.jsonl"), "w", encoding="utf-8") as file:
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
            file.write(json.dumps(record(form, question, answer)) + "\n")
    with open(os.path.join(work, "chat.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[task]
plugin = "chat"
[task.data]
train = "train.jsonl"
test = "train.jsonl"
[task.generate]
max_tokens = {NEW}
[run]
device = "cpu"
[train]
init_from = "folder"
global_batch = 8
micro_batch = 4
max_steps = 150
[optimizer]
lr = 5e-3
""")
    told = run(program, work, "run", "chat.toml")
    loss = float(told.rsplit("  loss ", 1)[1].split()[0])
    assert loss < 0.05, f"the loss is {loss} after 150 steps"
    run(program, work, "export", "chat.toml", "--output", "exported")
    theirs = their_answers(os.path.join(work, "exported"))
    assert theirs == [(answer, True) for answer in ANSWERS], f"transformers answers {theirs}"
    run(program, work, "predict", "chat.toml", "--output", "ours.csv")
    assert [row["answer"] for row in table(os.path.join(work, "ours.csv"))] == ANSWERS
    run(program, work, "predict", "exported", "--prompt", QUESTIONS[0], "--output", "one.csv")
    assert [row["answer"] for row in table(os.path.join(work, "one.csv"))] == ANSWERS[:1]
    said = run(program, work, "chat", "exported", "--set", "observe.console=off", input=f"{QUESTIONS[5]}\n/new\n{QUESTIONS[3]}\n")
    assert said == f"{ANSWERS[5]}\n{ANSWERS[3]}\n", said
    after = run(program, work, "evaluate", "chat.toml", "--split", "test")
    assert "exact                    1.0000" in after, after
    before = run(program, work, "evaluate", "chat.toml", "--split", "test", "--checkpoint", "folder", "--output", "before.json")
    assert "exact                    0.0000" in before, before
    print(f"  {model}, {template}, {kind}: loss {loss:.4f}, and {len(ANSWERS)} answers are equal and end")


def main():
    options = started("program", "sentencepiece", "transformers")
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            compare(options.program, work, *case)


if __name__ == "__main__":
    main()
