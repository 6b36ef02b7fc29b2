"""The cross-encoder that ships: our own low-rank adapter on the verified all-MiniLM-L6-v2 (`trained/README.md`).

Merged at load it is an ordinary `CrossEncoder`. Its logits are calibrated with a slope and an offset that were fitted
after training (Platt 1999) and stand beside the weights, so that a score is a share of right pairs.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import ModelFilesError
from service.low_rank import checksums, merge_adapter, read_adapter
from service.rerank.cross_encoder import CrossEncoderReranker
from service.weights import INSTALL_AGAIN, load_weights, quiet, sha256_of_file

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

NAME = "gatehouse-minilm"
"""What `RERANKER_MODEL` calls it."""

WEIGHTS = Path(__file__).parents[1] / "trained" / "reranker.safetensors"
MAX_TOKENS = 320
"""A passage of the longest kind (256) and a question; the base reads up to 512."""


def load_shipped(
    base: Path,
    *,
    threads: int,
    max_concurrent: int,
    weights: Path = WEIGHTS,
    calibration: tuple[float, float] | None = None,
) -> CrossEncoderReranker:
    """Load the adapter onto the base in folder `base`. Blocks for seconds.

    `calibration` is (slope, offset) for the logits; by default it is the one that was shipped.

    Raises `ModelFilesError` for weights that are missing, altered or made for another base.
    """
    import torch

    torch.set_num_threads(threads)
    tensors, scale = read_adapter(weights)
    slope, offset = calibration or calibration_of(weights)
    if not {"classifier.weight", "classifier.bias"} <= tensors.keys():
        raise ModelFilesError(f"The adapter {weights.name} has no head (classifier.weight and .bias). {INSTALL_AGAIN}")
    tensors["classifier.weight"] = slope * tensors["classifier.weight"]
    tensors["classifier.bias"] = slope * tensors["classifier.bias"] + offset
    model = load_weights(str(base), _without_a_head)
    merge_adapter(model.get_submodule("0.model"), tensors, scale)
    model.eval()
    return CrossEncoderReranker(
        model,
        NAME,
        max_concurrent=max_concurrent,
        calibrated=calibration is None,
        adapter_sha256=checksums(weights)[weights.name],
    )


def calibration_of(weights: Path) -> tuple[float, float]:
    """Return (slope, offset) for the logits, from `<name>.calibration.json`. Raises `ModelFilesError`."""
    path = weights.with_suffix(".calibration.json")
    try:
        if sha256_of_file(path) != checksums(weights)[path.name]:
            raise ModelFilesError(
                f"The calibration {path.name} is not the one that was shipped (SHA-256 differs). {INSTALL_AGAIN}"
            )
        found = json.loads(path.read_text(encoding="utf-8"))
        slope, offset = float(found["slope"]), float(found["offset"])
        if not (math.isfinite(slope) and math.isfinite(offset) and slope > 0):
            raise ValueError(f"slope {slope}, offset {offset}")
        return slope, offset
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ModelFilesError(f"The calibration {path.name} cannot be read. {INSTALL_AGAIN}") from error


def _without_a_head(folder: str, local_files_only: bool) -> "CrossEncoder":
    from sentence_transformers import CrossEncoder

    # The base has no head, and the libraries say so at length; the head comes with the adapter.
    with quiet("transformers", "sentence_transformers"):
        encoder: CrossEncoder = CrossEncoder(
            folder, num_labels=1, device="cpu", max_length=MAX_TOKENS, local_files_only=local_files_only
        )
    return encoder
