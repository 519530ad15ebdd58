"""Small models with random weights, as files in a folder."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from daycare.features.memory.embed.arrays import np
from daycare.features.memory.embed.tensors import Tensor

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "##ing", "."]


def weights(
    *, dimensions: int = 24, inner: int = 48, layers: int = 2, positions: int = 40, seed: int = 1
) -> dict[str, Tensor]:
    """Return the arrays of a BERT model under the names that they have in files."""
    draw = np.random.default_rng(seed)

    def some(*shape: int) -> Tensor:
        return draw.standard_normal(shape).astype(np.float32) * np.float32(0.3)

    found: dict[str, Tensor] = {
        "embeddings.word_embeddings.weight": some(len(VOCABULARY), dimensions),
        "embeddings.position_embeddings.weight": some(positions, dimensions),
        "embeddings.token_type_embeddings.weight": some(2, dimensions),
        "embeddings.position_ids": np.arange(positions, dtype=np.int64)[None, :],
    }

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = some(dimensions) + np.float32(1), some(dimensions)

    def dense(name: str, into: int, out: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = some(out, into), some(out)

    norm("embeddings.LayerNorm")
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            dense(f"{layer}.attention.self.{part}", dimensions, dimensions)
        dense(f"{layer}.attention.output.dense", dimensions, dimensions)
        norm(f"{layer}.attention.output.LayerNorm")
        dense(f"{layer}.intermediate.dense", dimensions, inner)
        dense(f"{layer}.output.dense", inner, dimensions)
        norm(f"{layer}.output.LayerNorm")
    return found


def safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return a file of arrays: float32, float16 or int64, and unsigned 16 bits for the halves of float32."""
    names = {"float32": "F32", "float16": "F16", "int64": "I64", "uint16": "BF16"}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        place = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": names[tensor.dtype.name], "shape": tensor.shape, "data_offsets": place}
        data += tensor.tobytes()
    told = json.dumps(header).encode()
    return struct.pack("<Q", len(told)) + told + data


def folder_of(folder: Path, tensors: Mapping[str, Tensor], **config: object) -> Path:
    """Write a model into a folder, with what its makers publish beside the weights."""
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    told = {"model_type": "bert", "hidden_act": "gelu", "num_attention_heads": 3, "vocab_size": 1} | config
    (folder / "config.json").write_text(json.dumps(told), "utf-8")
    return folder


def graph(table: Tensor) -> bytes:
    """Return a file for onnxruntime: a model that gives for each piece its row of a table, and nothing else."""

    def field(number: int, value: bytes | str | int) -> bytes:
        if isinstance(value, int):
            return _varint(number << 3) + _varint(value)
        data = value.encode() if isinstance(value, str) else value
        return _varint(number << 3 | 2) + _varint(len(data)) + data

    def value(name: str, kind: int, axes: int) -> bytes:
        shape = b"".join(field(1, field(2, f"{name}{axis}")) for axis in range(axes))
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

    node = field(1, "table") + field(1, "input_ids") + field(2, "last_hidden_state") + field(4, "Gather")
    tensor = b"".join(field(1, size) for size in table.shape)
    tensor += field(2, 1) + field(8, "table") + field(9, table.tobytes())
    inputs = field(11, value("input_ids", 7, 2)) + field(11, value("attention_mask", 7, 2))
    whole = field(1, node) + field(2, "graph") + field(5, tensor) + inputs
    whole += field(12, value("last_hidden_state", 1, 3))
    return field(1, 8) + field(7, whole) + field(8, field(1, "") + field(2, 13))


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])
