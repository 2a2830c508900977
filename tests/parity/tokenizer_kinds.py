"""Tokenizers in the form of SmolLM's and Llama 3's, small, as Hugging Face's `tokenizers` makes them: for fixtures and for the live
comparison."""
import json

import tokenizers
import tokenizers.trainers
from tokenizers import decoders, models, pre_tokenizers, processors

import tokenizer_samples as samples

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")


QWEN2 = LLAMA3.replace("{1,3}", "")


def pre_tokenizer(kind):
    if kind == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "smol_lm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(QWEN2 if kind == "qwen2" else LLAMA3), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def trained(kind, vocab_size, alphabet, special=()):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(kind)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(samples.TRAINING, tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, initial_alphabet=alphabet, special_tokens=list(special)))
    return tokenizer


def smol_lm(vocab_size):
    """The special tokens are the first ids, and rare bytes have no token: they are left out of a text."""
    alphabet = [c for c in pre_tokenizers.ByteLevel.alphabet() if c.isascii() or c in "ĠĊ"]
    return trained("smol_lm", vocab_size, alphabet, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def llama3(vocab_size):
    """The special tokens are the last ids and not in the model's vocabulary; a piece that is a token needs no merges, so that some can
    be missing; a text begins with a token."""
    file = json.loads(trained("llama3", vocab_size, pre_tokenizers.ByteLevel.alphabet()).to_str())
    file["model"]["ignore_merges"] = True
    merges = file["model"]["merges"]
    file["model"]["merges"] = [merge for i, merge in enumerate(merges) if i % 5 != 4]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    begin = "<|begin_of_text|>"
    template = processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                                             special_tokens=[(begin, tokenizer.token_to_id(begin))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen2(vocab_size):
    """A letter and its accent become one character first."""
    tokenizer = trained("qwen2", vocab_size, pre_tokenizers.ByteLevel.alphabet())
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer


def clip(vocab_size):
    """CLIP's, of transformers: lower case, no white space, and the last token of a word differs from the same within."""
    from transformers import CLIPTokenizer

    rules = CLIPTokenizer(vocab={"<|startoftext|>": 0, "<|endoftext|>": 1}, merges=[]).backend_tokenizer
    tokenizer = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(samples.TRAINING, tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, initial_alphabet=alphabet, end_of_word_suffix="</w>"))
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    words = dict.fromkeys(alphabet + [character + "</w>" for character in alphabet] + ["".join(merge) for merge in merges])
    vocab = {word: i for i, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    return CLIPTokenizer(vocab=vocab, merges=merges)


def bert(vocab_size, **normalizer):
    """WordPiece, with every probed kind of character as a token of its own so that it shows what a text becomes."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(samples.TRAINING, tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, special_tokens=special))
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends)
    return tokenizer


def roberta(vocab_size):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = trained("gpt2", vocab_size, pre_tokenizers.ByteLevel.alphabet(), special)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def modern_bert(vocab_size):
    """Bytes as GPT-2's, with BERT's special tokens around a text."""
    tokenizer = trained("gpt2", vocab_size, pre_tokenizers.ByteLevel.alphabet(), ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                             special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def xlm_roberta(training, pre_tokenizer, normalizer=None):
    """Unigrams that sentencepiece trains, with its table of characters, in the numbering of XLM-RoBERTa."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(training), model_writer=model, vocab_size=300, model_type="unigram",
                                             normalization_rule_name="nmt_nfkc", character_coverage=0.98, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary += [(piece.piece, piece.score) for piece in proto.pieces[3:]] + [("<mask>", 0.0)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(vocabulary, 3))
    characters = tokenizers.normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.normalizer = tokenizers.normalizers.Sequence([characters, *normalizer]) if normalizer else characters
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


KINDS = {"smol_lm": smol_lm, "llama3": llama3, "qwen2": qwen2}
