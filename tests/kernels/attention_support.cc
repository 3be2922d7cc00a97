#include "tests/kernels/attention_support.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/strings.h"
#include "kernels/float8.h"

namespace lamina::kernels::testing {
namespace {

float key_scale(const AttentionCase& c) { return dtype_bytes(c.kv_dtype) == 1 ? kKeyScale : 1.0F; }
float value_scale(const AttentionCase& c) { return dtype_bytes(c.kv_dtype) == 1 ? kValueScale : 1.0F; }

Buffer nan_buffer(int64_t bytes) {
  auto buffer = Buffer::allocate(static_cast<size_t>(bytes));
  EXPECT_TRUE(buffer.ok());
  std::memset(buffer->data(), 0xFF, static_cast<size_t>(bytes));  // NaN in every format
  return std::move(buffer).value();
}

/// What the pool gives back for x: heads of `dim`.
void store_and_read(const AttentionCase& c, std::vector<float>& x, int dim, float scale) {
  if (c.kv_dtype == DType::kF32) return;
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(dim)) {
    const auto head = std::span(x).subspan(begin, static_cast<size_t>(dim));
    if (c.head_scales) {
      scale = 0.0F;
      for (const float value : head) scale = std::max(scale, std::fabs(value) / 127.0F);
    }
    for (float& value : head) {
      if (c.kv_dtype == DType::kBF16) value = bf16_to_f32(f32_to_bf16(value));
      if (c.kv_dtype == DType::kF8E4M3) value = e4m3_to_f32(f32_to_e4m3(value / scale)) * scale;
      if (c.kv_dtype == DType::kF8E5M2) value = e5m2_to_f32(f32_to_e5m2(value / scale)) * scale;
      if (c.kv_dtype == DType::kI8) value = std::clamp(std::nearbyint(value / scale), -128.0F, 127.0F) * scale;
    }
  }
}

}  // namespace

std::string describe(const AttentionCase& c) {
  return cat("heads ", c.q_heads, "/", c.kv_heads, " dims ", c.qk_dim, "/", c.v_dim, " kv ", dtype_name(c.kv_dtype),
             c.head_scales ? " head scales" : "", c.exact ? " exact" : "", " page ", c.page_size, " tokens ", c.tokens, " queries ",
             c.queries, " window ", c.window, " cap ", c.cap, c.mask == AttentionMask::kCausal ? " causal" : " bidirectional");
}

AttentionData::AttentionData(Random& random, const AttentionCase& c)
    : q(random.normal(c.tokens * c.q_heads * c.qk_dim)),
      k(random.normal(c.tokens * c.kv_heads * c.qk_dim)),
      v(random.normal(c.tokens * c.kv_heads * c.v_dim)) {
  store_and_read(c, k, c.qk_dim, kKeyScale);
  store_and_read(c, v, c.v_dim, kValueScale);
}

