"""The part of the composition root that records: the audit log, and what each record says of this installation."""

from contextlib import AsyncExitStack
from dataclasses import asdict
from urllib.parse import urlsplit

from service.api.app import VERSION
from service.audit.log import AuditLog
from service.graph.state import Limits
from service.llm.quote import DEFAULT_THRESHOLDS, Thresholds
from service.ports import Reranker, WebSearch
from service.record import InstallationRecord
from service.rerank.cross_encoder import CrossEncoderReranker
from service.settings import Settings
from service.web.duckduckgo import DuckDuckGo

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
    "MODEL_SILENCE_S",
    "MODEL_TIMEOUT_S",
    "EMBEDDING_MODEL",
    "RERANKER_MODEL",
    "WEB_SEARCH_ENABLED",
    "WEB_BUDGET_S",
    "WEB_STRIPS",
)
"""The settings that can change an answer. None of them is a secret."""


async def open_audit(settings: Settings, stack: AsyncExitStack) -> AuditLog:
    """Open the audit log. Raises `AuditDamaged` or `OperatorError`."""
    audit = await AuditLog.open(
        settings.audit_folder(),
        segment_bytes=settings.AUDIT_SEGMENT_MB * 1_000_000,
        min_free_bytes=settings.AUDIT_MIN_FREE_MB * 1_000_000,
    )
    stack.push_async_callback(audit.close)
    return audit


def installation_of(
    settings: Settings,
    limits: Limits,
    embedder: str,
    reranker: Reranker,
    scorer: Reranker,
    *,
    web: WebSearch | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> InstallationRecord:
    """What each record says of the installation that answered.

    `embedder` names its weights, with their checksum; `scorer` is what Quote and the support are scored by. What has no
    weights has no checksum. `thresholds` are Quote's. Of the file of masks its hash alone: it holds clients' names.
    """
    every = settings.model_dump(mode="json")
    chosen = {name: every[name] for name in RECORDED_SETTINGS}
    # Its host alone: an address may carry a password.
    chosen["ANTHROPIC_BASE_URL"] = urlsplit(settings.ANTHROPIC_BASE_URL).hostname or ""
    chosen["supported_at"] = limits.supported_at
    chosen["quote"] = asdict(thresholds)
    chosen["web_mask_sha256"] = web.masks.sha256 if isinstance(web, DuckDuckGo) else ""
    return {
        "version": VERSION,
        "embedder": embedder,
        "reranker": reranker.name,
        "reranker_sha256": checksum_of(reranker),
        "scorer": scorer.name,
        "scorer_sha256": checksum_of(scorer),
        "settings": chosen,
    }


def checksum_of(reranker: Reranker) -> str:
    """SHA-256 of the weights as they are used, "" where there are none."""
    return reranker.sha256 if isinstance(reranker, CrossEncoderReranker) else ""
