"""The store as the designs read it."""

from evals.designs.shelf import Shelf
from tests.evals.designs.benches import CANDIDATES, alike
from tests.fakes import FixedKnowledge, FixedReranker, passage


async def test_a_design_that_reranks_does_so_over_as_many_candidates_as_the_product() -> None:
    knowledge = FixedKnowledge([passage(n) for n in range(1, CANDIDATES + 3)])
    last = FixedReranker(lambda _, text: 0.9 if f"Rule {CANDIDATES} " in text else 0.1)
    found = await Shelf(knowledge, last, alike, CANDIDATES).by_rerank("How long?", CANDIDATES)
    assert len(found) == CANDIDATES
    assert [c.passage.title for c in found if c.score == 0.9] == [f"Rulebook {CANDIDATES}"]
