"""A stand-in for Zeta 2, and what is edited with it.

It rewrites the region of its prompt by a rule, and suggests nothing.
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
