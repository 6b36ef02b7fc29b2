"""The embedder that ships: our own low-rank adapter on the verified all-MiniLM-L6-v2 (`trained/README.md`)."""

from pathlib import Path

from service.knowledge.embed import BASE_MODEL, Embedder, packaged_model, sentence_transformer
from service.low_rank import merge_adapter, read_adapter
from service.weights import load_weights

NAME = "gatehouse-minilm"
"""What `EMBEDDING_MODEL` calls it."""

WEIGHTS = Path(__file__).parents[1] / "trained" / "embedder.safetensors"


def load_tuned(*, threads: int, adapter: Path | None = WEIGHTS) -> Embedder:
    """Load the packaged base with `adapter` merged, or plain without one. Blocks for seconds.

    Raises `ModelFilesError` for weights that are missing, altered or made for another base.
    """
    import torch

    torch.set_num_threads(threads)
    model = load_weights(str(packaged_model()), sentence_transformer)
    if adapter is None:
        return Embedder(model, BASE_MODEL)
    merge_adapter(model, *read_adapter(adapter))
    return Embedder(model, NAME)
