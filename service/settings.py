"""Every setting of the service, in one place, read once by the commands. Nothing else looks at the environment.

A value out of bounds, or an unknown key in `.env`, is refused at start. The README's table is generated from here.
"""

import re
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.errors import OperatorError
from service.model import OnUngrounded
from service.setting_values import (
    HTTP_ADDRESS_OR_NONE,
    PRINTABLE,
    BaseAddress,
    DatabaseUrl,
    HashedKeys,
    HostNames,
    Networks,
    RedisUrl,
    said_of,
)

DEFAULT_HANDOFF = "Please ask the practice's knowledge team, who can look further and add what is missing."


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="forbid", frozen=True, env_ignore_empty=True)

    # Where it listens and what it keeps
    HOST: str = Field("127.0.0.1", description="Address to listen on.")
    PORT: int = Field(8000, ge=1, le=65535, description="Port to listen on.")
    PUBLIC_URL: str = Field(
        "", pattern=HTTP_ADDRESS_OR_NONE, description="Base of links to this server, where a proxy changes it."
    )
    DATA_DIR: Path = Field(
        Path("data"), description="Folder of the store, the threads, the snapshots and the audit log."
    )
    AUDIT_SEGMENT_MB: int = Field(64, ge=1, le=1024, description="Size at which the audit log begins a new file.")
    AUDIT_MIN_FREE_MB: int = Field(
        64, ge=8, le=100_000, description="New questions are refused when DATA_DIR's disk has less room."
    )
    SKILLS_DIR: Path = Field(Path("skills"), description="Folder of the skills, read at start.")
    MILVUS_URI: str = Field(
        "", pattern=HTTP_ADDRESS_OR_NONE, description="Milvus server; empty means Milvus Lite in DATA_DIR."
    )
    MILVUS_TOKEN: SecretStr = Field(SecretStr(""), description="`user:password` or token of the Milvus server.")
    MILVUS_COLLECTION: str = Field(
        "passages",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$",
        description="Collection of the passages; another name is another, empty store.",
    )
    DATABASE_URL: DatabaseUrl = Field(
        SecretStr(""), description="`postgresql://user:password@host/name`: threads that several replicas share."
    )
    WORKERS: int = Field(1, ge=1, le=64, description="Server processes; more than one needs MILVUS_URI, DATABASE_URL.")
    MILVUS_TIMEOUT_S: float = Field(10, gt=0, le=120, description="Time limit of one call to Milvus.")

    # Who may ask, and how often
    API_KEYS: HashedKeys = Field(
        "", description="Clients and the SHA-256 of their keys, `name:sha256,...`; `gatehouse key NAME` makes one."
    )
    ALLOW_ANONYMOUS: bool = Field(
        False, description="Let in whoever brings no key. Without API_KEYS only a server on loopback does so by itself."
    )
    ALLOWED_HOSTS: HostNames = Field(
        "", description="Names this server is asked under, comma-separated; `*.example.org` too. PUBLIC_URL's is one."
    )
    TRUSTED_PROXIES: Networks = Field(
        "", description="Addresses or networks whose X-Forwarded-For and -Proto are believed, comma-separated."
    )
    SESSION_HOURS: float = Field(12, gt=0, le=720, description="How long a sign-in on the page lasts.")
    RATE_LIMIT_PER_MINUTE: int = Field(30, ge=1, le=10_000, description="Questions of one client in any 60 s.")
    MAX_RUNS_PER_CLIENT: int = Field(8, ge=1, le=10_000, description="Answers of one client under way at a time.")
    REDIS_URL: RedisUrl = Field(
        SecretStr(""), description="`redis://`, `rediss://` or `unix://`: the limit of several processes is kept there."
    )
    REDIS_TIMEOUT_S: float = Field(0.25, gt=0, le=2, description="How long a question waits for Redis, once.")
    CLIENT_KEY: SecretStr = Field(SecretStr(""), description="Key with which `gatehouse ask` asks a running server.")

    # Retrieval
    EMBEDDING_MODEL: str = Field(
        "gatehouse-minilm",
        description="Embedder: our own `gatehouse-minilm`, its base `all-MiniLM-L6-v2`, a hub name or a folder.",
    )
    RERANKER_MODEL: str = Field(
        "gatehouse-minilm", description="Cross-encoder: our own, a hub name, a folder, or `keep-order`."
    )
    RERANK_CONCURRENCY: int = Field(1, ge=1, le=4, description="Reranks that run at the same time.")
    TORCH_THREADS: int = Field(2, ge=1, le=64, description="Threads of torch; more than free cores is slower.")
    RETRIEVE_K: int = Field(40, ge=1, le=200, description="Candidates taken from the store.")
    TOP_N: int = Field(6, ge=1, le=20, description="Passages kept after the rerank.")

    # The web
    WEB_SEARCH_ENABLED: bool = Field(
        True, description="`false` forbids the web to every request; `true` searches it where a request asks."
    )
    WEB_BUDGET_S: float = Field(10, ge=1, le=60, description="Time limit of a web search and its fetches together.")
    WEB_STRIPS: int = Field(4, ge=1, le=12, description="Extracts of web pages that are graded beside the passages.")
    WEB_MASK_FILE: str = Field(
        "",
        description="File of names and patterns (a text, or `re:` and a pattern, a line) masked in queries and traces.",
    )

    # Gates
    GRADE_MODE: Literal["each", "batch"] = Field("each", description="One model call per passage, or one for all.")
    GRADE_CONCURRENCY: int = Field(6, ge=1, le=32, description="Grading calls of one run at the same time.")
    MAX_REWRITES: int = Field(1, ge=0, le=5, description="Rewrites of the query in one run.")
    MAX_REGEN: int = Field(1, ge=0, le=5, description="Further drafts after one that is not grounded.")
    ON_UNGROUNDED: OnUngrounded = Field(
        "warn", description="When the caps are exhausted: show the draft with a warning, or refuse."
    )
    HANDOFF_TEXT: str = Field(DEFAULT_HANDOFF, max_length=500, description="Whom to ask, said in every refusal.")
    RUN_DEADLINE_S: float = Field(180, gt=0, le=3600, description="Time limit of one run.")

    # Models
    MODEL_PROVIDER: Literal["auto", "claude", "quote"] = Field(
        "auto", description="`auto` takes Claude where a key or a base URL is set, else Quote."
    )
    MODEL_FALLBACK: Literal["none", "quote"] = Field(
        "none", description="`quote` answers with quotes when the model API is down before the first token."
    )
    ANSWER_MODEL: str = Field("claude-sonnet-5-5", description="Model that writes the answer.")
    GATE_MODEL: str = Field(
        "claude-haiku-5-5", description="Small, fast model that condenses, rewrites, grades and judges."
    )
    ANTHROPIC_API_KEY: SecretStr = Field(SecretStr(""), description="Key of the Messages API.")
    ANTHROPIC_BASE_URL: str = Field(
        "", pattern=HTTP_ADDRESS_OR_NONE, description="Any server that speaks the Messages API."
    )
    ANSWER_MAX_TOKENS: int = Field(16_000, ge=64, le=64000, description="Longest answer, a model's thinking included.")
    MODEL_SILENCE_S: float = Field(30, gt=0, le=600, description="Longest gap between two bytes of the model API.")
    MODEL_TIMEOUT_S: float = Field(150, gt=0, le=3600, description="Time limit of one call to the model API.")

    # Traces
    LANGFUSE_HOST: BaseAddress = Field(
        "",
        pattern=HTTP_ADDRESS_OR_NONE,
        validation_alias=AliasChoices("LANGFUSE_HOST", "LANGFUSE_BASE_URL"),
        description="Langfuse server that gets a trace of each run; `LANGFUSE_BASE_URL` is the same.",
    )
    LANGFUSE_PUBLIC_KEY: str = Field("", pattern=PRINTABLE, description="Public key of the Langfuse project.")
    LANGFUSE_SECRET_KEY: SecretStr = Field(SecretStr(""), description="Secret key of the Langfuse project.")
    TRACE_CONTENT: bool = Field(
        True, description="`false` leaves every question, answer and source text out of the traces."
    )
    TRACE_SAMPLE_RATE: float = Field(1.0, ge=0, le=1, description="Share of the runs that are traced.")

    # Scores
    JUDGE_MODEL: str = Field(
        "", description="Model that scores answers afterwards; another than ANSWER_MODEL and GATE_MODEL. Empty: none."
    )
    JUDGE_BASE_URL: str = Field(
        "", pattern=HTTP_ADDRESS_OR_NONE, description="Messages API of the judge; empty means ANTHROPIC_BASE_URL."
    )
    JUDGE_API_KEY: SecretStr = Field(
        SecretStr(""), description="Key of JUDGE_BASE_URL. Without that address, empty means ANTHROPIC_API_KEY."
    )
    JUDGE_MASKED: bool = Field(
        True, description="Take out account numbers, e-mail addresses and listed names before the judge reads a text."
    )
    SCORE_SAMPLE_RATE: float = Field(0.0, ge=0, le=1, description="Share of the answers that the judge scores.")
    SCORE_QUEUE: int = Field(32, ge=1, le=1000, description="Answers that wait for the judge; one more is dropped.")
    SCORE_TIMEOUT_S: float = Field(120, gt=0, le=3600, description="Time limit of scoring one answer.")

    # The wire
    PING_S: float = Field(15, gt=0, le=15, description="Longest silence of a stream before a ping.")
    MAX_BODY_BYTES: int = Field(65_536, ge=1024, le=1_048_576, description="Largest request body.")
    MAX_RUNS: int = Field(64, ge=1, le=10_000, description="Runs at the same time; one more is told to wait.")

    # What is seen from outside
    LOG_FORMAT: Literal["auto", "text", "json"] = Field(
        "auto", description="`auto` logs text to a terminal, and one JSON object a line to anything else."
    )
    METRICS_NETWORKS: Networks = Field(
        "",
        description="Addresses or networks that read /metrics, comma-separated; this machine may in any case.",
    )
    METRICS_PORT: int = Field(
        0, ge=0, le=65_000, description="Port of /metrics alone, one more for each worker; 0: it is on PORT."
    )

    @model_validator(mode="after")
    def claude_can_be_asked(self) -> "Settings":
        if self.MODEL_PROVIDER == "claude" and self.provider_by_key() == "quote":
            raise ValueError("MODEL_PROVIDER=claude needs ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL")
        return self

    @model_validator(mode="after")
    def judge_is_another(self) -> "Settings":
        if self.SCORE_SAMPLE_RATE and not self.JUDGE_MODEL:
            raise ValueError(
                f"SCORE_SAMPLE_RATE={self.SCORE_SAMPLE_RATE:g} needs JUDGE_MODEL: name the model that scores, or set "
                "SCORE_SAMPLE_RATE=0"
            )
        for name, model in (("ANSWER_MODEL", self.ANSWER_MODEL), ("GATE_MODEL", self.GATE_MODEL)):
            if self.JUDGE_MODEL and undated(self.JUDGE_MODEL) == undated(model):
                raise ValueError(
                    f"JUDGE_MODEL={self.JUDGE_MODEL} is also {name}: a model that scores its own work is no check of "
                    "it. Name another model, or leave JUDGE_MODEL empty"
                )
        return self

    @model_validator(mode="after")
    def judge_can_be_asked(self) -> "Settings":
        if self.SCORE_SAMPLE_RATE and not (self.JUDGE_BASE_URL or self.provider_by_key() == "claude"):
            raise ValueError("JUDGE_MODEL needs JUDGE_BASE_URL, ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL")
        return self

    @model_validator(mode="after")
    def metrics_have_a_port_of_their_own(self) -> "Settings":
        if self.METRICS_PORT and self.PORT in range(self.METRICS_PORT, self.METRICS_PORT + self.WORKERS):
            raise ValueError(
                f"METRICS_PORT={self.METRICS_PORT} takes PORT={self.PORT}: choose another, one more for each worker"
            )
        return self

    @model_validator(mode="after")
    def langfuse_keys_are_two(self) -> "Settings":
        if bool(self.LANGFUSE_PUBLIC_KEY) != bool(self.LANGFUSE_SECRET_KEY.get_secret_value()):
            raise ValueError("LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY belong together: set both, or neither")
        return self

    @model_validator(mode="after")
    def workers_can_share(self) -> "Settings":
        if self.WORKERS == 1:
            return self
        if not self.MILVUS_URI:
            raise ValueError(
                f"WORKERS={self.WORKERS} needs MILVUS_URI: the embedded Milvus Lite store has one owner. Start a "
                "Milvus server, for example with docker-compose.yml, and name its address, or set WORKERS=1"
            )
        if not self.DATABASE_URL.get_secret_value():
            raise ValueError(
                f"WORKERS={self.WORKERS} needs DATABASE_URL: threads in files of DATA_DIR are locked within one "
                "process only. Name a PostgreSQL database, or set WORKERS=1"
            )
        return self

    def skills_may_be_missing(self) -> bool:
        """The default folder need not be there; one that was named must be."""
        return "SKILLS_DIR" not in self.model_fields_set

    def audit_folder(self) -> Path:
        return self.DATA_DIR / "audit"

    def milvus_uri(self) -> str:
        return self.MILVUS_URI or str(self.DATA_DIR / "milvus.db")

    def judge_key(self) -> str:
        """The key for the judge's server. Ours for the models goes to no address but theirs."""
        if self.JUDGE_BASE_URL or self.JUDGE_API_KEY.get_secret_value():
            return self.JUDGE_API_KEY.get_secret_value()
        return self.ANTHROPIC_API_KEY.get_secret_value()

    def provider(self) -> Literal["claude", "quote"]:
        if self.MODEL_PROVIDER != "auto":
            return self.MODEL_PROVIDER
        return self.provider_by_key()

    def provider_by_key(self) -> Literal["claude", "quote"]:
        return "claude" if self.ANTHROPIC_API_KEY.get_secret_value() or self.ANTHROPIC_BASE_URL else "quote"


def undated(model: str) -> str:
    """A model's name without the date of its snapshot: `x-20261001`, `x-latest` and `X` are one model."""
    return re.sub(r"-(?:\d{8}|latest)\Z", "", model.strip().casefold())


def load_settings() -> Settings:
    """Read the environment and `.env`. Raises `OperatorError` that names each bad key and what is wrong with it."""
    try:
        return Settings()
    except ValidationError as error:
        lines = [f"{name_of(item['loc'])}: {said_of(item)}" for item in error.errors()]
        raise OperatorError("These settings are not usable:\n  " + "\n  ".join(lines)) from None
    except UnicodeDecodeError:
        raise OperatorError("The file .env is not UTF-8 text. Save it as UTF-8, or remove it.") from None


def name_of(loc: tuple[int | str, ...]) -> str:
    """The key as the operator writes it; a rule over several keys has none."""
    return str(loc[0]).upper() if loc else "settings"
