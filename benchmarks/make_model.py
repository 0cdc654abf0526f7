"""``python -m benchmarks make-model``: a small model written as a large one.

It says what the small one says and takes as long as the large one.  The file is written tensor by
tensor, and of each only the rows that are not zero are computed: what a large model's zeros need is
space on the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.model_comparison import ModelComparison, compare_models, real_prompts
from benchmarks.model_padding import ModelPadding, PaddedTensor
from benchmarks.model_shapes import QWEN2_5_CODER, ModelShape, Quantisation, ShapeError
from benchmarks.progress import RunProgress
from speclsp.atomic_write import UMASKED, write_atomically
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.backends.weights import COST_OF_KEY, TEXT_OF_KEY, cost_true_remark
from speclsp.embedded import embedded_target
from speclsp.errors import ModelLoadError, SpecLspError
from speclsp.reporting.report import verify_times_line
from speclsp.settings import Settings

if TYPE_CHECKING:
    import gguf

_UNUSED: Final = 5
"""llama.cpp's type of a token that no text has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeModel:
    """What was written."""

    n_bytes: int
    n_parameters: int
    remark: str
    """What every figure measured with it has to say."""


class SmallModel:
    """A GGUF of the Qwen2 architecture, mapped into memory.

    Raises :class:`~speclsp.errors.ModelLoadError` where the file is no such model, and
    :class:`~speclsp.errors.SpecLspError` where the package ``gguf`` is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gguf = _gguf_package()
        try:
            reader = self._gguf.GGUFReader(path)
        except OSError as error:
            raise ModelLoadError(f"The model {path} cannot be read: {error}.") from error
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            # What the package says here is about NumPy's arrays.
            raise ModelLoadError(
                f"The model {path} cannot be read: it is no GGUF, or truncated or damaged "
                f"({error}).",
                remedy="Copy or convert it anew, or name another one.",
            ) from error
        self.fields = {
            name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")
        }
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.names = frozenset(self._tensors)
        if self.value("general.architecture") != "qwen2":
            raise ModelLoadError(
                f"The model {path} is no Qwen2 model but {self.value('general.architecture')}."
            )
        self.epsilon = float(self.value("qwen2.attention.layer_norm_rms_epsilon"))
        self.shape = self._shape()

    def value(self, key: str) -> Any:
        """Return a metadata value.  Raises ModelLoadError where it is missing."""
        if key not in self.fields:
            raise ModelLoadError(f"The model {self.path} does not say {key}.")
        return self.fields[key].contents()

    def read(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as numbers, rows first.  Raises ModelLoadError for an unknown type."""
        tensor = self._tensors[name]
        try:
            values = self._gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ModelLoadError(
                f"The model {self.path} holds {name} as {tensor.tensor_type.name}, which cannot "
                f"be read here.",
                remedy="Take the model in F16 or Q8_0.",
            ) from error
        return np.asarray(values, dtype=np.float32)

    def _shape(self) -> ModelShape:
        width, n_heads = self._count("embedding_length"), self._count("attention.head_count")
        return ModelShape(
            n_layers=self._count("block_count"),
            width=width,
            n_heads=n_heads,
            n_kv_heads=self._count("attention.head_count_kv"),
            head_size=width // n_heads,
            n_feed_forward=self._count("feed_forward_length"),
            n_vocab=len(self.value("tokenizer.ggml.tokens")),
            tied="output.weight" not in self.names,
        )

    def _count(self, key: str) -> int:
        count = self.value(f"qwen2.{key}")
        if not isinstance(count, int) or count <= 0:
            raise ModelLoadError(f"The model {self.path} has no single {key} but {count!r}.")
        return count


