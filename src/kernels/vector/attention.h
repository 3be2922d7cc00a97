#pragma once
// Attention of one item (attention.h): online softmax (Milakov & Gimelshein 2018) over blocks of 64 keys.
//
// A block's keys and values are copied through the page table once for all rows of the item. Every row keeps its own chains: scores over
// the head dimension, weights and weighted values over the keys in order, rescaled at the start of each block that the row sees. A key
// that a row does not see has a weight of exactly zero, which changes no sum but the sign of a zero, and that is dropped at the end. Hence
// a row's bits depend neither on the rows that share its tile nor on keys it does not see.

#include "kernels/vector/attention_lanes.h"
#include "kernels/vector/attention_rows.h"
#include "kernels/vector/kv8.h"

namespace lamina::kernels::vec {

template <class V, class Kv, class Form>
void run_attention(const AttentionArgs& args, const AttentionItem& item, void* memory) {
  using Words = typename Kv::Words;
  ScratchCursor<V> scratch{static_cast<char*>(memory)};
  const ItemRows<V> rows(args, item);
  BlockRows<V> block_rows(args, item, scratch);
  BlockWords<V> words = BlockWords<V>::take(args, scratch, Words{});
  Form form(rows, words, scratch);
  for (int head = 0; head < item.kv_head_count; ++head) form.begin(head);
  const int64_t begin = rows.seen(0).begin / kAttentionBlock * kAttentionBlock;
  const int64_t end = rows.seen(item.row_count - 1).end;
  block_rows.find(begin, end);
  for (int64_t block = begin; block < end; block += kAttentionBlock) {
    block_rows.find(block + kAttentionBlock, end);
    block_rows.enter(block);
    if (Form::kTransposedKeys && block == begin) block_rows.touch();
    const bool all_seen = rows.all_see(block, 0, rows.rows - 1, least<V>(kAttentionBlock, item.sequence->kv_len - block));
    for (int head = 0; head < item.kv_head_count; ++head) {
      if (Kv::kScaled) block_rows.find_scales(head);
      if constexpr (Form::kTransposedKeys)
        load_key_columns<V, Kv>(args, block_rows, head, words);
      else
        load_key_rows<V, Kv>(args, block_rows, head, words);
      load_values<V, Kv, Form::kTransposedKeys>(args, block_rows, head, words);
      words.any_spoilt = !all_seen && take_out_spoilt<V, Words>(words, block_rows.wanted());
      form.add_block(block, head, block_rows);
    }
  }
  for (int head = 0; head < item.kv_head_count; ++head) form.store_out(head);
}

template <class V, class Kv>
void attention_item_of(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  constexpr int64_t kFewRows = V::kWidth * 3 / 4;  // more fill lanes well enough
  if (item.row_count * (args.q_heads / args.kv_heads) <= kFewRows)
    run_attention<V, Kv, RowAttention<V, typename Kv::Plain>>(args, item, scratch);
  else
    run_attention<V, Kv, LaneAttention<V, typename Kv::Plain>>(args, item, scratch);
}

template <class V, class Kinds>
void attention_item_in(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  switch (args.keys.dtype) {
    case DType::kF32:
      return attention_item_of<V, FloatKv<V, float>>(args, item, scratch);
    case DType::kF8E4M3:
      return attention_item_of<V, typename Kinds::template Eight<E4m3Kv<V>>>(args, item, scratch);
    case DType::kF8E5M2:
      return attention_item_of<V, typename Kinds::template Eight<E5m2Kv<V>>>(args, item, scratch);
    case DType::kI8:
      return attention_item_of<V, typename Kinds::template Eight<Int8Kv<V>>>(args, item, scratch);
    default:
      LAMINA_CHECK(args.keys.dtype == DType::kBF16, "keys and values are f32, bf16, fp8 or int8");
      return attention_item_of<V, typename Kinds::Bf16>(args, item, scratch);
  }
}

template <class V>
void attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  if (args.exact) return attention_item_in<V, ExactKinds<V>>(args, item, scratch);
  attention_item_in<V, PathKinds<V>>(args, item, scratch);
}

}  // namespace lamina::kernels::vec
