#include "server/logprobs.h"

#include <algorithm>

#include "base/utf8.h"

namespace lamina::server {
namespace {

std::string raw_bytes(const Tokenizer* tokenizer, TokenId token) { return tokenizer == nullptr ? "" : tokenizer->token_bytes(token); }

Json number(float logprob) { return Json(static_cast<double>(logprob)); }

Json chat_entry(const Tokenizer* tokenizer, TokenId token, float logprob) {
  const std::string raw = raw_bytes(tokenizer, token);
  Json bytes = Json::array(), out;
  for (const char byte : raw) bytes.push(int64_t{static_cast<unsigned char>(byte)});
  out.set("token", to_valid_utf8(raw));
  out.set("logprob", number(logprob));
  out.set("bytes", std::move(bytes));
  return out;
}

}  // namespace

std::string token_text(const Tokenizer* tokenizer, TokenId token) { return to_valid_utf8(raw_bytes(tokenizer, token)); }

int64_t count_characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

void CompletionLogprobs::begin(TokenId token) {
  tokens_.emplace_back(token_text(tokenizer_, token));
  offsets_.emplace_back(offset_);
}

/// Steps over a prompt's token. A token that the tokenizer put before the text, or the space that it put before its first word, is not
/// in the text and takes no place.
void CompletionLogprobs::advance_in(std::string_view text, size_t& position, TokenId token) {
  std::string raw = raw_bytes(tokenizer_, token);
  if (position == 0 && raw.starts_with(' ') && !text.starts_with(' ')) raw.erase(0, 1);
  const bool added = tokenizer_ != nullptr && tokenizer_->is_special(token) && !text.substr(position).starts_with(raw);
  if (added) return;
  offset_ += count_characters(raw);
  position = std::min(position + raw.size(), text.size());
}

void CompletionLogprobs::add_prompt(std::string_view text, TokenId first, std::span<const TokenLogprob> entries) {
  size_t position = 0;
  begin(first);
  logprobs_.emplace_back();
  tops_.emplace_back();
  advance_in(text, position, first);
  for (const TokenLogprob& entry : entries) {
    begin(entry.token);
    rate(entry);
    advance_in(text, position, entry.token);
  }
}

void CompletionLogprobs::add(const TokenLogprob& entry) {
  begin(entry.token);
  rate(entry);
  const bool hidden = skip_special_ && tokenizer_ != nullptr && tokenizer_->is_special(entry.token);
  if (!hidden) offset_ += count_characters(raw_bytes(tokenizer_, entry.token));
}

void CompletionLogprobs::rate(const TokenLogprob& entry) {
  logprobs_.push_back(number(entry.logprob));
  Json top = Json::object();
  for (size_t i = 0; i < entry.top.size() && i < static_cast<size_t>(top_); ++i) {
    const std::string text = token_text(tokenizer_, entry.top[i].token);
    if (top.find(text) == nullptr) top.set(text, number(entry.top[i].logprob));  // the likeliest of those that look alike
  }
  const std::string own = tokens_.back().as_string();
  if (top.find(own) == nullptr) top.set(own, number(entry.logprob));
  tops_.push_back(std::move(top));
}

Json CompletionLogprobs::json() && {
  Json out;
  out.set("tokens", std::move(tokens_));
  out.set("token_logprobs", std::move(logprobs_));
  out.set("top_logprobs", std::move(tops_));
  out.set("text_offset", std::move(offsets_));
  return out;
}

Json chat_logprobs(const Tokenizer* tokenizer, std::span<const TokenLogprob> entries, int top) {
  Json content = Json::array(), out;
  for (const TokenLogprob& entry : entries) {
    Json item = chat_entry(tokenizer, entry.token, entry.logprob), alternatives = Json::array();
    for (size_t i = 0; i < entry.top.size() && i < static_cast<size_t>(top); ++i) {
      alternatives.push(chat_entry(tokenizer, entry.top[i].token, entry.top[i].logprob));
    }
    item.set("top_logprobs", std::move(alternatives));
    content.push(std::move(item));
  }
  out.set("content", std::move(content));
  return out;
}

}  // namespace lamina::server
