"""Whether Milvus answers: bounded in time, and one error for whatever is wrong with it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from pymilvus import MilvusException

from service.errors import KnowledgeBaseError

logger = logging.getLogger(__name__)


@asynccontextmanager
async def answering(timeout_s: float) -> AsyncIterator[None]:
    """Turn every way in which Milvus does not answer into `KnowledgeBaseError`."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise KnowledgeBaseError(f"Milvus did not answer within {timeout_s:g} s.") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # gRPC cancels the calls of a connection that is closed: that is no one's wish to stop this task.
        raise KnowledgeBaseError("The connection to Milvus was closed.") from error
    except (MilvusException, grpc.RpcError, grpc.aio.UsageError) as error:
        logger.warning("Milvus failed: %s: %s", type(error).__name__, str(error) or "(no message)")
        raise KnowledgeBaseError("Milvus does not answer, or refused the request.") from error
