"""Compares our tokenizers with Hugging Face's `tokenizers` and with `sentencepiece`: pieces, ids, texts, files and training must be equal.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. GPT-2's own vocabulary is compared
where it can be downloaded. Exit code 77: skipped, for the reason printed.
"""
import argparse
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from peer_packages import needed, use_their_python

os.environ["TOKENIZERS_PARALLELISM"] = "false"

class Tool:
    """The program tokenizer_tool."""

    def __init__(self, program):
        self.program = program

    def ask(self, arguments, frames, sent_size=1, answered_size=4):
        data = b"".join(struct.pack("<I", len(frame) // sent_size) + frame for frame in frames)
        output = subprocess.run([self.program] + arguments, input=data, stdout=subprocess.PIPE, check=True).stdout
        answers, at = [], 0
        while at < len(output):
            size = struct.unpack_from("<I", output, at)[0] * answered_size
            answers.append(output[at + 4:at + 4 + size])
            at += 4 + size
        return answers

    def integers(self, arguments, texts):
        answers = self.ask(arguments, texts)
        assert len(answers) == len(texts), f"{len(answers)} answers to {len(texts)} texts"
        return [list(struct.unpack(f"<{len(answer) // 4}i", answer)) for answer in answers]

    def encode(self, path, texts, special=False):
        return self.integers(["encode-special" if special else "encode", path], texts)

    def decode(self, path, lists):
        return self.ask(["decode", path], [struct.pack(f"<{len(ids)}i", *ids) for ids in lists], 4, 1)


class Report:
    def __init__(self):
        self.failed = 0

    def compare(self, what, inputs, ours, theirs):
        wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
        if len(ours) != len(theirs):
            wrong.append(min(len(ours), len(theirs)) - 1)
        print(f"{what}: {len(theirs)} compared, {len(wrong)} differ", flush=True)
        for i in wrong[:3]:
            print(f"  {inputs[i]!r}\n    ours   {ours[i]!r}\n    theirs {theirs[i]!r}")
        self.failed += len(wrong)


def byte_level(tokenizers, model):
    """A tokenizer of theirs that is nothing but GPT-2's rules around a model."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def their_piece_sizes(splitter, text):
    # Offsets count characters, and every character of the alphabet that the pieces are written in is one byte.
    return [len(piece) for piece, _ in splitter.pre_tokenize_str(text)]


# Numbers since Unicode 17, which the newest releases of the library split digits by, and its regular expressions do not know yet. Every
# released tokenizer was trained before it; to us they are as in Unicode 16, which has not assigned them.
NUMBERS_OF_17 = {*range(0x11DE0, 0x11DEA), *range(0x16FF4, 0x16FF7)}


def large_block(c):
    """The block of thousands of like code points that this one is in, or None: ideographs, syllables, private use; all of planes 2 and 3."""
    name, category = unicodedata.name(chr(c), ""), unicodedata.category(chr(c))
    block = next((begin for begin in ("CJK UNIFIED", "HANGUL SYLLABLE") if name.startswith(begin)), None)
    return block or (category if category == "Co" or c >= 0x20000 else None)


def is_probed(c):
    """Every code point outside of such blocks, their edges, and every eighth within."""
    return c % 8 == 0 or large_block(c) is None or not large_block(c - 1) == large_block(c) == large_block(c + 1)


# The planes above the third are unassigned, private or, at the start of plane 14, tags: their ends stand for them.
PROBED = [[c for c in range(plane << 16, (plane + 1) << 16) if is_probed(c)] if plane < 4 else
          [*range(plane << 16, (plane << 16) + 512), *range((plane + 1 << 16) - 512, plane + 1 << 16)] for plane in range(17)]


def compare_pieces(report, tool, kind, splitter, texts):
    ours = tool.integers(["pieces", kind], [text.encode() for text in texts])
    report.compare(f"{kind}: pieces of texts", texts, ours, [their_piece_sizes(splitter, text) for text in texts])
    left_out = {*range(0xD800, 0xE000), *(NUMBERS_OF_17 if kind == "smol_lm" else ())}
    for plane, characters in enumerate(PROBED):
        probes = [f"a{chr(c)}b1{chr(c)}2.{chr(c)}. {chr(c)} 1\n{chr(c)}\n'{chr(c)}s" for c in characters if c not in left_out]
        ours = tool.integers(["pieces", kind], [probe.encode() for probe in probes])
        report.compare(f"{kind}: pieces around the code points of plane {plane}", probes, ours,
                       [their_piece_sizes(splitter, probe) for probe in probes])


def compare_codes(report, tool, name, path, theirs, texts):
    """theirs: without special tokens."""
    ours = tool.encode(path, [text.encode() for text in texts])
    report.compare(f"{name}: ids", texts, ours, [e.ids for e in theirs.encode_batch_fast(texts, add_special_tokens=False)])
    rng = random.Random(5)
    size = theirs.get_vocab_size()
    lists = ours + [[rng.randrange(size) for _ in range(rng.randrange(20))] for _ in range(5000)]
    report.compare(f"{name}: decoded texts", lists, [text.decode() for text in tool.decode(path, lists)],
                   theirs.decode_batch(lists, skip_special_tokens=False))


def compare_bytes(report, tool, path, texts):
    """What no other tokenizer takes: bytes that are not UTF-8 come back, as errors="replace" shows them."""
    answers = tool.decode(path, tool.encode(path, texts))
    report.compare("texts that are not UTF-8, there and back", texts, [answer.decode() for answer in answers],
                   [text.decode(errors="replace") for text in texts])


def their_training(tokenizers, texts, vocab_size, min_frequency):
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocab_size - 1, min_frequency=min_frequency, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = byte_level(tokenizers, tokenizers.models.BPE())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def compare_training(report, tool, tokenizers, name, folder, texts, vocab_size, min_frequency):
    tool.ask(["train", str(vocab_size), str(min_frequency), folder], [text.encode() for text in texts])
    ours = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    theirs = their_training(tokenizers, texts, vocab_size, min_frequency)
    vocab = ours.get_vocab()
    eot = vocab.pop("<|endoftext|>")
    merges = [json.loads(t.to_str())["model"]["merges"] for t in (ours, theirs)]
    report.compare(f"{name}: trained merges", merges[1], *merges)
    report.compare(f"{name}: trained vocabulary", [name], [vocab], [theirs.get_vocab()])
    report.compare(f"{name}: the special token is the last", [name], [eot], [len(vocab)])


def compare_files(report, tool, tokenizers, folder, texts):
    """Files of ours load there, files of theirs load here, and both forms give the same ids."""
    files = [os.path.join(folder, file) for file in ("vocab.json", "merges.txt")]
    whole = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    pair = byte_level(tokenizers, tokenizers.models.BPE.from_file(*files))
    data = [text.encode() for text in texts]
    report.compare("vocab.json and merges.txt of ours, read by them", texts, tool.encode(files[0], data),
                   [e.ids for e in pair.encode_batch_fast(texts)])
    marked = [f"{text}<|endoftext|>{text}<|endoftext|>" for text in texts]
    report.compare("tokenizer.json of ours, special tokens recognized", marked,
                   tool.encode(folder, [text.encode() for text in marked], special=True),
                   [e.ids for e in whole.encode_batch_fast(marked)])
    with tempfile.TemporaryDirectory() as other:
        saved = os.path.join(other, "tokenizer.json")
        whole.save(saved)
        report.compare("tokenizer.json of theirs, read by us", texts, tool.encode(saved, data),
                       [e.ids for e in pair.encode_batch_fast(texts)])


def compare_kind(report, tool, tokenizers, kind, theirs, folder, texts):
    """A tokenizer of theirs, read by us; and what we save of it, read by them."""
    saved, again = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
    for path in (saved, again):
        os.mkdir(path)
    theirs.save(os.path.join(saved, "tokenizer.json"))
    data = [text.encode() for text in texts]
    ours = tool.encode(saved, data, special=True)
    report.compare(f"{kind}: ids", texts, ours, [e.ids for e in theirs.encode_batch_fast(texts, add_special_tokens=False)])
    report.compare(f"{kind}: decoded texts", ours, [text.decode() for text in tool.decode(saved, ours)],
                   theirs.decode_batch(ours, skip_special_tokens=False))
    tool.ask(["save", saved, again], [])
    read = tokenizers.Tokenizer.from_file(os.path.join(again, "tokenizer.json"))
    report.compare(f"{kind}: ids with what they add, after our saving", texts, [e.ids for e in read.encode_batch_fast(texts)],
                   [e.ids for e in theirs.encode_batch_fast(texts)])
    report.compare(f"{kind}: vocabulary after our saving", [kind], [read.get_vocab()], [theirs.get_vocab()])


# Letters with case since Unicode 16 and 17, which are not in the tables that we make letters small with.
CASED_SINCE_16 = {*range(0x10D50, 0x10D86), *range(0x16EA0, 0x16ED4), *range(0xA7CB, 0xA7DD), 0x1C89, 0x1C8A}


def compare_clip(report, tool, texts):
    """CLIP's, in both forms of its files; what we save of it, read by transformers."""
    import tokenizer_kinds
    from transformers import CLIPTokenizer

    theirs = tokenizer_kinds.clip(900)
    texts = texts + ["\u0130stanbul \u03a3\u0391\u03a3 A\u0301", "A PHOTO of a Cat, isn't it? 123 1\u00bd", " leading", "trailing  ", "x\u00a0y"]
    texts += [f"A{chr(c)} {chr(c)}s" for plane in PROBED[:3] for c in plane if not 0xD800 <= c < 0xE000 and c not in CASED_SINCE_16]
    texts = [text for text in texts if "<|" not in text]
    data, expected = [text.encode() for text in texts], [e.ids for e in theirs.backend_tokenizer.encode_batch(texts, add_special_tokens=False)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as pair, tempfile.TemporaryDirectory() as saved:
        theirs.save_pretrained(folder)
        ours = tool.encode(folder, data)
        report.compare("CLIP: ids", texts, ours, expected)
        # Python's strip() takes some control characters for white space, which here stay.
        report.compare("CLIP: decoded texts", ours, [text.decode().strip() for text in tool.decode(folder, ours)],
                       [theirs.decode(ids, clean_up_tokenization_spaces=False) for ids in ours])
        model = json.loads(theirs.backend_tokenizer.to_str())["model"]
        with open(os.path.join(pair, "vocab.json"), "w") as file:
            json.dump(model["vocab"], file)
        with open(os.path.join(pair, "merges.txt"), "w") as file:
            file.write("#version: 0.2\n" + "".join(" ".join(merge) + "\n" for merge in model["merges"]))
        report.compare("CLIP: ids of vocab.json and merges.txt", texts, tool.encode(pair, data), expected)
        tool.ask(["save", pair, saved], [])
        again = CLIPTokenizer.from_pretrained(saved)
        report.compare("CLIP: ids with what they add, after our saving", texts[:5000], again(texts[:5000])["input_ids"],
                       theirs(texts[:5000])["input_ids"])


# A letter that is two in normal form D since Unicode 13, which tokenizers has it not from.
DECOMPOSED_SINCE = {0x11938}


def compare_characters(report, tool, tokenizers, name, file, left_out=()):
    """Every character by itself, as a word and within one, with a vocabulary of all that they become."""
    characters = [c for plane in PROBED for c in plane if not 0xD800 <= c < 0xE000 and c not in left_out]
    probes = ["".join(f"a{chr(c)}b {chr(c)} " for c in characters[i:i + 16]) for i in range(0, len(characters), 16)]
    bare = tokenizers.Tokenizer.from_str(json.dumps(file))
    words = {word for probe in probes for word, _ in bare.pre_tokenizer.pre_tokenize_str(bare.normalizer.normalize_str(probe))}
    vocabulary = file["model"]["vocab"]
    for word in sorted(words - {token if isinstance(token, str) else token[0] for token in vocabulary}):
        if isinstance(vocabulary, dict):
            vocabulary[word] = len(vocabulary)
        else:
            vocabulary.append([word, -3.0])
    file["added_tokens"] = []
    whole = tokenizers.Tokenizer.from_str(json.dumps(file))
    with tempfile.TemporaryDirectory() as folder:
        whole.save(os.path.join(folder, "tokenizer.json"))
        report.compare(f"{name}: ids of all characters", probes, tool.encode(folder, [probe.encode() for probe in probes]),
                       [e.ids for e in whole.encode_batch_fast(probes, add_special_tokens=False)])


def compare_word_piece(report, tool, tokenizers, texts):
    """BERT's, cased or not, as tokenizer.json and vocab.txt have it; RoBERTa's."""
    import tokenizer_kinds
    import transformers

    for name, normalizer in (("uncased", {}), ("cased", {"lowercase": False}), ("with accents", {"strip_accents": False}),
                             ("bare", {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False})):
        theirs = tokenizer_kinds.bert(900, **normalizer)
        if name in ("uncased", "with accents"):
            compare_characters(report, tool, tokenizers, f"WordPiece, {name}", json.loads(theirs.to_str()), CASED_SINCE_16 | DECOMPOSED_SINCE)
        with tempfile.TemporaryDirectory() as folder:
            compare_kind(report, tool, tokenizers, f"WordPiece, {name}", theirs, folder, texts + ["[CLS] a [MASK]b[SEP]", "word" * 26, "x" * 101])
    compare_added(report, tool, tokenizers, "WordPiece", json.loads(tokenizer_kinds.bert(900).to_str()), texts)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as lines:
        theirs = transformers.BertTokenizer(vocab=tokenizer_kinds.bert(900, lowercase=False).get_vocab(), do_lower_case=False)
        theirs.save_pretrained(folder)
        vocabulary = sorted(theirs.get_vocab().items(), key=lambda item: item[1])
        for name, content in (("vocab.txt", "".join(token + "\n" for token, _ in vocabulary)), ("tokenizer_config.json", '{"do_lower_case": false}')):
            with open(os.path.join(lines, name), "w", encoding="utf-8") as out:
                out.write(content)
        expected = theirs(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        for path in (folder, lines):
            report.compare(f"WordPiece, {'as transformers writes it' if path == folder else 'vocab.txt'}: ids", texts,
                           tool.encode(path, [text.encode() for text in texts]), expected)
    with tempfile.TemporaryDirectory() as folder:
        compare_kind(report, tool, tokenizers, "RoBERTa", tokenizer_kinds.roberta(600), folder, texts)


def compare_unigrams(report, tool, tokenizers, texts, training):
    """XLM-RoBERTa's, in the forms that files have."""
    import tokenizer_kinds
    from tokenizers import Regex
    from tokenizers.normalizers import Replace, Strip
    from tokenizers.pre_tokenizers import Metaspace, Sequence, WhitespaceSplit

    words = Sequence([WhitespaceSplit(), Metaspace()])
    for name, cut, steps in (("words", words, []), ("spaces", words, [Replace(Regex(" {2,}"), " ")]), (
            "spaces joined", Metaspace(), [Strip(left=False, right=True), Replace(Regex(" {2,}"), "\u2581")])):
        theirs = tokenizer_kinds.xlm_roberta(training, cut, steps)
        with tempfile.TemporaryDirectory() as folder:
            compare_kind(report, tool, tokenizers, f"unigrams, {name}", theirs, folder, texts + ["<s> a <mask>b</s>", "word" * 26, "  a  b\n\nc  "])
        if name == "words":
            compare_characters(report, tool, tokenizers, "unigrams", json.loads(theirs.to_str()))
            compare_added(report, tool, tokenizers, "unigrams", json.loads(theirs.to_str()), texts)


def added_tokens(tokenizers):
    """Of all kinds that we read: special or not, in each other, next to and with white space."""
    token = tokenizers.AddedToken
    return [token("Acme", special=False), token("AcmeCorp", special=False), token("<sep>", normalized=False, special=False),
            token("the", special=False), token("p><", special=False), token("Left", lstrip=True, special=False),
            token("Both", lstrip=True, rstrip=True, normalized=False, special=False), token(" \u3000", rstrip=True, special=False),
            token("é", special=False), token("<mask>", lstrip=True, special=True), token("[PAD]", special=True)]


def texts_with(tokens, texts, count):
    rng = random.Random(7)
    parts = [token.content for token in tokens] + [" ", "  ", "\n", "\u00a0", "\u3000 ", "a", "A", "Acm", "s"]
    return ["".join(rng.choice(parts) if rng.random() < 0.6 else rng.choice(texts)[:12] for _ in range(rng.randrange(1, 12)))
            for _ in range(count)]


def compare_added(report, tool, tokenizers, name, file, texts):
    """A tokenizer.json to which tokens are added: ids of texts in which special tokens are letters, and in which they are not."""
    theirs = tokenizers.Tokenizer.from_str(json.dumps(file))
    tokens = added_tokens(tokenizers)
    theirs.add_tokens([token for token in tokens if not token.special])
    theirs.add_special_tokens([token for token in tokens if token.special])
    theirs.enable_padding(length=64)  # what a call with padding leaves behind says nothing about ids
    theirs.enable_truncation(3)
    texts = texts_with(tokens, texts, 4000)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save(os.path.join(folder, "tokenizer.json"))
        theirs.no_padding()
        theirs.no_truncation()
        for letters in (True, False):
            theirs.encode_special_tokens = letters
            # One special token within another word is cut out before it is seen to be letters: then nothing else is found there.
            some = [text for text in texts if not letters or not any(t.special and t.content in text for t in tokens)]
            report.compare(f"{name}, tokens added, special ones {'letters' if letters else 'recognized'}: ids", some,
                           tool.encode(folder, [text.encode() for text in some], special=not letters),
                           [e.ids for e in theirs.encode_batch(some, add_special_tokens=False)])


def compare_sentence_piece(report, tool, texts, training):
    """A model that sentencepiece trains as Llama's; and what we save of it, read by transformers; its tokenizer.json."""
    import sentencepiece
    import transformers

    transformers.logging.set_verbosity_error()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training), model_writer=model, vocab_size=700, model_type="bpe", byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.99,
        minloglevel=2)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as saved:
        for name, content in (("tokenizer.model", model.getvalue()), ("added_tokens.json", b'{"<image>": 700, "<pad>": 701}')):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        data = [text.encode() for text in texts]
        ours = tool.encode(folder, data)
        decoded = [text.decode() for text in tool.decode(folder, ours)]
        report.compare("SentencePiece: ids", texts, ours, theirs.encode(texts))
        report.compare("SentencePiece: decoded texts", ours, decoded, theirs.decode(ours))

        tool.ask(["save", folder, saved], [])
        # Where a text begins with a space, transformers, unlike sentencepiece, adds none.
        plain = [i for i, text in enumerate(texts) if not text.startswith((" ", "\u2581"))]
        marked = [f"<s>{text}</s>{text}<image>{text}" for text in texts]
        recognized = tool.encode(folder, [text.encode() for text in marked], special=True)
        # They are two classes there: one builds itself around the pieces, one takes tokenizer.json as it is.
        for config in (transformers.LlamaConfig(), transformers.LlavaConfig()):
            theirs = transformers.AutoTokenizer.from_pretrained(saved, config=config)
            name = f"SentencePiece, {type(theirs).__name__} of {config.model_type}"
            report.compare(f"{name}: what our files say", ["size, <image>, begin, end"], [[702, 700, 1, 2]],
                           [[len(theirs), theirs.convert_tokens_to_ids("<image>"), theirs.bos_token_id, theirs.eos_token_id]])
            report.compare(f"{name}: ids", [texts[i] for i in plain], [[1] + ours[i] for i in plain],
                           theirs([texts[i] for i in plain], split_special_tokens=True).input_ids)
            report.compare(f"{name}: decoded texts", ours, decoded, theirs.batch_decode(ours))
            some = [i for i in plain if texts[i]]
            report.compare(f"{name}: special tokens recognized", [marked[i] for i in some], [recognized[i] for i in some],
                           theirs([marked[i] for i in some], add_special_tokens=False).input_ids)
        with open(os.path.join(saved, "tokenizer.json"), encoding="utf-8") as file:
            form = json.load(file)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as saved:
        added = {"700": {"content": "<image>", "special": True}}
        for name, content in (("tokenizer.model", model.getvalue()), ("tokenizer_config.json", json.dumps(
                {"legacy": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": added}).encode())):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        tool.ask(["save", folder, saved], [])
        recognized = tool.encode(folder, [text.encode() for text in marked], special=True)
        for config, path in ((transformers.LlamaConfig(), folder), (transformers.LlamaConfig(), saved), (transformers.MistralConfig(), saved)):
            theirs = transformers.AutoTokenizer.from_pretrained(path, config=config)
            report.compare(f"SentencePiece, not legacy, {type(theirs).__name__} of our files: {path == saved}", [marked[i] for i in some],
                           [recognized[i] for i in some], theirs([marked[i] for i in some], add_special_tokens=False).input_ids)
    return form


def character_bpe_forms(form):
    """tokenizer.json of Llama's kind as there are: what puts the sign before a text, and tokens added at the end."""
    replace = form["normalizer"]["normalizers"][1]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "split": False}
    added = [{"id": 700 + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": i < 2}
             for i, content in enumerate(("<image>", "<pad>", "<|im_start|>"))]
    form = {**form, "added_tokens": [token for token in form["added_tokens"] if token["id"] < 700] + added}
    yield "legacy", form
    plain = {**form["decoder"], "decoders": form["decoder"]["decoders"][:3]}
    yield "no space before", {**form, "normalizer": replace, "decoder": plain}
    nothing = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    spaces = {**added[2], "id": form["model"]["vocab"].get("\u2581\u2581", 703), "content": "\u2581\u2581"}  # in a text these signs themselves, in what is decoded spaces
    yield "Gemma's", {**form, "normalizer": replace, "decoder": plain, "pre_tokenizer": nothing, "added_tokens": form["added_tokens"] + [spaces]}
    for scheme in ("always", "first", "never"):
        yield f"Metaspace, {scheme}", {**form, "normalizer": None, "pre_tokenizer": {**metaspace, "prepend_scheme": scheme},
                                       "decoder": plain if scheme == "never" else form["decoder"]}
    old = {**form["model"], "merges": [" ".join(merge) for merge in form["model"]["merges"]]}
    yield "merges as before", {**form, "model": old}
    unknown = {token: i for i, token in enumerate(token for token in form["model"]["vocab"] if not token.startswith("<0x"))}
    merges = [merge for merge in form["model"]["merges"] if set(merge) <= set(unknown)]
    moved = [{**token, "id": unknown.get(token["content"], len(unknown) + token["id"] - 700)} for token in form["added_tokens"]]
    for fuse in (True, False):
        yield f"without bytes, unknown fused: {fuse}", {**form, "added_tokens": moved, "post_processor": None, "model": {
            **form["model"], "vocab": unknown, "merges": merges, "byte_fallback": False, "fuse_unk": fuse}}


def compare_character_bpe(report, tool, tokenizers, form, texts):
    marked = [f"{text}</s>{text}<image> {text}<|im_start|><pad>{text}" for text in texts[:3000]]
    texts = texts + ["a long text\twithout an end \u2581 " + text * 40 for text in texts[:200]]
    for name, file in character_bpe_forms(form):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
                json.dump(file, out, ensure_ascii=name.startswith("legacy"))
            theirs = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
            ours = tool.encode(folder, [text.encode() for text in texts])
            report.compare(f"tokenizer.json of SentencePiece, {name}: ids", texts, ours,
                           [e.ids for e in theirs.encode_batch(texts, add_special_tokens=False)])
            report.compare(f"tokenizer.json of SentencePiece, {name}: decoded texts", ours,
                           [text.decode() for text in tool.decode(folder, ours)], theirs.decode_batch(ours, skip_special_tokens=False))
            report.compare(f"tokenizer.json of SentencePiece, {name}: special tokens recognized", marked,
                           tool.encode(folder, [text.encode() for text in marked], special=True),
                           [e.ids for e in theirs.encode_batch(marked, add_special_tokens=False)])


def compare_gpt2(report, tool, tokenizers, folder, texts):
    model = tokenizers.models.BPE.from_file(os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.bpe"))
    compare_codes(report, tool, "GPT-2", folder, byte_level(tokenizers, model), texts)
    greetings = ["Hello world", " Hello world"]
    report.compare("GPT-2: what its documentation states", greetings, tool.encode(folder, [text.encode() for text in greetings]),
                   [[15496, 995], [18435, 995]])


def main():
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True, help="the program tokenizer_tool")
    arguments = parser.parse_args()
    tool = Tool(arguments.tool)
    with needed():
        import sentencepiece  # noqa: F401
        import tokenizers
        import tokenizers.trainers
        import transformers  # noqa: F401
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import gpt2_vocabulary
    import tokenizer_kinds
    import tokenizer_samples as samples

    report = Report()
    # Special tokens have their own comparison; elsewhere they are text.
    texts = [t for t in samples.AWKWARD + samples.TRAINING + samples.random_texts(10000, seed=1) if "<|endoftext|>" not in t]
    for kind in ("gpt2", *tokenizer_kinds.KINDS):
        compare_pieces(report, tool, kind, tokenizer_kinds.pre_tokenizer(kind), texts)
    for kind, make in tokenizer_kinds.KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            compare_kind(report, tool, tokenizers, kind, make(600), folder, samples.AWKWARD + texts)
        compare_added(report, tool, tokenizers, kind, json.loads(make(600).to_str()), texts)
    compare_clip(report, tool, texts)
    compare_word_piece(report, tool, tokenizers, texts)
    compare_unigrams(report, tool, tokenizers, texts, samples.TRAINING * 3)
    with tempfile.TemporaryDirectory() as folder:
        compare_training(report, tool, tokenizers, "a few sentences", folder, samples.TRAINING, 512, 2)
        compare_training(report, tool, tokenizers, "random texts", folder, samples.random_texts(20000, seed=2), 4096, 2)
        compare_codes(report, tool, "trained", folder, tokenizers.Tokenizer.from_file(folder + "/tokenizer.json"), texts)
        compare_files(report, tool, tokenizers, folder, texts[:2000])
        compare_bytes(report, tool, folder, samples.random_bytes(5000, seed=3))
    form = compare_sentence_piece(report, tool, texts, samples.TRAINING * 3)
    compare_character_bpe(report, tool, tokenizers, form, [text for text in texts if "<" not in text])
    for name, file in character_bpe_forms(form):
        if file["normalizer"] is None:
            compare_added(report, tool, tokenizers, f"tokenizer.json of SentencePiece, {name}", file, texts)
    try:
        compare_gpt2(report, tool, tokenizers, gpt2_vocabulary.fetch(), texts)
        compare_bytes(report, tool, gpt2_vocabulary.fetch(), samples.random_bytes(5000, seed=4))
    except RuntimeError as error:
        print(f"GPT-2's own vocabulary: not compared: {error}")
    print("all equal" if report.failed == 0 else f"{report.failed} differ")
    return 0 if report.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
