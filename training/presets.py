"""Settings of training, for a CPU and for a GPU, and how the learning rate goes.

The rate's decay may begin at any time ("warmup-stable-decay", Hu et al., arXiv 2404.06395), so that
a run can end when a deadline wants it, and a later one can go on from before the decay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from training.samples import Mix


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model's sizes."""

    n_vocab: int
    n_layers: int
    width: int
    n_heads: int
    n_kv_heads: int
    n_ffn: int
    rms_eps: float = 1e-6
    """What RMSNorm adds to the mean square."""

    @property
    def head_size(self) -> int:
        """Dimensions of one attention head."""
        return self.width // self.n_heads

    def n_parameters(self) -> int:
        """Parameters, the shared embedding counted once."""
        kv = self.n_kv_heads * self.head_size
        attention = 2 * self.width * self.width + 2 * self.width * kv + self.width + 2 * kv
        layer = attention + 3 * self.width * self.n_ffn + 2 * self.width
        return self.n_vocab * self.width + self.n_layers * layer + self.width


_LONGEST_STEP_S = 60.0
"""A step that took longer was stopped in between; that time does not count."""

_FLOOR = 0.02


@dataclass(slots=True)
class Budget:
    """How long a run lasts: seconds of computing, tokens, or both; what ends first counts."""

    seconds: float | None
    tokens: int | None
    decay_share: float
    """Part of the run, at its end, in which the learning rate falls."""
    seconds_used: float = 0.0
    tokens_used: int = 0

    def use(self, seconds: float, tokens: int) -> None:
        """Account for one step."""
        self.seconds_used += min(seconds, _LONGEST_STEP_S)
        self.tokens_used += tokens

    def progress(self) -> float:
        """Return how much of the run is over: 0 to 1."""
        shares = [0.0]
        if self.seconds is not None:
            shares.append(self.seconds_used / self.seconds)
        if self.tokens is not None:
            shares.append(self.tokens_used / self.tokens)
        return min(1.0, max(shares))


def rate_factor(budget: Budget, step: int, n_warmup_steps: int) -> float:
    """Return what the peak learning rate is multiplied by at a step of this run."""
    warm = min(1.0, (step + 1) / n_warmup_steps) if n_warmup_steps else 1.0
    left = 1.0 - budget.progress()
    falling = 1.0 if left >= budget.decay_share else left / budget.decay_share
    return warm * (_FLOOR + (1 - _FLOOR) * falling)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPreset:
    """How one model of the pair is trained."""

    shape: Shape
    learning_rate: float
    with_muon: bool
    target_layers: tuple[int, ...] = ()
    """Layers of the target that a model starts with; empty for random weights.

    A draft model is distilled from the target: it learns the target's distributions, and from
    texts that the target wrote where there are any.
    """
    context_share: float = 1.0
    """Share of the predictions in the context that count; middles always count."""
    minutes: float | None
    """How long a run lasts where the command does not say."""
    n_tokens: int | None
    """Tokens of all runs together after which it is done in any case."""
    lengths: tuple[tuple[int, float], ...] = ()
    """As the preset's, where this model's rows have others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How the pair is trained on one kind of machine."""

    device: str
    n_vocab: int
    target: ModelPreset
    draft: ModelPreset
    edit: ModelPreset
    n_workers: int
    """Processes that train together, one thread each; 1 on a GPU."""
    n_producers: int = 0
    """Processes that make samples beside the training; 0 makes them in between."""
    n_uses: int = 1
    """How often a row of theirs is trained on at most."""
    n_batch_tokens: int
    """Of one worker's batch."""
    lengths: tuple[tuple[int, float], ...]
    """Positions of a row, and how often such rows are drawn."""
    weight_decay: float = 0.05
    n_warmup_steps: int = 20
    decay_share: float = 0.25
    save_every_s: float = 300.0
    keep_every_s: float = 1500.0
    mix: Mix = field(default_factory=Mix)


CPU = Preset(
    device="cpu",
    n_vocab=4096,
    target=ModelPreset(
        shape=Shape(n_vocab=4096, n_layers=6, width=192, n_heads=3, n_kv_heads=1, n_ffn=512),
        learning_rate=3e-3,
        with_muon=True,
        minutes=None,
        n_tokens=60_000_000,
    ),
    draft=ModelPreset(
        shape=Shape(n_vocab=4096, n_layers=3, width=192, n_heads=3, n_kv_heads=1, n_ffn=512),
        learning_rate=3e-3,
        with_muon=True,
        target_layers=(0, 1, 2),
        context_share=0.25,
        minutes=100,
        n_tokens=None,
    ),
    edit=ModelPreset(
        shape=Shape(n_vocab=4096, n_layers=6, width=192, n_heads=3, n_kv_heads=1, n_ffn=512),
        learning_rate=2e-3,
        with_muon=True,
        target_layers=(0, 1, 2, 3, 4, 5),
        minutes=60,
        n_tokens=None,
        lengths=((1024, 0.5), (2048, 0.5)),
    ),
    n_workers=2,
    n_batch_tokens=4096,
    lengths=((512, 0.5), (1024, 0.35), (2048, 0.15)),
    n_warmup_steps=100,
)
"""Two cores, beside other work: eight hours or more, in as many runs as it takes.

Which part of its tokens the target saw in all runs together says where the learning rate stands.
"""

GPU = replace(
    CPU,
    device="cuda",
    target=replace(CPU.target, minutes=6, n_tokens=None),
    draft=replace(CPU.draft, minutes=1.9),
    edit=replace(CPU.edit, minutes=4),
    n_workers=1,
    n_producers=14,
    n_uses=4,
    n_batch_tokens=65_536,
    n_warmup_steps=30,
    decay_share=0.5,
)
"""One GPU with bf16 and sixteen cores: the same pair, which the CPU preset can go on with.

An H200 trained on 1.1 M tokens a second, and distilled on 1.2 M.
"""

PRESETS = {"cpu": CPU, "gpu": GPU}
