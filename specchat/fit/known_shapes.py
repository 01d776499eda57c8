"""Dimensions of catalogue models whose files are not here: enough to plan for a card without asking the hub.

Sizes and hashes of files are the catalogue's. Where a row's dimensions come from:
[log]   a public log of llama.cpp with this model;
[src]   a public file that names them;
[mem]   the published configuration as remembered, and checked: what the file's size leaves for each weight that the
        dimensions imply are the bits of its quantisation (4.78 to 4.85 of Q4_K_M's layers, 8.5 of Q8_0).
[size]  checked by the size of the file as well.
A model whose dimensions are not known is not here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from specchat.drafters.heads.pairing import ASSISTANT
from specchat.fit.dimensions import Experts, Layer, NextN, RunningState, Shape
from specchat.fit.placement import Weights

_QUANTS: Final = {"Q4_K": (144, 256), "Q6_K": (210, 256), "Q8_0": (34, 32)}
"""Bytes a block and elements a block."""
# Bytes before the first tensor: nearly all is the vocabulary. Measured with llama.cpp's vocabulary files; 0 where no
# such file is at hand, which counts the header as weights; Gemma 4's is what its assistants' tensors leave.
_QWEN, _LLAMA3, _SMOLLM, _GEMMA4 = 5_954_827, 7_818_140, 1_785_664, 15_767_664


@dataclass(frozen=True, slots=True)
class _Known:
    """One file; counts are elements unless the name says bytes."""

    file: str
    """Empty where another row has the name."""
    sha256: str
    """Empty where it isn't known."""
    bytes: int
    header_bytes: int
    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    vocabulary: int
    context: int
    embedding: str = "Q4_K"
    """Quantisation of the input embedding."""
    output: str | None = "Q6_K"
    """Quantisation of the output matrix; None where the input embedding serves as it."""
    window: int = 0
    every: int = 0
    """One layer of so many attends to everything: the others see a window or keep a running state. 0: all do."""
    wide: tuple[int, int] | None = None
    """KV heads, and the length of each, of the layers that attend to everything; None: as the others'."""
    experts: Experts | None = None
    state: RunningState | None = None
    nextn_bytes: int = 0
    """The layer that predicts further tokens (MTP), if there is one."""
    states: int = 0
    """An assistant's: the width of its target."""


_DELTA_NET: Final = RunningState(
    3 * 10240, 128 * 6144, 3 * 10240 + 768 + 3 * 5120, 10240, 6144, rolls_back=True, delta_net=True
)
"""Qwen3.6-27B, [log]: R 22.5 MiB and S 576 MiB over 48 layers with 3 snapshots."""

