"""Products and what goes along with them."""

from xoptim.precision.products import Product, with_followers


def test_followers_read_nothing_but_rounded_tensors() -> None:
    products = [
        Product("a", "", "P", "Conv", (1, 1)),
        Product("s", "", "E", "Add", (0, 0), reads=("a", "x")),
        Product("t", "", "E", "Add", (0, 0), reads=("a", "a")),
        Product("u", "", "E", "Mul", (0, 0), reads=("s", "t")),
    ]
    assert with_followers(products[:1], products) == {"a": "P", "t": "E"}
    assert with_followers(products[:2], products) == {"a": "P", "s": "E", "t": "E", "u": "E"}
