"""Model weights on disk: found in a folder or the hub's cache, fetched when the hub answers, named by a checksum."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from service.errors import ModelFilesError

if TYPE_CHECKING:
    import torch

HUB_TIMEOUT_S = 5.0
INSTALL_AGAIN = (
    "Install Gatehouse again: `pip install --force-reinstall --no-deps .` in its folder, after `git checkout "
    "service/trained` where that is a checkout."
)
"""What to do about a file of ours that is damaged."""

Loaded = TypeVar("Loaded")

logger = logging.getLogger(__name__)


def load_weights(model: str, load: Callable[[str, bool], Loaded]) -> Loaded:
    """Call `load(folder or name, local_files_only)` for a folder, a cached name or a name the hub knows.

    Raises `ModelFilesError` when none of them works.
    """
    _quiet_progress_bars()
    try:
        if Path(model).is_dir():
            return load(model, True)
        return _load_by_name(model, load)
    except Exception as error:
        # The libraries raise what they please here (OSError, ValueError, RuntimeError, KeyError, SafetensorError...),
        # and all of it means the same to the operator.
        logger.warning("model %s cannot be loaded: %s: %s", model, type(error).__name__, error)
        raise ModelFilesError(
            f"The model {name_of(model)!r} cannot be loaded: it is neither a readable model folder nor in the local "
            "cache, and the hub did not supply it. Name a folder that holds the model, or let this machine reach the "
            "hub once."
        ) from error


def _load_by_name(model: str, load: Callable[[str, bool], Loaded]) -> Loaded:
    try:
        return load(model, True)
    except (OSError, ValueError):
        _ask_the_hub(model)
    return load(model, False)


def _ask_the_hub(model: str) -> None:
    """One short question first: the loaders alone retry each of a dozen files for 23 s when there is no network."""
    from huggingface_hub import HfApi

    HfApi().model_info(model, timeout=HUB_TIMEOUT_S)


def _quiet_progress_bars() -> None:
    import_module("transformers.utils.logging").disable_progress_bar()  # by name: the function has no annotations


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Have the libraries of these names log errors only."""
    known = [name for name in logging.Logger.manager.loggerDict if name.startswith(names)]
    levels = {log: log.level for log in map(logging.getLogger, {*names, *known})}
    try:
        for log in levels:
            log.setLevel(logging.ERROR)
        yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)


def name_of(model: str) -> str:
    """Return a hub name as it is, a folder's name without its path: names are shown to callers."""
    path = Path(model)
    return path.name if path.is_absolute() or path.is_dir() else model


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_parameters(module: "torch.nn.Module") -> str:
    """Checksum of every tensor with its name, so the same weights have one identity wherever they were loaded from."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
