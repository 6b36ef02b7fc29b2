"""The part of the composition root that opens the scores."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from service.in_clear import in_clear_warning
from service.knowledge.snapshots import Snapshots
from service.llm.pricing import cost_usd
from service.observe.masking import TraceMasks
from service.observe.scorable import Mask, scorable_of
from service.observe.scoring import NoScores, Scoring
from service.ports import AuditSink, ScoreSink
from service.sensitive import load_names
from service.settings import Settings

if TYPE_CHECKING:
    from service.observe.judging.metrics import DeepEvalScorer


NO_SHARE = "off: SCORE_SAMPLE_RATE is 0, so JUDGE_MODEL scores no answers; set the share, for example 0.1"


async def open_scores(
    settings: Settings,
    stack: AsyncExitStack,
    audit: AuditSink,
    snapshots: Snapshots,
    sinks: Sequence[ScoreSink],
) -> Scoring | NoScores:
    """The judge where one is set and asked for a share of the answers. Raises `OperatorError` for the mask file."""
    if not (settings.JUDGE_MODEL and settings.SCORE_SAMPLE_RATE):
        return NoScores(sinks, NO_SHARE if settings.JUDGE_MODEL else "off")
    scorer = await asyncio.to_thread(connect, settings)
    scoring = Scoring(
        scorer,
        partial(scorable_of, snapshots=snapshots, mask=mask_of(settings)),
        audit=audit,
        sinks=sinks,
        sample_rate=settings.SCORE_SAMPLE_RATE,
        queue_size=settings.SCORE_QUEUE,
        timeout_s=settings.SCORE_TIMEOUT_S,
        masked=settings.JUDGE_MASKED,
        warning=in_clear_warning("JUDGE_BASE_URL", settings.JUDGE_BASE_URL),
    )
    stack.push_async_callback(scoring.close)
    return scoring


def connect(settings: Settings) -> "DeepEvalScorer":
    from service.observe.judging.judge import connect as connect_judge  # two seconds of loading, where it is wanted
    from service.observe.judging.metrics import DeepEvalScorer

    base_url = settings.JUDGE_BASE_URL or settings.ANTHROPIC_BASE_URL
    client = connect_judge(settings.judge_key(), base_url, settings.SCORE_TIMEOUT_S)
    return DeepEvalScorer(client, settings.JUDGE_MODEL, cost_usd)


def mask_of(settings: Settings) -> Mask:
    """What takes out of a text what a trace does not show either."""
    if not settings.JUDGE_MASKED:
        return as_it_is
    return TraceMasks(load_names(settings.WEB_MASK_FILE)).mask


def as_it_is(text: str) -> str:
    return text
