"""The cross-encoder that ships loads, is checked, and ranks."""

import json
import math
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from evals.train_low_rank import write_checksums
from service.errors import ModelFilesError
from service.knowledge.embed import packaged_model
from service.models import load_the_scorer
from service.rerank.cross_encoder import CrossEncoderReranker
from service.rerank.shipped import NAME, WEIGHTS, calibration_of, load_shipped
from service.settings import Settings


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for path in WEIGHTS.parent.glob("reranker.*"):
        shutil.copy(path, tmp_path / path.name)
    return tmp_path / WEIGHTS.name


@pytest.fixture(scope="module")
def shipped() -> CrossEncoderReranker:
    return load_shipped(packaged_model(), threads=1, max_concurrent=1)


def test_the_shipped_files_are_small_enough_to_live_in_the_repository() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.parent.iterdir()) < 10_000_000


@pytest.mark.parametrize(("slope", "offset"), [(None, 0), (math.nan, 0), (1, math.inf), (-1, 0)])
def test_a_calibration_that_is_no_number_is_refused(copied: Path, slope: float | None, offset: float) -> None:
    path = copied.with_suffix(".calibration.json")
    path.write_text(json.dumps({"slope": slope, "offset": offset}))
    write_checksums(copied, path)
    with pytest.raises(ModelFilesError, match=r"cannot be read.*Install Gatehouse again"):
        calibration_of(copied)


def test_a_calibration_that_is_not_the_shipped_one_is_refused(copied: Path) -> None:
    assert calibration_of(copied) == calibration_of(WEIGHTS)
    copied.with_suffix(".calibration.json").write_text(json.dumps({"slope": 1, "offset": 0}))
    with pytest.raises(ModelFilesError, match=r"SHA-256.*Install Gatehouse again"):
        calibration_of(copied)


def test_an_adapter_without_a_head_is_refused(copied: Path) -> None:
    tensors = {name: tensor for name, tensor in load_file(copied).items() if not name.startswith("classifier")}
    save_file(tensors, copied, metadata={"adapter": json.dumps({"scale": 2.0})})
    write_checksums(copied, copied.with_suffix(".calibration.json"))
    with pytest.raises(ModelFilesError, match=r"has no head.*Install Gatehouse again"):
        load_shipped(Path("never-read"), threads=1, max_concurrent=1, weights=copied)


@pytest.mark.slow
def test_altered_weights_are_refused(copied: Path) -> None:
    content = bytearray(copied.read_bytes())
    content[-1] ^= 1
    copied.write_bytes(content)
    with pytest.raises(ModelFilesError, match=r"SHA-256.*Install Gatehouse again"):
        load_shipped(packaged_model(), threads=1, max_concurrent=1, weights=copied)


@pytest.mark.slow
async def test_the_passage_that_answers_ranks_above_its_near_misses(shipped: CrossEncoderReranker) -> None:
    question = "Within how many days must a harbour pilot report a collision?"
    scores = await shipped.scores(
        question,
        [
            "A ship’s cook must report a collision on Form HC-2.",
            "A harbour pilot must report a collision within 3 days of it.",
            "A harbour pilot must renew his licence every five years.",
            "Cakes are sold on the quay.",
        ],
    )
    assert max(range(4), key=scores.__getitem__) == 1
    assert all(0 < score < 1 for score in scores)


@pytest.mark.slow
async def test_another_kind_of_person_scores_lower_on_the_same_passage(shipped: CrossEncoderReranker) -> None:
    passage = "A harbour pilot must report a collision within 3 days of it."
    asked = await shipped.scores("How soon must a harbour pilot report a collision?", [passage])
    twin = await shipped.scores("How soon must an insurance broker report a collision?", [passage])
    assert asked[0] > twin[0]


@pytest.mark.slow
def test_its_state_shows_the_checksum_that_stands_beside_its_file(shipped: CrossEncoderReranker) -> None:
    beside = WEIGHTS.with_suffix(".sha256").read_text().split()[0]
    detail = shipped.state().detail
    assert detail == f"{NAME} sha256:{shipped.sha256[:12]}, adapter's file sha256:{beside[:12]}"
    assert shipped.sha256 != beside


@pytest.mark.slow
def test_it_scores_for_quote_itself(shipped: CrossEncoderReranker) -> None:
    assert shipped.calibrated
    assert load_the_scorer(Settings(), shipped) is shipped
