"""Models that are damaged in their structure are refused, or at most end the process quickly.

``make damaged`` loads every variant, the tests a sample.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from damaged_models import read_model, variants

from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.errors import ModelLoadError

pytestmark = pytest.mark.real

STEP = int(os.environ.get("SPECLSP_DAMAGED_STEP", "40"))
SUPPORT = Path(__file__).parents[2] / "support"
MOST_MIB = 1024
ENDS_THE_PROCESS = {
    "qwen2.attention.key_length = 1",
    "qwen2.attention.key_length = 65",
    "qwen2.attention.key_length = 513",
    "qwen2.rope.dimension_count = 0",
    "qwen2.rope.dimension_count = 1",
    "output_norm.weight of type 1",
    "output_norm.weight of type 30",
}
"""Shapes that other architectures, and types that other devices may have: ggml asserts where this
one's graph is built."""
FAILED_IN_LLAMA_CPP = {
    "qwen2.block_count = 0": "block_count is 0",
    "qwen2.block_count = 513": "block_count is 513",
    "qwen2.block_count = 4294967295": "block_count is 4,294,967,295",
    "qwen2.context_length = 2147483648": "context_length is 2,147,483,648",
    "qwen2.attention.layer_norm_rms_epsilon = -1.0": "epsilon is -1.0",
    "qwen2.attention.layer_norm_rms_epsilon = nan": "epsilon is nan",
    "tokenizer.ggml.tokens all the same": "two tokens have the same text",
    "qwen2.expert_count = 1": "it uses 0 experts of 1",
    "qwen2.expert_used_count = 65": "it uses 65 experts of 0",
    "qwen2.attention.key_length = 0": "key_length is 0",
    "qwen2.attention.key_length = 1048576": "key_length is 1,048,576",
    "qwen2.rope.dimension_count = 65": "rope.dimension_count is 65",
    "qwen2.nextn_predict_layers = 65": "65 of its 3 blocks predict",
    "alignment 1": "alignment is 1",
    "a key of 70,000 bytes": "claims 70,000 bytes",
    "output_norm.weight of type 8": "is quantised (type 8)",
}
"""What ended the process, or loaded for ever or with gigabytes, and what is said of it now."""


@pytest.fixture(scope="module")
def model(model_folder):
    return model_folder / "embedded-draft-q8_0.gguf"


def test_what_llama_cpp_cannot_bear_is_refused_before(model, tmp_path):
    read_gguf_header(model)
    path = tmp_path / "damaged.gguf"
    said = {}
    for name, content_of in variants(read_model(model)):
        if name in FAILED_IN_LLAMA_CPP:
            path.write_bytes(content_of())
            with pytest.raises(ModelLoadError, match="damaged or incomplete") as caught:
                read_gguf_header(path)
            said[name] = caught.value.message
    assert said.keys() == FAILED_IN_LLAMA_CPP.keys()
    for name, message in said.items():
        assert FAILED_IN_LLAMA_CPP[name] in message


@pytest.mark.timeout(3600)
def test_no_damaged_model_hangs_or_takes_the_memory(model, tmp_path):
    loader = SUPPORT / "load_damaged_models.py"
    command = [sys.executable, str(loader), str(model), str(tmp_path), str(STEP), str(STEP // 2)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    counts = Counter(what for _, what, _, _ in lines)
    print(len(lines), "variants:", dict(counts))  # noqa: T201 - figures
    assert {name for name, what, _, _ in lines if what == "ended"} <= ENDS_THE_PROCESS
    unexpected = [line for line in lines if line[1] not in {"refused", "answered", "ended"}]
    assert unexpected == []
    assert [line for line in lines if line[3] > MOST_MIB] == []
    assert counts["refused"]
