"""Documents to search in, the same wherever they are made: tools/make_rerank_golden.py and test_embeddings.py use them."""
import random

SUBJECTS = ["The old lighthouse keeper", "A young engineer", "My neighbour's cat", "The city council", "An unknown painter",
            "The orchestra", "A retired sailor", "The school's cook", "One of the twins", "The night train"]
VERBS = ["repaired", "described", "ignored", "photographed", "sold", "painted", "forgot", "measured", "defended", "lost"]
OBJECTS = ["the broken clock", "a map of the harbour", "three baskets of apples", "the new tax law", "an electric bicycle",
           "a letter from Vienna", "the winning lottery ticket", "a recipe for fish soup", "the telescope", "a stone bridge"]
TIMES = ["before the storm", "during the long winter", "on Tuesday morning", "without telling anyone", "after the concert",
         "in front of the museum", "for the second time", "while it was raining", "at the edge of the forest", "last summer"]
QUERY = "Who fixed the clock in bad weather?"


def documents(count=1000):
    rng = random.Random(11)
    made = set()
    while len(made) < count:
        made.add(" ".join(words[int(rng.random() * len(words))] for words in (SUBJECTS, VERBS, OBJECTS, TIMES)) + ".")
    return sorted(made)
