#include "tests/support/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/strings.h"
#include "tests/support/safetensors_writer.h"

extern char** environ;

namespace lamina::fixture {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Outcome run_lamina(const std::vector<std::string>& args, const std::vector<std::pair<std::string, std::string>>& variables,
                   const std::string& out_path) {
  const char* given = std::getenv("LAMINA_BIN");
  std::vector<std::string> words = {given != nullptr ? given : LAMINA_BINARY_DIR "/lamina"}, settings;
  words.insert(words.end(), args.begin(), args.end());
  for (const auto& [name, value] : variables) settings.push_back(cat(name, "=", value));  // the first of a name counts
  for (char** entry = environ; *entry != nullptr; ++entry) settings.emplace_back(*entry);

  const TempFolder folder;  // files, because two full pipes could wait for each other
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::string out_file = out_path.empty() ? folder.file("out") : out_path;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_file.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, folder.file("err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int fault = posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  Outcome outcome;
  if (fault != 0) {
    ADD_FAILURE() << "cannot run " << words[0] << ": " << std::strerror(fault);
    return outcome;
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (out_path.empty()) outcome.out = slurp(out_file);
  outcome.err = slurp(folder.file("err"));
  outcome.peak_rss = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return outcome;
}

std::string only_error(const Outcome& outcome, int exit_code) {
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  std::string found;
  int errors = 0;
  for (const std::string& line : split(outcome.err, '\n')) {
    const bool log = line.empty() || line.starts_with("info: ") || line.starts_with("warning: ");
    const bool error = line.starts_with("error: ");
    EXPECT_TRUE(log || error) << "a stray line: " << line;
    if (error) ++errors, found = line.substr(std::string("error: ").size());
  }
  EXPECT_EQ(errors, 1) << outcome.err;
  return found;
}

}  // namespace lamina::fixture
