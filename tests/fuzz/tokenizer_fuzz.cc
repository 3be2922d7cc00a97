// tokenizer.json: Tokenizer::parse(), then a few texts there and back.
#include "tests/fuzz/json_mutator.h"
#include "text/tokenizer.h"

LAMINA_FUZZ_JSON_INPUT()

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tokenizer = lamina::Tokenizer::parse({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
  if (!tokenizer.ok()) return 0;
  for (const char* text :
       {"Hello, world! It's 2 o'clock", " <s>caf\u00e9\u0301\n\n  \u4f60\u597d \U0001F600</s>", "aaaaaaaaaaaaaaaaaaaab"}) {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer->encode(text, {.add_special_tokens = special, .match_special = special});
      if (ids.ok()) (void)tokenizer->decode(*ids, special);
    }
  }
  for (const lamina::TokenId id : {-1, 0, 5, 300, 2000000000}) {
    (void)tokenizer->token_bytes(id);
    (void)tokenizer->token(id);
  }
  return 0;
}
