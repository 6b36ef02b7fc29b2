import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from evals.train_invented import any_rule, near_misses, sample
from evals.train_low_rank import Checkpoint, adapt, falling, save_adapter
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
        ({"classifier.lora_down": torch.zeros(2, 4)}, "other half"),
        ({"classifier.lora_up": torch.zeros(1, 2)}, "other half"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(tensors: dict[str, torch.Tensor], said: str) -> None:
    with pytest.raises(ModelFilesError, match=said):
        merge_adapter(Layers(), tensors, 1.0)


def test_a_stopped_training_goes_on_with_the_same_weights_and_step(tmp_path: Path) -> None:
    model = trained(Layers())
    Checkpoint(tmp_path / "c.pt", model, torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)).save(40)
    fresh = Layers()
    parameters = adapt(fresh, rank=2, scale=2.0, first_layer=1, whole=("classifier",))
    assert Checkpoint(tmp_path / "c.pt", fresh, torch.optim.AdamW(parameters)).load() == 40
    inputs = torch.randn(3, 1, 4)
    assert torch.equal(fresh(inputs), model(inputs))


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
print([Groups(rules, examples, [], LessonPairs(load_lessons()[:3])).of(step) for step in (0, 60, 200, 501, 502)])
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
