"""Low-rank training of a model's linear layers, and the adapter file that ships (see `service/low_rank.py`)."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
import typer
from safetensors.torch import save
from torch import nn

from service.low_rank import DOWN, UP, read_adapter

_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


class LowRankLinear(nn.Module):
    """A frozen linear layer with a trained update: W x + scale * B A x. B starts at zero: at first nothing changes."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.scale = scale

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        # The scale goes to the narrow side: a pass over the wide output costs as much as the small product itself.
        low: torch.Tensor = nn.functional.linear(inputs, self.down) * self.scale
        base: torch.Tensor = self.base(inputs)
        return torch.addmm(base.flatten(0, -2), low.flatten(0, -2), self.up.T).view(base.shape)


def adapt(
    model: nn.Module, *, rank: int, scale: float, first_layer: int = 0, whole: tuple[str, ...] = ()
) -> list[nn.Parameter]:
    """Freeze `model`, put an update on the encoder's linear layers, train the parameters named `whole` as they are.

    Layers below `first_layer` stay as they are, and need no backward pass.

    Returns what is trained.
    """
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        layer = _LAYER.search(name)
        if isinstance(module, nn.Linear) and layer and int(layer[1]) >= first_layer:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], LowRankLinear(module, rank, scale))
    for name, parameter in model.named_parameters():
        if name.startswith(whole) if whole else False:
            parameter.requires_grad_(True)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def adapter_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the trained tensors under the names that `merge_adapter` reads."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kept = name.replace(".down", DOWN) if name.endswith(".down") else name
            yield kept.replace(".up", UP) if kept.endswith(".up") else kept, parameter.detach()


def save_adapter(model: nn.Module, scale: float, weights: Path) -> str:
    """Write the adapter in half precision and its checksum beside it. Returns the SHA-256."""
    return write_adapter(dict(adapter_tensors(model)), scale, weights)


def save_average(adapters: Sequence[Path], weights: Path) -> str:
    """Write the adapter whose merged weights are the mean of those of `adapters`. Returns the SHA-256.

    The mean of B A over n adapters is one product: the A below each other, the B beside each other over n, so its rank
    is the sum of theirs. That the mean of models trained from one start is better than each: Wortsman et al. 2022.
    """
    read = [read_adapter(path) for path in adapters]
    [scale] = {scale for _, scale in read}
    parts = [tensors for tensors, _ in read]
    average = {}
    for name in parts[0]:
        of = [tensors[name] for tensors in parts]
        if name.endswith(DOWN):
            average[name] = torch.cat(of, 0)
        elif name.endswith(UP):
            average[name] = torch.cat(of, 1) / len(read)
        else:
            average[name] = torch.stack(of).mean(0)
    return write_adapter(average, scale, weights)


def write_adapter(tensors: Mapping[str, torch.Tensor], scale: float, weights: Path) -> str:
    content = save(
        {name: tensor.half().contiguous() for name, tensor in tensors.items()},
        metadata={"adapter": json.dumps({"scale": scale})},
    )
    replace_file(weights, content)
    write_checksums(weights)
    return hashlib.sha256(content).hexdigest()


def write_checksums(weights: Path, *others: Path) -> None:
    """Write `<name>.sha256` for the adapter and what ships beside it, as `sha256sum` does."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (weights, *others)]
    replace_file(weights.with_suffix(".sha256"), "".join(lines).encode())


def replace_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(path.suffix + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def digest_of(*parts: object) -> str:
    """Return one digest of what a training is made of. A part needs the same `repr` in each process: no sets."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part!r}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class Checkpoint:
    """Where a training stands on disk: a run that was stopped goes on at the last step that was saved.

    `made_of` is a digest of all that the training is made of (`digest_of`): a checkpoint of another one is not used.
    """

    def __init__(self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, made_of: str) -> None:
        self._path = path
        self._made_of = made_of
        self._model = model
        self._optimizer = optimizer

    def save(self, step: int) -> None:
        trained = dict(adapter_tensors(self._model))
        part = self._path.with_suffix(".part")
        kept = {"made_of": self._made_of, "step": step, "model": trained, "optimizer": self._optimizer.state_dict()}
        torch.save(kept, part)
        os.replace(part, self._path)

    def load(self) -> int:
        """Return the number of steps done, 0 without a checkpoint of this training."""
        if not self._path.is_file():
            return 0
        kept = torch.load(self._path, weights_only=True)
        if kept.get("made_of") != self._made_of:
            typer.echo(f"{self._path} belongs to another training (other steps, data or base): starting anew")
            return 0
        own = dict(adapter_tensors(self._model))
        with torch.no_grad():
            for name, tensor in kept["model"].items():
                own[name].copy_(tensor)
        self._optimizer.load_state_dict(kept["optimizer"])
        return int(kept["step"])


def falling(peak: float, step: int, steps: int, warmup: int) -> float:
    """A learning rate that rises over `warmup` steps and falls along a line to zero."""
    return peak * min((step + 1) / warmup, max(0.0, (steps - step) / max(1, steps - warmup)))
