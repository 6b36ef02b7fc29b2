"""The loop that both trainings run: AdamW on an adapter's parameters, a rate of its own for each step, checkpoints."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
import typer
from torch import nn

from evals.train_low_rank import Checkpoint

TOLD_EVERY = 10
SAVED_EVERY = 20

LossAt = Callable[[int], torch.Tensor]
RateAt = Callable[[int], float]


def descend(model: nn.Module, state: Path, *, made_of: str, steps: int, loss_at: LossAt, rate_at: RateAt) -> None:
    """Take `steps` steps, each on `loss_at(step)`. Goes on from the checkpoint `state` when a run was stopped.

    `made_of` is the digest of this training, by which its own checkpoint is told from another's.
    """
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate_at(0), weight_decay=0.01)
    checkpoint = Checkpoint(state, model, optimizer, made_of)
    done = checkpoint.load()
    began, losses = time.perf_counter(), []
    for step in range(done, steps):
        losses.append(descend_once(model, optimizer, loss_at(step), rate_at(step)))
        if (step + 1) % TOLD_EVERY == 0:
            spent = (time.perf_counter() - began) / (step + 1 - done)
            typer.echo(f"{step + 1}/{steps} loss {sum(losses) / len(losses):.3f} {spent:.2f} s a step")
            losses.clear()
        if (step + 1) % SAVED_EVERY == 0 or step + 1 == steps:
            checkpoint.save(step + 1)


def descend_once(model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
