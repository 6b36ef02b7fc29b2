"""What each record says of the installation that answered."""

from urllib.parse import urlsplit

from service.api.app import VERSION
from service.graph.state import Limits
from service.ports import Reranker
from service.record import InstallationRecord
from service.rerank.cross_encoder import CrossEncoderReranker
from service.settings import Settings

RECORDED_SETTINGS = (
    "RETRIEVE_K",
    "TOP_N",
    "GRADE_MODE",
    "MAX_REWRITES",
    "MAX_REGEN",
    "ON_UNGROUNDED",
    "HANDOFF_TEXT",
    "RUN_DEADLINE_S",
    "MODEL_PROVIDER",
    "MODEL_FALLBACK",
    "ANSWER_MODEL",
    "GATE_MODEL",
    "ANSWER_MAX_TOKENS",
    "EMBEDDING_MODEL",
    "RERANKER_MODEL",
)
"""The settings that can change an answer. None of them is a secret."""


def installation_of(settings: Settings, limits: Limits, embedder: str, reranker: Reranker) -> InstallationRecord:
    """`embedder` names its weights, with their checksum; a reranker without weights has no checksum."""
    every = settings.model_dump(mode="json")
    chosen = {name: every[name] for name in RECORDED_SETTINGS}
    # Its host alone: an address may carry a password.
    chosen["ANTHROPIC_BASE_URL"] = urlsplit(settings.ANTHROPIC_BASE_URL).hostname or ""
    chosen["supported_at"] = limits.supported_at
    return {
        "version": VERSION,
        "embedder": embedder,
        "reranker": reranker.name,
        "reranker_sha256": reranker.sha256 if isinstance(reranker, CrossEncoderReranker) else "",
        "settings": chosen,
    }
