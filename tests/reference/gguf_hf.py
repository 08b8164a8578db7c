# SPDX-License-Identifier: MIT
"""A GGUF file as a `transformers` model in float32.

The reader and the dequantisation are those of the PyPI package `gguf`, the arithmetic is that of
`transformers`; only the table below, which says how a family's keys and names correspond, is ours.
Adding a family is one function that returns (configuration, model class) and, where its tensors
have names or conventions of their own, an entry in NAMES or `convert`.
"""

import gguf
import numpy as np
import torch
import transformers

# Names inside a block, GGUF to transformers; the same for all families unless overridden below.
NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

# Gemma has a norm behind each sublayer too.
GEMMA_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


class File:
    """Metadata with the architecture's prefix taken off, and tensors by name, dequantised."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.meta = {k: f.contents() for k, f in reader.fields.items()}
        self.arch = self.meta["general.architecture"]
        self.tensors = {}
        self.types = {}
        for t in reader.tensors:
            data = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            self.tensors[t.name] = data.reshape([int(n) for n in reversed(t.shape)])
            self.types[t.name] = t.tensor_type

    def get(self, key, default=None):
        return self.meta.get(f"{self.arch}.{key}", default)


def common(f):
    """What all configurations share."""
    n_embd, n_head = f.get("embedding_length"), f.get("attention.head_count")
    return dict(
        vocab_size=f.tensors["token_embd.weight"].shape[0],
        hidden_size=n_embd,
        intermediate_size=f.get("feed_forward_length"),
        num_hidden_layers=f.get("block_count"),
        num_attention_heads=n_head,
        num_key_value_heads=f.get("attention.head_count_kv", n_head),
        head_dim=f.get("attention.key_length", n_embd // n_head),
        rms_norm_eps=f.get("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=f.get("context_length"),
        tie_word_embeddings="output.weight" not in f.tensors,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
        attn_implementation="eager",
    )


def rope(f):
    """The rope_parameters of a model with one kind of layer."""
    base = f.get("rope.freq_base", 10000.0)
    kind = f.get("rope.scaling.type", "linear")
    factor = f.get("rope.scaling.factor", 0.0)
    if factor == 0.0 or kind == "none":
        return {"rope_type": "default", "rope_theta": base}
    r = {"rope_type": kind, "rope_theta": base, "factor": factor}
    if kind == "yarn":
        r["original_max_position_embeddings"] = f.get("rope.scaling.original_context_length")
    return r


def llama(f):
    return transformers.LlamaConfig(**common(f), rope_parameters=rope(f)), transformers.LlamaForCausalLM


def qwen2(f):
    return transformers.Qwen2Config(**common(f), rope_parameters=rope(f)), transformers.Qwen2ForCausalLM


def qwen3(f):
    return transformers.Qwen3Config(**common(f), rope_parameters=rope(f)), transformers.Qwen3ForCausalLM


def gemma3(f):
    c = common(f)
    period = f.get("attention.sliding_window_pattern", 6)
    scale = f.get("attention.scale", 0.0)
    cfg = transformers.Gemma3TextConfig(
        **c,
        query_pre_attn_scalar=round(scale ** -2) if scale else c["head_dim"],
        sliding_window=f.get("attention.sliding_window"),
        layer_types=["full_attention" if i % period == period - 1 else "sliding_attention"
                     for i in range(c["num_hidden_layers"])],
        final_logit_softcapping=f.get("final_logit_softcapping"),
        rope_parameters={
            "full_attention": rope(f),
            "sliding_attention": {"rope_type": "default", "rope_theta": f.get("rope.freq_base_swa", 10000.0)},
        })
    return cfg, transformers.Gemma3ForCausalLM


FAMILIES = {"llama": llama, "qwen2": qwen2, "qwen3": qwen3, "gemma3": gemma3}


def unpermute(w, n_head):
    """Rows for pairs (2i, 2i + 1), as GGUF has them for llama, to rows for pairs (i, i + D / 2)."""
    n_rows = w.shape[0]
    return w.reshape(n_head, n_rows // n_head // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def convert(f, name, data, cfg):
    """(name, data) as transformers has them."""
    stem, _, kind = name.rpartition(".")
    gemma = f.arch == "gemma3"
    if gemma and stem.endswith("norm"):
        data = data - 1.0  # transformers multiplies by 1 + w
    if name == "token_embd.weight":
        return "model.embed_tokens.weight", data
    if name == "output_norm.weight":
        return "model.norm.weight", data
    if name == "output.weight":
        return "lm_head.weight", data
    _, layer, part = stem.split(".")
    if f.arch == "llama" and part in ("attn_q", "attn_k"):
        data = unpermute(data, cfg.num_attention_heads if part == "attn_q" else cfg.num_key_value_heads)
    target = (GEMMA_NAMES.get(part) if gemma else None) or NAMES[part]
    return f"model.layers.{layer}.{target}.{kind}", data


def quantise_activations(x):
    """int8 per 32 values, scale amax / 127, round half to even: what Sluice's products read."""
    b = x.reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    d = b.abs().amax(-1, keepdim=True) / 127.0
    q = torch.where(d > 0, torch.round(b / torch.where(d > 0, d, 1.0)), 0.0)
    return (q * d).reshape(x.shape)


def load(path, int8_activations=False):
    """The model of @path. With @int8_activations every product with a quantised weight reads its
    input through quantise_activations: the error that Sluice's definition itself makes."""
    f = path if isinstance(path, File) else File(path)
    cfg, cls = FAMILIES[f.arch](f)
    with torch.device("meta"):
        model = cls(cfg)
    model = model.to_empty(device="cpu").float().eval()
    # Buffers that to_empty left undefined are made anew, on the CPU, by the class itself.
    inner = model.model
    inner.rotary_emb = type(inner.rotary_emb)(config=cfg)
    if hasattr(inner.embed_tokens, "embed_scale"):
        inner.embed_tokens.embed_scale = torch.tensor(cfg.hidden_size ** 0.5)
    state, quantised = {}, set()
    for name, data in f.tensors.items():
        if name == "rope_freqs.weight":
            inner.rotary_emb.inv_freq = inner.rotary_emb.inv_freq / torch.from_numpy(data.copy())
            continue
        target, data = convert(f, name, data, cfg)
        state[target] = torch.from_numpy(np.ascontiguousarray(data))
        if f.types[name] not in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16,
                                 gguf.GGMLQuantizationType.BF16):
            quantised.add(target)
    if cfg.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
        if "model.embed_tokens.weight" in quantised:
            quantised.add("lm_head.weight")
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert not missing, missing
    if int8_activations:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and name + ".weight" in quantised:
                module.register_forward_pre_hook(lambda m, args: (quantise_activations(args[0]),))
    return model


@torch.no_grad()
def logits(model, tokens):
    """float32 [len(tokens), n_vocab]."""
    ids = torch.tensor([list(map(int, tokens))])
    return model(input_ids=ids, use_cache=False).logits[0].float().numpy()


def nmse(reference, got):
    reference, got = reference.astype(np.float64), got.astype(np.float64)
    return ((reference - got) ** 2).sum() / (reference ** 2).sum()
