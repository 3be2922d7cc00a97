#pragma once
// Paged attention over a request's own positions.
//
// Order of accumulation (numeric contract, rule 4): positions are walked in blocks of kAttentionBlock that start at multiples of it,
// whatever the page size, window, threads or chunking; a block that is wholly masked for a row changes nothing of that row; within a
// block keys are in order. Slots outside [0, kv_len) may hold anything, NaN too, and are never multiplied; nor are masked keys.
// A row that sees no key at all comes out zero.

#include <cstddef>
#include <cstdint>

#include "tensor/view.h"

namespace lamina::kernels {

inline constexpr int64_t kAttentionBlock = 64;

/// K or V of one layer as the pool holds it: [slots, heads, dim] of `dtype`, as KvTarget wrote it. A key or value is the element times its
/// scale; 8 bits are expanded on the way into the registers' blocks, never as a copy of the pool.
struct KvSource {
  DType dtype = DType::kBF16;
  const void* base = nullptr;
  int64_t slot_stride = 0;        // elements from slot to slot
  float scale = 1.0F;             // of the layer; 1 with `scales`
  const float* scales = nullptr;  // kI8: [slots, heads]; null: `scale` alone
  int64_t scale_stride = 0;       // elements from slot to slot
};

/// One request's part of a batch.
struct AttentionSequence {
  int64_t query_begin = 0;         // first row of q and out
  int64_t query_count = 0;         // rows of this step
  int64_t query_position = 0;      // position of the first query row (its prefix length)
  int64_t kv_len = 0;              // keys that exist: positions [0, kv_len)
  const int32_t* pages = nullptr;  // page table: position p lives in slot pages[p / page_size] * page_size + p % page_size
};

enum class AttentionMask { kCausal, kBidirectional };

struct AttentionArgs {
  ConstF32View q;         // [rows, q_heads * qk_dim], already rotated
  MutableActivation out;  // [rows, q_heads * v_dim], in the dtype the output projection multiplies
  KvSource keys, values;  // of the same dtype
  int64_t page_size = 16;
  int q_heads = 0, kv_heads = 0;  // q head h reads kv head h / (q_heads / kv_heads)
  int qk_dim = 0, v_dim = 0;
  float scale = 1.0F;      // of scores, positive
  float logit_cap = 0.0F;  // 0: off; else s = cap * tanh(s / cap) before the mask
  int64_t window = -1;     // -1: off; else key > query - window (the token itself and window - 1 before it); both sides if bidirectional
  AttentionMask mask = AttentionMask::kCausal;
  bool exact = false;  // queries and softmax weights stay in f32; else a path may round them to bf16 when keys and values are no f32
};

/// A tile of work: query rows [row_begin, row_begin + row_count) of one sequence for kv heads [kv_head, kv_head + kv_head_count) and
/// all q heads that read them. How the work is cut into items changes no bit of the result.
struct AttentionItem {
  const AttentionSequence* sequence = nullptr;
  int64_t row_begin = 0;  // counted from the sequence's own first query row
  int64_t row_count = 0;  // at most attention_tile(args)
  int kv_head = 0;
  int kv_head_count = 1;  // row_count * kv_head_count * (q_heads / kv_heads) is at most attention_rows(args)
};

/// Query tokens in one item: enough rows to pay for copying a block of keys. Depends on the head counts only.
int64_t attention_tile(const AttentionArgs& args);
/// The most rows (query tokens times q heads) in one item: a tile of one kv head, or one token of all heads.
int64_t attention_rows(const AttentionArgs& args);

/// Bytes of scratch a thread needs for attention_item; a multiple of 64, the same for every ISA.
size_t attention_scratch_bytes(const AttentionArgs& args);

}  // namespace lamina::kernels
