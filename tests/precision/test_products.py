"""Products and what goes along with them."""

from xoptim.precision.products import Product, with_followers


def test_products_with_the_same_weights_go_along_in_the_same_form() -> None:
    products = [
        Product("a", "", "P", "MatMul", (1, 1), "w"),
        Product("a", "", "Q", "MatMul", (1, 1), "w"),
        Product("b", "", "P", "MatMul", (1, 1), "w", "a"),
        Product("b", "", "Q", "MatMul", (1, 1), "w", "a"),
        Product("c", "", "P", "MatMul", (1, 1), "v"),
    ]
    assert with_followers(products[:1], products) == {"a": "P", "b": "P"}
    assert with_followers(products[:2], products) == {"a": "Q", "b": "Q"}
    assert with_followers(products[4:], products) == {"c": "P"}


def test_followers_read_nothing_but_rounded_tensors() -> None:
    products = [
        Product("a", "", "P", "Conv", (1, 1)),
        Product("s", "", "E", "Add", (0, 0), reads=("a", "x")),
        Product("t", "", "E", "Add", (0, 0), reads=("a", "a")),
        Product("u", "", "E", "Mul", (0, 0), reads=("s", "t")),
    ]
    assert with_followers(products[:1], products) == {"a": "P", "t": "E"}
    assert with_followers(products[:2], products) == {"a": "P", "s": "E", "t": "E", "u": "E"}
