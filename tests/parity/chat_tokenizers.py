"""Folders of small tokenizers of the kinds that chat models have, each with a template, as transformers saves them."""
import io
import os
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[1] / "models/chat/templates"


CHATML = ("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>'}}{% endfor %}"
          "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n'}}{% endif %}")


def template(name):
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


def sentence_piece(folder, special):
    import sentencepiece
    import tokenizer_samples as samples
    from transformers import LlamaTokenizer

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(samples.TRAINING * 3), model_writer=model, vocab_size=600, model_type="bpe", byte_fallback=True,
        split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        character_coverage=0.99, minloglevel=2)
    path = os.path.join(folder, "tokenizer.model")
    with open(path, "wb") as file:
        file.write(model.getvalue())
    tokenizer = LlamaTokenizer.from_pretrained(folder, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    os.remove(path)
    return tokenizer


def byte_level(kind, special, end):
    import tokenizer_kinds
    from transformers import PreTrainedTokenizerFast

    made = tokenizer_kinds.KINDS[kind](600)
    made.add_special_tokens(special)
    bos = {"bos_token": "<|begin_of_text|>"} if kind == "llama3" else {}
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=end, **bos)


def save(kind, special, end, source, folder):
    """kind: of tokenizer_kinds, or sentence_piece; special: tokens besides its own; end: of an answer."""
    tokenizer = sentence_piece(folder, special) if kind == "sentence_piece" else byte_level(kind, special, end)
    tokenizer.chat_template = source
    tokenizer.save_pretrained(folder)
    return tokenizer
