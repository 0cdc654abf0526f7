from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, serve_hub

from speclsp.models import cache


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve a hub on loopback; its cache is in ``tmp_path``, and nobody is logged in."""
    constants = cache.hub_constants()
    with serve_hub() as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served
