#pragma once
// The "normalizer" of tokenizer.json: rewrites text before it is cut.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_node.h"
#include "text/pattern.h"

namespace lamina::text {

/// Immutable. Types: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend.
class Normalizer {
 public:
  Normalizer() = default;  // leaves text as it is
  static Result<Normalizer> parse(const JsonNode& node);

  /// The normalized form of `text` (valid UTF-8): `text` itself where nothing changes, else kept in `buffer`.
  Result<std::string_view> apply(std::string_view text, std::string& buffer, MatchScratch& scratch) const;

 private:
  enum class Kind { kNfc, kNfd, kNfkc, kNfkd, kLowercase, kStripAccents, kStrip, kReplace, kPrepend };
  struct Step {
    Kind kind;
    Pattern pattern = Pattern::literal("");  // kReplace; kStripAccents: marks
    std::string content = {};                // kReplace, kPrepend
    bool left = false, right = false;        // kStrip
  };
  Status parse_into(const JsonNode& node, int depth);
  static Result<std::string_view> run(const Step& step, std::string_view text, std::string& out, MatchScratch& scratch);

  std::vector<Step> steps_;
};

/// {"String": ...} or {"Regex": ...} under `key`.
Result<Pattern> parse_pattern(const JsonNode& node, std::string_view key);

}  // namespace lamina::text
