from lsp_wire import FOLDER, LspWire

SECOND = "file:///home/user/second"


def change(wire: LspWire, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
    event = {
        "added": [{"uri": uri, "name": "any"} for uri in added],
        "removed": [{"uri": uri, "name": "any"} for uri in removed],
    }
    wire.notify("workspace/didChangeWorkspaceFolders", {"event": event})


async def test_folders_come_and_go(wire):
    change(wire, added=(SECOND,), removed=(FOLDER,))
    await wire.until(lambda: "/home/user/second" in wire.completer.folders)
    assert wire.completer.folders == {"/home/user/second": "second"}
    wire.open("x", uri=f"{SECOND}/a/b.py")
    await wire.ghost(0, 1, uri=f"{SECOND}/a/b.py")
    request = wire.completer.asked[-1].request
    assert (request.repo_name, request.path) == ("second", "a/b.py")


async def test_folder_twice_is_one(wire):
    change(wire, added=(FOLDER, f"{FOLDER}/", SECOND))
    await wire.until(lambda: "/home/user/second" in wire.completer.folders)
    assert [c for c in wire.completer.calls if c[0] == "open_folder"] == [
        ("open_folder", "/home/user/project", "project"),
        ("open_folder", "/home/user/second", "second"),
    ]


async def test_unknown_folder_cannot_go_and_one_that_goes_at_once_is_not_opened(wire):
    change(wire, removed=("file:///home/user/third",))
    await wire.ask("workspace/executeCommand", {"command": "speclsp.reindex"})
    assert not [c for c in wire.completer.calls if c[0] == "close_folder"]
    change(wire, added=(SECOND,))
    change(wire, removed=(SECOND,), added=("file:///home/user/third",))
    await wire.until(lambda: "/home/user/third" in wire.completer.folders)
    assert "/home/user/second" not in wire.completer.folders


async def test_older_clients_name_a_root(connect):
    for named in ({"rootUri": FOLDER}, {"rootPath": "/home/user/project"}):
        wire = connect()
        await wire.initialize(folders=(), **named)
        assert wire.completer.folders == {"/home/user/project": "project"}


async def test_no_folder_at_all(start):
    wire = await start(folders=())
    wire.open("x", uri="file:///home/user/lib/mod.py")
    wire.open("y", uri="untitled:Untitled-1")
    await wire.ghost(0, 1, uri="file:///home/user/lib/mod.py")
    await wire.ghost(0, 1, uri="untitled:Untitled-1")
    first, second = (a.request for a in wire.completer.asked)
    assert (first.repo_name, first.path) == ("lib", "mod.py")
    assert (second.repo_name, second.path) == ("untitled", "Untitled-1.py")


async def test_repository_is_named_as_its_folder(tmp_path, start):
    checkout = tmp_path / "rocket"
    checkout.mkdir()
    wire = await start(folders=(checkout.as_uri(),))
    assert wire.completer.folders == {str(checkout): "rocket"}


async def test_a_folder_that_no_file_system_can_have_is_no_folder(start):
    wire = await start(folders=("file:///home/a%00b", "file://ho%00st/a", FOLDER))
    opened = [call[1] for call in wire.completer.calls if call[0] == "open_folder"]
    assert opened == ["/home/user/project"]
