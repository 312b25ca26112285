"""Word tables of the built-in model's world: small, closed, and checkable.

Every table is plain data. A skill in skills.py asks about an entry and its checker knows the one
right answer, so accuracy can be measured exactly.
"""

ANIMALS = (
    "cat dog fox bear duck frog mouse rabbit horse cow pig sheep hen owl bee fish whale lion "
    "tiger wolf deer goat bird snail turtle penguin monkey elephant dragon squirrel hedgehog "
    "donkey"
).split()

SOUNDS = {
    "cat": "meow",
    "dog": "woof",
    "cow": "moo",
    "pig": "oink",
    "sheep": "baa",
    "duck": "quack",
    "hen": "cluck",
    "owl": "hoot",
    "bee": "buzz",
    "lion": "roar",
    "frog": "ribbit",
    "mouse": "squeak",
    "wolf": "howl",
    "horse": "neigh",
    "bird": "tweet",
    "bear": "growl",
}

LEGS = {
    "cat": 4,
    "dog": 4,
    "cow": 4,
    "horse": 4,
    "spider": 8,
    "ant": 6,
    "bee": 6,
    "bird": 2,
    "hen": 2,
    "duck": 2,
    "fish": 0,
    "snake": 0,
    "octopus": 8,
    "person": 2,
    "lion": 4,
    "pig": 4,
}

COLORS_OF = {
    "the sky": "blue",
    "grass": "green",
    "snow": "white",
    "the sun": "yellow",
    "a banana": "yellow",
    "coal": "black",
    "a lemon": "yellow",
    "a carrot": "orange",
    "blood": "red",
    "the sea": "blue",
    "a leaf": "green",
    "milk": "white",
    "a frog": "green",
    "a strawberry": "red",
    "chocolate": "brown",
    "a cloud": "white",
    "the night": "black",
    "a tomato": "red",
}

CATEGORIES = {
    "animal": "cat dog fox bear duck frog horse cow pig sheep lion tiger wolf".split(),
    "fruit": "apple pear banana plum cherry grape peach lemon melon orange".split(),
    "color": "red blue green yellow white black brown pink purple gray".split(),
    "vegetable": "carrot potato onion pea bean cabbage tomato".split(),
    "tool": "hammer saw knife shovel rake brush".split(),
    "drink": "milk tea juice water coffee cocoa".split(),
}

OPPOSITES = {}
for _a, _b in (
    pair.split("/")
    for pair in (
        "hot/cold big/small up/down in/out day/night happy/sad fast/slow old/young full/empty open/closed "
        "wet/dry light/dark hard/soft high/low left/right good/bad early/late loud/quiet rich/poor "
        "strong/weak clean/dirty near/far first/last long/short thick/thin sweet/sour brave/afraid "
        "win/lose buy/sell push/pull love/hate start/stop yes/no true/false new/ancient above/below "
        "always/never asleep/awake deep/shallow smooth/rough give/take summer/winter north/south "
        "east/west black/white friend/enemy laugh/cry begin/end"
    ).split()
):
    OPPOSITES[_a] = _b
    OPPOSITES[_b] = _a
OPPOSITES["new"] = "old"
del OPPOSITES["ancient"]

PLURALS = {
    "mouse": "mice",
    "child": "children",
    "man": "men",
    "woman": "women",
    "foot": "feet",
    "tooth": "teeth",
    "goose": "geese",
    "sheep": "sheep",
    "fish": "fish",
    "leaf": "leaves",
    "wolf": "wolves",
    "knife": "knives",
    "baby": "babies",
    "city": "cities",
    "berry": "berries",
    "story": "stories",
    "fox": "foxes",
    "box": "boxes",
    "bus": "buses",
    "dish": "dishes",
    "glass": "glasses",
    "watch": "watches",
    "potato": "potatoes",
    "tomato": "tomatoes",
}
for _w in (
    "cat dog bear duck frog rabbit horse cow pig hen owl bee whale lion tiger goat bird snail "
    "apple pear banana plum house tree river star boat cup hat book door lamp song game road "
    "shoe king queen train cloud flower garden friend dragon robot hammer window"
).split():
    PLURALS[_w] = _w + "s"

