#include "weights/tied.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/log.h"
#include "base/strings.h"
#include "weights/param.h"

namespace lamina {

namespace {

bool equal_bytes(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  constexpr uint64_t kBlock = uint64_t{4} << 20;
  const std::span<const uint8_t> left = checkpoint.data(a);
  const std::span<const uint8_t> right = checkpoint.data(b);
  for (uint64_t at = 0; at < left.size(); at += kBlock) {
    const uint64_t count = std::min<uint64_t>(kBlock, left.size() - at);
    const bool same = std::memcmp(left.data() + at, right.data() + at, count) == 0;
    checkpoint.file(a.file).drop(a.begin + at, count);
    checkpoint.file(b.file).drop(b.begin + at, count);
    if (!same) return false;
  }
  return true;
}

bool is_plain(const TensorInfo& tensor) { return check_float_sources({tensor.dtype}, "").ok(); }

}  // namespace

Status check_tied_head(const Checkpoint& checkpoint, const NameMap& names) {
  static constexpr std::string_view kHead = "lm_head.", kEmbedding = "model.embed_tokens.";
  std::map<std::string, const TensorInfo*> head, embedding;  // by what stands behind the module
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string name = names.rename(tensor.name);
    if (name.starts_with(kHead)) head.emplace(name.substr(kHead.size()), &tensor);
    if (name.starts_with(kEmbedding)) embedding.emplace(name.substr(kEmbedding.size()), &tensor);
  }
  for (const auto& [leaf, own] : head) {
    if (leaf == "bias" && std::ranges::all_of(checkpoint.data(*own), [](uint8_t byte) { return byte == 0; })) continue;
    const auto found = embedding.find(leaf);
    if (found == embedding.end()) return error("the config ties the head to the embedding, which has no ", leaf, " as ", own->name, " is");
    const TensorInfo* const shared = found->second;
    if (own->dtype == shared->dtype && own->shape == shared->shape && equal_bytes(checkpoint, *own, *shared)) continue;
    const std::string differs =
        cat("the config ties the head to the embedding, but tensor ", own->name, " differs from ", shared->name, ": ");
    if (leaf != "weight" || !is_plain(*own) || !is_plain(*shared)) {
      return error(differs, "a quantised head must repeat the embedding, or the config say \"tie_word_embeddings\": false");
    }
    log_warning(cat(differs, shared->name, " is used for both"));
  }
  return {};
}

}  // namespace lamina
