#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a tiny random model of each family and writes it, with its logits, under tests/data/models.

  pip install torch transformers gguf numpy
  tests/reference/make_tiny_models.py [NAME ...]

NAME.gguf holds float32 weights; NAME.gold the logits that `transformers` computes from that file
over 200 random tokens. Adding a model is one function in MODELS that returns its shape.
"""

import pathlib
import sys

import gguf
import numpy as np
import torch

import gguf_hf
import golden_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
N_VOCAB, N_TOKENS, ROW_STEP = 256, 200, 5


def shape(arch, n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, **more):
    return dict(arch=arch, n_layer=n_layer, n_embd=n_embd, n_head=n_head, n_head_kv=n_head_kv,
                head_dim=head_dim, n_ff=n_ff, eps=1e-5, base=10000.0, tied=False, bias=False,
                qk_norm=False, post_norm=False, rope_factors=None, keys={}) | more


def llama():
    """Grouped queries, NORM rope, an output head of its own."""
    return shape("llama", 2, 32, 4, 2, 8, 80)


def llama3():
    """Frequency factors of Llama 3's rope scaling (original context 64, factor 8), tied."""
    base, head_dim = 500000.0, 16
    freq = base ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    wavelength, context, factor, low, high = 2 * np.pi / freq, 64, 8.0, 1.0, 4.0
    s = (context / wavelength - low) / (high - low)
    f = np.where(wavelength < context / high, 1.0,
                 np.where(wavelength > context / low, factor, 1.0 / ((1.0 - s) / factor + s)))
    return shape("llama", 2, 48, 3, 1, head_dim, 64, base=base, tied=True, rope_factors=f)


def qwen2():
    """Biases on q, k and v; NEOX rope."""
    return shape("qwen2", 2, 32, 4, 2, 8, 80, eps=1e-6, base=1e6, bias=True, tied=True)


def qwen2_yarn():
    """YaRN, far past the original context."""
    return shape("qwen2", 2, 32, 2, 2, 16, 80, eps=1e-6, base=10000.0, bias=True,
                 keys={"context_length": 256, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                       "rope.scaling.original_context_length": 64})


def qwen3():
    """A norm on every head of q and k; heads wider than n_embd / n_head."""
    return shape("qwen3", 2, 32, 4, 2, 16, 64, eps=1e-6, base=1e6, qk_norm=True)


def gemma3():
    """Windows shorter than the text in all layers but the sixth, two rope bases, embeddings times
    sqrt(n_embd), norms behind the sublayers, tied."""
    return shape("gemma3", 6, 32, 2, 1, 16, 32, eps=1e-6, base=1e6, tied=True, qk_norm=True,
                 post_norm=True, keys={"attention.sliding_window": 24})


def gemma3_scaled():
    """As the larger ones: linear scaling in the full layers alone. Beyond them: a pattern, a window,
    a second base, a scale and a soft cap of its own."""
    return shape("gemma3", 4, 32, 4, 2, 8, 64, eps=1e-6, base=1e6, tied=True, qk_norm=True,
                 post_norm=True,
                 keys={"attention.sliding_window": 65, "attention.sliding_window_pattern": 3,
                       "rope.scaling.type": "linear", "rope.scaling.factor": 8.0,
                       "rope.freq_base_swa": 5000.0, "attention.scale": 0.5,
                       "final_logit_softcapping": 0.5})


MODELS = {"llama": llama, "llama3": llama3, "qwen2": qwen2, "qwen2-yarn": qwen2_yarn, "qwen3": qwen3,
          "gemma3": gemma3, "gemma3-scaled": gemma3_scaled}


