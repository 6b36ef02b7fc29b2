import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import typer
from torch import nn
from typer.testing import CliRunner

from evals import train_reranker
from evals.obliqa import Rule
from evals.train_embedder import Pair
from evals.train_embedder import made_of as embedder_made_of
from evals.train_groups import Example, Group
from evals.train_invented import any_rule, near_misses, rule_text, sample
from evals.train_lessons import load_lessons
from evals.train_loop import descend
from evals.train_low_rank import Checkpoint, adapt, falling, save_adapter, save_average
from evals.train_reranker import made_of as reranker_made_of
from service.errors import ModelFilesError
from service.low_rank import merge_adapter, read_adapter


class Layers(nn.Module):
    """Two encoder layers of one linear each, and a head: the names of a BERT."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.ModuleDict({"dense": nn.Linear(4, 4)}) for _ in range(2)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.classifier = nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for name in ("encoder.layer.0.dense", "encoder.layer.1.dense"):
            inputs = self.get_submodule(name)(inputs)
        out: torch.Tensor = self.classifier(inputs)
        return out


def trained(model: Layers) -> Layers:
    parameters = adapt(model, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(torch.randn_like(parameter) / 4)
    return model


def test_a_merged_adapter_gives_what_the_trained_model_gave(tmp_path: Path) -> None:
    model = trained(Layers())
    save_adapter(model, 2.0, tmp_path / "a.safetensors")
    plain = Layers()
    merge_adapter(plain, *read_adapter(tmp_path / "a.safetensors"))
    inputs = torch.randn(3, 1, 4)
    # Half precision on disk costs the third digit at most.
    assert torch.allclose(plain(inputs), model(inputs), atol=5e-3)


def test_layers_below_the_first_one_are_not_trained() -> None:
    names = [name for name, p in trained(Layers()).named_parameters() if p.requires_grad]
    assert names
    assert not [name for name in names if "layer.0" in name]


def test_an_untrained_adapter_changes_nothing() -> None:
    model, inputs = Layers(), torch.randn(3, 1, 4)
    before = model(inputs)
    adapt(model, rank=2, scale=2.0)
    assert torch.allclose(model(inputs), before)


def test_an_altered_adapter_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_adapter(trained(Layers()), 2.0, path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFilesError, match="SHA-256"):
        read_adapter(path)


def test_an_adapter_without_its_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_adapter(trained(Layers()), 2.0, path)
    path.with_suffix(".sha256").unlink()
    with pytest.raises(ModelFilesError):
        read_adapter(path)


def test_an_adapter_of_another_model_is_refused() -> None:
    with pytest.raises(ModelFilesError, match="elsewhere"):
        merge_adapter(Layers(), {"elsewhere.weight": torch.zeros(1)}, 1.0)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"classifier.weight": torch.zeros(3, 4)}, "another shape"),
        ({"classifier.bias": torch.zeros(())}, "another shape"),
        ({"classifier.lora_down": torch.zeros(2, 3), "classifier.lora_up": torch.zeros(1, 2)}, "another shape"),
        ({"classifier.lora_down": torch.zeros(2, 4)}, "other half"),
        ({"classifier.lora_up": torch.zeros(1, 2)}, "other half"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(tensors: dict[str, torch.Tensor], said: str) -> None:
    with pytest.raises(ModelFilesError, match=said):
        merge_adapter(Layers(), tensors, 1.0)


def checkpoint_of(folder: Path, model: Layers, made_of: str = "this") -> Checkpoint:
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    return Checkpoint(folder / "c.pt", model, optimizer, made_of)


def test_a_stopped_training_goes_on_with_the_same_weights_and_step(tmp_path: Path) -> None:
    model = trained(Layers())
    checkpoint_of(tmp_path, model).save(40)
    fresh = Layers()
    adapt(fresh, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
    assert checkpoint_of(tmp_path, fresh).load() == 40
    inputs = torch.randn(3, 1, 4)
    assert torch.equal(fresh(inputs), model(inputs))


def test_the_checkpoint_of_another_training_is_left_alone_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint_of(tmp_path, trained(Layers())).save(40)
    fresh = Layers()
    adapt(fresh, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
    inputs = torch.randn(3, 1, 4)
    before = fresh(inputs)
    assert checkpoint_of(tmp_path, fresh, "another").load() == 0
    assert torch.equal(fresh(inputs), before)
    assert "belongs to another training" in capsys.readouterr().out


def steps_taken(folder: Path, made_of: str) -> list[int]:
    taken: list[int] = []

    def loss_at(step: int) -> torch.Tensor:
        taken.append(step)
        out: torch.Tensor = model(torch.ones(1, 1, 4)).sum()
        return out

    model = Layers()
    adapt(model, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
    descend(model, folder / "c.pt", made_of=made_of, steps=3, loss_at=loss_at, rate_at=lambda _: 0.1)
    return taken


def test_the_mean_of_two_adapters_merges_to_the_mean_of_both_models(tmp_path: Path) -> None:
    paths, merged = [], []
    for number in range(2):
        model = Layers()
        torch.manual_seed(number)
        parameters = adapt(model, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
        with torch.no_grad():
            for parameter in parameters:
                parameter.add_(torch.randn_like(parameter) / 4)
        paths.append(tmp_path / f"{number}.safetensors")
        save_adapter(model, 2.0, paths[-1])
        plain = Layers()
        merge_adapter(plain, *read_adapter(paths[-1]))
        merged.append(dict(plain.named_parameters()))
    save_average(paths, tmp_path / "mean.safetensors")
    average = Layers()
    merge_adapter(average, *read_adapter(tmp_path / "mean.safetensors"))
    assert not torch.equal(merged[0]["classifier.weight"], merged[1]["classifier.weight"])
    for name, parameter in average.named_parameters():
        assert torch.allclose(parameter, (merged[0][name] + merged[1][name]) / 2, atol=5e-3), name


def test_a_finished_training_is_not_repeated_and_another_one_is_done_whole(tmp_path: Path) -> None:
    assert steps_taken(tmp_path, "one") == [0, 1, 2]
    assert steps_taken(tmp_path, "one") == []
    assert steps_taken(tmp_path, "two") == [0, 1, 2]


def test_a_training_is_told_apart_by_its_seed_its_steps_its_embedder_and_its_data(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    rules = [Rule((1, "1"), "", "A master must pay.")]
    examples = [Example("Who pays?", (0,), ())]
    lessons = load_lessons()[:1]
    group = Group((("Who pays?", "A master."),))
    digests = [
        reranker_made_of(1, 5, one, rules, examples, [group], lessons),
        reranker_made_of(2, 5, one, rules, examples, [group], lessons),
        reranker_made_of(1, 6, one, rules, examples, [group], lessons),
        reranker_made_of(1, 5, two, rules, examples, [group], lessons),
        reranker_made_of(1, 5, one, [], examples, [group], lessons),
        reranker_made_of(1, 5, one, rules, [], [group], lessons),
        reranker_made_of(1, 5, one, rules, examples, [], lessons),
        reranker_made_of(1, 5, one, rules, examples, [group], []),
    ]
    assert len(set(digests)) == len(digests)
    pair = Pair("Who pays?", 0, (1,), frozenset({0}))
    batches = [embedder_made_of([[pair]], ["a"]), embedder_made_of([[pair], [pair]], ["a"])]
    assert len({*batches, embedder_made_of([[pair]], ["b"])}) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "0"], "--steps"),
        (["--steps", "5"], "--out"),
        (["--seed", "11"], "--out"),
        ([], "DIR must hold"),
        (["--threads", "0"], "--threads"),
    ],
)
def test_a_training_that_cannot_be_meant_is_a_usage_error(tmp_path: Path, arguments: list[str], said: str) -> None:
    command = typer.Typer()
    command.command()(train_reranker.main)
    result = CliRunner().invoke(command, [str(tmp_path / "none"), "--cache", str(tmp_path / "cache"), *arguments])
    assert (result.exit_code, said in " ".join(result.output.replace("│", " ").split())) == (2, True)


def test_the_learning_rate_rises_then_falls_to_zero() -> None:
    rates = [falling(1.0, step, 100, 10) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0)
    assert rates[100] == 0


def test_a_near_miss_differs_from_its_rule() -> None:
    chance = random.Random(5)
    for _ in range(50):
        rule = any_rule(chance)
        assert all(other != rule for other in near_misses(rule, chance))


def test_an_invented_rule_now_and_then_stands_under_a_single_heading() -> None:
    """As on a page of one heading: with long paths only, an exact match on such a page was scored as a near miss."""
    chance = random.Random(3)
    paths = [rule_text(any_rule(chance), chance).partition("\n")[0].split(" > ") for _ in range(200)]
    lengths = Counter(len(path) for path in paths)
    assert set(lengths) == {2, 3}
    assert 0.2 < lengths[2] / 200 < 0.4
    assert all(heading and not heading.isupper() for heading, *_ in paths)


def test_an_invented_sample_is_the_same_for_the_same_seed() -> None:
    assert sample(random.Random(9)) == sample(random.Random(9))


DRAWS = """
from evals.obliqa import Rule
from evals.train_groups import Example, Groups
from evals.train_lessons import LessonPairs, load_lessons

texts = [f"The Alpha Fund and the {word} Fund must tell the {word} Board and the Sole Agent." for word in
         ("Beta", "Gamma", "Delta", "Epsilon", "Zeta", "Eta", "Theta", "Iota")]
rules = [Rule((1, str(number)), "", text) for number, text in enumerate(texts)]
examples = [Example(f"What must the {text.split()[5]} Fund do?", (number,), ()) for number, text in enumerate(texts)]
print([Groups(rules, examples, [], LessonPairs(load_lessons()[:3]), 11).of(step) for step in (0, 60, 200, 501, 502)])
"""


def test_the_groups_of_a_step_are_the_same_in_every_process() -> None:
    def drawn(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", DRAWS], env=environment, capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert drawn("1") == drawn("2") == drawn("3")
