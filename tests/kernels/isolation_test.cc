// Code compiled for one instruction set must not be reachable on a CPU without it. A function with vague linkage (inline, template)
// in an ISA's object file could be the copy the linker keeps for the whole program.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/strings.h"

namespace {

std::string run(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

TEST(IsaObjects, DefineNoFunctionTheLinkerCouldMerge) {
  if (run("nm --version 2>/dev/null").empty()) GTEST_SKIP() << "nm is not installed";
  for (const std::string file :
       {"avx2/avx2", "avx2/attention", "avx2/quantised", "avx512/avx512", "avx512/attention", "avx512/quantised"}) {
    const std::string object = lamina::cat(LAMINA_BINARY_DIR, "/src/CMakeFiles/lamina_kernels.dir/kernels/", file, ".cc.o");
    if (!std::filesystem::exists(object)) GTEST_SKIP() << object << " is absent";
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

}  // namespace
