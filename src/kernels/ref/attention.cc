#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "kernels/ref/ref.h"

namespace lamina::kernels::ref {
namespace {

float element(const KvSource& source, int64_t index) {
  switch (source.dtype) {
    case DType::kF32:
      return static_cast<const float*>(source.base)[index];
    case DType::kF8E4M3:
      return e4m3_to_f32(static_cast<const uint8_t*>(source.base)[index]) * source.scale;
    case DType::kF8E5M2:
      return e5m2_to_f32(static_cast<const uint8_t*>(source.base)[index]) * source.scale;
    case DType::kI8:
      return static_cast<float>(static_cast<const int8_t*>(source.base)[index]) * source.scale;
    default:
      return bf16_to_f32(static_cast<const uint16_t*>(source.base)[index]);
  }
}

/// The scale of a slot's own head.
float head_scale(const KvSource& source, int64_t slot, int head) {
  return source.scales != nullptr ? source.scales[slot * source.scale_stride + head] : 1.0F;
}

/// Softmax over the keys one query row sees, in two passes (maximum, then sum), keys in order.
class Row {
 public:
  Row(const AttentionArgs& args, const AttentionSequence& sequence, int64_t token, int head)
      : args_(args),
        sequence_(sequence),
        query_(args.q.row(sequence.query_begin + token) + static_cast<int64_t>(head) * args.qk_dim),
        kv_head_(head / (args.q_heads / args.kv_heads)) {
    const int64_t position = sequence.query_position + token;
    if (args.window >= 0) begin_ = std::max<int64_t>(0, position - args.window + 1);
    end_ = sequence.kv_len;
    if (args.mask == AttentionMask::kCausal)
      end_ = std::min(end_, position + 1);
    else if (args.window >= 0)
      end_ = std::min(end_, position + args.window);
  }

  /// Leaves the weighted mean of the values in sum[0, v_dim).
  void run(float* sum) const {
    float maximum = -std::numeric_limits<float>::infinity();
    for (int64_t p = begin_; p < end_; ++p) maximum = std::max(maximum, score(p));
    std::fill_n(sum, args_.v_dim, 0.0F);
    float total = 0.0F;
    for (int64_t p = begin_; p < end_; ++p) {
      const float weight = std::exp(score(p) - maximum);
      const int64_t value = slot(p) * args_.values.slot_stride + static_cast<int64_t>(kv_head_) * args_.v_dim;
      total += weight;
      const float scaled = weight * head_scale(args_.values, slot(p), kv_head_);
      for (int d = 0; d < args_.v_dim; ++d) sum[d] += scaled * element(args_.values, value + d);
    }
    if (begin_ >= end_) return;
    for (int d = 0; d < args_.v_dim; ++d) sum[d] /= total;
  }

 private:
  int64_t slot(int64_t position) const {
    return sequence_.pages[position / args_.page_size] * args_.page_size + position % args_.page_size;
  }
  float score(int64_t position) const {
    const int64_t key = slot(position) * args_.keys.slot_stride + static_cast<int64_t>(kv_head_) * args_.qk_dim;
    float sum = 0.0F;
    for (int d = 0; d < args_.qk_dim; ++d) sum += query_[d] * element(args_.keys, key + d);
    sum *= args_.scale * head_scale(args_.keys, slot(position), kv_head_);
    return args_.logit_cap > 0.0F ? args_.logit_cap * std::tanh(sum / args_.logit_cap) : sum;
  }

  const AttentionArgs& args_;
  const AttentionSequence& sequence_;
  const float* query_;  // [qk_dim]
  int kv_head_;
  int64_t begin_ = 0;  // first key seen
  int64_t end_ = 0;    // one past the last
};

}  // namespace

void attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  const int group = args.q_heads / args.kv_heads;
  auto* sum = static_cast<float*>(scratch);
  for (int64_t token = item.row_begin; token < item.row_begin + item.row_count; ++token)
    for (int head = item.kv_head * group; head < (item.kv_head + item.kv_head_count) * group; ++head) {
      Row(args, *item.sequence, token, head).run(sum);
      for (int d = 0; d < args.v_dim; ++d)
        args.out.store(item.sequence->query_begin + token, static_cast<int64_t>(head) * args.v_dim + d, sum[d]);
    }
}

}  // namespace lamina::kernels::ref
