"""What the demo types into the sample project."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scene:
    """One piece of code that somebody means to write.

    The ghost text comes from the model.  The typist takes it where it is what was meant to be
    written, and types on where it is not.
    """

    path: str
    after: str
    """Text of the file behind which the typing begins; empty for the file's end."""
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