PagedRequest::PagedRequest(Random& random, const AttentionCase& c) : case_(c) {
  const int64_t used = (c.tokens + c.page_size - 1) / c.page_size;
  pages_.resize(static_cast<size_t>(2 * used + 1));
  std::iota(pages_.begin(), pages_.end(), 0);
  for (size_t i = pages_.size() - 1; i > 0; --i)
    std::swap(pages_[i], pages_[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  const int64_t slots = static_cast<int64_t>(pages_.size()) * c.page_size;
  pages_.resize(static_cast<size_t>(used));
  keys_ = nan_buffer(slots * c.kv_heads * c.qk_dim * dtype_bytes(c.kv_dtype));
  values_ = nan_buffer(slots * c.kv_heads * c.v_dim * dtype_bytes(c.kv_dtype));
  key_scales_ = nan_buffer(slots * c.kv_heads * 4);
  value_scales_ = nan_buffer(slots * c.kv_heads * 4);
}

KvTarget PagedRequest::target(Buffer& buffer, Buffer& scales, int dim, float scale) const {
  KvTarget target{.dtype = case_.kv_dtype, .base = buffer.data(), .slot_stride = case_.kv_heads * dim, .scale = scale};
  if (case_.head_scales)
    target.scale = 1.0F, target.scales = scales.as<float>(), target.scale_stride = case_.kv_heads, target.head_dim = dim;
  return target;
}

KvSource PagedRequest::source(const Buffer& buffer, const Buffer& scales, int dim, float scale) const {
  KvSource source{.dtype = case_.kv_dtype, .base = buffer.data(), .slot_stride = case_.kv_heads * dim, .scale = scale};
  if (case_.head_scales) source.scale = 1.0F, source.scales = scales.as<float>(), source.scale_stride = case_.kv_heads;
  return source;
}

void PagedRequest::store(const Kernels& kernels, const AttentionData& data, int64_t begin, int64_t end) {
  std::vector<int64_t> slots;
  for (int64_t p = begin; p < end; ++p)
    slots.push_back(pages_[static_cast<size_t>(p / case_.page_size)] * case_.page_size + p % case_.page_size);
  const int64_t key_width = case_.kv_heads * case_.qk_dim;
  const int64_t value_width = case_.kv_heads * case_.v_dim;
  kernels.store_kv(ConstF32View(data.k.data() + begin * key_width, end - begin, key_width), slots,
                   target(keys_, key_scales_, case_.qk_dim, key_scale(case_)));
  kernels.store_kv(ConstF32View(data.v.data() + begin * value_width, end - begin, value_width), slots,
                   target(values_, value_scales_, case_.v_dim, value_scale(case_)));
}

void PagedRequest::attend(const Kernels& kernels, ThreadTeam& team, const AttentionData& data, Ask ask, std::vector<float>& out) const {
  AttentionArgs args;
  args.q = ConstF32View(data.q.data(), case_.tokens, case_.q_heads * case_.qk_dim);
  args.out = {.dtype = DType::kF32,
              .data = out.data(),
              .rows = case_.tokens,
              .cols = case_.q_heads * case_.v_dim,
              .stride = case_.q_heads * case_.v_dim};
  args.keys = source(keys_, key_scales_, case_.qk_dim, key_scale(case_));
  args.values = source(values_, value_scales_, case_.v_dim, value_scale(case_));
  args.page_size = case_.page_size;
  args.q_heads = case_.q_heads, args.kv_heads = case_.kv_heads;
  args.qk_dim = case_.qk_dim, args.v_dim = case_.v_dim;
  args.scale = 1.0F / std::sqrt(static_cast<float>(case_.qk_dim));
  args.exact = case_.exact, args.logit_cap = case_.cap, args.window = case_.window, args.mask = case_.mask;
  const AttentionSequence sequence{.query_begin = ask.begin,
                                   .query_count = ask.end - ask.begin,
                                   .query_position = ask.begin,
                                   .kv_len = ask.kv_len,
                                   .pages = pages_.data()};
  auto scratch = Buffer::allocate(static_cast<size_t>(team.size()) * attention_scratch_bytes(args));
  ASSERT_TRUE(scratch.ok());
  std::memset(scratch->data(), 0xFF, scratch->size());  // nothing may be assumed of it
  attention(kernels, team, args, std::span(&sequence, 1), scratch->data());
}

AttentionRow exact_attention(const AttentionCase& c, const AttentionData& data, int64_t token, int head, double operand_rounding) {
  const int kv_head = head / (c.q_heads / c.kv_heads);
  const double scale = static_cast<double>(1.0F / std::sqrt(static_cast<float>(c.qk_dim)));
  std::vector<double> weights;
  std::vector<int64_t> seen;
  double magnitude = 0.0;  // of a score's terms
  for (int64_t p = 0; p < c.tokens; ++p) {
    const bool future = p > token;
    if (future && c.mask == AttentionMask::kCausal) continue;
    if (c.window >= 0 && std::abs(token - p) >= c.window) continue;
    double score = 0.0, terms = 0.0;
    for (int d = 0; d < c.qk_dim; ++d) {
      const double product = static_cast<double>(data.q[static_cast<size_t>((token * c.q_heads + head) * c.qk_dim + d)]) *
                             static_cast<double>(data.k[static_cast<size_t>((p * c.kv_heads + kv_head) * c.qk_dim + d)]);
      score += product;
      terms += std::fabs(product);
    }
    score *= scale;
    const double cap = static_cast<double>(c.cap);
    weights.push_back(cap > 0.0 ? cap * std::tanh(score / cap) : score);
    seen.push_back(p);
    magnitude = std::max(magnitude, terms * scale);
  }
  AttentionRow row{.out = std::vector<double>(static_cast<size_t>(c.v_dim)), .bound = std::vector<double>(static_cast<size_t>(c.v_dim))};
  if (seen.empty()) return row;
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double total = 0.0;
  for (double& w : weights) total += w = std::exp(w - maximum);
  // Scores err by their terms' rounding; weights by that (twice: maximum and score), by exp and their own rounding; the mean by twice the
  // weights' error, and by the chain of additions.
  const double epsilon = 0x1p-24;
  const double score_error = magnitude * (operand_rounding + (c.qk_dim + 4) * epsilon) + 4e-7 * static_cast<double>(c.cap);
  const double weight_error = std::expm1(2 * score_error + 8 * epsilon) + operand_rounding;
  const double relative = 2 * weight_error + (2 * static_cast<double>(seen.size()) + 8) * epsilon;
  for (int d = 0; d < c.v_dim; ++d) {
    double mean = 0.0, size = 0.0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double value = static_cast<double>(data.v[static_cast<size_t>((seen[i] * c.kv_heads + kv_head) * c.v_dim + d)]);
      mean += weights[i] / total * value;
      size += weights[i] / total * std::fabs(value);
    }
    row.out[static_cast<size_t>(d)] = mean;
    row.bound[static_cast<size_t>(d)] = size * relative;
  }
  return row;
}

}  // namespace lamina::kernels::testing
