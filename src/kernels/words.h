#pragma once
// How codes lie in a CodedMatrix. A panel is [words][kPanelRows] words of 32 bits; a word holds the codes of 4 (8 bits) or 8 (4 bits)
// neighbouring k of one row. Each run begins a new word; codes that fill up its last one are 0.
//
// The order within a word is the one its users unpack in the fewest instructions: bytes in order for dot products of bytes (of int4 the
// first four k are the low halves), for fp8 and fp4 k and k + 1 in the lower and the upper 16 bits, as pairs of bf16 lie.

#include <cstdint>

#include "kernels/quantised.h"

namespace lamina::kernels {

constexpr int word_codes(Code code) { return code == Code::kInt4 || code == Code::kFp4E2m1 ? 8 : 4; }

/// The lowest bit of the code of the word's k number `i`.
constexpr int code_shift(Code code, int i) {
  if (code == Code::kInt4) return i % 4 * 8 + i / 4 * 4;
  if (code == Code::kFp4E2m1) return i / 2 * 4 + i % 2 * 16;
  if (code == Code::kFp8E4m3) return i / 2 * 8 + i % 2 * 16;
  return i * 8;
}

/// Words of a run of `length` codes.
constexpr int64_t run_words(Code code, int64_t length) { return (length + word_codes(code) - 1) / word_codes(code); }

/// Words of one row of a panel, all runs.
int64_t row_words(const CodedMatrix& matrix);

struct RunFactors {
  float scale = 1.0F;
  int zero = 0;
};
RunFactors run_factors(const CodedMatrix& matrix, int64_t row, int64_t run);

/// A row's codes, one a byte, as pack_codes took them. For plain loops; the fast paths read words.
class CodeRow {
 public:
  CodeRow(const CodedMatrix& matrix, int64_t row)
      : code_(matrix.code),
        mask_((1U << code_bits(code_)) - 1),
        words_(static_cast<const uint32_t*>(matrix.codes) + row / kPanelRows * row_words(matrix) * kPanelRows + row % kPanelRows) {}
  /// Code `i` of the words from `word` on.
  uint8_t at(int64_t word, int64_t i) const {
    const int64_t codes = word_codes(code_);
    return static_cast<uint8_t>(words_[(word + i / codes) * kPanelRows] >> code_shift(code_, static_cast<int>(i % codes)) & mask_);
  }

 private:
  Code code_;
  uint32_t mask_;
  const uint32_t* words_;
};

}  // namespace lamina::kernels
