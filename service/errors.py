"""Every fault Gatehouse can name, in one tree. The class says who acts next.

    GatehouseError
    |-- CallerError              the caller mends the request
    |   |-- InvalidRequest       422
    |   |-- UnknownSkill         422
    |   |-- Unauthorized         401, no key, or one that is not known
    |   |-- OriginRefused        403, asked by a page of another site
    |   |-- MetricsRefused       403, asked from an address that METRICS_NETWORKS does not name
    |   |-- HostRefused          400, asked under a name that is not this server's
    |   |-- NotFound             404
    |   |-- BodyTimeout          408, the body did not arrive in time
    |   |-- ThreadBusy           409, try again when the running answer is done
    |   |-- Cancelled            409, the person stopped the run
    |   |-- BodyTooLarge         413
    |   |-- HeadTooLarge         431
    |   |-- RateLimited          429, wait as long as Retry-After says
    |   |-- TooManyRuns          429, wait for an answer of one's own to end
    |   `-- UnsupportedMediaType 415
    |-- OperatorError            the operator mends the installation
    |   |-- EmbeddingMismatch    the collection was built with another embedding model
    |   |-- StoreLocked          another process holds the Milvus Lite store
    |   |-- ModelFilesError      model weights missing or with a wrong checksum
    |   |-- IngestError          a document that cannot be read
    |   |-- SkillFault           a skill's folder that cannot be used
    |   |-- SnapshotFault        the stored pages that an answer would cite are missing or damaged
    |   `-- AuditDamaged         the audit log does not end where its head says
    `-- DependencyError          wait and try again
        |-- KnowledgeBaseError   Milvus does not answer
        |-- ThreadsUnavailable   PostgreSQL, which keeps the threads, does not answer
        |-- ModelUnavailable     the model API is down, overloaded or cut the stream
        |-- ModelUnusable        the model answered, but nothing in it can be believed
        |-- SearchUnavailable    the web's search engine does not answer, or blocks us
        |-- PageRefused          a web page that may not or could not be fetched
        |-- Overloaded           too many runs at once
        |-- DeadlineExceeded     the run took longer than RUN_DEADLINE_S
        |-- ShuttingDown         the service is being stopped
        |-- AuditUnavailable     nothing can be recorded, so nothing is answered
        |-- ServerFault          a running server could not answer `gatehouse ask`
        `-- StreamCut            its stream ended without a terminal event

Anything else is a bug: it keeps its traceback in the log and leaves the server as `internal`.
"""

from typing import ClassVar


class GatehouseError(Exception):
    """Base of the tree. `str(error)` is safe to show to the caller.

    `code` is a stable identifier, `status` the HTTP status before a stream has begun, `retryable` says whether the
    same request may succeed later.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class CallerError(GatehouseError):
    code = "invalid_request"
    status = 422


class InvalidRequest(CallerError):
    pass


class UnknownSkill(CallerError):
    code = "unknown_skill"


class Unauthorized(CallerError):
    code = "unauthorized"
    status = 401


class OriginRefused(CallerError):
    code = "origin_not_allowed"
    status = 403


class MetricsRefused(CallerError):
    code = "metrics_not_allowed"
    status = 403


class HostRefused(CallerError):
    code = "host_not_allowed"
    status = 400


class NotFound(CallerError):
    code = "not_found"
    status = 404


class ThreadBusy(CallerError):
    code = "thread_busy"
    status = 409
    retryable = True


class Cancelled(CallerError):
    code = "cancelled"
    status = 409
    retryable = True


class BodyTimeout(CallerError):
    code = "body_timeout"
    status = 408
    retryable = True


class BodyTooLarge(CallerError):
    code = "body_too_large"
    status = 413


class HeadTooLarge(CallerError):
    code = "head_too_large"
    status = 431


class RateLimited(CallerError):
    code = "rate_limited"
    status = 429
    retryable = True


class TooManyRuns(CallerError):
    code = "too_many_runs"
    status = 429
    retryable = True


class UnsupportedMediaType(CallerError):
    code = "unsupported_media_type"
    status = 415


class OperatorError(GatehouseError):
    code = "misconfigured"
    status = 500


class EmbeddingMismatch(OperatorError):
    code = "embedding_mismatch"


class StoreLocked(OperatorError):
    code = "store_locked"


class ModelFilesError(OperatorError):
    code = "model_files"


class IngestError(OperatorError):
    code = "ingest_failed"


class SkillFault(OperatorError):
    code = "skill_fault"


class SnapshotFault(OperatorError):
    code = "snapshot_fault"


class AuditDamaged(OperatorError):
    code = "audit_damaged"


class DependencyError(GatehouseError):
    code = "unavailable"
    status = 503
    retryable = True


class KnowledgeBaseError(DependencyError):
    code = "knowledge_base_unavailable"


class ThreadsUnavailable(DependencyError):
    code = "threads_unavailable"


class ModelUnavailable(DependencyError):
    code = "model_unavailable"


class ModelUnusable(DependencyError):
    code = "model_unusable"
    status = 502


class SearchUnavailable(DependencyError):
    code = "search_unavailable"


class PageRefused(DependencyError):
    code = "page_refused"


class Overloaded(DependencyError):
    code = "overloaded"


class DeadlineExceeded(DependencyError):
    code = "deadline_exceeded"
    status = 504


class ShuttingDown(DependencyError):
    code = "shutting_down"


class AuditUnavailable(DependencyError):
    code = "audit_unavailable"


class ServerFault(DependencyError):
    code = "server_fault"


class StreamCut(DependencyError):
    code = "stream_cut"
