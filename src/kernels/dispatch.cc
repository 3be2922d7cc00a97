#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/tables.h"

namespace lamina::kernels {

namespace {

/// src/CMakeLists.txt builds the vector folders for their kind of processor only.
constexpr const Kernels* kTables[] = {
    &kRefKernels,
#if defined(__x86_64__)
    &kAvx2Kernels,
    &kAvx512FKernels,
    &kAvx512Kernels,
#elif defined(__aarch64__)
    &kNeonKernels,
#endif
};

}  // namespace

const Kernels& table(Isa isa) {
  static const CpuFeatures features = decode_features(read_cpuid());
  LAMINA_CHECK(supports(features, isa), "this processor cannot run the kernel path");
  for (const Kernels* kernels : kTables) {
    if (kernels->isa == isa) return *kernels;
  }
  check_failed(__FILE__, __LINE__, "isa", "a kernel path that this program was built without");
}

void matmul(const Kernels& kernels, ThreadTeam& team, const Activation& x, const PackedMatrix& packed, const float* bias, F32View out) {
  LAMINA_CHECK(x.cols == packed.k, "matmul: columns of x and of the weights differ");
  LAMINA_CHECK(x.dtype == packed.compute, "matmul: x must be in the dtype the weights are multiplied in");
  LAMINA_CHECK(out.rows == x.rows && out.cols >= packed.n, "matmul: output shape");
  if (x.rows == 0) return;
  team.parallel_for(packed.panels(), 1, [&](int64_t begin, int64_t end, int) { kernels.matmul_panels(x, packed, bias, out, begin, end); });
}

int64_t attention_tile(const AttentionArgs& args) {
  constexpr int64_t kRows = 288;  // six groups of three vectors on AVX-512
  return std::max<int64_t>(1, kRows / (args.q_heads / args.kv_heads));
}

int64_t attention_rows(const AttentionArgs& args) {
  return std::max<int64_t>(args.q_heads, attention_tile(args) * (args.q_heads / args.kv_heads));
}

size_t attention_scratch_bytes(const AttentionArgs& args) {
  constexpr int64_t kWord = 4, kWidest = 16, kGroupLanes = 48, kArrays = 18;  // each array is rounded up to 64 bytes
  const auto whole_panels = [](int64_t dim) { return (dim + kPanelRows - 1) / kPanelRows * kPanelRows; };
  const int64_t key_words = whole_panels(args.qk_dim);
  const int64_t value_words = whole_panels(args.v_dim) + kWidest;
  const int64_t lanes = 2 * attention_rows(args) + kWidest;  // the rows of each head are padded to whole vectors
  const int64_t block = kAttentionBlock * (key_words + 2 * value_words + 2 * kGroupLanes);
  const int64_t words = block + lanes * (key_words + value_words + 8) + kGroupLanes + 2 * kAttentionBlock;
  return static_cast<size_t>(words * kWord + 4 * kAttentionBlock * static_cast<int64_t>(sizeof(void*)) + kArrays * 64);
}

namespace {

/// Walks the items of a batch in order: for each sequence its tiles, latest (longest) first, for each tile its runs of kv heads.
class ItemCursor {
 public:
  ItemCursor(const AttentionArgs& args, std::span<const AttentionSequence> sequences, int threads)
      : args_(args), sequences_(sequences), tile_(attention_tile(args)) {
    int64_t all_tiles = 0;
    for (const AttentionSequence& sequence : sequences) all_tiles += tiles(sequence);
    busy_heads_ = std::clamp<int64_t>(args.kv_heads * all_tiles / threads, 1, args.kv_heads);
  }

  /// The item of global index `index`, which must not decrease from call to call; false beyond the last.
  bool find(int64_t index, AttentionItem& item) {
    while (sequence_ < sequences_.size() && index >= first_ + items(sequences_[sequence_])) first_ += items(sequences_[sequence_++]);
    if (sequence_ == sequences_.size()) return false;
    const AttentionSequence& sequence = sequences_[sequence_];
    const int64_t heads = heads_in_item(sequence);
    const int64_t runs = head_runs(sequence);
    const int64_t tile = tiles(sequence) - 1 - (index - first_) / runs;
    item.sequence = &sequence;
    item.row_begin = tile * tile_;
    item.row_count = std::min(tile_, sequence.query_count - item.row_begin);
    item.kv_head = static_cast<int>((index - first_) % runs * heads);
    item.kv_head_count = static_cast<int>(std::min<int64_t>(heads, args_.kv_heads - item.kv_head));
    return true;
  }

 private:
  int64_t tiles(const AttentionSequence& sequence) const { return (sequence.query_count + tile_ - 1) / tile_; }
  /// Several kv heads when the rows are few: a slot's heads lie side by side in memory. Not so many that threads run out of items.
  int64_t heads_in_item(const AttentionSequence& sequence) const {
    const int64_t rows = std::min(tile_, sequence.query_count) * (args_.q_heads / args_.kv_heads);
    return std::clamp<int64_t>(attention_rows(args_) / std::max<int64_t>(1, rows), 1, busy_heads_);
  }
  int64_t head_runs(const AttentionSequence& sequence) const {
    const int64_t heads = heads_in_item(sequence);
    return (args_.kv_heads + heads - 1) / heads;
  }
  int64_t items(const AttentionSequence& sequence) const { return tiles(sequence) * head_runs(sequence); }

  const AttentionArgs& args_;
  std::span<const AttentionSequence> sequences_;
  int64_t tile_;
  int64_t busy_heads_ = 1;  // heads an item may have while every thread still gets one
  size_t sequence_ = 0;
  int64_t first_ = 0;  // index of the first item of sequences_[sequence_]
};

}  // namespace

void attention(const Kernels& kernels, ThreadTeam& team, const AttentionArgs& args, std::span<const AttentionSequence> sequences,
               void* scratch) {
  LAMINA_CHECK(args.kv_heads > 0 && args.q_heads % args.kv_heads == 0, "attention: q heads must be a multiple of kv heads");
  LAMINA_CHECK(args.keys.dtype == args.values.dtype, "attention: keys and values differ in dtype");
  const size_t bytes = attention_scratch_bytes(args);
  std::atomic<int64_t> next{0};
  team.run([&](int thread) {
    void* own = static_cast<char*>(scratch) + static_cast<size_t>(thread) * bytes;
    ItemCursor cursor(args, sequences, team.size());
    AttentionItem item;
    while (cursor.find(next.fetch_add(1, std::memory_order_relaxed), item)) kernels.attention_item(args, item, own);
  });
}

}  // namespace lamina::kernels
