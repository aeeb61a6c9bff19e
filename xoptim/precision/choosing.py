"""Which products to round: those that give most for the error that they add, as long as the whole keeps the tolerance."""

from collections.abc import Sequence

from xoptim.precision.products import Product, with_followers
from xoptim.precision.samples import Samples
from xoptim.precision.trial import Trial


def choose(trial: Trial, products: Sequence[Product], samples: Samples, tolerance: float) -> list[Product]:
    """The products to round, in the order in which they were chosen.

    Errors of different products are nearly independent, so that their squares add up; the square of an error for each
    multiplication that becomes cheaper is the price of a product. The cheapest products that together keep the tolerance are
    taken, then each further one with which the tolerance is still kept. The last ones are given back until all samples keep it,
    those too that did not serve to choose.

    Args:
        trial: measures errors of choices.
        products: what may be rounded, with the error that each adds alone.
        samples: the values; the first half serves to choose.
        tolerance: the largest error allowed, as a fraction.
    """
    ranked = sorted((each for each in products if not each.reads), key=Product.price)

    def keeps(chosen: Sequence[Product], places: range) -> bool:
        return trial.error(with_followers((each.result for each in chosen), products), places) <= tolerance

    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if keeps(ranked[:middle], samples.to_choose) else (low, middle - 1)
    chosen = ranked[:low]
    for each in ranked[low:]:
        if each.alone <= tolerance and keeps([*chosen, each], samples.to_choose):
            chosen.append(each)
    everywhere = range(len(samples.feeds))
    while chosen and not keeps(chosen, everywhere):
        chosen.pop()
    return chosen
