"""No file goes into the corpus whose licence asks for more than attribution."""

import hashlib
import json
import re
from email import message_from_string
from pathlib import Path

import pytest

from training.corpus import (
    LeftOut,
    SourceFile,
    Tree,
    declared_licence,
    files_of_node_modules,
    files_of_site,
    files_of_tree,
    read_list,
    read_manifest,
)
from training.folder import Checkpoint
from training.holdout import held_out_package
from training.licences import (
    is_licence_file,
    is_vendored,
    permissive_expression,
    verdict_of_header,
    verdict_of_name,
    verdict_of_text,
)

CHECKPOINT = Checkpoint(Path(__file__).parents[2] / "training" / "checkpoint")
CODE = "".join(f"def area_{n}(width, height):\n    return width * height\n\n\n" for n in range(20))

HEADERS = {
    "LGPL": """# This library is free software; you can redistribute it and/or
# modify it under the terms of the GNU Lesser General Public
# License as published by the Free Software Foundation; either
# version 2.1 of the License, or (at your option) any later version.
""",
    "MPL": """# This Source Code Form is subject to the terms of the Mozilla Public
# License, v. 2.0. If a copy of the MPL was not distributed with this
# file, You can obtain one at https://mozilla.org/MPL/2.0/.
""",
    "AGPL": '''"""Counts things.

:license: AGPLv3, see LICENSE for more details
"""
''',
    "CC-BY-NC": """# Copyright (c) Somebody
# This work is licensed under the Creative Commons Attribution-NonCommercial
# 4.0 International License.
""",
    "unknown": "# Licensed under the Somebody Software License 1.0.\n",
    "named in code": '__author__ = "Somebody"\n__license__ = "GPL"\n',
    **{
        spdx: f"# SPDX-License-Identifier: {spdx}\n"
        for spdx in (
            "LGPL-2.1-or-later", "MPL-2.0", "AGPL-3.0-only", "CC-BY-NC-4.0", "MIT AND MPL-2.0",
            "Somebody-1.0",
        )
    },
}  # fmt: skip
TEXTS = {
    "LGPL": "GNU LESSER GENERAL PUBLIC LICENSE\n  Version 2.1, February 1999\n" + "x " * 900,
    "MPL": "Mozilla Public License Version 2.0\n==================================\n",
    "AGPL": "GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3, 19 November 2007\n",
    "CC-BY-NC": "Creative Commons Attribution-NonCommercial 4.0 International Public License\n",
    "unknown": "You may read this.\n",
}
MIT = """MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
"""
PSF = """# Copyright (c) 2004 Python Software Foundation.
# All rights reserved.
# Licensed to PSF under a Contributor Agreement.
"""
PYTHON_LICENCE = """PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2
(1) GPL-compatible doesn't mean that we're distributing Python under the GPL.
previously distributed under the GNU General Public License (GPL), the law of the
"""


