"""The examples in configs/python are short, and do what they say."""

import json

import job

EXAMPLES = job.ROOT / "configs/python"

MAKE_FOLDER = """
import pathlib, random
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
random.seed(1)
pathlib.Path("texts").mkdir()
words = "the quick brown fox jumps over a lazy dog and some other animals of the wood".split()
for split, lines in ("train", 60), ("val", 12):
    text = "\\n".join(" ".join(random.choices(words, k=random.randint(3, 30))) for _ in range(lines))
    pathlib.Path(f"texts/{split}.txt").write_text(text)
tokenizer = ByteLevelBPETokenizer()
tokenizer.train(["texts/train.txt"], vocab_size=300, special_tokens=["<|endoftext|>"])
tokenizer.save("tokenizer.json")
PreTrainedTokenizerFast(tokenizer_file="tokenizer.json", eos_token="<|endoftext|>").save_pretrained("gpt2")
GPT2LMHeadModel(GPT2Config(vocab_size=300, n_positions=64, n_embd=32, n_layer=3, n_head=2, bos_token_id=0,
                           eos_token_id=0)).save_pretrained("gpt2")
"""

LOSS = """
import sys, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained("gpt2")
total = count = 0
for line in open("texts/val.txt").read().splitlines():
    ids = torch.tensor([tokenizer(line + tokenizer.eos_token)["input_ids"]])
    with torch.no_grad():
        total += float(model(ids, labels=ids).loss) * (ids.numel() - 1)
    count += ids.numel() - 1
print(total / count)
"""


class ExamplesTest(job.Job):
    def test_have_at_most_thirty_lines(self):
        for file in EXAMPLES.glob("*.py"):
            lines = [line for line in file.read_text().splitlines() if line.strip()]
            self.assertLessEqual(len(lines), 30, file)

    def test_the_sine_is_learned(self):
        self.configure(EXAMPLES / "sine.py")
        self.pipeline("run", "train.toml", train__global_batch=64, train__micro_batch=64, train__max_steps=100)
        self.assertLess(self.losses()[-1], 0.15 * self.losses()[0])

    def test_points_on_a_ring_are_drawn(self):
        said = self.run_words(job.PIPELINE, "run", str(EXAMPLES / "ring.toml"), "--set", f"task.file={EXAMPLES / 'ring.py'}", "--set", "run.device=cpu")
        figures = json.loads((self.folder / "runs/ring/eval.jsonl").read_text().splitlines()[-1])
        self.assertLess(figures["off_ring"], 0.1, said)
        self.assertAlmostEqual(figures["left"], 0.5, delta=0.1)

    def test_a_model_of_transformers_is_fine_tuned_and_exported(self):
        self.run_words(job.PYTHON, "-c", MAKE_FOLDER)
        self.configure(EXAMPLES / "causal_lm.py", init_from="gpt2", texts="texts")
        said = self.pipeline("run", "train.toml")
        self.assertIn("weights of task.init_from = gpt2", said)
        self.pipeline("export", "run")
        own = float(self.pipeline("evaluate", "run", "--split", "val").rsplit("loss", 1)[1].split()[0])
        theirs, before = (float(self.run_words(job.PYTHON, "-c", LOSS, folder).split()[-1]) for folder in ("run/export", "gpt2"))
        self.assertAlmostEqual(own, theirs, delta=1e-4)
        self.assertLess(theirs, before - 0.1)


if __name__ == "__main__":
    job.main()
