"""Low-rank adapters: a small safetensors file that turns verified base weights into trained ones (Hu et al. 2021).

A trained linear layer is W + scale * B A with A (rank, in) and B (out, rank). Merged at load, the model is an ordinary
one afterwards: no other library, no slower inference.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import ModelFilesError
from service.weights import INSTALL_AGAIN, sha256_of_file

if TYPE_CHECKING:
    import torch

DOWN = ".lora_down"
UP = ".lora_up"


def read_adapter(weights: Path) -> tuple[dict[str, "torch.Tensor"], float]:
    """Return the tensors of an adapter file and its scale, the file checked against `<name>.sha256` beside it.

    Raises `ModelFilesError` for a file that is missing, altered or no adapter.
    """
    from safetensors import SafetensorError, safe_open

    try:
        if sha256_of_file(weights) != checksums(weights)[weights.name]:
            raise ModelFilesError(
                f"The adapter {weights.name} is not the one that was shipped (SHA-256 differs). {INSTALL_AGAIN}"
            )
        with safe_open(weights, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["adapter"])
            return {name: file.get_tensor(name).float() for name in file.keys()}, float(metadata["scale"])  # noqa: SIM118
    except (OSError, IndexError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise ModelFilesError(f"The adapter {weights.name} cannot be read. {INSTALL_AGAIN}") from error


def checksums(weights: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that `<name>.sha256` lists, by name. Raises `OSError` or `ValueError`."""
    lines = weights.with_suffix(".sha256").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def merge_adapter(module: "torch.nn.Module", tensors: dict[str, "torch.Tensor"], scale: float) -> None:
    """Add each low-rank update to its layer and copy the tensors that were trained whole, in place.

    Raises `ModelFilesError` when a tensor has no place in `module`, no partner or another shape.
    """
    import torch

    own = dict(module.named_parameters())
    with torch.no_grad():
        for name, tensor in tensors.items():
            layer = name.removesuffix(DOWN).removesuffix(UP)
            target = own.get(layer if layer == name else f"{layer}.weight")
            if target is None:
                raise ModelFilesError(f"The adapter names {name!r}, which the base model does not have.")
            if layer != name and not {layer + DOWN, layer + UP} <= tensors.keys():
                raise ModelFilesError(f"The adapter holds {name!r} and not the other half of that update.")
            if name.endswith(DOWN):
                up = tensors[layer + UP]
                if (up.shape[:1] + tensor.shape[1:], up.shape[1:]) != (target.shape, tensor.shape[:1]):
                    raise ModelFilesError(f"The adapter's update of {layer!r} has another shape than the base model's.")
                target.add_(scale * (up @ tensor))
            elif layer == name:
                if tensor.shape != target.shape:
                    raise ModelFilesError(f"The adapter's {name!r} has another shape than the base model's.")
                target.copy_(tensor)
