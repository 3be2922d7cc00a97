// Code compiled for one instruction set must not be reachable on a CPU without it: an ISA's objects hold no function that the linker
// could take for the whole program (inline, template), and no instruction beyond those of its path.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"

namespace {

namespace fs = std::filesystem;

std::string run(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

/// Objects of a folder of src/kernels; none where it is not built.
std::vector<std::string> objects_of(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code absent;
  for (const auto& entry :
       fs::directory_iterator(lamina::cat(LAMINA_BINARY_DIR, "/src/CMakeFiles/lamina_kernels.dir/kernels/", folder), absent)) {
    if (entry.path().extension() == ".o") out.push_back(entry.path());
  }
  return out;
}

/// The words that match `pattern` in the instructions of the objects, each once.
std::string words_in(const std::vector<std::string>& objects, const std::string& pattern) {
  std::string files;
  for (const std::string& object : objects) files += lamina::cat(" '", object, "'");
  return run(lamina::cat("objdump -d --no-show-raw-insn", files, " | grep -owE '", pattern, "' | sort -u"));
}

class IsaObjects : public testing::TestWithParam<const char*> {};

TEST_P(IsaObjects, DefineNoFunctionTheLinkerCouldMerge) {
  if (run("nm --version 2>/dev/null").empty()) GTEST_SKIP() << "nm is not installed";
  const std::vector<std::string> objects = objects_of(GetParam());
  if (objects.empty()) GTEST_SKIP() << GetParam() << " is not built";
  for (const std::string& object : objects) {
    const std::string symbols = run(lamina::cat("nm -C --defined-only '", object, "'"));
    size_t defined = 0;
    for (size_t begin = 0; begin < symbols.size();) {
      const size_t end = symbols.find('\n', begin);
      const std::string line = symbols.substr(begin, end - begin);
      begin = end + 1;
      const char kind = line.size() > 17 ? line[17] : ' ';
      EXPECT_NE(kind, 'W') << line;
      if (line.find("_attention_item(") == std::string::npos) {
        EXPECT_NE(kind, 'T') << line << ": the table and its entries are all that is exported";
      }
      ++defined;
    }
    EXPECT_GT(defined, 10U);
  }
}

#if defined(__aarch64__)
constexpr const char* kPaths[] = {"neon"};
#else
constexpr const char* kPaths[] = {"avx2", "avx512f", "avx512"};
#endif
INSTANTIATE_TEST_SUITE_P(Kernels, IsaObjects, testing::ValuesIn(kPaths), [](const auto& isa) { return std::string(isa.param); });

TEST(IsaInstructions, AreThoseOfThePath) {
  if (run("objdump --version 2>/dev/null").empty()) GTEST_SKIP() << "objdump is not installed";
  const auto avx2 = objects_of("avx2"), avx512f = objects_of("avx512f"), avx512 = objects_of("avx512");
  if (avx2.empty() || avx512f.empty() || avx512.empty()) GTEST_SKIP() << "the vector paths are not built";
  // Of AVX-512: 512-bit vectors, masks, and the upper half of the registers.
  EXPECT_EQ(words_in(avx2, "zmm[0-9]+|k[0-7]|[xy]mm(1[6-9]|2[0-9]|3[01])"), "");
  EXPECT_NE(words_in(avx2, "ymm[0-9]+"), "");

  EXPECT_NE(words_in(avx512f, "zmm[0-9]+"), "");
  const std::string dots = "vdpbf16ps|vpdp(busd|wssd)s?|vcvtne2?ps2?bf16[xyz]?";
  const std::string bytes = "vperm[it]2b|vpermb|vpmultishiftqb|vp(compress|expand)[bw]|vpsh[lr]dv?[wdq]|vpshufbitqmb|vpopcnt[bwdq]";
  const std::string others = "vpconflict[dq]|vplzcnt[dq]|vpmadd52[lh]uq|vgf2p8[a-z]+|vaes[a-z]+|vpclmulqdq|v[a-z0-9]+(ph|sh)x?";
  EXPECT_EQ(words_in(avx512f, lamina::cat(dots, "|", bytes, "|", others)), "vcvtps2ph\n");                  // that one is F16C's, and F's
  EXPECT_EQ(words_in(avx512, "vdpbf16ps|vpdpbusd|vcvtneps2bf16"), "vcvtneps2bf16\nvdpbf16ps\nvpdpbusd\n");  // it can be seen
}

}  // namespace
