"""Small arithmetic: sums, the times table, comparing and counting."""

from tasks import Task

TOO_BIG = "That is too big for me. I can do sums up to 99."


def add(d):
    def pair():
        if d.chance(0.65):
            return d.number(0, 12), d.number(0, 12)
        a = d.number(0, 99)
        return a, d.number(0, 99 - a)

    a, b = d.key(pair)
    prompt = d.pick(
        (
            "What is {a} + {b}?",
            "{a} + {b}",
            "{a}+{b}=",
            "Add {a} and {b}.",
            "What is {a} plus {b}?",
            "How much is {a} + {b}?",
            "Compute {a} + {b}.",
            "{a} plus {b}",
            "What is {a}+{b}?",
            "I have {a} apples and get {b} more. How many apples do I have?",
        )
    )
    return Task(
        "addition (sum < 100)",
        prompt.format(a=a, b=b),
        f"{a} + {b} = {a + b}.",
        short=str(a + b),
        value=a + b,
    )


def subtract(d):
    def pair():
        if d.chance(0.7):
            a = d.number(0, 20)
        else:
            a = d.number(0, 99)
        return a, d.number(0, a)

    a, b = d.key(pair)
    prompt = d.pick(
        (
            "What is {a} - {b}?",
            "{a} - {b}",
            "{a}-{b}=",
            "Subtract {b} from {a}.",
            "What is {a} minus {b}?",
            "How much is {a} - {b}?",
            "I have {a} apples and eat {b}. How many are left?",
        )
    )
    return Task(
        "subtraction (< 100)",
        prompt.format(a=a, b=b),
        f"{a} - {b} = {a - b}.",
        short=str(a - b),
        value=a - b,
    )


def multiply(d):
    a, b = d.number(0, 10), d.number(0, 10)
    prompt = d.pick(
        (
            "What is {a} * {b}?",
            "{a} * {b}",
            "What is {a} times {b}?",
            "{a} x {b}",
            "{a}*{b}=",
            "How much is {a} times {b}?",
            "Multiply {a} by {b}.",
        )
    )
    return Task(
        "times table (to 10)",
        prompt.format(a=a, b=b),
        f"{a} x {b} = {a * b}.",
        short=str(a * b),
        value=a * b,
    )


def too_big(d):
    """Sums that the model cannot do: it says so instead of guessing."""
    a, b = d.number(100, 99999), d.number(2, 9999)
    if d.chance(0.5):
        a, b = b, a
    op = d.pick(("+", "-", "*", "/", "plus", "times", "minus"))
    prompt = d.pick(("What is {a} {o} {b}?", "{a} {o} {b}", "How much is {a} {o} {b}?")).format(
        a=a, b=b, o=op
    )
    return Task("sums that are too big", prompt, TOO_BIG)


def compare(d):
    a, b = d.key(lambda: tuple(d.rng.sample(range(100), 2)))
    if d.chance(0.6):
        prompt = d.pick(
            ("Which is bigger, {a} or {b}?", "What is larger: {a} or {b}?", "Is {a} or {b} bigger?")
        )
        return Task(
            "compare numbers",
            prompt.format(a=a, b=b),
            f"{max(a, b)} is bigger than {min(a, b)}.",
            short=str(max(a, b)),
        )
    prompt = d.pick(("Which is smaller, {a} or {b}?", "Is {a} or {b} smaller?"))
    return Task(
        "compare numbers",
        prompt.format(a=a, b=b),
        f"{min(a, b)} is smaller than {max(a, b)}.",
        short=str(min(a, b)),
    )


def count(d):
    a = d.number(0, 12)
    n = d.number(3, 10)
    if d.chance(0.65):
        a = 1 if d.chance(0.2) else a
        numbers = range(a, a + n + 1)
        prompt = d.pick(("Count from {x} to {y}.", "Count up from {x} to {y}.", "Count {x} to {y}"))
        if a == 1 and d.chance(0.5):
            prompt = d.pick(("Count to {y}.", "Please count to {y}."))
    else:
        numbers = range(a + n, a - 1, -1)
        prompt = d.pick(
            (
                "Count down from {x} to {y}.",
                "Count backwards from {x} to {y}.",
                "Count from {x} down to {y}.",
            )
        )
    return Task(
        "counting", prompt.format(x=numbers[0], y=numbers[-1]), ", ".join(map(str, numbers)) + "."
    )