def site_with(tmp_path: Path, files: dict[str, str], licence: str = "MIT") -> Path:
    """A site-packages folder with the package ``zoo``, which says that its licence is MIT."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = tmp_path / "zoo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: zoo\nVersion: 1.0\nLicense-Expression: {licence}\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    return tmp_path


def taken(found: list[SourceFile | LeftOut]) -> dict[str, str]:
    return {file.path: file.licence for file in found if isinstance(file, SourceFile)}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_names_another_licence(tmp_path, name):
    site = site_with(tmp_path, {"zoo/own.py": CODE, "zoo/theirs.py": HEADERS[name] + CODE})
    assert taken(list(files_of_site(site))) == {"zoo/own.py": "MIT"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("file", ["LICENSE", "COPYING.txt", "LICENCE.md"])
def test_a_nearer_licence_file_with_another_licence(tmp_path, name, file):
    site = site_with(
        tmp_path,
        {
            "zoo/own.py": CODE,
            "zoo/LICENSE": MIT,
            f"zoo/animals/{file}": TEXTS[name],
            "zoo/animals/big/theirs.py": CODE,
        },
    )
    assert taken(list(files_of_site(site))) == {"zoo/own.py": "MIT"}


@pytest.mark.parametrize("name", TEXTS)
def test_the_packages_licence_file_has_another_licence(tmp_path, name):
    site = site_with(tmp_path, {"zoo/own.py": CODE})
    (site / "zoo-1.0.dist-info" / "licenses").mkdir()
    (site / "zoo-1.0.dist-info" / "licenses" / "LICENSE").write_text(TEXTS[name])
    (found,) = files_of_site(site)
    assert isinstance(found, LeftOut)
    assert found.path == ""


def test_metadata_hold_the_licence_of_a_folder(tmp_path):
    site = site_with(tmp_path, {"zoo/own.py": CODE, "zoo/animals/big/theirs.py": CODE})
    inner = site / "zoo-1.0.dist-info" / "licenses" / "src" / "zoo" / "animals"
    inner.mkdir(parents=True)
    (inner / "LICENSE").write_text(TEXTS["MPL"])
    assert taken(list(files_of_site(site))) == {"zoo/own.py": "MIT"}


@pytest.mark.parametrize(
    "folder",
    [
        "vendor",
        "_vendor",
        "third_party",
        "third-party",
        "extern",
        "externals",
        "vendored",
        "node_modules",
        "_bundled",
        "patched",
        "vendored_packages",
        "big/_vendor/deep",
    ],
)
def test_folders_of_other_packages(tmp_path, folder):
    files = {"zoo/own.py": CODE, f"zoo/{folder}/theirs.py": CODE}
    assert taken(list(files_of_site(site_with(tmp_path, files)))) == {"zoo/own.py": "MIT"}


def test_names_that_only_resemble_such_folders():
    assert not is_vendored("zoo/vending/machine.py")
    assert not is_vendored("zoo/external_ids.py")
    assert is_vendored("zoo/_vendored_six.py")


def test_a_bundles_notice_in_the_middle(tmp_path):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "package.json").write_text('{"name": "zoo", "license": "MIT"}')
    (tmp_path / "zoo" / "own.js").write_text(CODE)
    (tmp_path / "zoo" / "all.js").write_text(CODE * 3 + "/*! Under the LGPL. */\n" + CODE)
    (tmp_path / "zoo" / "dist").mkdir()
    (tmp_path / "zoo" / "dist" / "zoo.js").write_text(CODE)
    assert taken(list(files_of_node_modules(tmp_path))) == {"zoo/own.js": "MIT"}


@pytest.mark.parametrize("licence", ["", "LGPL-3.0", "SEE LICENSE IN it", "UNLICENSED"])
def test_node_modules_without_a_permissive_licence(tmp_path, licence):
    (tmp_path / "@zoo" / "own").mkdir(parents=True)
    described = {"name": "@zoo/own", "license": licence}
    (tmp_path / "@zoo" / "own" / "package.json").write_text(json.dumps(described))
    (tmp_path / "@zoo" / "own" / "index.js").write_text(CODE)
    assert taken(list(files_of_node_modules(tmp_path))) == {}
    (tmp_path / "@zoo" / "own" / "package.json").write_text('{"license": "MIT"}')
    assert taken(list(files_of_node_modules(tmp_path))) == {"@zoo/own/index.js": "MIT"}


def test_trees_are_judged_by_file_too(tmp_path):
    (tmp_path / "vendor").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "vendor" / "theirs.c").write_text(CODE)
    (tmp_path / "lib" / "theirs.c").write_text("/* " + HEADERS["MPL"] + " */\n" + CODE)
    (tmp_path / "lib" / "own.c").write_text(CODE)
    tree = Tree("zoo", "1.0", "Apache-2.0", tmp_path)
    assert taken(list(files_of_tree(tree))) == {"lib/own.c": "Apache-2.0"}
    (tmp_path / "COPYING").write_text(TEXTS["LGPL"])
    assert taken(list(files_of_tree(tree))) == {}
    with pytest.raises(ValueError, match="no SPDX expression of permissive licences"):
        list(files_of_tree(Tree("zoo", "1.0", "GPL-3.0-only", tmp_path)))


def test_a_tree_like_the_standard_library(tmp_path):
    (tmp_path / "LICENSE.txt").write_text(PYTHON_LICENCE)
    (tmp_path / "queue.py").write_text(PSF + CODE)
    (tmp_path / "stack.py").write_text(CODE)
    (tmp_path / "tar.py").write_text("# " + "\n# ".join(MIT.splitlines()) + "\n" + CODE)
    (tmp_path / "ensurepip" / "_bundled").mkdir(parents=True)
    (tmp_path / "ensurepip" / "_bundled" / "theirs.py").write_text(CODE)
    found = list(files_of_tree(Tree("python", "3.14", "PSF-2.0", tmp_path)))
    assert taken(found) == {"queue.py": "PSF-2.0", "stack.py": "PSF-2.0", "tar.py": "MIT"}
    by = {file.path: file.judged for file in found if isinstance(file, SourceFile)}
    assert by == {"queue.py": "header", "stack.py": "given", "tar.py": "header"}


def test_what_names_no_licence_is_left_out(tmp_path):
    site = site_with(tmp_path, {"zoo/own.py": CODE})
    metadata = site / "zoo-1.0.dist-info" / "METADATA"
    metadata.write_text("Name: zoo\nVersion: 1.0\n")
    (found,) = files_of_site(site)
    assert found == LeftOut("zoo", "1.0", "", "no licence is named")
    (site / "zoo-1.0.dist-info" / "LICENSE").write_text(MIT)
    (taken_now,) = files_of_site(site)
    assert isinstance(taken_now, SourceFile)
    assert (taken_now.licence, taken_now.judged) == ("MIT", "licence file LICENSE")


def test_of_alternatives_one_is_enough(tmp_path):
    site = site_with(tmp_path, {"zoo/own.py": CODE}, licence="Apache-2.0 OR GPL-2.0-or-later")
    (site / "zoo-1.0.dist-info" / "COPYING").write_text(TEXTS["LGPL"])
    line = (
        "# SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later\n# or the GNU General Public\n"
    )
    (site / "zoo" / "own.py").write_text(line + CODE)
    assert taken(list(files_of_site(site))) == {"zoo/own.py": "Apache-2.0 OR GPL-2.0-or-later"}


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("mit", "MIT"),
        ("MIT OR GPL-2.0-only", "MIT OR GPL-2.0-only"),
        ("MIT AND GPL-2.0-only", None),
        ("MIT AND (Apache-2.0 OR GPL-2.0-only)", "MIT AND (Apache-2.0 OR GPL-2.0-only)"),
        ("GPL-2.0-only OR MIT AND MPL-2.0", None),
        ("Apache-2.0 WITH LLVM-exception", "Apache-2.0 WITH LLVM-exception"),
        ("(GPL-2.0-or-later WITH Bootloader-exception)", None),
        ("LicenseRef-Ours", None),
        ("MIT or so", None),
        ("", None),
    ],
)
def test_expressions(text, licence):
    assert permissive_expression(text) == licence


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("BSD License", "LicenseRef-BSD"),
        ("Apache Software License", "Apache-2.0"),
        ("Apache License 1.1", None),
        ("GPLv2 or MIT", "MIT"),
        ("GPL v2 or later", None),
        ("MIT and LGPL", None),
        ("permitted by us", None),
        ("SEE LICENSE IN LICENSE.md", None),
        ("Other/Proprietary License", None),
    ],
)
def test_names(text, licence):
    assert verdict_of_name(text).licence == licence


def test_metadata_in_words():
    def declared(*lines):
        return declared_licence(message_from_string("\n".join(lines))).licence

    bsd, gpl = "License :: OSI Approved :: BSD License", "License :: OSI Approved :: GNU GPL"
    assert declared("License: Dual License", f"Classifier: {bsd}") == "LicenseRef-BSD"
    assert declared("License: MIT License", f"Classifier: {bsd}") == "MIT AND LicenseRef-BSD"
    assert declared("License: MIT", f"Classifier: {gpl}") is None
    assert declared("License: MIT", "Classifier: License :: Freely Distributable") is None
    assert declared("License-Expression: MPL-2.0", f"Classifier: {bsd}") is None


def test_headers_of_permissive_licences():
    apache = (
        '# Licensed under the Apache License, Version 2.0 (the "License");\n'
        "# you may not use this file except in compliance with the License.\n"
        '# distributed under the License is distributed on an "AS IS" BASIS,\n'
    )
    for header, licence in (
        (apache, "Apache-2.0"),
        (PSF, "PSF-2.0"),
        ("# SPDX-License-Identifier: 0BSD\n", "0BSD"),
        ("# Distributed under the terms of the Modified BSD License.\n", "BSD-3-Clause"),
        ('"""Adds.\n\n:license: BSD, see LICENSE\n"""\n', "LicenseRef-BSD"),
    ):
        verdict = verdict_of_header(header + CODE)
        assert verdict is not None
        assert verdict.licence == licence
    assert verdict_of_header("# Released under the licence in LICENSE.txt.\n" + CODE) is None
    assert verdict_of_header("values = distributed under the curve\n" + CODE) is None


def test_licence_files():
    for name in ("LICENSE", "licence.txt", "COPYING", "COPYING.LESSER", "LICENSE-MIT", "UNLICENSE"):
        assert is_licence_file(name), name
    for name in ("license.py", "licensing.md", "NOTICE", "AUTHORS", "licenses.json"):
        assert not is_licence_file(name), name
    assert verdict_of_text(PYTHON_LICENCE).licence == "PSF-2.0"
    assert verdict_of_text("Either of LICENSE.APACHE or LICENSE.BSD").licence is not None


def test_every_file_of_the_corpus_is_listed_with_a_permissive_licence():
    entries = read_list(CHECKPOINT.file_list)
    assert len(entries) > 10_000
    assert len({(entry["package"], entry["path"]) for entry in entries}) == len(entries)
    for entry in entries:
        assert permissive_expression(entry["licence"]) == entry["licence"], entry
        assert not is_vendored(entry["path"].removeprefix(entry["package"] + "/")), entry
        assert held_out_package(entry["path"]) is None, entry
        assert re.fullmatch("[0-9a-f]{64}", entry["sha256"]), entry
        assert entry["judged"], entry
    packages = {entry["package"] for entry in entries}
    assert packages.isdisjoint({"chardet", "certifi"})
    of_pip = [entry["path"] for entry in entries if entry["package"] == "pip"]
    assert of_pip
    assert not [path for path in of_pip if "chardet" in path or "certifi" in path]


def test_the_corpuss_packages_are_those_of_its_list():
    listed: dict[str, list[str]] = {}
    for entry in read_list(CHECKPOINT.file_list):
        listed.setdefault(entry["package"], []).append(f"{entry['sha256']}  {entry['path']}\n")
    for package in read_manifest(CHECKPOINT.manifest).trained_on:
        lines = sorted(listed.pop(package.package))
        assert package.n_files == len(lines)
        assert package.sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert listed == {}
