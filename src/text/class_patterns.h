#pragma once
// Patterns for the character classes that components of tokenizer.json use without spelling them.

#include "text/pattern.h"

namespace lamina::text {

inline constexpr int kMaxNesting = 8;  // of sequences in sequences

Pattern mark_pattern();         // one mark: StripAccents
Pattern number_pattern();       // one number: Digits
Pattern punctuation_pattern();  // one punctuation character: Punctuation
Pattern words_pattern();        // a run of word characters, or of neither word characters nor white space: Whitespace
Pattern gpt2_pattern();         // ByteLevel's own cut (GPT-2's encoder.py)

}  // namespace lamina::text
