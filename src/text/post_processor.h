#pragma once
// The "post_processor" of tokenizer.json: the control tokens around an encoded text.

#include <string>
#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "text/json_node.h"

namespace lamina::text {

/// What is put around the ids of one text when special tokens are asked for.
struct PostProcessor {
  std::vector<TokenId> prefix, suffix;

  /// Types: Sequence, ByteLevel (which concerns offsets only), TemplateProcessing (its "single" template), RobertaProcessing.
  static Result<PostProcessor> parse(const JsonNode& node);
};

}  // namespace lamina::text
