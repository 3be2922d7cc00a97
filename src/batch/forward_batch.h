#pragma once
// One step's input to the model and its output: values and views, no logic.

#include <cstdint>
#include <vector>

#include "api/types.h"
#include "base/ids.h"
#include "tensor/view.h"

namespace lamina {

/// Which rows of a sequence need logits.
enum class LogitsRows { kNone, kLast, kAll };
/// How many of `rows` rows that are.
inline int64_t selected_rows(LogitsRows wanted, int64_t rows) {
  return wanted == LogitsRows::kAll ? rows : wanted == LogitsRows::kLast ? 1 : 0;
}

/// One request's rows in the batch.
struct BatchSequence {
  int64_t row_begin = 0;    // first of this attention-DP rank's rows
  int64_t row_count = 0;    // rows of this step, all real
  int64_t prefix_len = 0;   // positions already in the KV pool
  int64_t page_begin = 0;   // first entry in ForwardBatch::pages
  int64_t rope_length = 0;  // length that decides length-dependent rope tables (numeric contract, rule 10)
  LogitsRows logits = LogitsRows::kNone;
  /// How many of its rows that are, the last ones.
  int64_t selected_rows() const { return lamina::selected_rows(logits, row_count); }
  bool pool = false;  // wants the pooled embedding of its last row
};

/// Rows of all sequences of this attention-DP rank concatenated, ragged, then padding rows up to rows(). Without attention data parallelism
/// there is one such rank and `full_rows() == rows()`; with it the full rows are those of all its ranks, one after the other.
struct ForwardBatch {
  std::vector<TokenId> input_ids;        // [full rows]; padding rows hold id 0
  std::vector<int64_t> positions;        // [rows]
  std::vector<int64_t> out_cache_loc;    // [rows] slots to write K/V to; padded rows name slot 0 and are not written
  std::vector<BatchSequence> sequences;  // of this attention-DP rank
  std::vector<int32_t> pages;            // page tables of all sequences
  std::vector<int64_t> dp_rows;          // rows of each attention-DP rank, padding included; some may be 0
  std::vector<int64_t> dp_selected;      // rows of each of them that want logits
  int dp_rank = 0;
  bool dp_padded = false;  // every attention-DP rank has the same number of rows, by padding
  int64_t real_rows = 0;
  int64_t page_size = 16;

  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  int64_t full_rows() const { return static_cast<int64_t>(input_ids.size()); }
  /// The first full row of this attention-DP rank.
  int64_t local_begin() const {
    int64_t begin = 0;
    for (int d = 0; d < dp_rank; ++d) begin += dp_rows[static_cast<size_t>(d)];
    return begin;
  }
  /// Empties without giving memory back.
  void clear() {
    input_ids.clear(), positions.clear(), out_cache_loc.clear(), sequences.clear(), pages.clear();
    dp_rows.clear(), dp_selected.clear();
    real_rows = 0;
    dp_padded = false;
  }
};

/// What a forward leaves: views into the step's memory, valid until the next step.
struct ModelOutput {
  /// Rows of `hidden` that belong to a sequence.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  Activation hidden;                // [selected rows, hidden] after the final norm, as the head multiplies it
  std::vector<Rows> rows;           // one a sequence, in order; count 0 where none were asked for
  F32View pooled;                   // [sequences that pool, hidden], L2-normalised, in order
  std::vector<F32View> aux_hidden;  // captured residual streams, one [real rows, hidden] a capture layer
};

}  // namespace lamina
