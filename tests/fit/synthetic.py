"""Real shapes of many architectures, as files that are all header."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gguf import GGMLQuantizationType as Type

from tests.fit.sparse_model import SparseModel


def dense(
    path: Path,
    architecture: str = "qwen3",
    *,
    width: int = 1024,
    layers: int = 6,
    heads: int = 16,
    kv_heads: int = 8,
    head: int = 128,
    inner: int = 3072,
    vocabulary: int = 8192,
    tied: bool = False,
    kind: Type = Type.Q4_K,
) -> Path:
    """Grouped-query attention everywhere: `qwen3`, whose head is wider than width / heads, or `llama`."""
    model = SparseModel(path, architecture, width=width, layers=layers, vocabulary=vocabulary, kind=kind)
    model.set(feed_forward_length=inner)
    model.set({"attention.head_count": heads, "attention.head_count_kv": kv_heads})
    model.set({"attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head})
    model.embeddings(tied=tied)
    for layer in range(layers):
        model.attention(layer, heads=heads, kv_heads=kv_heads, head=head, normed=architecture == "qwen3")
        model.norm(layer, "ffn_norm")
        model.feed_forward(layer, inner)
    return model.write()


def tied_llama(path: Path) -> Path:
    """`llama` with one matrix for input and output, and a head length that is not in the header."""
    return dense(path, "llama", width=1024, heads=16, head=64, kv_heads=4, tied=True, kind=Type.F16)


def sliding(path: Path, *, window: int = 512) -> Path:
    """`gemma3`: every sixth layer sees everything, the others a window."""
    model = SparseModel(path, "gemma3", width=1024, layers=12, vocabulary=16384, kind=Type.Q4_0)
    model.set(feed_forward_length=4096)
    model.set({"attention.head_count": 8, "attention.head_count_kv": 4, "attention.sliding_window": window})
    model.set({"attention.key_length": 128, "attention.value_length": 128})
    model.embeddings(tied=True)
    for layer in range(12):
        model.attention(layer, heads=8, kv_heads=4, head=128, normed=True)
        model.norm(layer, "post_attention_norm", "ffn_norm", "post_ffw_norm")
        model.feed_forward(layer, 4096)
    return model.write()


def shared_cache(path: Path) -> Path:
    """`gemma4`: other heads in sliding layers, and the last layers reuse the cache of earlier ones."""
    layers, pattern = 8, [True, True, True, False] * 2
    model = SparseModel(path, "gemma4", width=1024, layers=layers, vocabulary=8192, kind=Type.Q4_K)
    kv_heads = [4 if slides else 1 for slides in pattern]
    model.set(feed_forward_length=2048, embedding_length_per_layer_input=0)
    model.set({"attention.head_count": 8, "attention.head_count_kv": kv_heads, "attention.sliding_window": 512})
    model.set({"attention.key_length": 256, "attention.value_length": 256, "rope.dimension_count": 256})
    model.set({"attention.key_length_swa": 128, "attention.value_length_swa": 128, "rope.dimension_count_swa": 128})
    model.set({"attention.sliding_window_pattern": pattern, "attention.shared_kv_layers": 4})
    model.embeddings(tied=True)
    for layer, slides in enumerate(pattern):
        head = 128 if slides else 256
        model.attention(layer, heads=8, kv_heads=kv_heads[layer], head=head, normed=True)
        model.norm(layer, "post_attention_norm", "ffn_norm", "post_ffw_norm")
        model.feed_forward(layer, 2048)
        if layer == 3:
            model.tensor("rope_freqs.weight", 128)
    return model.write()


def latent(path: Path, *, width: int = 1024, heads: int = 16, inner: int = 3072) -> Path:
    """`deepseek2`: one latent key for all heads, no values; experts after a dense layer."""
    nope, rope, rank, q_rank = 128, 64, 512, 768
    model = SparseModel(path, "deepseek2", width=width, layers=6, vocabulary=8192, kind=Type.Q4_K)
    model.set(feed_forward_length=inner, expert_feed_forward_length=512, expert_count=8, expert_used_count=2)
    model.set(expert_shared_count=1, leading_dense_block_count=1, expert_weights_scale=1.0, expert_gating_func=2)
    model.set({"attention.head_count": heads, "attention.head_count_kv": 1})
    model.set({"attention.q_lora_rank": q_rank, "attention.kv_lora_rank": rank, "rope.dimension_count": rope})
    model.set({"attention.key_length": rank + rope, "attention.value_length": rank})
    model.set({"attention.key_length_mla": nope + rope, "attention.value_length_mla": 128})
    model.embeddings(tied=False)
    for layer in range(6):
        model.norm(layer, "attn_norm", "ffn_norm")
        model.norm(layer, "attn_q_a_norm", width=q_rank)
        model.norm(layer, "attn_kv_a_norm", width=rank)
        model.tensor(f"blk.{layer}.attn_q_a.weight", model.width, q_rank)
        model.tensor(f"blk.{layer}.attn_q_b.weight", q_rank, heads * (nope + rope))
        model.tensor(f"blk.{layer}.attn_kv_a_mqa.weight", model.width, rank + rope)
        model.tensor(f"blk.{layer}.attn_k_b.weight", nope, rank, heads)
        model.tensor(f"blk.{layer}.attn_v_b.weight", rank, 128, heads)
        model.tensor(f"blk.{layer}.attn_output.weight", heads * 128, model.width)
        if layer == 0:
            model.feed_forward(layer, inner)
        else:
            model.experts(layer, 512, 8)
            model.feed_forward(layer, 512, "_shexp")
    return model.write()


def hybrid(
    path: Path,
    *,
    width: int = 1024,
    trunk: int = 8,
    nextn: int = 1,
    heads: int = 8,
    kv_heads: int = 2,
    head: int = 256,
    inner: int = 3072,
    state: int = 128,
    ssm_inner: int = 2048,
    groups: int = 8,
    vocabulary: int = 8192,
    named: bool = True,
) -> Path:
    """`qwen35`: three layers of four keep a running state; the last block predicts further tokens (MTP)."""
    layers, kernel, value_heads = trunk + nextn, 4, ssm_inner // state
    model = SparseModel(path, "qwen35", width=width, layers=layers, vocabulary=vocabulary, kind=Type.Q4_K, named=named)
    model.set(feed_forward_length=inner, full_attention_interval=4)
    if not named:
        model.unnamed()
        model.set(vocab_size=vocabulary)
    if nextn:
        model.set(nextn_predict_layers=nextn)
    model.set({"attention.head_count": heads, "attention.head_count_kv": kv_heads})
    model.set({"attention.key_length": head, "attention.value_length": head})
    model.set({"rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]})
    model.set({"ssm.conv_kernel": kernel, "ssm.inner_size": ssm_inner, "ssm.state_size": state})
    model.set({"ssm.time_step_rank": value_heads, "ssm.group_count": groups})
    model.embeddings(tied=False)
    for layer in range(layers):
        model.norm(layer, "post_attention_norm")
        if layer >= trunk or (layer + 1) % 4 == 0:
            model.attention(layer, heads=heads, kv_heads=kv_heads, head=head, normed=True, gated=True)
        else:
            _delta_net(model, layer, state, ssm_inner, groups, kernel)
        model.feed_forward(layer, inner)
        if layer >= trunk:
            model.tensor(f"blk.{layer}.nextn.eh_proj.weight", 2 * width, width)
            model.norm(layer, "nextn.enorm", "nextn.hnorm")
    return model.write()


def large_hybrid(path: Path, *, nextn: int = 0) -> Path:
    """`qwen35` in the dimensions of a 27B whose CUDA logs are public; without its vocabulary."""
    return hybrid(
        path,
        width=5120,
        trunk=64,
        nextn=nextn,
        heads=24,
        kv_heads=4,
        inner=17408,
        ssm_inner=6144,
        groups=16,
        vocabulary=248_320,
        named=False,
    )


def _delta_net(model: SparseModel, layer: int, state: int, inner: int, groups: int, kernel: int) -> None:
    channels, value_heads = 2 * groups * state + inner, inner // state
    model.norm(layer, "attn_norm")
    model.tensor(f"blk.{layer}.attn_qkv.weight", model.width, channels)
    model.tensor(f"blk.{layer}.attn_gate.weight", model.width, inner)
    model.tensor(f"blk.{layer}.ssm_conv1d.weight", kernel, channels, kind=Type.F32)
    model.tensor(f"blk.{layer}.ssm_dt.bias", value_heads)
    model.tensor(f"blk.{layer}.ssm_a", value_heads)
    model.tensor(f"blk.{layer}.ssm_beta.weight", model.width, value_heads)
    model.tensor(f"blk.{layer}.ssm_alpha.weight", model.width, value_heads)
    model.norm(layer, "ssm_norm", width=state)
    model.tensor(f"blk.{layer}.ssm_out.weight", inner, model.width)


def _mamba2(model: SparseModel, layer: int, inner: int, state: int, rank: int, kernel: int) -> None:
    channels = inner + 2 * state
    model.norm(layer, "attn_norm")
    model.tensor(f"blk.{layer}.ssm_in.weight", model.width, inner + channels + rank)
    model.tensor(f"blk.{layer}.ssm_conv1d.weight", kernel, channels, kind=Type.F32)
    model.tensor(f"blk.{layer}.ssm_conv1d.bias", channels)
    model.tensor(f"blk.{layer}.ssm_dt.bias", rank)
    model.tensor(f"blk.{layer}.ssm_a", 1, rank, kind=Type.F32)
    model.tensor(f"blk.{layer}.ssm_d", 1, rank, kind=Type.F32)
    model.tensor(f"blk.{layer}.ssm_norm.weight", inner, 1, kind=Type.F32)
    model.tensor(f"blk.{layer}.ssm_out.weight", inner, model.width)


def _state_space(model: SparseModel, inner: int, state: int, rank: int) -> None:
    model.set({"ssm.conv_kernel": 4, "ssm.inner_size": inner, "ssm.state_size": state})
    model.set({"ssm.time_step_rank": rank, "ssm.group_count": 1})


def recurrent(path: Path) -> Path:
    """`mamba2`: no attention at all."""
    model = SparseModel(path, "mamba2", width=1024, layers=8, vocabulary=8192, kind=Type.Q8_0)
    model.set(feed_forward_length=0)
    model.set({"attention.head_count": 0})
    _state_space(model, 2048, 128, 32)
    model.embeddings(tied=True)
    for layer in range(8):
        _mamba2(model, layer, 2048, 128, 32, 4)
    return model.write()


def sparse_attention(path: Path) -> Path:
    """`granitehybrid`: layers whose number of KV heads is 0 keep a running state."""
    kv_heads = [0, 0, 0, 4, 0, 0, 0, 4]
    model = SparseModel(path, "granitehybrid", width=1024, layers=8, vocabulary=8192, kind=Type.Q4_K)
    model.set(feed_forward_length=2048)
    model.set({"attention.head_count": 16, "attention.head_count_kv": kv_heads, "rope.dimension_count": 64})
    _state_space(model, 2048, 128, 32)
    model.embeddings(tied=True)
    for layer, n in enumerate(kv_heads):
        if n:
            model.attention(layer, heads=16, kv_heads=n, head=64)
        else:
            _mamba2(model, layer, 2048, 128, 32, 4)
        model.norm(layer, "ffn_norm")
        model.feed_forward(layer, 2048)
    return model.write()


def short_convolution(path: Path) -> Path:
    """`lfm2`: layers without KV heads keep the last inputs of a short convolution."""
    kv_heads = [0, 0, 8, 0, 0, 8]
    model = SparseModel(path, "lfm2", width=1024, layers=6, vocabulary=8192, kind=Type.Q4_K)
    model.set({"feed_forward_length": 4608, "shortconv.l_cache": 3})
    model.set({"attention.head_count": 16, "attention.head_count_kv": kv_heads})
    model.tensor("token_embd.weight", 1024, 8192)
    model.tensor("token_embd_norm.weight", 1024)
    for layer, n in enumerate(kv_heads):
        if n:
            model.attention(layer, heads=16, kv_heads=n, head=64, normed=True)
        else:
            model.norm(layer, "attn_norm")
            model.tensor(f"blk.{layer}.shortconv.conv.weight", 3, 1024, kind=Type.F32)
            model.tensor(f"blk.{layer}.shortconv.in_proj.weight", 1024, 3072)
            model.tensor(f"blk.{layer}.shortconv.out_proj.weight", 1024, 1024)
        model.norm(layer, "ffn_norm")
        model.feed_forward(layer, 4608)
    return model.write()


def mixture(
    path: Path,
    *,
    width: int = 1024,
    layers: int = 6,
    heads: int = 16,
    kv_heads: int = 4,
    inner: int = 768,
    count: int = 32,
    used: int = 8,
    vocabulary: int = 8192,
) -> Path:
    """`qwen3moe`: experts in every layer."""
    model = SparseModel(path, "qwen3moe", width=width, layers=layers, vocabulary=vocabulary, kind=Type.Q4_K)
    model.set(feed_forward_length=3 * width, expert_feed_forward_length=inner)
    model.set(expert_count=count, expert_used_count=used)
    model.set({"attention.head_count": heads, "attention.head_count_kv": kv_heads})
    model.set({"attention.key_length": 128, "attention.value_length": 128})
    model.embeddings(tied=False)
    for layer in range(layers):
        model.attention(layer, heads=heads, kv_heads=kv_heads, head=128, normed=True)
        model.norm(layer, "ffn_norm")
        model.experts(layer, inner, count)
    return model.write()


def sinks(
    path: Path,
    *,
    width: int = 1280,
    layers: int = 6,
    heads: int = 32,
    inner: int = 1280,
    count: int = 16,
    used: int = 4,
    vocabulary: int = 8192,
) -> Path:
    """`gpt-oss`: MXFP4 experts with biases, attention sinks, every second layer a window of 128."""
    model = SparseModel(path, "gpt-oss", width=width, layers=layers, vocabulary=vocabulary, kind=Type.Q8_0)
    model.set(feed_forward_length=inner, expert_feed_forward_length=inner)
    model.set(expert_count=count, expert_used_count=used)
    model.set({"attention.head_count": heads, "attention.head_count_kv": 8, "attention.sliding_window": 128})
    model.set({"attention.key_length": 64, "attention.value_length": 64})
    model.embeddings(tied=False)
    for layer in range(layers):
        prefix = f"blk.{layer}"
        model.attention(layer, heads=heads, kv_heads=8, head=64)
        model.norm(layer, "post_attention_norm")
        for name, size in (("attn_q", heads * 64), ("attn_k", 512), ("attn_v", 512), ("attn_output", width)):
            model.tensor(f"{prefix}.{name}.bias", size)
        model.norm(layer, "attn_sinks", width=heads)
        model.tensor(f"{prefix}.ffn_gate_inp.weight", width, count, kind=Type.F32)
        model.tensor(f"{prefix}.ffn_gate_inp.bias", count)
        for name, rows, columns in (("gate", width, inner), ("up", width, inner), ("down", inner, width)):
            model.tensor(f"{prefix}.ffn_{name}_exps.weight", rows, columns, count, kind=Type.MXFP4)
            model.tensor(f"{prefix}.ffn_{name}_exps.bias", columns, count, kind=Type.F32)
    return model.write()


ARCHITECTURES: dict[str, Callable[[Path], Path]] = {
    "grouped queries, untied": dense,
    "grouped queries, tied": tied_llama,
    "sliding windows": sliding,
    "sliding windows, shared cache": shared_cache,
    "latent keys, experts": latent,
    "running state and attention, MTP": hybrid,
    "running state only": recurrent,
    "state space and attention": sparse_attention,
    "short convolution and attention": short_convolution,
    "experts": mixture,
    "attention sinks, MXFP4 experts": sinks,
}
