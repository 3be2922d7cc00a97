#!/usr/bin/env python3
"""Plants one violation of each rule in a small clean tree and checks that lint reports that rule there, and nothing in the clean tree."""
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import cpp  # noqa: E402
import lint  # noqa: E402
import rules  # noqa: E402
import toolchain  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]

CLEAN = {
    "tools/lint/layers.txt": "base | | fmt/ | unistd.h\ntensor | | |\nmodels | tensor | |\napps | all | CLI/ |\n",
    "src/CMakeLists.txt": "lamina_library(base)\nlamina_library(tensor DEPS base)\nlamina_library(models DEPS tensor)\n",
    "src/base/log.h": "#pragma once\n#include <string>\n#define LAMINA_X 1\nstd::string name();\n",
    "src/base/log.cc": '#include "base/log.h"\n\n#include <fmt/format.h>\n#include <unistd.h>\n\nstd::string name() { return fmt::format("{}", 1); }\n',
    "src/tensor/view.h": '#pragma once\n#include "base/log.h"\nstruct View {\n  int rows = 1\'000;  // a / b\n};\n',
    "src/models/llama.cc": '#include "base/log.h"\n#include "tensor/view.h"\n// one / two\nint rows() { return View{}.rows; }\n',
    "tests/CMakeLists.txt": "lamina_tests(base DEPS base)\n",
    "tests/base/log_test.cc": "#include <gtest/gtest.h>\n\nTEST(Log, Writes) {}\n",
    "docs/ARCHITECTURE.md": "1. `base/log.h:name`\n2. `src/models/llama.cc:rows`\n",
}

COMPILED = ("format", "header-alone", "tidy")
STATEMENTS = "  f();\n" * 60
# rule, path, text that replaces or adds the file
PLANTED = [
    ("layers", "src/tensor/view.h", '#include "models/llama.h"\n'),
    ("layers", "src/base/log.cc", '#include "base/log.h"\n#include <nlohmann/json.hpp>\n'),
    ("layers", "src/base/log.h", "#pragma once\n#include <fmt/format.h>\n"),
    ("layers", "src/tensor/view.h", "#include <unistd.h>\n"),
    ("layers", "src/tensor/view.h", '#include "log.h"\n'),
    ("layers", "src/stray/x.h", "#pragma once\n"),
    ("layers", "tools/lint/layers.txt", "base | | fmt/ | unistd.h\ntensor | models | |\nmodels | tensor | |\n"),
    ("layers", "src/CMakeLists.txt", "lamina_library(models DEPS base LINK fmt)\n"),
    ("file-size", "src/base/long.h", "int x;\n" * 401),
    ("file-size", "src/kernels/long.h", "int x;\n" * 601),
    ("file-size", "tools/long.py", "x = 1\n" * 401),
    ("function-size", "src/base/f.h", "inline void g() {\n" + STATEMENTS + "}\n"),
    ("function-size", "src/base/f.h", "class A {\n  A(int b)\n      : b_{b}, c_(b) {\n" + STATEMENTS + "  }\n};\n"),
    ("function-size", "tests/base/log_test.cc", "TEST(Log, Long) {\n" + STATEMENTS + "}\n"),
    ("parameters", "src/base/f.h", "inline int g(int a, int b, int c, std::map<int, int> d, int e, int f, int h) { return 1; }\n"),
    ("division", "src/models/llama.cc", "int local(int heads, int tp) { return heads / tp; }\n"),
    ("division", "src/models/llama.h", "inline int rest(int heads, int tp) { return heads % tp; }\n"),
    ("platform", "src/models/llama.cc", "#ifdef __linux__\n#endif\n"),
    ("macros", "src/tensor/view.h", "#define TWO 2\n"),
    ("exceptions", "src/tensor/view.h", "inline void f() { throw 1; }\n"),
    ("iostream", "src/tensor/view.h", "#include <iostream>\n"),
    ("own-header", "src/base/log.cc", '#include <string>\n\n#include "base/log.h"\n'),
    ("tests-run", "tests/tensor/view_test.cc", "TEST(View, Rows) {}\n"),
    ("tests-run", "tests/base/log_test.cc", "TEST(Log, DISABLED_Writes) {}\n"),
    ("tests-run", "tests/base/log_test.cc", "#include <gtest/gtest.h>\n"),
    ("sleep", "tests/base/log_test.cc", "TEST(Log, Waits) { std::this_thread::sleep_for(1s); }\n"),
    ("unfinished", "src/tensor/view.h", "// TODO more\n"),
    ("machine", "tools/x.sh", "cd /root/there\n"),
    ("machine", "tools/x.txt", "https://registry.example.org/x\n"),
    ("binary", "src/base/blob.txt", "\0\1\2"),
    ("binary", "docs/huge.txt", "x" * (rules.MAX_BYTES + 1)),
    ("references", "docs/ARCHITECTURE.md", "`src/base/gone.h:name`\n"),
    ("references", "docs/ARCHITECTURE.md", "`src/base/log.h:absent`\n"),
    ("format", "src/tensor/view.h", "#pragma once\nint  a ;\n"),
    ("header-alone", "src/tensor/view.h", "#pragma once\nstd::string a();\n"),
    ("tidy", "src/models/llama.cc", "#include <string>\n#include <utility>\nstd::string f(std::string a) {\n"
     "  std::string b = std::move(a);\n  return a + b;\n}\n"),
]


def plant(root, files):
    shutil.rmtree(root, ignore_errors=True)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for name in (".clang-format", ".clang-tidy"):
        shutil.copy(REPOSITORY / name, root)
    return rules.Tree(root, files)


def compiled_findings(tree):
    return [f for rule in toolchain.RULES for f in rule(tree, toolchain.Compiler(tree))]


def main():
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "tree"
        clean = plant(root, CLEAN)
        failures += [f"the clean tree: {f}" for f in lint.text_findings(clean) + compiled_findings(clean)]
        for rule, path, text in PLANTED:
            tree = plant(root, CLEAN | {path: text})
            found = compiled_findings(tree) if rule in COMPILED else lint.text_findings(tree)
            if not any(f.rule == rule and f.path == path for f in found):
                failures.append(f"{rule} in {path} not reported; found {[str(f) for f in found]}")
    names = [f.name for f in cpp.functions("namespace a {\nclass B {\n  int c() const { return 1; }\n  int d_{1};\n};\nauto e = [](int) { return 2; };\n}")]
    if names != ["c"]:
        failures.append(f"functions found: {names}")
    print("\n".join(failures) or f"lint reports all {len(PLANTED)} planted violations")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
