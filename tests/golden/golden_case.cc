#include "tests/golden/golden_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace lamina::golden {
namespace {

const std::string kShared = LAMINA_SOURCE_DIR "/../shared/golden/models";
const std::string kCopied = LAMINA_SOURCE_DIR "/tests/golden/models";

std::vector<TokenId> ids(const Json& array) {
  std::vector<TokenId> out;
  for (const Json& id : array.as_array()) out.push_back(static_cast<TokenId>(id.as_integer()));
  return out;
}

std::string folder_of(const std::string& name) { return (has_shared() ? kShared : kCopied) + "/" + name; }

}  // namespace

bool has_shared() { return is_directory(kShared); }

std::vector<std::string> names() {
  std::vector<std::string> out;
  std::ifstream table(LAMINA_SOURCE_DIR "/tests/golden/cases.tsv");
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find('\t'));
    if (is_directory(folder_of(name))) out.push_back(name);
  }
  return out;
}

Case load(const std::string& name) {
  Case out{.name = name, .folder = folder_of(name), .bf16_change = 0, .golden = {}};
  std::ifstream table(LAMINA_SOURCE_DIR "/tests/golden/cases.tsv");
  for (std::string line; std::getline(table, line);) {
    if (line.substr(0, line.find('\t')) == name) out.bf16_change = std::stod(line.substr(line.find('\t') + 1));
  }
  Result<std::string> text = read_file(out.folder + "/golden.json");
  EXPECT_TRUE(text.ok());
  Result<Json> json = parse_json(*text, name);
  EXPECT_TRUE(json.ok());
  out.golden = std::move(*json);
  return out;
}

std::vector<double> numbers(const Json& array) {
  std::vector<double> out;
  for (const Json& value : array.as_array()) out.push_back(value.as_double());
  return out;
}

Block block(const Json& golden) {
  Block out;
  out.prompt = ids(*golden.find("input_ids"));
  for (const Json& row : golden.find("logits")->as_array()) out.logits.push_back(numbers(row));
  if (const Json* positions = golden.find("logit_positions")) {
    for (const Json& p : positions->as_array()) out.positions.push_back(p.as_integer());
  } else {
    for (size_t p = 0; p < out.logits.size(); ++p) out.positions.push_back(static_cast<int64_t>(p));
  }
  if (const Json* greedy = golden.find("greedy")) out.greedy = ids(*greedy);
  return out;
}

Output run(Engine& engine, const std::vector<TokenId>& prompt, int new_tokens) {
  EngineRequest request{.prompt = prompt, .sampling = {}, .all_logits = true};
  request.sampling.temperature = 0;
  request.sampling.max_new_tokens = new_tokens;
  auto stream = engine.submit(std::move(request));
  EXPECT_TRUE(stream.ok()) << stream.error().message;
  Output out;
  while (std::optional<EngineEvent> event = (*stream)->next()) {
    EXPECT_EQ(event->error, "");
    out.logits.insert(out.logits.end(), event->prompt_logits.begin(), event->prompt_logits.end());
    if (!event->captured.empty()) out.captured = event->captured;
    if (event->token) out.greedy.push_back(*event->token);
  }
  return out;
}

std::vector<float> embed(Engine& engine, const std::vector<TokenId>& prompt) {
  auto stream = engine.submit({.prompt = prompt, .sampling = {}, .pool = true});
  EXPECT_TRUE(stream.ok()) << stream.error().message;
  std::vector<float> out;
  while (std::optional<EngineEvent> event = (*stream)->next()) out.insert(out.end(), event->embedding.begin(), event->embedding.end());
  return out;
}

EngineOptions options(const Case& golden_case, const std::string& isa, const std::string& dtype) {
  EngineOptions out;
  out.model = golden_case.folder;
  out.isa = isa;
  out.dtype = dtype;
  out.max_total_tokens = 2048;
  out.max_running_requests = 4;
  return out;
}

std::vector<std::string> isas() {
  std::vector<std::string> out;
  for (const Isa isa : supported_isas(decode_features(read_cpuid()))) out.emplace_back(isa_name(isa));
  return out;
}

double worst_difference(const Block& block, const std::vector<float>& logits) {
  const size_t vocab = block.logits.at(0).size();
  EXPECT_EQ(logits.size(), block.prompt.size() * vocab);
  double worst = 0;
  for (size_t r = 0; r < block.positions.size(); ++r) {
    for (size_t v = 0; v < vocab; ++v) {
      const double got = logits.at(static_cast<size_t>(block.positions[r]) * vocab + v);
      const double difference = std::abs(got - block.logits[r][v]);
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
  }
  return worst;
}

}  // namespace lamina::golden