# fmt: off
_KNOWN: Final = (
    # Qwen3, dense: layers and heads [src], KV of 160, 144, 256 and 112 KiB a token; feed-forward widths [mem].
    _Known("Qwen3-14B-Q4_K_M.gguf", "500a8806e85ee9c83f3ae08420295592451379b4f8cf2d0f41c15dffeb6b81f0",
           9_001_752_960, _QWEN, "qwen3", 40, 5120, 40, 8, 128, 17408, 151_936, 40_960),
    _Known("Qwen3-8B-Q4_K_M.gguf", "d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
           5_027_783_488, _QWEN, "qwen3", 36, 4096, 32, 8, 128, 12288, 151_936, 40_960),
    _Known("Qwen_Qwen3-32B-Q4_K_M.gguf", "e41ec56ddd376963a116da97506fadfccb50fb402bb6f3cb4be0bc179a582bd6",
           19_762_149_696, _QWEN, "qwen3", 64, 5120, 64, 8, 128, 25600, 151_936, 40_960),
    _Known("Qwen3-4B-Q4_K_M.gguf", "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
           2_497_280_256, _QWEN, "qwen3", 36, 2560, 32, 8, 128, 9728, 151_936, 40_960,
           embedding="Q6_K", output=None),
    _Known("Qwen3-1.7B-Q4_K_M.gguf", "d2387ca2dbfee2ffabce7120d3770dadca0b293052bc2f0e138fdc940d9bc7b5",
           1_282_439_264, _QWEN, "qwen3", 28, 2048, 16, 8, 128, 6144, 151_936, 40_960),
    _Known("Qwen3-0.6B-Q8_0.gguf", "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
           639_446_688, _QWEN, "qwen3", 28, 1024, 16, 8, 128, 3072, 151_936, 40_960,
           embedding="Q8_0", output=None),
    # 96 KiB a token [src]; experts [mem].
    _Known("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf",
           "fadc3e5f8d42bf7e894a785b05082e47daee4df26680389817e2093056f088ad",
           18_556_689_568, _QWEN, "qwen3moe", 48, 2048, 32, 4, 128, 0, 151_936, 262_144,
           experts=Experts(128, 8, 768)),
    # Qwen2.5-Coder [mem]: 192, 256 and 12 KiB a token.
    _Known("qwen2.5-coder-14b-instruct-q4_k_m.gguf",
           "c1e659736d89ac1065fb495330fb824d94001974a4bfa78e7270e43476a8d940",
           8_988_110_272, _QWEN, "qwen2", 48, 5120, 40, 8, 128, 13824, 152_064, 32_768),
    _Known("qwen2.5-coder-32b-instruct-q4_k_m.gguf",
           "2687a00b84e7e35c652ea0024cb8747070b090e9f311ab9b6461b8a71c2bc50f",
           19_851_335_872, _QWEN, "qwen2", 64, 5120, 40, 8, 128, 27648, 152_064, 32_768),
    # Its size says that the output is a matrix of its own: with a shared one the tensors make up 525 MB.
    _Known("qwen2.5-coder-0.5b-instruct-q8_0.gguf",
           "e1a77721fa97d412f121878223eec81fb4ae6f271e18f922d746711f67b344d1",
           675_710_848, _QWEN, "qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32_768,
           embedding="Q8_0", output="Q8_0"),
    # Llama [mem]: 128 and 32 KiB a token.
    _Known("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
           "7b064f5842bf9532c91456deda288a1b672397a54fa729aa665952863033557c",
           4_920_739_232, _LLAMA3, "llama", 32, 4096, 32, 8, 128, 14336, 128_256, 131_072),
    _Known("Llama-3.2-1B-Instruct-Q8_0.gguf", "432f310a77f4650a88d0fd59ecdd7cebed8d684bafea53cbff0473542964f0c3",
           1_321_083_008, _LLAMA3, "llama", 16, 2048, 32, 8, 64, 8192, 128_256, 131_072,
           embedding="Q8_0", output=None),
    # Mistral [mem]: 160 KiB a token.
    _Known("Mistral-Small-3.2-24B-Instruct-2506-Q4_K_M.gguf",
           "a3cc56310807ed0d145eaf9f018ccda9ae7ad8edb41ec870aa2454b0d4700b3c",
           14_333_922_848, 0, "llama", 40, 5120, 32, 8, 128, 32768, 131_072, 131_072),
    # [mem], window [src]. Its matrices outside of the experts are Q8_0.
    _Known("gpt-oss-20b-mxfp4.gguf", "be37a636aca0fc1aae0d32325f82f6b4d21495f06823b5fbc1898ae0303e9935",
           12_109_566_560, 0, "gpt-oss", 24, 2880, 64, 8, 64, 0, 201_088, 131_072,
           embedding="Q8_0", output="Q8_0", window=128, every=2, experts=Experts(32, 4, 2880)),
    # [log]: 64 KiB a token on 16 of 64 layers, an embedding of 682.03 MiB; heads and feed-forward width [mem]. The
    # second file has the same name in another repository, and a layer that predicts further tokens.
    _Known("Qwen3.6-27B-Q4_K_M.gguf", "5ed60d0af4650a854b1755bd392f9aef4872643dc25a254bc68043fa638392a0",
           16_817_244_384, 0, "qwen35", 64, 5120, 24, 4, 256, 17408, 248_320, 262_144,
           every=4, state=_DELTA_NET),
    _Known("", "a7cbd3ecc0e3f9b333edee61ae66bc87ed713c5d49587a8355814722ed329e0f",
           17_106_773_120, 0, "qwen35", 64, 5120, 24, 4, 256, 17408, 248_320, 262_144,
           every=4, state=_DELTA_NET, nextn_bytes=289_528_736),
    # Gemma 4 [src] [size]: layers that see everything have keys alone, which serve as values too. An assistant's
    # tensors make up its size to 128 bytes; of the 26B's quantisation, which is a mix, only the size is known.
    _Known("gemma-4-12b-it-Q4_K_M.gguf", "0a270ec9fe6b34f4a0d33992b6135117b484ebc4766ab76b51d4ae8c457e4c42",
           7_121_861_440, _GEMMA4, "gemma4", 48, 3840, 16, 8, 256, 15360, 262_144, 131_072,
           output=None, window=1024, every=6, wide=(1, 512)),
    _Known("gemma-4-26B-A4B-it-UD-Q4_K_M.gguf", "34c746b1d50ab813e29cd46c4796e3f43c741901a582f93a67b55b9fc9687b35",
           16_947_539_744, _GEMMA4, "gemma4", 30, 2816, 16, 8, 256, 2112, 262_144, 262_144,
           output=None, window=1024, every=6, wide=(2, 512), experts=Experts(128, 8, 704)),
    _Known("gemma-4-31B-it-Q4_K_M.gguf", "9fdf3dc8b0384830b4402d151388c140bd8eb2abf8d60588d8224231198254a1",
           18_323_731_456, _GEMMA4, "gemma4", 60, 5376, 32, 16, 256, 21504, 262_144, 262_144,
           output=None, window=1024, every=6, wide=(4, 512)),
    _Known("mtp-gemma-4-12b-it-Q8_0.gguf", "145db9094bc0f85f1701e255a2ed216dcc9800fc8bc8631ad00905b456bd451b",
           465_109_248, _GEMMA4, ASSISTANT, 4, 1024, 16, 8, 256, 8192, 262_144, 131_072,
           embedding="Q8_0", output=None, window=1024, every=4, wide=(1, 512), states=3840),
    _Known("mtp-gemma-4-26B-A4B-it.gguf", "6326fb9f5e487aa8dcdd313a091e3c67724cb2a666ec3b7d2895b5b26d93ed1b",
           461_766_816, _GEMMA4, ASSISTANT, 4, 1024, 16, 8, 256, 8192, 262_144, 262_144,
           embedding="Q8_0", output=None, window=1024, every=4, wide=(2, 512), states=2816),
    _Known("mtp-gemma-4-31B-it.gguf", "5ae8b0117bed601e8924c6305bd5b0585de361d51f0e77091bcb4252cf1f27de",
           514_687_104, _GEMMA4, ASSISTANT, 4, 1024, 32, 16, 256, 8192, 262_144, 262_144,
           embedding="Q8_0", output=None, window=1024, every=4, wide=(4, 512), states=5376),
    # Gemma and SmolLM [mem].
    _Known("gemma-3-270m-it-Q8_0.gguf", "0ef57d2c838458a1952664260dcba38e5bdda37494f3af732f06e4add24068e3",
           291_545_600, 0, "gemma3", 18, 640, 4, 1, 256, 2048, 262_144, 32_768,
           embedding="Q8_0", output=None, window=512, every=6),
    _Known("SmolLM3-Q4_K_M.gguf", "8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e",
           1_915_305_312, _LLAMA3, "smollm3", 36, 2048, 16, 4, 128, 11008, 128_256, 65_536,
           embedding="Q6_K", output=None),
    _Known("smollm2-1.7b-instruct-q4_k_m.gguf", "decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
           1_055_609_536, _SMOLLM, "llama", 24, 2048, 32, 32, 64, 8192, 49_152, 8_192,
           embedding="Q6_K", output=None),
    _Known("smollm2-360m-instruct-q8_0.gguf", "48ab3034d0dd401fbc721eb1df3217902fee7dab9078992d66431f09b7750201",
           386_404_992, _SMOLLM, "llama", 32, 960, 15, 5, 64, 2560, 49_152, 8_192,
           embedding="Q8_0", output=None),
)
# fmt: on


