"""What the demo model learns: nouns with their glosses from WordNet's database files, and the questions that ask for them."""
import os
import re
from collections import Counter

QUESTIONS = ["What is {a} {w}?", "What is {w}?", "Define {w}.", "What does {w} mean?", "Tell me what {a} {w} is.", "{w}"]

SMALL_TALK = [
    ("Hello", "Hello! Ask me what a word means."),
    ("Hi", "Hello! Ask me what a word means."),
    ("Who are you?", "A very small language model that knows a dictionary of English nouns."),
    ("What can you do?", "I can tell you what a noun means. Try: What is a glacier?"),
    ("Thank you", "You are welcome."),
]

# Words a visitor is likely to try; they are taken however rare WordNet's texts have them.
ALWAYS = {
    "glacier", "violin", "telescope", "volcano", "piano", "algorithm", "robot", "compass", "bridge", "comet", "lantern",
    "harbor", "penguin", "cathedral", "microscope",
}  # fmt: skip

SHORTEST, LONGEST = 12, 110  # characters of a gloss


def question(word, phrasing):
    """The question QUESTIONS[phrasing] about `word`, with its article."""
    return QUESTIONS[phrasing].format(w=word, a="an" if word[0] in "aeiou" else "a")


def _records(folder, name):
    """The lines of a database file; the licence at its head is indented."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        yield from (line for line in file if not line.startswith(" "))


def _noun_counts(folder):
    """How often each noun is tagged in WordNet's texts, all its senses together."""
    counts = Counter()
    for line in _records(folder, "cntlist.rev"):
        sense_key, _, count = line.split()
        lemma, rest = sense_key.split("%")
        if rest.startswith("1:"):  # 1 is the noun
            counts[lemma] += int(count)
    return counts


def _commonest_senses(folder):
    """noun -> offset of its first synset, the commonest; index.noun lists the offsets last, their number in the third field."""
    senses = {}
    for line in _records(folder, "index.noun"):
        fields = line.split()
        senses[fields[0]] = fields[-int(fields[2])]
    return senses


def _glosses_by_offset(folder):
    """offset -> gloss up to the first example or semicolon."""
    glosses = {}
    for line in _records(folder, "data.noun"):
        gloss = line.split(" | ", 1)[1].strip()
        gloss = re.split(r'; *"|: *"', gloss)[0].split(";")[0].strip()
        glosses[line[:8]] = re.sub(r"\s+", " ", gloss)
    return glosses


def read_glosses(folder, limit):
    """[(word, gloss)], sorted: the `limit` single-word nouns with the highest counts, each with the gloss of its commonest sense."""
    counts, senses, glosses = _noun_counts(folder), _commonest_senses(folder), _glosses_by_offset(folder)
    words = [word for word in senses if re.fullmatch(r"[a-z]{3,14}", word)]
    words.sort(key=lambda word: (word not in ALWAYS, -counts[word], len(word), word))
    pairs = [(word, glosses[senses[word]]) for word in words]
    return sorted([pair for pair in pairs if SHORTEST <= len(pair[1]) <= LONGEST][:limit])


def tokenizer_texts(glosses):
    """The text the tokenizer is trained on."""
    questions = [question(word, i % len(QUESTIONS)) for i, (word, _) in enumerate(glosses)]
    return [gloss for _, gloss in glosses] + questions + [text for pair in SMALL_TALK for text in pair] * 3
