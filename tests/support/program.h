#pragma once
// Runs the built `lamina` as a user does.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lamina::fixture {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out, err;
  uint64_t peak_rss = 0;  // bytes, of the program alone
};

/// LAMINA_BIN (or the program of this build) with `args`, its environment this process's plus `variables`; stdout goes to the file
/// `out_path` when one is given, and stdin is empty.
Outcome run_lamina(const std::vector<std::string>& args, const std::vector<std::pair<std::string, std::string>>& variables = {},
                   const std::string& out_path = "");

/// Expects that the program printed nothing on stdout, exactly one line "error: ..." and beside it only log lines, and ended with
/// `exit_code`. The text of that line.
std::string only_error(const Outcome& outcome, int exit_code);

}  // namespace lamina::fixture
