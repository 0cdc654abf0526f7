# ruff: noqa: E501  # a row of a table is one file

import pytest

from speclsp.prompt.context.imports import ProjectPaths, imported_paths

PATHS = str.split("""
    src/shop/__init__.py src/shop/models.py src/shop/store/__init__.py src/shop/store/files.py
    src/shop/cart.py other/models.py tests/test_cart.py
    web/src/app.ts web/src/cart.tsx web/src/store/index.js web/src/store/cart.ts web/lib/dates.js
    c/main.c c/box.h c/include/geo/area.h
    lua/init.lua lua/my/plugin.lua lua/my/util/init.lua
    go/store/files.go go/store/lists.go go/main.go rs/src/main.rs rs/src/store.rs rs/src/geo/mod.rs
    java/org/shop/Cart.java rb/lib/shop/cart.rb rb/main.rb
""")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/shop/cart.py", "from shop.models import Box\nimport shop.store.files as f, os\n", "src/shop/models.py src/shop/store/files.py"),
        ("src/shop/cart.py", "from . import models\nfrom .store import (\n    files,\n)\n", "src/shop/__init__.py src/shop/models.py src/shop/store/__init__.py src/shop/store/files.py"),
        ("src/shop/store/files.py", "from ..models import Box  # shop\n", "src/shop/models.py"),
        ("tests/test_cart.py", "import numpy\nfrom shop import cart\n", "src/shop/__init__.py src/shop/cart.py"),
        ("web/src/app.ts", "import { Cart } from './cart';\nimport x from \"./store\";\nconst d = require('../lib/dates');\nimport React from 'react';\n", "web/src/cart.tsx web/src/store/index.js web/lib/dates.js"),
        ("web/src/app.ts", "import type {\n  A,\n} from '@/store/cart'\nconst y = await import('./cart.js')\n", "web/src/store/cart.ts web/src/cart.tsx"),
        ("c/main.c", '#include <stdio.h>\n#include "box.h"\n#  include <geo/area.h>\n', "c/box.h c/include/geo/area.h"),
        ("lua/init.lua", "local p = require('my.plugin')\nlocal u = require \"my.util\"\nrequire[[nothing]]\n", "lua/my/plugin.lua lua/my/util/init.lua"),
        ("go/main.go", 'import (\n\t"fmt"\n\t"example.org/x/go/store"\n)\n', "go/store/files.go go/store/lists.go"),
        ("rs/src/main.rs", "mod store;\nuse crate::geo::area;\n", "rs/src/store.rs rs/src/geo/mod.rs"),
        ("java/org/shop/Main.java", "import java.util.List;\nimport org.shop.Cart;\n", "java/org/shop/Cart.java"),
        ("rb/main.rb", "require_relative 'lib/shop/cart'\nrequire 'json'\n", "rb/lib/shop/cart.rb"),
        ("a.txt", "import shop.models\n", ""),
    ],
)  # fmt: skip
def test_imports_are_followed_within_the_project(path: str, text: str, expected: str) -> None:
    assert imported_paths(text, path, ProjectPaths(PATHS)) == expected.split()


def test_the_nearest_of_several_files_is_meant() -> None:
    paths = ProjectPaths(["a/models.py", "b/models.py", "b/x.py"])
    assert imported_paths("import models\n", "b/x.py", paths) == ["b/models.py"]
