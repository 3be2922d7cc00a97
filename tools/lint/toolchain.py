"""The rules that run a compiler: clang-format, headers that compile alone, clang-tidy. What passed once is remembered by content."""
import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import cpp
from rules import Finding

CACHE = "build/lint-cache"
BASE_FLAGS = ["-std=c++20", "-Isrc", "-I.", '-DLAMINA_SOURCE_DIR=""', '-DLAMINA_BINARY_DIR=""']
AARCH64 = "aarch64-linux-gnu"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshadow"]


def _isa_flags(tree):
    """Folder of src/kernels -> the compile options that src/CMakeLists.txt gives its sources: set(FOLDER_flags ...), which may name others."""
    text = tree.text("src/CMakeLists.txt") if tree.exists("src/CMakeLists.txt") else ""
    flags = {}
    for isa, words in re.findall(r"set\((\w+)_flags ([^)]*)\)", text):
        expanded = re.sub(r"\$\{(\w+)_flags\}", lambda match: " ".join(flags[match[1]]), words)
        flags[isa] = expanded.split()
    return {f"src/kernels/{isa}/": options for isa, options in flags.items()}


def _mpi_flags():
    listed = subprocess.run(["pkg-config", "--cflags", "ompi-c"], capture_output=True, text=True).stdout
    return ["-DOMPI_SKIP_MPICXX=1", *listed.replace("-I", "-isystem").split()]


class Compiler:
    def __init__(self, tree):
        self.tree = tree
        self.isa = {**_isa_flags(tree), "src/parallel/mpi/": _mpi_flags()}
        self.closures = {}
        self.tools = {}

    def flags(self, path):
        return BASE_FLAGS + next((flags for folder, flags in self.isa.items() if path.startswith(folder)), [])

    def for_aarch64(self, path):
        return any(flag.startswith("-march=armv") for flag in self.flags(path))

    def closure(self, path):
        """The file and every project file it includes, directly or not."""
        seen, open_paths = set(), [path]
        while open_paths:
            current = open_paths.pop()
            if current in seen:
                continue
            seen.add(current)
            open_paths += [p for p in self._direct(current) if p not in seen]
        return sorted(seen)

    def _direct(self, path):
        if path not in self.closures:
            names = [name for _, quote, name in cpp.includes(self.tree.text(path)) if quote == '"']
            candidates = [(f"src/{n}", n, f"{os.path.dirname(path)}/{n}") for n in names]
            self.closures[path] = [next(c for c in options if self.tree.exists(c)) for options in candidates if any(map(self.tree.exists, options))]
        return self.closures[path]

    def _version(self, tool):
        if tool not in self.tools:
            self.tools[tool] = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
        return self.tools[tool]

    def run_once(self, command, depends):
        """Runs the command unless it passed before with the same files and flags; its output when it fails."""
        digest = hashlib.sha256(repr((command, self._version(command[0]))).encode())
        for name in depends:
            digest.update(name.encode() + b"\0" + (self.tree.root / name).read_bytes())
        mark = self.tree.root / CACHE / digest.hexdigest()
        if mark.exists():
            return ""
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.tree.root, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            return ""
        return done.stdout + done.stderr or f"{command[0]} failed"


def _findings(root, path, rule, output):
    """The errors a compiler-like tool printed, as findings; the whole output when none can be made out."""
    found = [
        Finding(os.path.relpath(root / file, root), int(line), rule, message)
        for file, line, message in re.findall(r"^([^\s:]+):(\d+):\d+: (?:fatal )?(?:error|warning): (.*)", output, re.M)
    ]
    return found or ([Finding(path, 1, rule, output.strip())] if output else [])


def _run_all(tree, jobs):
    """jobs: (path, rule, function that gives the tool's output)."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outputs = pool.map(lambda job: job[2](), jobs)
        return sorted({f for (path, rule, _), output in zip(jobs, outputs) for f in _findings(tree.root, path, rule, output)})


def formatted(tree, compiler):
    def job(path):
        return lambda: compiler.run_once(["clang-format-19", "--dry-run", "-Werror", path], [path, ".clang-format"])

    findings = _run_all(tree, [(p, "format", job(p)) for p in tree.cpp()])
    return [Finding(path, 1, "format", "not formatted; run ./dev fmt") for path in sorted({f.path for f in findings})]


def headers_alone(tree, compiler):
    """Headers without a .cc of their own; the others are first in theirs (rule own-header)."""

    def job(path):
        gcc = f"{AARCH64}-g++" if compiler.for_aarch64(path) else "g++"
        command = [gcc, *compiler.flags(path), *WARNINGS, "-fsyntax-only", "-include", path, "-x", "c++", "/dev/null"]
        return lambda: compiler.run_once(command, compiler.closure(path))

    headers = [p for p in tree.cpp() if p.endswith(".h") and not tree.exists(p[:-1] + "cc")]
    return _run_all(tree, [(p, "header-alone", job(p)) for p in headers])


def tidy(tree, compiler):
    def job(path):
        target = [f"--target={AARCH64}"] if compiler.for_aarch64(path) else []
        command = ["clang-tidy-19", "--quiet", path, "--", *target, *compiler.flags(path)]
        return lambda: compiler.run_once(command, [*compiler.closure(path), ".clang-tidy"])

    sources = [p for p in tree.cpp("src/") if p.endswith(".cc")]
    return _run_all(tree, [(p, "tidy", job(p)) for p in sources])


RULES = [formatted, headers_alone, tidy]
