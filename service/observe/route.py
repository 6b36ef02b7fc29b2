"""The way a run took through the graph, as one of a few names: their distribution is the best sign of its health."""

from itertools import product

from service.model import Status
from service.record import RunRecord

SHUTDOWN = "shutdown"

LOOPS = {"rewrite_query": "rewritten", "prepare_regen": "regenerated"}
ANSWERED: tuple[Status, ...] = ("answered", "partial")
STOPPED = ("cancelled", "deadline", SHUTDOWN, "error")


def status_of(record: RunRecord) -> str:
    """The run's outcome. A run that a restart ended is `shutdown`: no fault that anyone should be woken for."""
    ending = record["ending"]
    return SHUTDOWN if ending["stopped_by"] == "shutdown" else ending["outcome"]


def path_of(record: RunRecord) -> str:
    """`direct`, or what happened on the way, joined by `+`; a run without an answer is `unfinished`.

    `web` comes first where the web was searched, then `rewritten`, `regenerated` and `gave_up`.
    """
    web = ["web"] if any(each["web"] is not None for each in record["passes"]) else []
    if status_of(record) in STOPPED:
        return "+".join([*web, "unfinished"])
    went = {fork["to"] for fork in record["forks"]}
    way = [name for node, name in LOOPS.items() if node in went]
    way += ["gave_up"] if "give_up" in went else []
    return "+".join([*web, *(way or ["direct"])])


def paths_by_status() -> list[tuple[str, str]]:
    """Every pair of status and path that a run can have."""
    ways = ["+".join(filter(None, way)) for way in product(("", "rewritten"), ("", "regenerated"))]
    pairs: list[tuple[str, str]] = [(status, way or "direct") for status in ANSWERED for way in ways]
    pairs += [("refused", f"{way}+gave_up".lstrip("+")) for way in ways]
    pairs += [(status, "unfinished") for status in STOPPED]
    return [(status, f"{web}{path}") for status, path in pairs for web in ("", "web+")]
