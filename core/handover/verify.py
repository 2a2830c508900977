"""pipeline verify CONFIG: whether the model that was exported says the same in other programs.

Samples of the run go through the checkpoint and through the export as this program reads it, and through what is installed of transformers,
peft, gguf and llama-cpp-python. Log-probabilities, greedy answers, where they end and the tokens of the chat template are compared.
"""
import argparse
import csv
import importlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

from folder import Problem, fail, np, read_json, tensors_of

# Log-probabilities of two implementations in float32. One of a tensor that is wrong is off by 0.1 and more.
IN_FLOAT32 = 1e-3
# llama.cpp takes GELU from a table of 16-bit numbers.
IN_LLAMA_CPP = 5e-3


def packages(*names):
    """The modules, or None where one is missing."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError:
        return None


class Sample:
    """What the model says of a sample: at each place of `tokens` (ids, log-probabilities) of its likeliest next tokens, and what it writes
    behind `prompt`."""

    def __init__(self, row):
        self.id = row["id"]
        self.asked = json.loads(row["messages"]) if row["messages"] else None  # the variables of the chat template
        self.prompt, self.tokens, self.written = ([int(one) for one in row[key].split()] for key in ("prompt_tokens", "tokens", "written"))
        self.ended = row["ended"] == "1"
        places = json.loads(row["likeliest"])
        self.ids = np.array([[one[0] for one in place] for place in places])
        self.log_p = np.array([[one[1] for one in place] for place in places])


class Table:
    def __init__(self):
        self.rows, self.failed, self.untried = [("compared", "with", "largest difference", "allowed", "")], False, 0

    def add(self, what, where, difference, allowed, note=""):
        """difference, allowed: numbers, or texts; a number that is larger than allowed fails."""
        wrong = isinstance(difference, float) and allowed is not None and not difference <= allowed
        self.failed |= wrong
        show = lambda one: "-" if one is None else f"{one:.2g}" if isinstance(one, float) else str(one)  # noqa: E731
        self.rows.append((what, where, show(difference), show(allowed), "DIFFERS " + note if wrong else note or "same"))

    def count(self, what, where, equal, of):
        self.failed |= equal < of
        self.rows.append((what, where, f"{of - equal} of {of}", "0", "DIFFERS" if equal < of else "same" if of > 0 else "none to compare"))

    def not_tried(self, where, why):
        self.untried += 1
        self.rows.append(("", where, "", "", f"not tried: {why}"))

    def __str__(self):
        widths = [max(len(row[i]) for row in self.rows) for i in range(5)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in self.rows)


class Ours:
    """This program, in float32 on the CPU, as the others are asked."""

    EXACT = ["--set", "run.device=cpu", "--set", "train.precision=fp32", "--set", "train.frozen_precision=auto"]

    def __init__(self, program, arguments, count):
        self.program, self.arguments, self.count = program, arguments, count

    def call(self, verb, *more):
        done = subprocess.run([self.program, verb, *self.arguments, *self.EXACT, *more], capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(f"pipeline {verb} has failed:\n{done.stderr.strip() or done.stdout.strip()}")

    def say(self, *weights):
        """What it says of the samples."""
        with tempfile.TemporaryDirectory() as work:
            table = pathlib.Path(work) / "samples.csv"
            self.call("predict", *weights, "--samples", str(self.count), "--output", str(table), "--set", "task.ask.show=logits")
            csv.field_size_limit(1 << 30)
            with open(table, newline="", encoding="utf-8") as file:
                samples = [Sample(row) for row in csv.DictReader(file)]
        if not samples:
            raise Problem("there are no samples to compare with: give the task data of its own")
        return samples


def distance_of_samples(a, b):
    """Of two that this program gives of the same tokens. A token that the other does not have among its likeliest is less likely there than
    the last of these."""
    if a.tokens != b.tokens or a.ids.shape != b.ids.shape:
        raise Problem(f"sample {a.id}: the checkpoint's tokenizer and the export's make different tokens of it")
    worst = 0.0
    for ids, values, other, there in zip(a.ids, a.log_p, b.ids, b.log_p):
        known = dict(zip(other.tolist(), there.tolist()))
        for token, value in zip(ids.tolist(), values.tolist()):
            worst = max(worst, abs(value - known[token]) if token in known else value - min(known.values()))
    return float(worst)


def distance(sample, log_p):
    """log_p: (places, vocabulary) of another implementation."""
    theirs = np.take_along_axis(log_p, sample.ids, 1)
    return float(np.abs(theirs - sample.log_p).max())


def follows(sample, written, log_p_of, size):
    """Whether `written` is what the sample has, up to a token that was as likely, or that is none of the tokenizer's `size` tokens, which
    this program never writes. log_p_of(tokens) -> of the next one."""
    if written == sample.written:
        return True
    at = next(i for i, (a, b) in enumerate(zip([*written, None], [*sample.written, None])) if a != b)
    if at < len(written) and written[at] >= size:
        return True
    if at >= len(written) or at >= len(sample.written):
        return False
    log_p = log_p_of(sample.prompt + sample.written[:at])
    return abs(float(log_p[written[at]] - log_p[sample.written[at]])) <= IN_FLOAT32


class Transformers:
    """The export in transformers, with peft where it is an adapter, on the CPU in float32. gguf_file: of the folder, to read in its place."""

    def __init__(self, folder, gguf_file=None):
        import torch
        import transformers

        self.torch = torch
        warnings.filterwarnings("ignore", category=FutureWarning)  # of packages to each other
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        if (folder / "adapter_config.json").is_file():
            import peft

            self.model = peft.AutoPeftModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        else:
            more = {"gguf_file": gguf_file} if gguf_file else {}
            self.model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True, **more)
            problems = {key: value for key, value in info.items() if value and key != "error_msgs"}
            if problems and not gguf_file:
                raise Problem(f"transformers reads {folder} with {problems}")
        self.model.eval()
        if not gguf_file:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def log_p(self, tokens):
        with self.torch.no_grad():
            logits = self.model(self.torch.tensor([tokens])).logits[0].double()
        return self.torch.log_softmax(logits, -1).numpy()

    def prompt(self, variables):
        return self.tokenizer.apply_chat_template(variables["messages"], tools=variables.get("tools"), add_generation_prompt=True, tokenize=True,
                                                  return_dict=False)

    def write(self, sample, count):
        """As its folder says where texts end -> the tokens, and whether it ended."""
        ends = self.model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else ends or []
        prompt = self.torch.tensor([sample.prompt])
        out = self.model.generate(prompt, attention_mask=self.torch.ones_like(prompt), do_sample=False, num_beams=1, repetition_penalty=1.0,
                                  max_new_tokens=count, pad_token_id=ends[0] if ends else 0)[0].tolist()[len(sample.prompt):]
        return (out[:-1], True) if out and out[-1] in ends else (out, False)


def compare_transformers(table, folder, samples):
    theirs = Transformers(folder)
    name = "peft" if (folder / "adapter_config.json").is_file() else "transformers"
    table.add("log-probabilities", name, max(distance(one, theirs.log_p(one.tokens)) for one in samples), IN_FLOAT32)
    asked = [one for one in samples if one.prompt]
    texts = [theirs.write(one, len(one.written) + (1 if one.ended else 0)) for one in asked]
    same = [follows(one, written, lambda tokens: theirs.log_p(tokens)[-1], len(theirs.tokenizer)) for one, (written, _) in zip(asked, texts)]
    table.count("greedy answers", name, sum(same), len(same))
    ends = [(one, ended) for one, (written, ended) in zip(asked, texts) if written == one.written]
    table.count("where they end", name, sum(one.ended == ended for one, ended in ends), len(ends))
    told = [(one, theirs.prompt(one.asked)) for one in asked if one.asked]
    if told and "strftime_now" in str(theirs.tokenizer.chat_template):
        table.not_tried(f"{name}: tokens of the template", "it has the date of today")
    elif told:
        table.count("tokens of the template", name, sum(prompt == one.prompt for one, prompt in told), len(told))


def bound(kind, values):
    """How far a stored value may be from the one in the folder, by the definition of the type."""
    size = np.abs(values)
    relative = {"F64": 2.0**-24, "F32": 2.0**-24, "F16": 2.0**-11, "BF16": 2.0**-8}
    if kind in relative:
        return size * relative[kind] + 2.0**-25
    blocks = size.reshape(-1, 32)
    largest = blocks.max(1, keepdims=True) * np.ones_like(blocks)
    spread = (values.reshape(-1, 32).max(1, keepdims=True) - values.reshape(-1, 32).min(1, keepdims=True)) * np.ones_like(blocks)
    # Half a step, and of those with a middle a whole one at the far end; the scale itself is rounded to float16.
    step = {"Q8_0": largest / 127 / 2, "Q5_0": largest / 16, "Q4_0": largest / 8, "Q5_1": spread / 31 / 2, "Q4_1": spread / 15 / 2}[kind]
    return (step + largest * 2.0**-9 + 1e-7).reshape(values.shape)


def compare_weights(table, folder, ours, weights):
    """Each tensor of the export with what the checkpoint has, which is written in float32 for it."""
    arguments = ours.arguments[:]
    if "--split" in arguments:  # which export does not take
        del arguments[arguments.index("--split"):][:2]
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        whole = pathlib.Path(work) / "whole"
        Ours(ours.program, arguments, 0).call("export", *weights, "--output", str(whole), "--set", "export.dtype=fp32")
        expected, found = tensors_of(whole), tensors_of(folder)
        if odd := sorted(expected.keys() ^ found.keys()):
            raise Problem(f"{folder}: tensors that only one of it and the checkpoint has: {', '.join(odd)}")
        worst = 0.0
        for name, tensor in expected.items():
            values, there = tensor.values(), found[name].values()
            if values.shape != there.shape:
                raise Problem(f"{folder}: {name} is {there.shape}, and {values.shape} in the checkpoint")
            if found[name].dtype in ("F64", "F32", "F16", "BF16"):
                worst = max(worst, float((np.abs(there - values) / bound(found[name].dtype, values)).max(initial=0)))
    table.add("tensors, as a share of their rounding", "the checkpoint", worst, 1.0)


def compare_gguf(table, folder, file):
    """Each tensor of the file with the folder's."""
    import gguf

    import gguf_file

    config = read_json(folder / "config.json")
    arrangement = gguf_file.Arrangement(config, gguf_file.family_of(config, folder))
    expected = arrangement.tensors_of(folder)
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    extra = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}
    missing = sorted(expected.keys() ^ (found.keys() - extra))
    if missing:
        raise Problem(f"{file}: tensors that only one of it and its folder has: {', '.join(missing)}")
    worst = 0.0
    for name, (there, tensor) in expected.items():
        values = arrangement.arranged(there, tensor.values())
        read = gguf.quants.dequantize(found[name].data, found[name].tensor_type).reshape(values.shape)
        worst = max(worst, float((np.abs(read - values) / bound(found[name].tensor_type.name, values)).max(initial=0)))
    table.add("tensors, as a share of their rounding", f"gguf, {file.name}", worst, 1.0)


