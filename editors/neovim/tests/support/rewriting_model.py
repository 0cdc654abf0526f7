"""Stand-ins for Zeta 2 and for a model by analogy, and what is edited with them.

They rewrite the region of their prompt by a rule, and suggest nothing.
"""

from collections.abc import Callable

CODE = """def total(prices, rate):
    result = 0
    for price in prices:
        result += price
    print(prices)
    if rate:
        result *= rate
    print(rate)
    return result / len(prices)
"""

CART = """class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def total(self):
        return sum(item.price for item in self.items)

    def clear(self):
        self.items = []
"""


def rewriting(rule: Callable[[str], str]) -> Callable[[str], str]:
    def answer(prompt: str) -> str:
        _, is_edit, behind = prompt.partition("<<<<<<< CURRENT\n")
        if not is_edit:
            return ""
        region = behind.partition("=======\n<[fim-middle]>")[0].replace("<|user_cursor|>", "")
        return rule(region) + ">>>>>>> UPDATED\n"

    return answer


def by_analogy(rule: Callable[[str], str]) -> Callable[[str], str]:
    """Answer what a rule makes of each place."""

    def answer(prompt: str) -> str:
        place, is_edit, given = prompt.rpartition("--- before\n")[2].partition("+++ after\n")
        return rule(place).removeprefix(given) + "--- before\n" if is_edit else ""

    return answer