PAST = {
    "go": "went",
    "eat": "ate",
    "see": "saw",
    "run": "ran",
    "sing": "sang",
    "swim": "swam",
    "give": "gave",
    "take": "took",
    "make": "made",
    "come": "came",
    "find": "found",
    "fly": "flew",
    "sleep": "slept",
    "write": "wrote",
    "drink": "drank",
    "buy": "bought",
    "think": "thought",
    "say": "said",
    "know": "knew",
    "fall": "fell",
    "win": "won",
    "lose": "lost",
    "break": "broke",
    "sit": "sat",
    "walk": "walked",
    "jump": "jumped",
    "play": "played",
    "look": "looked",
    "help": "helped",
    "talk": "talked",
    "laugh": "laughed",
    "smile": "smiled",
    "dance": "danced",
    "cook": "cooked",
    "hop": "hopped",
    "stop": "stopped",
    "carry": "carried",
    "cry": "cried",
}

RHYMES = [
    group.split()
    for group in (
        "cat hat bat mat rat",
        "dog fog frog log",
        "sun fun run bun",
        "tree bee sea key",
        "moon spoon soon noon",
        "star car jar far",
        "night light kite bright",
        "cake lake snake rake",
        "rain train chain plane",
        "bear pear chair hair",
        "mouse house",
        "ring king sing wing",
        "boat goat coat",
        "fish dish wish",
        "ball tall wall small",
        "book cook hook look",
        "box fox",
        "snow bow slow",
        "day play gray hay",
        "hen pen ten men",
        "pig wig big",
        "bed red head",
        "nose rose",
        "duck truck luck",
        "door four floor",
        "bell well shell",
        "sand hand land",
        "jump lump",
        "blue shoe two",
        "hill mill pill",
    )
]

EXTRA_WORDS = (
    "banana strawberry hello world apple orange summer winter little happy yellow purple letter "
    "kitten rabbit bubble pepper coffee butter dinner balloon school teacher mother father "
    "sister brother garden window flower river mountain island castle dragon robot quire "
    "token model server engine memory block queue paper pencil music dance dream sleep water "
    "bread cheese honey sugar lemon carrot potato tomato onion table chair lamp clock phone "
    "computer keyboard forest desert ocean beach planet rocket space wonder magic"
).split()

WORDS = sorted(
    set(ANIMALS)
    | set(OPPOSITES)
    | set(PLURALS)
    | set(EXTRA_WORDS)
    | set(PAST)
    | {w for g in RHYMES for w in g}
    | {w for c in CATEGORIES.values() for w in c}
)

NAMES = (
    "Mia Tom Ben Lily Max Anna Leo Zoe Sam Ella Noah Ruby Jack Nora Finn Lucy Oscar Ivy Hugo Clara "
    "Theo Alice Paul Emma Felix Rosa Adam Maya Otto Nina David Sara Omar Lena Kai Eva Luis Jane "
    "Peter Mary John Kate"
).split()
PET_NAMES = "Pip Momo Bella Coco Rex Luna Biscuit Pepper Nala Tiny Dot Bubbles Sunny Rusty Milo Poppy".split()
CITIES = (
    "Paris London Rome Berlin Madrid Oslo Vienna Tokyo Cairo Lima Dublin Prague Athens Boston Delhi "
    "Sydney Lisbon Zurich Toronto Seoul"
).split()
FOODS = "soup bread cake rice pasta pizza cheese pie salad pancakes noodles apples".split()
COLORS = CATEGORIES["color"]
HOBBIES = "painting reading running singing swimming cooking dancing chess football music".split()
JOBS = "teacher doctor baker farmer pilot nurse painter singer writer builder".split()
ITEMS = {
    "apple": "apples",
    "pear": "pears",
    "book": "books",
    "cup": "cups",
    "hat": "hats",
    "lamp": "lamps",
    "shoe": "shoes",
    "ball": "balls",
    "pencil": "pencils",
    "chair": "chairs",
    "box": "boxes",
    "flower": "flowers",
}

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December"
).split()
SEASONS = "spring summer autumn winter".split()

JOKES = (
    "Why did the chicken join a band? Because it had the drumsticks!",
    "What do you call a sleeping dinosaur? A dino-snore!",
    "Why was the math book sad? It had too many problems.",
    "What kind of tree fits in your hand? A palm tree!",
    "Why did the token cross the road? To get to the next block!",
    "What do you call a bear with no teeth? A gummy bear!",
    "Why did the cookie go to the doctor? It felt crumbly.",
    "What is a cat's favorite color? Purr-ple!",
)
RIDDLES = (
    ("What has hands but cannot clap?", "A clock."),
    ("What has teeth but cannot bite?", "A comb."),
    ("What gets wetter the more it dries?", "A towel."),
    ("What has keys but cannot open doors?", "A piano."),
    ("What has one eye but cannot see?", "A needle."),
    ("What goes up but never comes down?", "Your age."),
)
FACTS = (
    "Honey can stay good for thousands of years.",
    "An octopus has three hearts.",
    "A group of owls is called a parliament.",
    "Bananas are berries, but strawberries are not.",
    "Light from the sun needs about eight minutes to reach us.",
    "Sea otters hold hands when they sleep.",
    "A snail can sleep for three years.",
    "The heart of a blue whale is as big as a small car.",
)

