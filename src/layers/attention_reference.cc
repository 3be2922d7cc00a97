#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "layers/attention.h"

namespace lamina {
namespace {

double element(const KvTensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::kF32:
      return static_cast<const float*>(tensor.base)[index];
    case DType::kBF16:
      return bf16_to_f32(static_cast<const uint16_t*>(tensor.base)[index]);
    case DType::kF8E4M3:
      return kernels::e4m3_to_f32(static_cast<const uint8_t*>(tensor.base)[index]);
    case DType::kF8E5M2:
      return kernels::e5m2_to_f32(static_cast<const uint8_t*>(tensor.base)[index]);
    default:
      return static_cast<const int8_t*>(tensor.base)[index];
  }
}

/// Head `head` of slot `slot`.
class HeadOf {
 public:
  HeadOf(const KvTensor& tensor, int64_t slot, int head)
      : tensor_(tensor),
        first_(slot * tensor.slot_stride + static_cast<int64_t>(head) * tensor.dim),
        scale_(tensor.scales != nullptr ? tensor.scales[slot * tensor.scale_stride + head] : tensor.scale) {}
  double operator[](int d) const { return element(tensor_, first_ + d) * static_cast<double>(scale_); }

 private:
  const KvTensor& tensor_;
  int64_t first_;
  float scale_;
};

/// One query row of one sequence.
class RowAttention {
 public:
  RowAttention(const ForwardContext& ctx, const AttentionCall& call, const BatchSequence& sequence, int64_t row)
      : spec_(call.spec),
        keys_(ctx.kv.keys(call.spec.layer_id)),
        values_(ctx.kv.values(call.spec.layer_id)),
        query_(call.q.row(sequence.row_begin + row)),
        pages_(ctx.batch.pages.data() + sequence.page_begin),
        page_size_(ctx.batch.page_size) {
    const int64_t position = sequence.prefix_len + row;
    const bool causal = attention_mask(spec_.type) == kernels::AttentionMask::kCausal;
    end_ = causal ? position + 1 : sequence.prefix_len + sequence.row_count;
    if (spec_.window < 0) return;
    begin_ = std::max<int64_t>(0, position - spec_.window + 1);
    end_ = std::min(end_, position + spec_.window);
  }

  /// Softmax in two passes (maximum, then sums), then the mean of the values under it: out[0, v_dim).
  void head(int head, double* out) const {
    double maximum = -std::numeric_limits<double>::infinity();
    for (int64_t p = begin_; p < end_; ++p) maximum = std::max(maximum, score(head, p));
    double total = 0;
    std::fill_n(out, spec_.v_dim, 0.0);
    for (int64_t p = begin_; p < end_; ++p) {
      const double weight = std::exp(score(head, p) - maximum);
      const HeadOf value(values_, slot(p), kv_head(head));
      total += weight;
      for (int d = 0; d < spec_.v_dim; ++d) out[d] += weight * value[d];
    }
    for (int d = 0; d < spec_.v_dim; ++d) out[d] /= total;
  }

 private:
  int kv_head(int head) const { return head / (spec_.q_heads / spec_.kv_heads); }
  int64_t slot(int64_t position) const { return pages_[position / page_size_] * page_size_ + position % page_size_; }

  double score(int head, int64_t position) const {
    const float* query = query_ + static_cast<int64_t>(head) * spec_.qk_dim;
    const HeadOf key(keys_, slot(position), kv_head(head));
    double sum = 0;
    for (int d = 0; d < spec_.qk_dim; ++d) sum += query[d] * key[d];
    sum *= static_cast<double>(spec_.scale);
    const double cap = spec_.logit_cap;
    return cap > 0 ? cap * std::tanh(sum / cap) : sum;
  }

  const RadixAttentionSpec& spec_;
  const KvTensor& keys_;
  const KvTensor& values_;
  const float* query_;    // [q_heads, qk_dim]
  const int32_t* pages_;  // page table of the sequence
  int64_t page_size_;
  int64_t begin_ = 0, end_ = 0;  // keys seen; never empty, a row sees itself
};

class ReferenceBackend final : public AttentionBackend {
 public:
  const char* name() const override { return "reference"; }

  void forward(ForwardContext& ctx, const AttentionCall& call) override {
    const RadixAttentionSpec& spec = call.spec;
    if (call.save_kv_cache) {
      const kernels::Kernels& plain = kernels::table(Isa::kRef);
      const std::span<const int64_t> slots(ctx.batch.out_cache_loc);
      const auto rows = [&](const ConstF32View& x) { return slots.first(static_cast<size_t>(x.rows)); };
      plain.store_kv(call.keys, rows(call.keys), kv_target(ctx.kv.keys(spec.layer_id)));
      plain.store_kv(call.values, rows(call.values), kv_target(ctx.kv.values(spec.layer_id)));
    }
    const size_t mark = ctx.arena().mark();
    auto* mean = ctx.arena().take<double>(spec.v_dim);
    for (const BatchSequence& sequence : ctx.batch.sequences)
      for (int64_t row = 0; row < sequence.row_count; ++row) {
        const RowAttention attention(ctx, call, sequence, row);
        for (int head = 0; head < spec.q_heads; ++head) {
          attention.head(head, mean);
          for (int d = 0; d < spec.v_dim; ++d)
            call.out.store(sequence.row_begin + row, static_cast<int64_t>(head) * spec.v_dim + d, static_cast<float>(mean[d]));
        }
      }
    ctx.arena().release(mark);
  }

  size_t stage_bytes(const RadixAttentionSpec& spec, int) const override {
    return (static_cast<size_t>(spec.v_dim) * sizeof(double) + 63) / 64 * 64;
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace lamina
