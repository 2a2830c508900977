"""Small encoders of texts, and decoders, as transformers makes them, with tokenizers of their kinds."""
SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DISTILLED = dict(dim=32, hidden_dim=64, n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)
DECODER = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, attention_dropout=0.0)
# Four layers, of which the middle ones see four tokens to either side.
MODERN = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, local_attention=8, classifier_pooling="mean",
              global_attn_every_n_layers=3, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)
KINDS = ("bert", "distilbert", "roberta", "xlm-roberta", "modernbert")


def make_tokenizer(kind):
    import tokenizers
    import transformers

    import tokenizer_kinds
    import tokenizer_samples

    if kind == "qwen3":  # as Qwen3-Embedding's: a text ends with another token than a turn
        tokenizer = tokenizer_kinds.qwen2(500)
        end = tokenizer.token_to_id("<|endoftext|>")
        tokenizer.post_processor = tokenizers.processors.Sequence([tokenizers.processors.ByteLevel(trim_offsets=False), tokenizers.processors.TemplateProcessing(
            single="$A <|endoftext|>", pair="$A <|endoftext|> $B <|endoftext|>", special_tokens=[("<|endoftext|>", end)])])
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    if kind == "llama":
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_kinds.llama3(500), bos_token="<|begin_of_text|>",
                                                    eos_token="<|end_of_text|>", pad_token="<|end_of_text|>")
    if kind == "modernbert":
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_kinds.modern_bert(500), cls_token="[CLS]", sep_token="[SEP]",
                                                    pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]")
    if kind in ("bert", "distilbert"):
        return transformers.BertTokenizer(vocab=tokenizer_kinds.bert(400).get_vocab())
    words = tokenizers.pre_tokenizers.Sequence([tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Metaspace()])
    tokenizer = tokenizer_kinds.roberta(500) if kind == "roberta" else tokenizer_kinds.xlm_roberta(tokenizer_samples.TRAINING * 3, words)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
                                                pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")


def make_model(auto, kind, tokenizer, **more):
    """auto: a class such as AutoModel; more: fields of the configuration."""
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(kind, vocab_size=len(tokenizer), max_position_embeddings=66, initializer_range=0.2,
                                               pad_token_id=tokenizer.pad_token_id,
                                               **{"distilbert": DISTILLED, "modernbert": MODERN, "qwen3": DECODER, "llama": DECODER}.get(kind, SIZES), **more)
    model = auto.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms that are not 0 and 1
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model
