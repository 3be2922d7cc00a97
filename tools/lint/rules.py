"""The rules that need only the text of the tree. Each takes a Tree and yields Findings; RULES at the end lists them."""
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import cpp

MAX_LINES, MAX_LINES_KERNELS, MAX_LINES_TESTS = 400, 600, 600
MAX_FUNCTION_LINES, MAX_PARAMETERS = 60, 6
MAX_BYTES = 1 << 20  # of a file; data may be larger
DATA = ("models/demo/", "tests/golden/", "tests/fuzz/corpus/")


@dataclass(order=True, frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class Tree:
    """The files of a checkout, by path relative to `root`; texts are read once."""

    def __init__(self, root, paths):
        self.root = Path(root)
        self.paths = sorted(p for p in paths if (self.root / p).is_file() and not (self.root / p).is_symlink())
        self._texts = {}

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_bytes().decode("utf-8", "replace")
        return self._texts[path]

    def exists(self, path):
        return (self.root / path).is_file()

    def matching(self, prefix, *suffixes):
        return [p for p in self.paths if p.startswith(prefix) and p.endswith(suffixes)]

    def cpp(self, *prefixes):
        return [p for p in self.paths if p.startswith(prefixes or ("src/", "tests/", "bench/")) and p.endswith((".cc", ".h"))]


def _matches(tree, paths, pattern, rule, message, text_of=None):
    """A finding for each match of `pattern` in the code (or what text_of(text) leaves) of `paths`."""
    for path in paths:
        for match in re.finditer(pattern, (text_of or cpp.code_only)(tree.text(path)), re.M):
            line = tree.text(path).count("\n", 0, match.start()) + 1
            yield Finding(path, line, rule, message.format(match.group().strip()))


# ---- layers ------------------------------------------------------------------------------------------------------------------


@dataclass
class Layer:
    folders: set
    third_party: list
    system: list


def read_layers(tree):
    """folder -> Layer, in the order of tools/lint/layers.txt."""
    layers = {}
    for line in tree.text("tools/lint/layers.txt").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        folder, folders, third_party, system = ([f.strip() for f in line.split("|")] + ["", "", ""])[:4]
        named = set(layers) if folders == "all" else set(folders.split())
        layers[folder] = Layer(named, third_party.split(), system.split())
    return layers


def _listed(header, entries):
    return any(header.startswith(entry) if entry.endswith("/") else header == entry for entry in entries)


def _check_include(path, folder, layers, quote, header):
    """What is wrong with one #include, or None."""
    layer = layers[folder]
    if quote == '"':
        target = header.split("/")[0]
        if "/" not in header or target not in layers:
            return f'"{header}" is not written as "folder/file.h" with a folder of the layer table'
        if target not in {folder, "base"} | layer.folders:
            return f"{folder} may not include {target}"
    elif "." in header or "/" in header:
        if _listed(header, layer.third_party):
            return None if path.endswith(".cc") else f"<{header}> is third party: only in .cc files"
        if not _listed(header, layer.system):
            return f"<{header}> is not listed for {folder} in tools/lint/layers.txt"
    return None


def layer_includes(tree):
    layers = read_layers(tree)
    for path in tree.cpp("src/"):
        folder = path.split("/")[1]
        if folder not in layers:
            yield Finding(path, 1, "layers", f"folder {folder} is not in tools/lint/layers.txt")
            continue
        for line, quote, header in cpp.includes(tree.text(path)):
            fault = _check_include(path, folder, layers, quote, header)
            if fault:
                yield Finding(path, line, "layers", fault)


def layer_order(tree):
    seen = {"base"}
    for folder, layer in read_layers(tree).items():
        for name in sorted(layer.folders - seen):
            yield Finding("tools/lint/layers.txt", 1, "layers", f"{folder} names {name}, which does not stand above it")
        seen.add(folder)


def layer_targets(tree):
    """src/CMakeLists.txt links each folder to exactly what the table lets it include."""
    path = "src/CMakeLists.txt"
    layers = read_layers(tree)
    for match in re.finditer(r"lamina_library\((\w+)(?: DEPS ((?:\w+ ?)*?))?(?: LINK [^)]*)?\)", tree.text(path)):
        folder, deps = match.group(1), set((match.group(2) or "").split()) - {"base"}
        if folder in layers and deps != layers[folder].folders - {"base"}:
            line = tree.text(path).count("\n", 0, match.start()) + 1
            yield Finding(path, line, "layers", f"DEPS of {folder} differ from tools/lint/layers.txt: {sorted(deps ^ layers[folder].folders)}")


# ---- size --------------------------------------------------------------------------------------------------------------------


def line_limit(path):
    if path.startswith("src/kernels/"):
        return MAX_LINES_KERNELS
    return MAX_LINES_TESTS if path.startswith("tests/") else MAX_LINES


def code_files(tree):
    return [p for p in tree.paths if p.endswith((".cc", ".h", ".py", ".sh")) or p == "dev"]


def file_size(tree):
    for path in code_files(tree):
        lines, limit = len(tree.text(path).splitlines()), line_limit(path)
        if lines > limit:
            yield Finding(path, limit + 1, "file-size", f"{lines} lines, at most {limit}")


def function_size(tree):
    for path in tree.cpp():
        for function in cpp.functions(tree.text(path)):
            if function.lines > MAX_FUNCTION_LINES:
                yield Finding(path, function.line, "function-size", f"{function.name} has {function.lines} lines, at most {MAX_FUNCTION_LINES}")
            if function.parameters > MAX_PARAMETERS:
                yield Finding(path, function.line, "parameters", f"{function.name} takes {function.parameters}, at most {MAX_PARAMETERS}")


# ---- code --------------------------------------------------------------------------------------------------------------------


def division_in_models(tree):
    without_includes = lambda text: re.sub(r"^[ \t]*#[^\n]*", lambda m: " " * len(m.group()), cpp.code_only(text), flags=re.M)
    yield from _matches(
        tree,
        tree.cpp("src/models/"),
        r"[/%]=?",
        "division",
        "no '{}' in models: sizes are cut in ShardSpec, derived sizes belong to the config",
        without_includes,
    )


def conditionals(tree):
    paths = [p for p in tree.cpp("src/") if not p.startswith(("src/base/", "src/kernels/"))]
    yield from _matches(tree, paths, r"^[ \t]*#[ \t]*(?:if|elif)\w*[^\n]*", "platform", "'{}': only in base/ and kernels/")


def macros(tree):
    paths = [p for p in tree.cpp("src/") if not p.startswith("src/base/")]
    ours = r"^[ \t]*#[ \t]*define[ \t]+(?!PCRE2_CODE_UNIT_WIDTH\b)\w+"  # PCRE2's header wants that one from its user
    yield from _matches(tree, paths, ours, "macros", "'{}': macros are defined only in base/")


def forbidden_words(tree):
    libraries = [p for p in tree.cpp("src/") if not p.startswith("src/apps/")]
    yield from _matches(tree, libraries, r"\bthrow\b", "exceptions", "errors are Result and Status, nothing throws")
    yield from _matches(tree, libraries, r"<iostream>", "iostream", "no iostream in libraries")
    yield from _matches(tree, tree.cpp("tests/"), r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", "sleep", "no '{}' in tests")
    yield from _matches(tree, tree.cpp("tests/"), r"\bDISABLED_\w*", "tests-run", "'{}': a test that exists is run")


def own_header_first(tree):
    """With the build this proves that the header compiles alone; the other headers are compiled by lint."""
    for path in tree.cpp("src/"):
        header = path.removeprefix("src/")[:-2] + "h"
        found = list(cpp.includes(tree.text(path)))
        if path.endswith(".cc") and tree.exists("src/" + header) and (not found or found[0][2] != header):
            yield Finding(path, found[0][0] if found else 1, "own-header", f'"{header}" must be the first include')


def tests_are_built(tree):
    cmake = tree.text("tests/CMakeLists.txt") if tree.exists("tests/CMakeLists.txt") else ""
    for path in tree.matching("tests/", "_test.cc"):
        folder = PurePosixPath(path).parts[1]
        if f"lamina_tests({folder} " not in cmake:
            yield Finding(path, 1, "tests-run", f"no lamina_tests({folder} ...) in tests/CMakeLists.txt builds it")
        if not re.search(r"\b(?:TYPED_)?TEST(?:_[FP])?\(", tree.text(path)):
            yield Finding(path, 1, "tests-run", "holds no test")


# ---- text --------------------------------------------------------------------------------------------------------------------


def text_files(tree):
    return [p for p in tree.paths if not p.startswith(DATA) and b"\0" not in (tree.root / p).read_bytes()[:8192]]


def unfinished(tree):
    paths = [p for p in text_files(tree) if not p.startswith("tools/lint/")]
    yield from _matches(tree, paths, r"\b(?:TODO|FIXME|XXX|HACK)\b", "unfinished", "'{}'", lambda text: text)


def machine_names(tree):
    paths = [p for p in text_files(tree) if not p.startswith("tools/lint/")]
    raw = lambda text: text
    yield from _matches(tree, paths, r"(?<![\w.}])/(?:root|work|home/\w+)/\w", "machine", "a path of one machine: '{}'", raw)
    hosts = r"https?://[^\s\"'<>]*(?:registry|mirror|npm|debian|pypi)[^\s\"'<>]*|\bregistry\.[\w-]+\.(?:com|dev|io|net|org)\b"
    yield from _matches(tree, paths, hosts, "machine", "a registry's host: '{}'", raw)


def binaries(tree):
    text = set(text_files(tree))
    for path in tree.paths:
        if path.startswith(DATA):
            continue
        if path not in text:
            yield Finding(path, 1, "binary", f"binary files belong to {' or '.join(DATA)}")
        elif (tree.root / path).stat().st_size > MAX_BYTES:
            yield Finding(path, 1, "binary", f"larger than {MAX_BYTES >> 20} MiB")


# ---- documents ---------------------------------------------------------------------------------------------------------------

ARCHITECTURE = "docs/ARCHITECTURE.md"
_REFERENCE = re.compile(r"`([\w./-]+\.(?:h|cc|sh|py)):([\w:~]+)`")


def references(tree, path):
    """(line, file, symbol) of each `file:symbol` in a document; files are named relative to src/."""
    for number, line in enumerate(tree.text(path).splitlines(), 1):
        for file, symbol in _REFERENCE.findall(line):
            yield number, file, symbol


def document_references(tree):
    for path in [p for p in tree.paths if p.endswith(".md")]:
        for line, file, symbol in references(tree, path):
            source = next((f for f in (file, "src/" + file) if tree.exists(f)), None)
            if source is None:
                yield Finding(path, line, "references", f"{file} does not exist")
                continue
            for word in filter(None, symbol.split("::")):
                if not re.search(rf"(?<!\w){re.escape(word)}\b", cpp.code_only(tree.text(source))):
                    yield Finding(path, line, "references", f"{source} has no {word}")


RULES = [
    layer_includes,
    layer_order,
    layer_targets,
    file_size,
    function_size,
    division_in_models,
    conditionals,
    macros,
    forbidden_words,
    own_header_first,
    tests_are_built,
    unfinished,
    machine_names,
    binaries,
    document_references,
]