def make_model(
    small: SmallModel,
    target: Path,
    shape: ModelShape,
    *,
    cost_of: str,
    quantisation: Quantisation,
    progress: Callable[[float], None],
) -> MadeModel:
    """Write ``target``: the small model in ``shape``, in the quantisation.

    ``cost_of`` is what the model says of itself: whose times its times are.  ``progress`` takes
    the share that is written.  Raises :class:`ShapeError` where the small model does not fit the
    shape, and :class:`~speclsp.errors.SpecLspError` where the file cannot be written or is the
    small model itself.
    """
    gguf = _gguf_package()
    if target.exists() and target.samefile(small.path):
        raise SpecLspError(
            f"{target} is the small model itself, which would be lost.",
            remedy="Name another file for the model that is made.",
        )
    padding = ModelPadding(small.shape, shape, small.names, small.read)
    tensors = list(padding.tensors())
    unknown = small.names - {tensor.name for tensor in tensors}
    if unknown:
        raise ShapeError(
            f"The model {small.path} has tensors that a Qwen2.5-Coder has not: "
            f"{', '.join(sorted(unknown))}."
        )
    matrix_type = gguf.GGMLQuantizationType[quantisation.upper()]
    with _written(target) as path:
        writer = gguf.GGUFWriter(path, "qwen2")
        _add_metadata(writer, small, shape, padding, cost_of, quantisation)
        for tensor in tensors:
            kind = matrix_type if tensor.is_matrix else gguf.GGMLQuantizationType.F32
            data_shape = gguf.quant_shape_to_byte_shape(tensor.shape, kind)
            writer.add_tensor_info(
                tensor.name,
                data_shape,
                np.dtype(np.uint8),
                int(np.prod(data_shape)),
                raw_dtype=kind,
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for idx, tensor in enumerate(tensors):
            kind = matrix_type if tensor.is_matrix else gguf.GGMLQuantizationType.F32
            writer.write_tensor_data(_stored(tensor, kind))
            progress((idx + 1) / len(tensors))
        writer.close()
    return MadeModel(
        n_bytes=target.stat().st_size,
        n_parameters=sum(int(np.prod(tensor.shape)) for tensor in tensors),
        remark=cost_true_remark(read_gguf_header(target).metadata),
    )


def _stored(tensor: PaddedTensor, kind: gguf.GGMLQuantizationType) -> NDArray[np.uint8]:
    """Return the tensor's bytes, of which those that stay zero take no memory."""
    gguf = _gguf_package()
    stored = np.zeros(gguf.quant_shape_to_byte_shape(tensor.shape, kind), dtype=np.uint8)
    places, values = tensor.rows()
    if len(places):
        rows = gguf.quantize(values, kind)
        item = stored if tensor.is_matrix else stored.view(np.float32)
        item[places] = rows.view(item.dtype)
    return stored


def _add_metadata(
    writer: gguf.GGUFWriter,
    small: SmallModel,
    shape: ModelShape,
    padding: ModelPadding,
    cost_of: str,
    quantisation: Quantisation,
) -> None:
    gguf = _gguf_package()
    n_added = shape.n_vocab - small.shape.n_vocab
    first = small.shape.n_vocab
    tokens = [*small.value("tokenizer.ggml.tokens")]
    types = [*small.value("tokenizer.ggml.token_type")]
    tokens += [f"[PAD{first + idx}]" for idx in range(n_added)]
    types += [_UNUSED] * n_added
    changed = {
        "qwen2.block_count": shape.n_layers,
        "qwen2.embedding_length": shape.width,
        "qwen2.feed_forward_length": shape.n_feed_forward,
        "qwen2.attention.head_count": shape.n_heads,
        "qwen2.attention.head_count_kv": shape.n_kv_heads,
        "qwen2.attention.key_length": shape.head_size,
        "qwen2.attention.value_length": shape.head_size,
        "qwen2.rope.dimension_count": shape.head_size,
        "qwen2.vocab_size": shape.n_vocab,
        "qwen2.attention.layer_norm_rms_epsilon": padding.epsilon(small.epsilon),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
    }
    own = {
        "general.architecture",
        "general.description",
        "general.file_type",
        "general.quantization_version",
        COST_OF_KEY,
        TEXT_OF_KEY,
    }
    for name, field in small.fields.items():
        if name in own:
            continue
        kind = field.types[0]
        writer.add_key_value(
            name,
            changed[name] if name in changed else field.contents(),
            kind,
            sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None,
        )
    source = small.fields.get(TEXT_OF_KEY)
    text_of = source.contents() if source is not None else small.path.name
    writer.add_description(
        f"Computes the function of {text_of} at the cost of {cost_of}, by zero-padding."
    )
    writer.add_string(COST_OF_KEY, f"{cost_of} in {quantisation.upper()}")
    writer.add_string(TEXT_OF_KEY, text_of)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{quantisation.upper()}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


@contextmanager
def _written(target: Path) -> Iterator[Path]:
    """Yield a path beside ``target`` that becomes it where all goes well."""
    try:
        with write_atomically(target, f".{target.name}.", UMASKED) as partial:
            yield partial
    except OSError as error:
        raise SpecLspError(
            f"The model {target} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that may be written to and has enough space.",
        ) from error


def _gguf_package() -> Any:
    # The package is an extra: only those who make models need it.
    try:
        import gguf  # noqa: PLC0415
    except ImportError as error:
        raise SpecLspError(
            "Making a model needs the Python package gguf, which is not installed.",
            remedy="Install it: pip install -e '.[benchmarks]'.",
        ) from error
    return gguf


_GIB: Final = 1 << 30


def make_model_file(
    out: Path,
    *,
    like: str | None,
    n_layers: int | None,
    n_vocab: int | None,
    source: Path | None,
    quantisation: Quantisation,
    n_prompts: int,
) -> None:
    """Write a model that says what a small one says, and compare the two where that is asked."""
    small = SmallModel(source or embedded_target())
    shape = QWEN2_5_CODER[like] if like is not None else small.shape
    cost_of = like or f"{small.path.name}'s shape"
    if n_layers is not None:
        shape = replace(shape, n_layers=n_layers)
        cost_of = f"{cost_of} with {n_layers} layers"
    if n_vocab is not None:
        shape = replace(shape, n_vocab=n_vocab)
        cost_of = f"{cost_of} with {n_vocab:,} tokens"
    with RunProgress() as bars:
        task = bars.add_task(f"Writing {out}", total=1.0)
        made = make_model(
            small,
            out,
            shape,
            cost_of=cost_of,
            quantisation=quantisation,
            progress=lambda share: bars.update(task, completed=share),
        )
        click.echo(
            f"{out}: {made.n_parameters / 1e6:,.1f} M parameters, {made.n_bytes / _GIB:.2f} GiB, "
            f"{made.remark}"
        )
        if not n_prompts:
            return
        task = bars.add_task("Comparing", total=1.0)
        comparison = _compare(
            small, out, quantisation, n_prompts, lambda share: bars.update(task, completed=share)
        )
    click.echo(comparison)
    click.echo(verify_times_line(comparison.verify_times))


def _compare(
    small: SmallModel,
    large: Path,
    quantisation: Quantisation,
    n_prompts: int,
    progress: Callable[[float], None],
) -> ModelComparison:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as folder:
        path = Path(folder) / small.path.name
        make_model(
            small,
            path,
            small.shape,
            cost_of=small.path.name,
            quantisation=quantisation,
            progress=lambda _share: None,
        )
        settings = Settings(model=str(path))
        return compare_models(path, large, settings, real_prompts(settings, n_prompts), progress)