def _matrix_bytes(known: _Known, quant: str) -> int:
    block_bytes, block = _QUANTS[quant]
    return known.vocabulary * known.width // block * block_bytes


def _weights(known: _Known) -> Weights:
    embedding = _matrix_bytes(known, known.embedding)
    output = 0 if known.output is None else _matrix_bytes(known, known.output)
    rest = known.bytes - known.header_bytes - known.nextn_bytes - embedding - output
    share, left = divmod(rest, known.layers)
    layers = (share + left, *[share] * (known.layers - 1))
    return Weights(
        input=embedding,
        layers=layers if known.nextn_bytes == 0 else (*layers, 0),
        output=output,
        tied=embedding if known.output is None else 0,
        repacks_tied=known.output is None and known.embedding == "Q4_K",
    )


def _attending(known: _Known, kv_heads: int, head: int) -> Layer:
    return Layer(
        heads=known.heads,
        queries=known.heads * head,
        keys=kv_heads * head,
        values=kv_heads * head,
        inner=known.inner,
        # An assistant looks at its target's cells.
        caches=known.architecture != ASSISTANT,
        sparse=known.experts is not None,
    )


def _shape(known: _Known) -> Shape:
    attending = _attending(known, known.kv_heads, known.head)
    wide = attending if known.wide is None else _attending(known, *known.wide)
    layers = []
    for number in range(known.layers):
        if known.every == 0 or number % known.every == known.every - 1:
            layers.append(wide)
        elif known.state is not None:
            layers.append(replace(attending, attends=False, caches=False, recurs=True))
        else:
            layers.append(replace(attending, slides=True))
    return Shape(
        architecture=known.architecture,
        width=known.width,
        vocabulary=known.vocabulary,
        trained_context=known.context,
        layers=tuple(layers),
        weights=_weights(known),
        window=known.window,
        experts=known.experts,
        state=known.state,
        nextn=NextN((attending,), (known.nextn_bytes,)) if known.nextn_bytes else None,
        states=known.states,
    )


@cache
def _by_name() -> dict[str, _Known]:
    by_file = {known.file.lower(): known for known in _KNOWN if known.file}
    return {**by_file, **{known.sha256: known for known in _KNOWN if known.sha256}}


def known_shape(name: str) -> Shape | None:
    """The dimensions of the file with this name (without directories) or SHA-256; None for one that isn't known.

    Names may be reused by other repositories for other quantisations of the same kind: ask by hash first.
    """
    known = _by_name().get(name.lower())
    return None if known is None else _shape(known)
