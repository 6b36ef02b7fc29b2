"""The topic list that a router is given. A published list is written once, and the store grows on."""

from evals.designs.port import Topic

CURRENT = (
    Topic("com", "complaints of clients"),
    Topic("cdd", "customer due diligence, money laundering"),
    Topic("cm", "client money and custody assets"),
    Topic("mar", "market abuse, insider lists, managers' dealings"),
    Topic("pru", "own funds and prudential returns"),
    Topic("rec", "records and retention"),
    Topic("san", "sanctions, freezing and licences"),
    Topic("sui", "suitability, classes of client"),
    Topic("glossary", "defined terms of the rulebook"),
    Topic("notes", "notes of the practice"),
    Topic("dat", "personal data and breaches"),
    Topic("out", "outsourcing and cloud services"),
)

ADDED_LATER = frozenset({"dat", "out", "notes"})
"""What the store took in after the router's prompt was written."""

STALE = tuple(topic for topic in CURRENT if topic.folder not in ADDED_LATER)


def folder_of(address: str) -> str:
    """The topic's folder of an address of the sample: a page's first part, or `notes` for a note."""
    if address.endswith(".md"):
        return "notes"
    return address.split("/")[0].removesuffix(".html")
