"""Cross-encoder reranking, off the event loop, in small batches that a cancelled request can stop.

torch's thread count is one number for the whole process: the last `load` wins, so every caller passes the same setting.
"""

import asyncio
import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from service.errors import ModelFilesError
from service.model import ComponentState
from service.weights import load_weights, name_of, quiet, sha256_of_parameters

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

BATCH_SIZE = 8
REMEMBERED = 4096
"""Scores kept for pairs that are asked for again: Quote grades, picks and judges over the same passages."""


class CrossEncoderReranker:
    """A sentence-transformers `CrossEncoder` with one output. At most `max_concurrent` calls compute at a time.

    The latest `remembers` scores are kept, under a digest of their pair, so that none is computed twice in a run.
    """

    def __init__(
        self,
        model: "CrossEncoder",
        name: str,
        *,
        max_concurrent: int,
        calibrated: bool = False,
        adapter_sha256: str = "",
    ) -> None:
        if model.num_labels != 1:
            raise ModelFilesError(
                f"The model {name!r} gives {model.num_labels} scores per pair, a reranker gives one: "
                "choose a cross-encoder trained for ranking."
            )
        refuse_no_numbers(model, name)
        self._model = model
        self._max_concurrent = max_concurrent
        # asyncio's semaphores belong to one event loop each, and a process may run several one after another.
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        self.remembers: float = REMEMBERED
        """Scores kept at most; `math.inf` keeps all."""
        self.name = name
        self.sha256 = sha256_of_parameters(model)
        """Of the parameters as they are used: the same for the same weights, wherever they were loaded from."""
        self.adapter_sha256 = adapter_sha256
        """Of the file that was merged into them, as `sha256sum` gives it; "" where none was."""
        self.calibrated = calibrated
        """Whether a score is a share of right pairs: thresholds hold for no other."""
        self.waiting = 0
        """Calls of `scores` that wait for a slot or compute in one."""

    @classmethod
    def load(cls, model: str, *, threads: int, max_concurrent: int, name: str = "") -> Self:
        """Load a folder or a hub name, shown as `name` or else as what it is called. Blocks for seconds.

        Raises `ModelFilesError`.
        """
        import torch

        torch.set_num_threads(threads)
        encoder = load_weights(model, _cross_encoder)
        refuse_untrained(encoder, name or name_of(model))
        return cls(encoder, name or name_of(model), max_concurrent=max_concurrent)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text: sigmoid, 0..1, higher is better, in the order given."""
        pairs = [pair_digest(query, text) for text in texts]
        known = {pair: self._remembered[pair] for pair in pairs if pair in self._remembered}
        new = {pair: text for pair, text in zip(pairs, texts, strict=True) if pair not in known}
        if new:
            self.waiting += 1
            try:
                known.update(zip(new, await self._computed(query, list(new.values())), strict=True))
            finally:
                self.waiting -= 1
        self._remember(known)
        return [known[pair] for pair in pairs]

    async def _computed(self, query: str, texts: Sequence[str]) -> list[float]:
        slot = self._slot()
        await slot.acquire()
        stop = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._predict, query, texts, stop))
        # Released when the thread is done, not when its caller leaves: an abandoned batch still holds the processor.
        work.add_done_callback(lambda _: slot.release())
        try:
            return await asyncio.shield(work)
        finally:
            stop.set()

    def _remember(self, scores: Mapping[bytes, float]) -> None:
        for pair, score in scores.items():
            self._remembered[pair] = score
            self._remembered.move_to_end(pair)
        while len(self._remembered) > self.remembers:
            self._remembered.popitem(last=False)

    def state(self) -> ComponentState:
        """The checksum of the parameters, and of the adapter's file where there is one: that one can be compared."""
        merged = f", adapter's file sha256:{self.adapter_sha256[:12]}" if self.adapter_sha256 else ""
        return ComponentState(name="reranker", ok=True, detail=f"{self.name} sha256:{self.sha256[:12]}{merged}")

    def _slot(self) -> asyncio.Semaphore:
        return self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._max_concurrent))

    def _predict(self, query: str, texts: Sequence[str], stop: threading.Event) -> list[float]:
        """Score in batches until done or stopped; what a stopped run returns is read by no one."""
        scores = [0.0] * len(texts)
        # Longest first: neighbours of like length waste the least padding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        for start in range(0, len(order), BATCH_SIZE):
            if stop.is_set():
                break
            batch = order[start : start + BATCH_SIZE]
            for i, score in zip(batch, self._predict_batch(query, [texts[i] for i in batch]), strict=True):
                scores[i] = score
        return scores

    def _predict_batch(self, query: str, texts: list[str]) -> list[float]:
        import torch

        predicted = self._model.predict(
            [(query, text) for text in texts],
            batch_size=BATCH_SIZE,
            show_progress_bar=False,
            # Explicit: the activation a model's files ask for may be none, and a raw logit is no 0..1 score.
            activation_fn=torch.nn.Sigmoid(),
            convert_to_numpy=True,
        )
        scores = [float(score) for score in predicted]
        if not all(math.isfinite(score) for score in scores):
            raise ModelFilesError(f"The reranker {self.name!r} gives scores that are no numbers: choose another model.")
        return scores


def pair_digest(query: str, text: str) -> bytes:
    """Return a digest of the pair, 16 bytes: what is remembered holds nobody's question."""
    return hashlib.blake2b(f"{len(query)}:{query}{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def refuse_no_numbers(model: "CrossEncoder", name: str) -> None:
    """Raise `ModelFilesError` for weights that are no numbers."""
    for parameter, tensor in model.named_parameters():
        if not bool(tensor.isfinite().all()):
            raise ModelFilesError(
                f"The weights of the reranker {name!r} are no numbers ({parameter}): fetch it again, or choose another."
            )


def refuse_untrained(model: "CrossEncoder", name: str) -> None:
    """Raise `ModelFilesError` where the files lack a weight: transformers draws it at random and only logs that.

    The files are read a second time: sentence-transformers passes on no word of what was missing in the first.
    """
    from transformers import PreTrainedModel

    inner = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    if inner is None:
        return
    again: Any = type(inner)
    asked = {"config": inner.config, "local_files_only": True, "output_loading_info": True}
    with quiet("transformers"):
        _, info = load_weights(inner.name_or_path or name, lambda folder, _: again.from_pretrained(folder, **asked))
    if missing := sorted(info["missing_keys"]):
        raise ModelFilesError(
            f"The model {name!r} has no trained weights for {', '.join(missing[:3])}, so it was never trained to rank: "
            "choose a cross-encoder trained for ranking."
        )


def _cross_encoder(model: str, local_files_only: bool) -> "CrossEncoder":
    # Imported here: the library takes seconds to import, and a command that ranks nothing should not wait for it.
    from sentence_transformers import CrossEncoder

    encoder: CrossEncoder = CrossEncoder(model, device="cpu", local_files_only=local_files_only)
    return encoder
