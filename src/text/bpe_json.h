#pragma once
// The "model" of tokenizer.json.

#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "text/bpe.h"
#include "text/json_node.h"

namespace lamina::text {

/// An error that names the type unless it is BPE.
Status check_model_type(const JsonNode& model);

/// Reads a model of type BPE. `byte_level` and `reserved` as in Bpe.
Result<Bpe> parse_bpe(const JsonNode& model, bool byte_level, std::vector<TokenId> reserved);

/// An error unless an id of `tokens` tokens is plausible: ids index tables, so a stray huge one must not size them.
Status check_density(const JsonNode& node, int64_t id, size_t tokens);

}  // namespace lamina::text
