"""A byte-level BPE tokenizer: trained on a list of texts, written as a tokenizer.json of the Hugging Face library."""
import json
import os
import re
from collections import Counter

SPECIALS = ["<|begin|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|pad|>"]
BOS, USER, ASSISTANT, SYSTEM, END, PAD = range(6)
CONTEXT_LENGTH = 512

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# PATTERN in the words of Python's re; equal on the ASCII that the training text is.
ASCII_PATTERN = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL]{2})| ?[A-Za-z]+| ?[0-9]{1,3}| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] | trim + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def byte_alphabet():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            alphabet[byte] = chr(byte)
        else:
            alphabet[byte] = chr(extra)
            extra += 1
    return alphabet


def _merge(symbols, pair):
    """`symbols` with each occurrence of `pair`, from left to right, joined."""
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class PairCounts:
    """How often each pair of neighbouring symbols occurs in the counted words, and in which words."""

    def __init__(self, words):
        self.words = [[tuple(symbols), count] for symbols, count in words]
        self.counts, self.where = Counter(), {}
        for index in range(len(self.words)):
            self._add(index)

    def _add(self, index):
        symbols, count = self.words[index]
        for pair in zip(symbols, symbols[1:]):
            self.counts[pair] += count
            self.where.setdefault(pair, set()).add(index)

    def most_frequent(self):
        """(pair, count); of equal counts the greatest pair."""
        return max(self.counts.items(), key=lambda item: (item[1], item[0]))

    def merge(self, pair):
        for index in list(self.where[pair]):
            symbols, count = self.words[index]
            for old in zip(symbols, symbols[1:]):
                self.counts[old] -= count
            self.words[index][0] = tuple(_merge(symbols, pair))
            self._add(index)
        del self.counts[pair], self.where[pair]


class Bpe:
    """Trained by construction: merges the most frequent pair until the vocabulary has `size` tokens or no pair occurs twice."""

    def __init__(self, texts, size):
        self.alphabet = byte_alphabet()
        self.vocab = {token: id for id, token in enumerate(SPECIALS)}
        for byte in range(256):
            self.vocab[self.alphabet[byte]] = len(self.vocab)
        words = Counter(piece for text in texts for piece in re.findall(ASCII_PATTERN, text))
        pairs = PairCounts([(self._symbols(word), count) for word, count in words.items()])
        self.merges = []
        while len(self.vocab) < size and pairs.counts:
            best, count = pairs.most_frequent()
            if count < 2:
                break
            self.merges.append(best)
            self.vocab[best[0] + best[1]] = len(self.vocab)
            pairs.merge(best)
        while len(self.vocab) < size:
            self.vocab[f"<|unused{len(self.vocab)}|>"] = len(self.vocab)
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.cache = {}

    def _symbols(self, word):
        return [self.alphabet[byte] for byte in word.encode()]

    def _encode_word(self, word):
        symbols = self._symbols(word)
        while len(symbols) > 1:
            rank, i = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(symbols, symbols[1:])))
            if rank == len(self.ranks):
                break
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        return [self.vocab[symbol] for symbol in symbols]

    def encode(self, text):
        """Ids of a text without special tokens."""
        ids = []
        for word in re.findall(ASCII_PATTERN, text):
            if word not in self.cache:
                self.cache[word] = self._encode_word(word)
            ids += self.cache[word]
        return ids

    def save(self, folder):
        """tokenizer.json, and tokenizer_config.json with the chat template."""
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(self._tokenizer_json(), file, ensure_ascii=False)
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIALS[BOS],
            "eos_token": SPECIALS[END],
            "pad_token": SPECIALS[PAD],
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT_LENGTH,
        }
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)

    def _tokenizer_json(self):
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        added = [token for token in self.vocab if token in SPECIALS or token.startswith("<|unused")]
        split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": self.vocab[token], "content": token, **flags} for token in added],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": _begin_with_bos(),
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                # Special tokens too: the library numbers an added token that the model does not know after the vocabulary.
                "vocab": self.vocab,
                "merges": [list(pair) for pair in self.merges],
            },
        }


def _begin_with_bos():
    bos = {"SpecialToken": {"id": SPECIALS[BOS], "type_id": 0}}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [bos, first],
        "pair": [bos, first, second],
        "special_tokens": {SPECIALS[BOS]: {"id": SPECIALS[BOS], "ids": [BOS], "tokens": [SPECIALS[BOS]]}},
    }
