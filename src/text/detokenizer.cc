#include "text/detokenizer.h"

#include "text/tokenizer_tables.h"

namespace lamina {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tables_(tokenizer.tables_), skip_special_(skip_special), state_(tables_->decoder.start()) {}

std::string Detokenizer::feed(TokenId id) {
  std::string out;
  if (const auto token = tables_->decoded_token(id, skip_special_)) tables_->decoder.feed(state_, *token, out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  tables_->decoder.flush(state_, out);
  return out;
}

}  // namespace lamina