def vocabulary():
    """Bytes as GPT-2 writes them; those that UTF-8 never has make room for merges and controls."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, extra = {}, 0
    for b in range(256):
        if b in printable:
            chars[b] = chr(b)
        else:
            chars[b] = chr(256 + extra)
            extra += 1
    never = [0xC0, 0xC1, *range(0xF5, 0x100)]
    merges = ["Ġ t", "h e", "i n", "e r", "a n", "r e", "o n", "a t", "e n", "n d", "Ġ a"]
    assert len(merges) + 2 == len(never)
    tokens = [chars[b] for b in range(256) if b not in never]
    tokens += [m.replace(" ", "") for m in merges] + ["<|start|>", "<|end|>"]
    return tokens, merges, [1] * (N_VOCAB - 2) + [3, 3]


def tensors(s, rng):
    """(name, data) in the shapes and conventions of GGUF, outermost dimension first."""
    d, q, kv = s["n_embd"], s["n_head"] * s["head_dim"], s["n_head_kv"] * s["head_dim"]

    def draw(*dims, std):
        return rng.normal(0.0, std, dims).astype(np.float32)

    def norm(n):
        return (1.0 + rng.normal(0.0, 0.2, n)).astype(np.float32)

    # Small where it is the output head too: the layers, not the token just read, shall decide.
    std = 1.0 if not s["tied"] else 0.05 if s["arch"] == "gemma3" else 0.3
    yield "token_embd.weight", draw(N_VOCAB, d, std=std)
    yield "output_norm.weight", norm(d)
    if not s["tied"]:
        yield "output.weight", draw(N_VOCAB, d, std=0.5)
    if s["rope_factors"] is not None:
        yield "rope_freqs.weight", s["rope_factors"].astype(np.float32)
    for i in range(s["n_layer"]):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", norm(d)
        # Twice the usual size, so that attention looks at some positions and not at all alike.
        yield b + "attn_q.weight", draw(q, d, std=2.0 * d ** -0.5)
        yield b + "attn_k.weight", draw(kv, d, std=2.0 * d ** -0.5)
        yield b + "attn_v.weight", draw(kv, d, std=d ** -0.5)
        yield b + "attn_output.weight", draw(d, q, std=q ** -0.5)
        if s["bias"]:
            yield b + "attn_q.bias", draw(q, std=0.5)
            yield b + "attn_k.bias", draw(kv, std=0.5)
            yield b + "attn_v.bias", draw(kv, std=0.5)
        if s["qk_norm"]:
            yield b + "attn_q_norm.weight", norm(s["head_dim"])
            yield b + "attn_k_norm.weight", norm(s["head_dim"])
        if s["post_norm"]:
            yield b + "post_attention_norm.weight", norm(d)
            yield b + "post_ffw_norm.weight", norm(d)
        yield b + "ffn_norm.weight", norm(d)
        yield b + "ffn_gate.weight", draw(s["n_ff"], d, std=d ** -0.5)
        yield b + "ffn_up.weight", draw(s["n_ff"], d, std=d ** -0.5)
        yield b + "ffn_down.weight", draw(d, s["n_ff"], std=2.0 * s["n_ff"] ** -0.5)


def write_gguf(path, name, s, rng):
    w = gguf.GGUFWriter(path, s["arch"])
    w.add_name(f"tiny random {name}")
    w.add_embedding_length(s["n_embd"])
    w.add_block_count(s["n_layer"])
    w.add_feed_forward_length(s["n_ff"])
    w.add_head_count(s["n_head"])
    w.add_head_count_kv(s["n_head_kv"])
    w.add_key_length(s["head_dim"])
    w.add_value_length(s["head_dim"])
    w.add_layer_norm_rms_eps(s["eps"])
    w.add_rope_freq_base(s["base"])
    if s["arch"] == "llama":
        w.add_rope_dimension_count(s["head_dim"])
    for key, value in ({"context_length": 4096} | s["keys"]).items():
        key = f"{s['arch']}.{key}"
        if isinstance(value, str):
            w.add_string(key, value)
        elif isinstance(value, float):
            w.add_float32(key, value)
        else:
            w.add_uint32(key, value)
    tokens, merges, types = vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe" if s["arch"] == "llama" else "qwen2")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(merges)
    w.add_bos_token_id(N_VOCAB - 2)
    w.add_eos_token_id(N_VOCAB - 1)
    w.add_add_bos_token(False)
    for tensor_name, data in tensors(s, rng):
        w.add_tensor(tensor_name, data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def check_llama3_factors(model, s):
    """The factors that were written are those of transformers' own rope type."""
    config = type(model.config)(**(model.config.to_dict() | {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": s["base"], "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}))
    own = type(model.model.rotary_emb)(config=config).inv_freq
    assert torch.allclose(own, model.model.rotary_emb.inv_freq, rtol=1e-6), (own, model.model.rotary_emb.inv_freq)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for i, (name, family) in enumerate(MODELS.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        s, rng = family(), np.random.default_rng(1000 + i)
        path = OUT / f"{name}.gguf"
        write_gguf(path, name, s, rng)
        model = gguf_hf.load(path)
        if name == "llama3":
            check_llama3_factors(model, s)
        tokens = rng.integers(0, N_VOCAB - 2, N_TOKENS)
        y = gguf_hf.logits(model, tokens)
        golden_file.write(OUT / f"{name}.gold", tokens, y, range(0, N_TOKENS, ROW_STEP))
        top = np.sort(y, axis=1)
        print(f"{name}: {path.stat().st_size} bytes, logits of size {y.std():.2f}, "
              f"median margin {np.median(top[:, -1] - top[:, -2]):.3f}, "
              f"{len(set(y.argmax(1)))} tokens chosen, {(y.argmax(1) == tokens).sum()} as read")


main()