def tokens_of(folder):
    tokenizer = read_json(folder / "tokenizer.json")
    return 1 + max([*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer.get("added_tokens", []))])


def compare_llama_cpp(table, file, samples):
    import llama_cpp

    longest = max(len(one.tokens) for one in samples) + 64
    model = llama_cpp.Llama(str(file), n_ctx=longest, logits_all=True, verbose=False, type_k=llama_cpp.GGML_TYPE_F32,
                            type_v=llama_cpp.GGML_TYPE_F32, flash_attn=False)

    def log_p(tokens):
        model.reset()
        model.eval(tokens)
        logits = np.array(model.scores[:len(tokens)], np.float64)
        top = logits.max(1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))

    name, exact = f"llama.cpp, {file.name}", file.stem.endswith("f32")
    if packages("transformers"):
        import transformers

        theirs = transformers.AutoTokenizer.from_pretrained(file.parent)
        texts = [theirs.decode(one.tokens, skip_special_tokens=True) for one in samples]
        right = sum(model.tokenize(text.encode(), add_bos=False) == theirs(text, add_special_tokens=False)["input_ids"] for text in texts)
        table.count("tokens of the samples' texts", name, right, len(texts))
    table.add("log-probabilities", name, max(distance(one, log_p(one.tokens)) for one in samples), IN_LLAMA_CPP if exact else None,
              "" if exact else "as its weights are rounded")
    right, size = 0, tokens_of(file.parent)
    asked = [one for one in samples if one.prompt]
    for one in asked:
        tokens = list(one.prompt)
        while len(tokens) < len(one.prompt) + len(one.written) + 1:
            following = int(log_p(tokens)[-1].argmax())
            if llama_cpp.llama_vocab_is_eog(llama_cpp.llama_model_get_vocab(model.model), following):
                break
            tokens.append(following)
        written = tokens[len(one.prompt):]
        right += follows(one, written if one.ended else written[:len(one.written)], lambda tokens: log_p(tokens)[-1], size)
    if exact:
        table.count("greedy answers and their ends", name, right, len(asked))
    else:
        table.add("greedy answers and their ends", name, f"{len(asked) - right} of {len(asked)}", None, "as its weights are rounded")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="pipeline verify")
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--ema", action="store_true")
    parser.add_argument("--average", type=int)
    parser.add_argument("--gguf", help="a type that the export is written in first")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args(arguments)
    if args.gguf:
        import gguf_file

        if code := gguf_file.main([str(args.folder), "--type", args.gguf]):
            return code
    table = Table()
    try:
        folder = args.folder
        if not folder.is_dir():
            raise Problem(f"{folder}: there is no such folder: run `pipeline export` first, or name it with --export")
        is_adapter = (folder / "adapter_config.json").is_file()
        means = ["--ema"] if args.ema else ["--average", str(args.average)] if args.average else []
        ours = Ours(args.program, args.arguments, args.samples)
        samples = ours.say("--checkpoint", args.checkpoint, *means)
        if not is_adapter:
            # A run's own config.toml has "" where the tokenizer is that of the weights.
            read = ours.say("--checkpoint", str(folder), "--set", f"task.tokenizer.path={json.dumps(str(folder.resolve()))}")
            types = {tensor.dtype for tensor in tensors_of(folder).values()}
            rounds = types != {"F32"}
            table.add("log-probabilities", "the checkpoint", max(distance_of_samples(a, b) for a, b in zip(samples, read, strict=True)),
                      None if rounds else IN_FLOAT32, f"rounded to {', '.join(sorted(types))}" if rounds else "")
            compare_weights(table, folder, ours, ["--checkpoint", args.checkpoint, *means])
            samples = read
        needed = ["torch", "transformers"] + (["peft"] if is_adapter else [])
        if packages(*needed):
            compare_transformers(table, folder, samples)
        else:
            table.not_tried(needed[-1], f"{sys.executable} does not have it")
        table.not_tried("vllm", "it is not loaded here")
        for file in sorted(folder.glob("*.gguf")):
            if is_adapter:
                table.not_tried(f"gguf, {file.name}", "adapters are compared by peft alone")
                continue
            if packages("gguf"):
                compare_gguf(table, folder, file)
            else:
                table.not_tried(f"gguf, {file.name}", f"{sys.executable} does not have it")
            if packages("llama_cpp"):
                compare_llama_cpp(table, file, samples)
            else:
                table.not_tried(f"llama.cpp, {file.name}", f"{sys.executable} does not have llama-cpp-python")
    except (Problem, OSError) as error:
        return fail(error)
    except (KeyError, ValueError) as error:
        return fail(f"{folder}: {type(error).__name__}: {error}")
    if len(table.rows) == table.untried + 1:
        return fail(f"nothing was compared:\n{table}")
    print(f"{folder}: {len(samples)} samples, {sum(len(one.tokens) for one in samples)} tokens\n{table}")
    print("The export is what it should be." if not table.failed else "The export DIFFERS.")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
