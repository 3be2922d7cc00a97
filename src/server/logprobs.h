#pragma once
// Log probabilities as the APIs show them. A token's text is what it adds inside a text; bytes that are no character become U+FFFD.

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/engine.h"

namespace lamina::server {

/// Likeliest tokens that a request may ask for at each position.
inline constexpr int kMostAlternatives = 100;

/// Completions: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, parallel arrays, grown token by token.
class CompletionLogprobs {
 public:
  /// `top`: alternatives a token; the token itself is always among them. `skip_special`: special tokens are not in the text. `offset`:
  /// where in the shown text the next token begins, in characters.
  CompletionLogprobs(const Tokenizer* tokenizer, int top, bool skip_special, int64_t offset = 0)
      : tokenizer_(tokenizer), top_(top), skip_special_(skip_special), offset_(offset) {}
  /// An echoed prompt of `text`: its first token, which nothing predicts (null entries), then `entries`, one for each of the others.
  void add_prompt(std::string_view text, TokenId first, std::span<const TokenLogprob> entries);
  /// A token of the answer.
  void add(const TokenLogprob& entry);
  int64_t offset() const { return offset_; }
  Json json() &&;

 private:
  void begin(TokenId token);
  void advance_in(std::string_view text, size_t& position, TokenId token);
  void rate(const TokenLogprob& entry);

  const Tokenizer* tokenizer_;
  int top_;
  bool skip_special_;
  int64_t offset_;
  Json::Array tokens_, logprobs_, tops_, offsets_;
};

/// Chat: {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
Json chat_logprobs(const Tokenizer* tokenizer, std::span<const TokenLogprob> entries, int top);

/// The token as text; "" without a tokenizer.
std::string token_text(const Tokenizer* tokenizer, TokenId token);
/// Characters that begin in `bytes`.
int64_t count_characters(std::string_view bytes);

}  // namespace lamina::server
