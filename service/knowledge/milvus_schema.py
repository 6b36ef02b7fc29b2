"""The collection: its fields and indexes, and the record of the embedding model that it was built with."""

import json
import re
from dataclasses import dataclass
from typing import Any

from pymilvus import DataType, Function, FunctionType, MilvusClient

from service.errors import EmbeddingMismatch
from service.knowledge.milvus_rows import MAX_BYTES, TEXT_FIELDS

LAYOUT = 1
"""Raised when the fields change: a collection of another layout is refused, not misread."""

RECORD_KEY = "gatehouse.record"
HNSW = {"M": 16, "efConstruction": 200}
# The client's own 10 s is more often than a gRPC server allows: it answers "too many pings" and cuts the connection.
GRPC_OPTIONS = {"grpc.keepalive_time_ms": 360_000, "grpc.keepalive_permit_without_calls": False}
LOAD_TIMEOUT_S = 120.0
"""Creating and loading a large collection takes longer than any search may."""


START_ANEW = (
    "To begin a new store, set MILVUS_COLLECTION to another name (for example passages_2), which keeps the threads and "
    "the audit log, or DATA_DIR to an empty folder; then run `gatehouse ingest` again for each source."
)


@dataclass(frozen=True, slots=True)
class Capability:
    """What the store behind the address can do. Servers before 2.5 have no BM25 function.

    `needs_flush` is Milvus Lite's: it searches by index only what it was told to flush.
    """

    version: str
    bm25: bool
    needs_flush: bool = False


def prepare_collection(
    address: str, token: str, collection: str, *, dim: int, embedding: str, timeout_s: float
) -> Capability:
    """Make the collection or check that it is ours, and load it. Blocks; raises `EmbeddingMismatch`.

    With the blocking client: the async one fails to create an index on Milvus Lite, which has no timestamps to give.
    """
    client = MilvusClient(address, token=token, timeout=timeout_s, dedicated=True, grpc_options=GRPC_OPTIONS)
    try:
        version = str(client.get_server_version(timeout=timeout_s))
        record = {"layout": LAYOUT, "embedding": embedding}
        if not client.has_collection(collection, timeout=timeout_s):
            _create(client, collection, dim, json.dumps(record), bm25=has_bm25(version))
        described = client.describe_collection(collection, timeout=timeout_s)
        _check_record(described, collection, record)
        bm25 = any(field["name"] == "sparse" for field in described["fields"])
        can = Capability(version, bm25=bm25, needs_flush=version.startswith("milvus_lite"))
        _create_missing_indexes(client, collection, bm25=bm25)
        client.load_collection(collection, timeout=LOAD_TIMEOUT_S)
        if can.needs_flush:
            client.flush(collection, timeout=LOAD_TIMEOUT_S)  # what a process that was killed had not flushed
        return can
    finally:
        client.close()


def has_bm25(version: str) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= (2, 5)


def _create(client: MilvusClient, collection: str, dim: int, record: str, *, bm25: bool) -> None:
    schema = MilvusClient.create_schema(enable_dynamic_field=False, description=record)
    for name, max_bytes in TEXT_FIELDS.items():
        schema.add_field(name, DataType.VARCHAR, max_length=max_bytes, is_primary=name == "passage_id")
    schema.add_field("page", DataType.INT64)
    schema.add_field("parts", DataType.INT64)
    schema.add_field("details", DataType.JSON)
    schema.add_field("dense", DataType.FLOAT_VECTOR, dim=dim)
    if bm25:
        analyzer = {"tokenizer": "standard"}
        schema.add_field(
            "terms", DataType.VARCHAR, max_length=MAX_BYTES, enable_analyzer=True, analyzer_params=analyzer
        )
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("bm25", FunctionType.BM25, ["terms"], ["sparse"]))
    # The record stands in two places: Milvus Lite keeps no description, an old server no properties.
    client.create_collection(collection, schema=schema, consistency_level="Strong", properties={RECORD_KEY: record})


def _create_missing_indexes(client: MilvusClient, collection: str, *, bm25: bool) -> None:
    """A process that died between making the collection and its indexes left one that cannot be loaded."""
    indexes = MilvusClient.prepare_index_params()
    present = set(client.list_indexes(collection))
    if "dense" not in present:
        indexes.add_index("dense", index_name="dense", index_type="HNSW", metric_type="COSINE", params=HNSW)
    if bm25 and "sparse" not in present:
        indexes.add_index("sparse", index_name="sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    if len(indexes):
        # Not waited for: loading does, and to wait the client asks for a timestamp that Milvus Lite does not know.
        client.create_index(collection, indexes, timeout=LOAD_TIMEOUT_S, sync=False)


def _check_record(described: dict[str, Any], collection: str, expected: dict[str, Any]) -> None:
    """Raise `EmbeddingMismatch` for a collection of other vectors: together they give nonsense, not an error."""
    text = described.get("properties", {}).get(RECORD_KEY) or described.get("description") or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    if found == expected:
        return
    if not isinstance(found, dict) or found.get("layout") != expected["layout"]:
        raise EmbeddingMismatch(
            f"The store's collection {collection!r} was not made by this version of Gatehouse. {START_ANEW}"
        )
    raise EmbeddingMismatch(
        f"The store's collection {collection!r} was built with the embedding model {found.get('embedding')}, and "
        f"EMBEDDING_MODEL is now {expected['embedding']}: the vectors of the two cannot be compared. Set "
        f"EMBEDDING_MODEL back to go on with what is there. {START_ANEW}"
    )


def dense_params(limit: int) -> dict[str, Any]:
    """How HNSW is walked for `limit` passages: its beam (`ef`) is never narrower than what is asked for."""
    return {"metric_type": "COSINE", "params": {"ef": max(2 * limit, 64)}}
