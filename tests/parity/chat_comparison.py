"""Compares the tokens of our chat templates with what transformers' LlavaProcessor and LLaVA's own code make of the same text."""
import io
import json
import os
import subprocess
import tempfile

import tokenizer_kinds
import tokenizer_samples as samples

PATCHES, SIDE, PATCH = 9, 24, 8
SYSTEM = ("A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite "
          "answers to the user's questions.")
CONVERSATIONS = [
    ["<image>\nWhat is this?", "A cat."], ["<image>", "a cat on a mat"], ["<image>What's in it?\n", "Words; 12 of them."],
    ["Which text?\n<image>", "über 猫 👍🏽"], ["Look: <image> Well?", "It's text.", "And\nnow?", "Nothing, as before."],
    ["No picture", "None.", "<image>\nHere", "the tokenizer cuts a text"],
    ["<image>\n<image>\nWhich is larger?", "The first.", "And this: <image>", "is the largest"],
]


def turns(conversation, user, assistant, end, between=""):
    parts = [user(question) + assistant(answer) + end for question, answer in zip(conversation[::2], conversation[1::2])]
    return between.join(parts)


def vicuna(conversation, user=" USER: "):
    return SYSTEM + turns(conversation, lambda q: user + q, lambda a: " ASSISTANT: " + a, "</s>")


def vicuna_of_llava(conversation):
    """As LLaVA's conversation.py writes it: no space after an answer's end."""
    return vicuna(conversation, "USER: ").replace("questions.USER", "questions. USER")


def chatml(conversation):
    return turns(conversation, lambda q: f"<|im_start|>user\n{q}<|im_end|>\n", lambda a: f"<|im_start|>assistant\n{a}", "<|im_end|>", "\n")


def llama3(conversation):
    header = "<|start_header_id|>{}<|end_header_id|>\n\n".format
    return "<|begin_of_text|>" + turns(conversation, lambda q: header("user") + q.strip() + "<|eot_id|>",
                                       lambda a: header("assistant") + a.strip(),
                                       "<|eot_id|>")


def plain(conversation):
    return turns(conversation, lambda q: q, lambda a: a, "</s>")


def processor(tokenizer):
    from transformers import LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    images = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    return LlavaProcessor(image_processor=images, tokenizer=tokenizer, patch_size=PATCH, vision_feature_select_strategy="default",
                          num_additional_image_tokens=1)


def theirs(process, text, **options):
    from PIL import Image

    ids = process(text=text, images=[Image.new("RGB", (SIDE, SIDE))] * text.count("<image>"), **options)["input_ids"][0]
    image = process.tokenizer.convert_tokens_to_ids("<image>")
    return [-1 if token == image else int(token) for token in ids]


def llavas(pieces, text):
    """tokenizer_image_token() of LLaVA: each part of the text by itself, as a text that starts."""
    ids = [1]
    for i, part in enumerate(text.removesuffix("</s>").split("<image>")):
        ids += [-1] * PATCHES if i else []
        for j, answer in enumerate(part.split("</s>")):
            ids += ([2] if j else []) + pieces.encode(answer)
    return ids + [2]


def compare(probe, name, style, folder, conversations, expected):
    answer = subprocess.run([probe, style, folder, str(PATCHES)], input=json.dumps(conversations), stdout=subprocess.PIPE, text=True, check=True)
    for conversation, ours, wanted in zip(conversations, json.loads(answer.stdout), map(expected, conversations), strict=True):
        assert ours == wanted, f"{name}, {style}, {conversation}\n  ours     {ours}\n  expected {wanted}"
    print(f"  {name}, {style}: the tokens of {len(conversations)} conversations are equal")


def compare_sentence_piece(probe, tool):
    import sentencepiece
    from transformers import AutoTokenizer, LlavaConfig

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(samples.TRAINING * 3 + [SYSTEM + " USER: ASSISTANT:"]), model_writer=model, vocab_size=700, model_type="bpe",
        byte_fallback=True, split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, character_coverage=0.99, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    captions = [["<image>", "a cat on a mat"], ["<image>", "Words!"]]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as saved, tempfile.TemporaryDirectory() as alone:
        for name, content in (("tokenizer.model", model.getvalue()), ("added_tokens.json", b'{"<image>": 700, "<pad>": 701}')):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        compare(probe, "LLaVA's own code", "vicuna", folder, CONVERSATIONS, lambda c: llavas(pieces, vicuna_of_llava(c)))
        compare(probe, "LLaVA's own code", "plain", folder, captions, lambda c: llavas(pieces, plain(c)))
        subprocess.run([tool, "save", folder, saved], check=True)
        process = processor(AutoTokenizer.from_pretrained(saved, config=LlavaConfig()))
        compare(probe, "LlavaProcessor, SentencePiece", "vicuna", folder, CONVERSATIONS, lambda c: theirs(process, vicuna_of_llava(c)))
        compare(probe, "LlavaProcessor, SentencePiece", "plain", folder, captions, lambda c: theirs(process, plain(c)))

        with open(os.path.join(saved, "tokenizer.json"), encoding="utf-8") as file:
            form = json.load(file)
        form.update(normalizer=None, pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False})
        with open(os.path.join(alone, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(form, file)
        process = processor(AutoTokenizer.from_pretrained(alone, config=LlavaConfig()))
        compare(probe, "LlavaProcessor, tokenizer.json that is not legacy", "vicuna", alone, CONVERSATIONS, lambda c: theirs(process, vicuna(c)))
        compare(probe, "LlavaProcessor, tokenizer.json that is not legacy", "plain", alone, captions, lambda c: theirs(process, plain(c)))


def compare_byte_level(probe):
    from transformers import PreTrainedTokenizerFast

    headers = ["<|start_header_id|>", "<|end_header_id|>"]
    for kind, added, style, text in (("smol_lm", [], "chatml", chatml), ("llama3", headers, "llama3", llama3)):
        tokenizer = tokenizer_kinds.KINDS[kind](600)
        tokenizer.add_special_tokens(["<image>", *added])
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(os.path.join(folder, "tokenizer.json"))
            process = processor(PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json")))
            conversations = CONVERSATIONS if kind == "llama3" else [c for c in CONVERSATIONS if all(turn.isascii() for turn in c)]
            compare(probe, f"LlavaProcessor, {kind}", style, folder, conversations,
                    lambda c: theirs(process, text(c), add_special_tokens=False))


def main(probe, tool):
    compare_sentence_piece(probe, tool)
    compare_byte_level(probe)