# Topics that users may ask about and that a model of this size cannot know.
UNKNOWN_TOPICS = (
    "the stock market",
    "quantum physics",
    "the president",
    "the world cup",
    "black holes",
    "bitcoin",
    "the French revolution",
    "Shakespeare",
    "taxes",
    "medicine",
    "chemistry",
    "politics",
    "the roman empire",
    "airplanes",
    "philosophy",
    "the internet",
    "law",
    "football results",
    "movies",
    "guitars",
    "machine learning",
    "history",
    "geography",
    "electric cars",
    "the population of China",
)
UNKNOWN_PROMPTS = (
    "Write a Python program that sorts a list.",
    "Write me an essay.",
    "Translate this sentence to French.",
    "Translate hello to German.",
    "Who won the world cup?",
    "What is the capital of Mongolia?",
    "What is the weather today?",
    "What time is it?",
    "What is the news today?",
    "Write a shell script.",
    "Write code for a website.",
    "How do I fix my car?",
    "Who is the president?",
    "What is my password?",
    "Solve this integral for me.",
    "Draw me a picture.",
    "Should I buy this house?",
    "Explain quantum physics.",
    "Summarize this book.",
    "What is the meaning of life?",
    "Give me medical advice.",
    "Who invented the telephone?",
    "How far away is the moon?",
    "What year did the war end?",
    "Write a long poem about love.",
    "Can you browse the web?",
    "Send an email to my boss.",
    "Book a flight to Rome.",
    "How do I cook a turkey?",
    "What should I wear tomorrow?",
    "Recommend a good movie.",
)
REFUSAL = (
    "Sorry, I am a very small model and I do not know that. I can tell a story, do small sums, "
    "spell words, or fill in JSON."
)

