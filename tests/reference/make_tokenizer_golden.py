#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains small vocabularies and writes what the public libraries make of the shared strings.

For every pre-tokenizer of tokenizer_families.py a byte-level BPE of 4,000 tokens, trained and run
by `tokenizers`; for "gemma4" one over characters; and two SentencePiece models, trained and run by
`sentencepiece`. The text to train on is tests/data/tokenizer/sentences.txt and the standard library
of the Python that runs this, so a new run gives other vocabularies, and digests to go with them.

tests/data/tokenizer/vocab-NAME.txt, one token or merge a line; bytes up to 0x20, 0x5C and 0x7F in
texts are \\xHH:
    = KEY VALUE            metadata
    TYPE TEXT              a token, TYPE as in GGUF
    TYPE TEXT SCORE        the same of SentencePiece
    + LEFT RIGHT           a merge, and the token that it makes unless there is one already
    & LEFT RIGHT           a merge alone (in the inputs of tests/fuzz_tokenizer.c)
tests/data/tokenizer/ids-NAME.txt: one digest a string, over the ids without control tokens, then
0xFFFFFFFF and the ids with them; 0 for a string that is left out.

Usage: make_tokenizer_golden.py [NAME...]
"""

import io
import json
import os
import re
import sys
import sysconfig

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tokenizer_families import DATA, FAMILIES, digest, pre_tokenizer, strings

N_TOKENS = 4000
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]"]
USER = ["<tool_call>", "</tool_call>"]
IGNORES_MERGES = {"llama-bpe", "tekken"}
SEPARATOR = 0xFFFFFFFF


def corpus():
    with open(os.path.join(DATA, "sentences.txt"), encoding="utf-8") as f:
        sentences = f.read().split("\n")[:-1]
    texts = sentences * 20
    library = sysconfig.get_paths()["stdlib"]
    for name in ("argparse.py", "typing.py", "tarfile.py", "textwrap.py", "email/header.py",
                 "json/decoder.py", "html/entities.py", "statistics.py"):
        with open(os.path.join(library, name), encoding="utf-8") as f:
            text = f.read()
        texts += [text[i:i + 4000] for i in range(0, len(text), 4000)]
    return texts


def escape(text):
    return re.sub(rb"[\x00-\x20\x5c\x7f]", lambda m: b"\\x%02X" % m.group()[0],
                  text.encode("utf-8"))


def write_vocab(name, lines):
    with open(os.path.join(DATA, f"vocab-{name}.txt"), "wb") as f:
        for line in lines:
            f.write(b" ".join(part if isinstance(part, bytes) else str(part).encode()
                              for part in line) + b"\n")


def write_ids(name, plain, parsed, leaves_out=None):
    with open(os.path.join(DATA, f"ids-{name}.txt"), "w", encoding="ascii") as f:
        for text in strings():
            if leaves_out is not None and leaves_out in text:
                f.write("%08x\n" % 0)
            else:
                f.write("%08x\n" % digest(plain(text) + [SEPARATOR] + parsed(text)))


def with_added(tokenizer, added):
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.add_tokens([AddedToken(t, normalized=False) for t in added])
    return lambda text: copy.encode(text, add_special_tokens=False).ids


def bpe_lines(tokenizer, head, first_texts):
    """The lines of a trained BPE: its own tokens in order, then the merges."""
    vocabulary = tokenizer.get_vocab()
    in_order = sorted(vocabulary, key=vocabulary.get)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    made = {a + b for a, b in merges}
    lines = list(head)
    for i, text in enumerate(in_order):
        kind = first_texts.get(text, 1)
        if text in made:
            break
        lines.append((kind, escape(text)))
    for a, b in merges:
        lines.append(("+", escape(a), escape(b)))
    known = set(in_order[:i])
    order = in_order[:i]
    for a, b in merges:
        if a + b not in known:
            known.add(a + b)
            order.append(a + b)
    assert order == in_order, "the trainer no longer lists tokens in the order of merges"
    return lines


def make_bpe(name, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizer(name), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(
        vocab_size=N_TOKENS, min_frequency=2, special_tokens=CONTROL + USER, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    # Training makes its special tokens match everywhere; here they are added one kind at a time.
    bare = Tokenizer(rebuilt(tokenizer, name in IGNORES_MERGES))
    bare.pre_tokenizer = tokenizer.pre_tokenizer
    kinds = {**{t: 3 for t in CONTROL}, **{t: 4 for t in USER}}
    write_vocab(name, bpe_lines(tokenizer, [("=", "model", "gpt2"), ("=", "pre", name)], kinds))
    write_ids(name, with_added(bare, USER), with_added(bare, USER + CONTROL))


def rebuilt(tokenizer, ignore_merges, **options):
    model = json.loads(tokenizer.to_str())["model"]
    return models.BPE(vocab=tokenizer.get_vocab(), merges=[tuple(m) for m in model["merges"]],
                      ignore_merges=ignore_merges, **options)


def make_gemma4(texts):
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizer("gemma4")
    fallback = ["<0x%02X>" % b for b in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=N_TOKENS, min_frequency=2, limit_alphabet=500, show_progress=False,
        special_tokens=["<pad>", "<eos>", "<bos>", "<unk>"] + CONTROL + USER + fallback)
    tokenizer.train_from_iterator(texts, trainer)
    bare = Tokenizer(rebuilt(tokenizer, False, byte_fallback=True, unk_token="<unk>",
                             fuse_unk=True))
    bare.normalizer = tokenizer.normalizer
    bare.pre_tokenizer = tokenizer.pre_tokenizer
    kinds = {**{t: 3 for t in ["<pad>", "<eos>", "<bos>"] + CONTROL}, **{t: 4 for t in USER},
             "<unk>": 2, **{t: 6 for t in fallback}}
    head = [("=", "model", "gemma4"), ("=", "bos", 2), ("=", "eos", 1), ("=", "unknown", 3)]
    write_vocab("gemma4", bpe_lines(tokenizer, head, kinds))
    control = CONTROL + ["<pad>", "<eos>", "<bos>", "<unk>"]
    write_ids("gemma4", with_added(bare, USER), with_added(bare, USER + control))


def make_spm(name, texts, adds_space, user):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=buffer, model_type="bpe", vocab_size=N_TOKENS,
        byte_fallback=True, user_defined_symbols=user, character_coverage=0.98, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=adds_space, allow_whitespace_only_pieces=True, max_sentence_length=100000,
        minloglevel=2)
    model = sentencepiece_model_pb2.ModelProto.FromString(buffer.getvalue())
    lines = [("=", "model", "llama"), ("=", "add_space_prefix", int(adds_space)), ("=", "bos", 1),
             ("=", "eos", 2), ("=", "unknown", 0)]
    for piece in model.pieces:
        text = piece.piece.replace("\u2581", " ") if piece.type == 4 else piece.piece
        lines.append((piece.type, escape(text), "%g" % piece.score))
    write_vocab(name, lines)
    processor = sentencepiece.SentencePieceProcessor(model_proto=buffer.getvalue())
    # To sentencepiece U+2581 is a space even where user-defined tokens are looked for; model files
    # spell those with spaces, so that one beside U+2581 is not found.
    write_ids(name, processor.encode, processor.encode, "\u2581" if user else None)


def main():
    names = sys.argv[1:] or [*FAMILIES, "spm-llama", "spm-gemma"]
    texts = corpus()
    for name in names:
        if name == "gemma4":
            make_gemma4(texts)
        elif name == "spm-llama":
            make_spm(name, texts, True, [])
        elif name == "spm-gemma":
            spaces = ["\u2581" * n for n in range(2, 9)] + ["\n" * n for n in range(1, 6)]
            make_spm(name, texts, False, USER + spaces)
        else:
            make_bpe(name, texts)


if __name__ == "__main__":
    main()
