"""``speclsp demo``: types into a sample project, with speculation and without."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from rich.console import Console

from speclsp.cli.demo_screen import REMARK, Frame, Screen, comparison, picture
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, given_settings
from speclsp.cli.without_editor import complete_when_ready, running
from speclsp.embedded import sample_project
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.statistics import SessionStats
from speclsp.window.window import Window

_LEAST_CHARS_TAKEN: Final = 3
"""Shorter ghost text is faster typed than read."""


class Scene(NamedTuple):
    """One piece of code to write in the file ``path``.

    ``after`` is the text of the file after which the typing begins; empty for the end of the file.
    The typist accepts ghost text that matches ``meant``, and else types the next character.
    """

    path: str
    after: str
    meant: str

    def split(self, text: str) -> tuple[str, str]:
        """Return the file's text before and after the place to type at."""
        n_before = text.index(self.after) + len(self.after) if self.after else len(text)
        return text[:n_before], text[n_before:]


SCENES: tuple[Scene, ...] = (
    Scene(
        "shop/models.py",
        """            email=data["email"],
            active=data["active"],
        )
""",
        '''

@dataclass
class Supplier:
    """Somebody who delivers."""

    id: int
    name: str
    email: str
    active: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "email": self.email,
            "active": self.active,
        }
''',
    ),
    Scene("shop/storage.py", "import Customer, Product", ", Supplier"),
    Scene(
        "shop/storage.py",
        "",
        '''

def save_suppliers(path: Path, suppliers: list[Supplier]) -> None:
    """Write suppliers to a JSON file."""
    data = [supplier.to_dict() for supplier in suppliers]
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")
''',
    ),
)


@click.command(cls=SettingsCommand)
@click.option("--fast", is_flag=True, help="Type as fast as suggestions arrive.")
@click.option("--svg", type=OutputFile(), help="Write a picture of this run to a file.")
def demo(fast: bool, svg: Path | None, **options: Any) -> None:
    """Type into a copy of a small sample project.

    Ghost text is grey, and blue where accepted draft tokens gave it; accepted text keeps a green
    background. Then the same is typed without speculation, and a table compares the two.
    Nothing is kept on disk afterwards.
    """
    console = Console()
    screen = Screen(console, pace=0.0 if fast else 1.0)
    # Prefetches depend on the typist's pauses: the two runs would differ by chance.
    given = {"persist": False, "idle_work": "prompts", **given_options(options)}
    is_embedded = "model" not in given
    if is_embedded:
        given = {"mode": "tree", **given}
    try:
        with_speculation = _typed(screen, given, keeps_ends=True)
        without = _typed(screen, {**given, "speculation": False}, keeps_ends=False)
    finally:
        screen.close()
    stats = {False: without, True: with_speculation}
    console.print(comparison(stats))
    if is_embedded:
        console.print(REMARK, markup=False, highlight=False)
    if svg is not None:
        try:
            svg.write_text(picture(screen.moment, screen.ends[0], stats), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), error.strerror) from error
        console.print(f"The picture is in {svg}.", highlight=False)


def _typed(screen: Screen, options: Mapping[str, Any], *, keeps_ends: bool) -> SessionStats:
    """Type all scenes into a fresh copy of the sample project, and return the costs.

    Raises :class:`~speclsp.errors.SpecLspError` if there is no model.
    """
    resolved = given_settings(options)
    with tempfile.TemporaryDirectory(prefix="speclsp-demo-") as temporary:
        folder = Path(temporary) / "shop"
        shutil.copytree(sample_project(), folder)
        screen.status("Loading the model" if keeps_ends else "The same without speculation")
        shop = WorkspaceFolder(root=str(folder), name=folder.name)
        with running(resolved, "error", shop) as window:
            for scene in SCENES:
                end = type_scene(scene, folder, window, screen.show)
                if keeps_ends:
                    screen.keep(end)
            return window.statistics()


def type_scene(scene: Scene, folder: Path, window: Window, show: Callable[[Frame], None]) -> Frame:
    """Type a scene key by key, complete after each key, and return the last frame."""
    path = folder / scene.path
    head, tail = scene.split(path.read_text(encoding="utf-8"))
    document = Document(
        uri=path.as_uri(),
        path=scene.path,
        file=str(path),
        repo_name=folder.name,
        language_id="python",
        version=0,
        text=head + tail,
    )
    window.open_document(document)
    version = 0
    frame = Frame(path=scene.path, before=head, after=tail, start=len(head))
    while meant := scene.meant[len(frame.before) - len(head) :]:
        before = frame.before
        request = CompletionRequest(uri=document.uri, version=version, offset=len(before))
        result = complete_when_ready(window, request, CancellationToken())
        assert result is not None, "this request is never cancelled"
        generated = result.generated
        if generated.text:
            window.shown(generated.completion_id)
        # Ghost text does not show that it replaces text after the cursor.
        ghost = "" if generated.n_replaced else generated.text
        n_taken = _n_meant(ghost, meant)
        show(replace(frame, ghost=ghost, drafted=generated.drafted, n_taking=n_taken))
        taken = ((len(before), len(before) + n_taken),) if n_taken else ()
        typed = before + meant[: n_taken or 1]
        frame = replace(frame, before=typed, accepted=(*frame.accepted, *taken))
        version += 1
        window.change_document(document.uri, version, typed + tail)
        if n_taken:
            window.accepted(generated.completion_id, n_taken)
    path.write_text(frame.before + tail, encoding="utf-8")
    window.save_document(document.uri)
    window.close_document(document.uri)
    return frame


def _n_meant(ghost: str, rest: str) -> int:
    """Return how many characters of the ghost text match: all, its first lines, or 0."""
    line_ends = [idx for idx, char in enumerate(ghost) if char == "\n"]
    for n_chars in (len(ghost), *reversed(line_ends)):
        taken = ghost[:n_chars]
        if rest.startswith(taken) and len(taken.strip()) >= _LEAST_CHARS_TAKEN:
            return n_chars
    return 0