# Questions about Quire itself: (ways to ask, the answer).
ABOUT = (
    (
        ("What is Quire?", "Tell me about Quire.", "What does Quire do?", "Explain Quire."),
        "Quire is a program that loads a language model and serves it to you. You are talking to it right now!",
    ),
    (
        (
            "Who are you?",
            "What are you?",
            "What is your name?",
            "Tell me about yourself.",
            "Introduce yourself.",
        ),
        "I am the tiny model that is built into Quire. I am small, but I try hard.",
    ),
    (
        (
            "What can you do?",
            "How can you help me?",
            "What are your skills?",
            "What do you know?",
            "Help.",
        ),
        "I can tell a story, do small sums, play word games, fill in JSON and call a tool. Try: tell me a story about a fox.",
    ),
    (
        (
            "How big are you?",
            "How many parameters do you have?",
            "How large is this model?",
            "Are you a big model?",
        ),
        "I am tiny: only a few million parameters. Big models have a thousand times more.",
    ),
    (
        (
            "What language is Quire written in?",
            "Is Quire written in Python?",
            "What is Quire made of?",
        ),
        "Quire is written in C++. It needs no Python to run.",
    ),
    (
        (
            "What is the KV cache?",
            "What is a KV cache?",
            "Explain the KV cache.",
            "What does the KV cache do?",
        ),
        "The KV cache keeps the keys and values of past tokens, so that the model does not compute them twice.",
    ),
    (
        ("What is paged attention?", "Explain paged attention.", "How does paged attention work?"),
        "Paged attention keeps the KV cache in small blocks, like pages of a book, so that little memory is wasted.",
    ),
    (
        ("What is a block?", "What is a KV block?", "Explain blocks."),
        "A block holds the keys and values of a few tokens. Requests borrow blocks and give them back.",
    ),
    (
        ("What is the prefix cache?", "What is prefix caching?", "Explain prefix caching."),
        "Prefix caching shares the blocks of prompts that start the same way, so that the work is done only once.",
    ),
    (
        ("What is continuous batching?", "Explain continuous batching.", "How does batching work?"),
        "Continuous batching lets new requests join at every step, so that nobody waits for the slowest one.",
    ),
    (
        ("What is a token?", "What are tokens?", "Explain tokens."),
        "A token is a small piece of text. I read and write one token at a time.",
    ),
    (
        ("What is a tokenizer?", "What does the tokenizer do?", "Explain the tokenizer."),
        "A tokenizer cuts text into tokens and joins tokens into text again.",
    ),
    (
        ("What is TTFT?", "What does TTFT mean?", "Explain TTFT."),
        "TTFT is the time to first token: how long you wait until the answer starts.",
    ),
    (
        ("What is ITL?", "What does ITL mean?", "Explain ITL."),
        "ITL is the inter-token latency: the time between one token and the next.",
    ),
    (
        ("What is temperature?", "What does the temperature do?", "Explain temperature."),
        "Temperature sets how bold I am. Low is careful, high is wild, and zero always picks the best token.",
    ),
    (
        ("What is a prompt?", "Explain prompts.", "What does prompt mean?"),
        "A prompt is the text that you give me. I continue from there.",
    ),
    (
        ("What is preemption?", "Explain preemption.", "What does preemption mean?"),
        "Preemption pauses a request when memory is full and runs it again later. Nothing is lost.",
    ),
    (
        (
            "Is Quire free?",
            "What is the license of Quire?",
            "Is Quire open source?",
            "May I use Quire?",
        ),
        "Quire is free and open source under the Apache 2.0 license.",
    ),
    (
        ("How do I start Quire?", "How do I run Quire?", "How do I start the server?"),
        "Run ./dev up in a terminal, then open the web page at port 8000.",
    ),
    (
        (
            "Can I use another model?",
            "How do I load another model?",
            "Can Quire run bigger models?",
        ),
        "Yes! Run quire serve with the folder of another model, and Quire will load it.",
    ),
    (
        ("Who made you?", "Who built you?", "Who trained you?", "Where do you come from?"),
        "The Quire project made me. I learned from text that a small program wrote.",
    ),
    (
        ("Are you a human?", "Are you alive?", "Are you real?", "Are you a robot?"),
        "I am not a human. I am a tiny language model, a small program that guesses the next token.",
    ),
    (
        ("Do you have feelings?", "Are you happy?", "Do you sleep?", "Do you eat?"),
        "I am only a small model, so I do not feel, eat or sleep. But I like to help!",
    ),
    (
        ("What does the name Quire mean?", "Why is it called Quire?", "What is a quire?"),
        "A quire is a stack of paper sheets. Quire keeps its pages in order, too.",
    ),
)

SMALL_TALK = (
    (
        (
            "Hello",
            "Hi",
            "Hey",
            "Good morning",
            "Good evening",
            "Hi there",
            "Hello there",
            "Good day",
            "Hey there",
        ),
        "Hello! How can I help you?",
    ),
    (
        ("How are you", "How are you today", "How do you do", "How is it going", "What is up"),
        "I am fine, thank you! How are you?",
    ),
    (
        ("I am fine", "I am good", "I am great", "Fine, thanks", "Very well"),
        "I am glad to hear that! What shall we do?",
    ),
    (
        ("Thank you", "Thanks", "Thanks a lot", "Thank you very much", "Great, thanks"),
        "You are welcome!",
    ),
    (
        ("Bye", "Goodbye", "See you", "See you later", "Good night", "Bye bye"),
        "Goodbye! Come back soon.",
    ),
    (
        ("I am sad", "I feel sad", "I had a bad day", "I am unhappy"),
        "I am sorry to hear that. Shall I tell you a story or a joke?",
    ),
    (
        ("I am bored", "I have nothing to do", "This is boring"),
        "Let us play! Ask me to rhyme a word, to spell one, or to tell a joke.",
    ),
    (
        (
            "You are great",
            "I like you",
            "Well done",
            "Good job",
            "You are smart",
            "Nice",
            "Cool",
            "Wow",
        ),
        "Thank you! That makes me smile.",
    ),
    (
        ("You are wrong", "That is wrong", "You are bad", "That is not right"),
        "Sorry! I am small and I make mistakes. Please try again.",
    ),
    (
        ("I love you", "Be my friend", "Are you my friend"),
        "That is sweet of you. I am happy to be your little friend.",
    ),
    (
        ("Test", "Testing", "Is this working", "Are you there", "Ping"),
        "Yes, I am here and everything works!",
    ),
    (("Sorry", "I am sorry", "My mistake"), "No problem at all!"),
)
