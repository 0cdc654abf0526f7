"""What the demo types into the sample project."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scene:
    """One piece of code that somebody means to write at the end of a file.

    The ghost text comes from the model.  The typist takes it where it is what was meant to be
    written, and types on where it is not.
    """

    path: str
    meant: str


SCENES: tuple[Scene, ...] = (
    Scene(
        "shop/repositories.py",
        """
    def remove(self, order_id: int) -> None:
        if order_id not in self._orders:
            raise NotFoundError(f"order {order_id} does not exist")
        del self._orders[order_id]

    def __len__(self) -> int:
        return len(self._orders)
""",
    ),
    Scene(
        "shop/models.py",
        '''

@dataclass
class Supplier:
    """Somebody who delivers products."""

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
    Scene(
        "tests/test_repositories.py",
        """

def test_get_raises_for_an_unknown_customer(customers: CustomerRepository) -> None:
    with pytest.raises(NotFoundError):
        customers.get(1)


def test_add_raises_for_a_customer_that_exists(customers: CustomerRepository) -> None:
    customer = Customer(id=1, name="Ada", email="ada@example.com")
    customers.add(customer)
    with pytest.raises(DuplicateError):
        customers.add(customer)
""",
    ),
)
