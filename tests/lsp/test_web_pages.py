from __future__ import annotations

import pytest

from speclsp.lsp.web_pages import is_local_origin, names_this_host


@pytest.mark.parametrize(
    ("origin", "is_local"),
    [
        ("http://localhost", True),
        ("https://localhost:8080", True),
        ("http://127.0.0.1:3000", True),
        ("http://[::1]:3000", True),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://localhost:80@evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_web_page_from_elsewhere_is_refused(origin: str, is_local: bool) -> None:
    assert is_local_origin(origin) is is_local


@pytest.mark.parametrize(
    ("hosts", "is_this_host"),
    [
        (["localhost:8012"], True),
        (["127.0.0.1:8012"], True),
        (["[::1]:8012"], True),
        (["desk.example"], True),
        (["evil.example"], False),
        (["evil.example:80"], False),
        (["127.0.0.1.evil.example"], False),
        ([""], False),
        ([], False),
        (["localhost", "evil.example"], False),
        (["[::1"], False),
    ],
)
def test_request_to_another_host_name_is_refused(hosts: list[str], is_this_host: bool) -> None:
    assert names_this_host(hosts, "Desk.example") is is_this_host
