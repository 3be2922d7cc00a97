#pragma once
// The "decoder" of tokenizer.json: from tokens to text, one token at a time.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_node.h"

namespace lamina::text {

/// What a decoder remembers between tokens. Small: at most one held token or the bytes of an unfinished run.
struct DecodeState {
  struct Step {
    size_t seen = 0;    // tokens, or characters stripped so far
    bool done = false;  // stripping is over
    bool holding = false;
    std::string held;  // bytes or a token whose text depends on what follows
    std::string buffer;
  };
  std::vector<Step> steps;
};

/// Immutable. Types: Sequence, ByteLevel, ByteFallback, Replace (of a string), Fuse, Strip (at the start), Metaspace, BPEDecoder. Without a
/// decoder tokens are joined by spaces.
///
/// Text that is given out never changes; what is held back is what a later token can change: an unfinished character (ByteLevel), a run
/// of byte tokens (ByteFallback: one bad byte in a run turns all its bytes into U+FFFD), the end of a word (BPEDecoder).
class Decoder {
 public:
  Decoder();
  static Result<Decoder> parse(const JsonNode& node);

  DecodeState start() const;
  /// Appends to `out` the text that `token` makes final.
  void feed(DecodeState& state, std::string_view token, std::string& out) const;
  /// The bytes that `token` stands for inside a text, whatever its neighbours are; may be part of a character.
  std::string bytes(std::string_view token) const;
  /// Appends the rest and starts anew.
  void flush(DecodeState& state, std::string& out) const;

 private:
  enum class Kind { kByteLevel, kByteFallback, kReplace, kStrip, kMetaspace, kBpe, kJoin };
  struct Step {
    Kind kind;
    std::string pattern = {};  // kReplace, kStrip: what is removed; kMetaspace: what becomes a space; kBpe: the suffix
    std::string content = {};  // kReplace
    size_t count = 0;          // kStrip
    bool fused = false;        // kStrip: the tokens are parts of one
    bool drop_first = false;   // kMetaspace: the first token's are removed instead
  };
  Status parse_into(const JsonNode& node, int depth);
  Status check_order(const JsonNode& node, std::string_view type) const;
  void run(size_t step, DecodeState& state, std::string_view token, std::string& out) const;
  void run_strip(size_t index, DecodeState& state, std::string_view token, std::string& out) const;
  void release(size_t index, DecodeState& state, bool last, std::string& out) const;

  std::vector<Step> steps_;
  bool fused_ = false;
};

}  // namespace lamina::text
