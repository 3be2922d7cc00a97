#pragma once
// Streaming: token ids in, finished text out.

#include <memory>
#include <string>

#include "api/types.h"
#include "text/decoder.h"
#include "text/tokenizer.h"

namespace lamina {

/// Decodes one sequence token by token. What feed() and then flush() return is, joined, exactly Tokenizer::decode of all ids; every piece
/// is valid UTF-8 and never half a character. The cost of a token does not grow with the sequence.
///
/// A token's text can depend on what stands before it (the first leading space is dropped by some decoders): to continue a text, feed the
/// ids of that text first and throw their output away.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special);

  /// The text that `id` makes final; often empty while a character is incomplete.
  std::string feed(TokenId id);
  /// The rest, with U+FFFD for what stayed incomplete. Then the next sequence may begin.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer::Tables> tables_;  // shared with the tokenizer
  bool skip_special_;
  text::DecodeState state_;
};

}  // namespace lamina
