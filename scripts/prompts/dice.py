"""Seeded choices that stay the same for ever.

Python promises the same stream from `random.random()` only, not from `choice` or `shuffle`; the
bytes of the prompt files must not depend on the Python that made them. The generator is
SplitMix64 (Steele, Lea, Flood 2014).
"""

MASK = (1 << 64) - 1


class Dice:
    def __init__(self, seed):
        self.state = seed & MASK

    def roll(self):
        """The next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        """A whole number in 0..n. The modulo's bias, n / 2^64, does not matter here."""
        return self.roll() % n

    def between(self, low, high):
        """A whole number in low..=high."""
        return low + self.below(high - low + 1)

    def pick(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        """A shuffled copy (Fisher and Yates)."""
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items


class Deck:
    """Hands out the items in a shuffled order and reshuffles when they are used up, so that
    nothing repeats before everything else had its turn."""

    def __init__(self, dice, items):
        self.dice, self.items, self.left = dice, list(items), []

    def draw(self):
        if not self.left:
            self.left = self.dice.shuffled(self.items)
        return self.left.pop()
