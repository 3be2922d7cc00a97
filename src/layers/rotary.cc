#include "layers/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/strings.h"

namespace lamina {
namespace {

bool is_yarn(RopeKind kind) { return kind == RopeKind::kYarn || kind == RopeKind::kDeepseekYarn; }

/// Plain inverse frequency base^(-2i / rd).
double plain_frequency(double base, size_t i, int rotary_dim) { return std::pow(base, -2.0 * static_cast<double>(i) / rotary_dim); }

/// The base that NTK-aware scaling by `scale` asks for: the last frequency shrinks by `scale`, the first stays.
double ntk_base(const RotarySpec& spec, double scale) {
  return spec.theta * std::pow(scale, static_cast<double>(spec.rotary_dim) / (spec.rotary_dim - 2));
}

/// Llama 3.1: long waves are stretched by `factor`, short ones kept, those between blended by how often they turn in the original length.
double llama3_frequency(const RotarySpec& spec, double frequency) {
  const double turns = static_cast<double>(spec.original_max_position) * frequency / (2 * std::numbers::pi);
  if (turns > spec.high_freq_factor) return frequency;
  if (turns < spec.low_freq_factor) return frequency / spec.factor;
  const double range = spec.high_freq_factor - spec.low_freq_factor;
  const double smooth = range > 0 ? (turns - spec.low_freq_factor) / range : 0.0;
  return (1 - smooth) * frequency / spec.factor + smooth * frequency;
}

/// YaRN (Peng et al. 2023): between dims `low` and `high` the frequencies go from kept to divided by `factor`.
struct YarnRamp {
  explicit YarnRamp(const RotarySpec& spec) {
    low = dimension(spec, spec.beta_fast);
    high = dimension(spec, spec.beta_slow);
    if (spec.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(spec.rotary_dim - 1));
    if (low == high) high += 0.001;
  }
  /// The dim whose wave turns `rotations` times in the original length.
  static double dimension(const RotarySpec& spec, double rotations) {
    const double length = static_cast<double>(spec.original_max_position);
    return spec.rotary_dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(spec.theta));
  }
  double at(size_t i) const { return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0); }

  double low = 0, high = 0;
};

double yarn_mscale(double factor, double mscale) { return factor > 1 ? 0.1 * mscale * std::log(factor) + 1.0 : 1.0; }

double yarn_magnitude(const RotarySpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  const bool deepseek = spec.kind == RopeKind::kDeepseekYarn;
  const double mscale = spec.mscale.value_or(deepseek ? 1.0 : 0.0);
  const double all_dim = spec.mscale_all_dim.value_or(0.0);
  const bool ratio = deepseek || (mscale != 0 && all_dim != 0);  // transformers takes the pair only when both are set and not 0
  return spec.attn_factor * (ratio ? yarn_mscale(spec.factor, mscale) / yarn_mscale(spec.factor, all_dim) : yarn_mscale(spec.factor, 1.0));
}

double longrope_magnitude(const RotarySpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  const double original = static_cast<double>(spec.original_max_position);
  const double scale = spec.factor != 1.0 ? spec.factor : static_cast<double>(spec.max_position) / original;
  return scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(original)) : 1.0;
}

double magnitude_of(const RotarySpec& spec) {
  if (is_yarn(spec.kind)) return yarn_magnitude(spec);
  return spec.kind == RopeKind::kLongrope ? longrope_magnitude(spec) : 1.0;
}

/// Inverse frequencies of requests up to the threshold.
std::vector<double> frequencies_of(const RotarySpec& spec) {
  std::vector<double> out(static_cast<size_t>(spec.rotary_dim / 2));
  const double base = spec.kind == RopeKind::kDynamicAlpha ? ntk_base(spec, spec.alpha) : spec.theta;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = plain_frequency(base, i, spec.rotary_dim);
    if (spec.kind == RopeKind::kLinear) out[i] /= spec.factor;
    if (spec.kind == RopeKind::kLlama3) out[i] = llama3_frequency(spec, out[i]);
    if (spec.kind == RopeKind::kLongrope) out[i] /= spec.short_factor[i];
    if (is_yarn(spec.kind)) {
      const double kept = (1 - YarnRamp(spec).at(i)) * spec.extrapolation_factor;
      out[i] = out[i] / spec.factor * (1 - kept) + out[i] * kept;
    }
  }
  return out;
}

Status check_positive(const char* key, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return error("rope: ", key, " is ", value, ", wanted a number greater than 0");
}

Status check_factors(const char* key, const std::vector<double>& factors, int rotary_dim) {
  if (factors.size() != static_cast<size_t>(rotary_dim / 2))
    return error("rope: ", key, " has ", factors.size(), " numbers, wanted ", rotary_dim / 2, ", half of the ", rotary_dim,
                 " rotated elements of a head");
  for (const double factor : factors) LAMINA_TRY(check_positive(key, factor));
  return {};
}

Status check_lengths(const RotarySpec& spec) {
  const RopeKind kind = spec.kind;
  if (kind == RopeKind::kDynamic && spec.max_position < 1)
    return error("rope: max_position_embeddings is ", spec.max_position, ", wanted at least 1");
  // log(original) divides in longrope's magnitude.
  const int64_t smallest = kind == RopeKind::kLongrope ? 2 : kind == RopeKind::kLlama3 || is_yarn(kind) ? 1 : 0;
  if (spec.original_max_position < smallest)
    return error("rope: original_max_position_embeddings is ", spec.original_max_position, ", wanted at least ", smallest);
  return {};
}

Status check_spec(const RotarySpec& spec) {
  if (spec.rotary_dim < 2 || spec.rotary_dim % 2 != 0 || spec.rotary_dim > spec.head_dim)
    return error("rope: rotary_dim is ", spec.rotary_dim, ", wanted an even number of 2 to head_dim (", spec.head_dim, ")");
  const bool ntk = spec.kind == RopeKind::kDynamic || spec.kind == RopeKind::kDynamicAlpha;
  if (ntk && spec.rotary_dim < 4) return error("rope: rotary_dim is ", spec.rotary_dim, ", dynamic scaling wants at least 4");
  if (!(spec.theta > 1 && std::isfinite(spec.theta))) return error("rope: rope_theta is ", spec.theta, ", wanted more than 1");
  LAMINA_TRY(check_positive("factor", spec.factor));
  LAMINA_TRY(check_positive("alpha", spec.alpha));
  LAMINA_TRY(check_positive("beta_fast", spec.beta_fast));
  LAMINA_TRY(check_positive("beta_slow", spec.beta_slow));
  LAMINA_TRY(check_positive("attention_factor", spec.attention_factor.value_or(1.0)));
  LAMINA_TRY(check_lengths(spec));
  if (spec.kind != RopeKind::kLongrope) return {};
  LAMINA_TRY(check_factors("short_factor", spec.short_factor, spec.rotary_dim));
  return check_factors("long_factor", spec.long_factor, spec.rotary_dim);
}

/// Rows [begin, end) of the step's table of `embedding`.
void fill_rows(const RotaryEmbedding& embedding, const ForwardBatch& batch, F32View table, int64_t begin, int64_t end) {
  for (const BatchSequence& sequence : batch.sequences) {
    const int64_t first = std::max(begin, sequence.row_begin);
    const int64_t last = std::min(end, sequence.row_begin + sequence.row_count);
    if (first < last) embedding.fill(batch.positions.data() + first, sequence.rope_length, table.slice(first, last - first));
  }
  for (int64_t row = std::max(begin, batch.real_rows); row < end; ++row) std::fill_n(table.row(row), table.cols, 0.0F);
}

}  // namespace

Result<RotaryEmbedding> RotaryEmbedding::create(RotarySpec spec) {
  LAMINA_TRY(check_spec(spec));
  return RotaryEmbedding(std::move(spec));
}

RotaryEmbedding::RotaryEmbedding(RotarySpec spec)
    : spec_(std::move(spec)), frequencies_(frequencies_of(spec_)), magnitude_(magnitude_of(spec_)) {}

RopeLengthRule RotaryEmbedding::length_rule() const {
  if (spec_.kind == RopeKind::kDynamic) return RopeLengthRule::kAtAdmission;
  return spec_.kind == RopeKind::kLongrope ? RopeLengthRule::kSwitchAtOriginal : RopeLengthRule::kNone;
}

int64_t RotaryEmbedding::threshold() const {
  if (spec_.kind == RopeKind::kDynamic) return spec_.max_position;
  return spec_.kind == RopeKind::kLongrope ? spec_.original_max_position : 0;
}

double RotaryEmbedding::long_frequency(size_t i, int64_t rope_length) const {
  if (spec_.kind == RopeKind::kLongrope) return plain_frequency(spec_.theta, i, spec_.rotary_dim) / spec_.long_factor[i];
  const double stretch = static_cast<double>(rope_length) / static_cast<double>(spec_.max_position);
  return plain_frequency(ntk_base(spec_, spec_.factor * stretch - (spec_.factor - 1)), i, spec_.rotary_dim);
}

void RotaryEmbedding::inverse_frequencies(int64_t rope_length, double* out) const {
  const bool plain = threshold() == 0 || rope_length <= threshold();
  for (size_t i = 0; i < frequencies_.size(); ++i) out[i] = plain ? frequencies_[i] : long_frequency(i, rope_length);
}

void RotaryEmbedding::fill(const int64_t* positions, int64_t rope_length, F32View cos_sin) const {
  LAMINA_CHECK(cos_sin.cols == spec_.rotary_dim, "rope table: columns are not rotary_dim");
  const bool plain = threshold() == 0 || rope_length <= threshold();
  const auto half = static_cast<int64_t>(frequencies_.size());
  for (int64_t i = 0; i < half; ++i) {
    const auto index = static_cast<size_t>(i);
    const double frequency = plain ? frequencies_[index] : long_frequency(index, rope_length);
    for (int64_t t = 0; t < cos_sin.rows; ++t) {
      const double angle = static_cast<double>(positions[t]) * frequency;
      cos_sin.at(t, i) = static_cast<float>(magnitude_ * std::cos(angle));
      cos_sin.at(t, half + i) = static_cast<float>(magnitude_ * std::sin(angle));
    }
  }
}

Result<int> RotarySet::add(const RotarySpec& spec) {
  for (int i = 0; i < size(); ++i)
    if (at(i).spec() == spec) return i;
  LAMINA_ASSIGN(RotaryEmbedding made, RotaryEmbedding::create(spec));
  if (made.length_rule() != RopeLengthRule::kNone) {
    const bool first = length_rule_ == RopeLengthRule::kNone;
    if (!first && (made.length_rule() != length_rule_ || made.threshold() != threshold_))
      return error("rope: layers whose tables depend on length in different ways (up to ", threshold_, " and ", made.threshold(),
                   " positions) are not supported");
    length_rule_ = made.length_rule();
    threshold_ = made.threshold();
  }
  embeddings_.push_back(std::move(made));
  tables_.emplace_back();
  return size() - 1;
}

void RotarySet::prepare(ForwardContext& ctx) {
  const ForwardBatch& batch = ctx.batch;
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    tables_[i] = ctx.memory.step().matrix(batch.rows(), embeddings_[i].spec().rotary_dim);
    constexpr int64_t kGrain = 8;  // rows that pay for handing them to a thread
    ctx.compute.team->parallel_for(batch.rows(), kGrain,
                                   [&](int64_t begin, int64_t end, int) { fill_rows(embeddings_[i], batch, tables_[i], begin, end); });
  }
}

size_t RotarySet::step_bytes(int64_t rows) const {
  size_t bytes = 0;
  for (const RotaryEmbedding& embedding : embeddings_) {
    const size_t table = static_cast<size_t>(rows) * static_cast<size_t>(embedding.spec().rotary_dim) * sizeof(float);
    bytes += (table + 63) / 64 * 64;
  }
  return bytes;
}

void RotarySet::rotate(ForwardContext& ctx, int index, F32View x, int heads) const {
  const RotarySpec& spec = at(index).spec();
  const ConstF32View cos_sin = table(index);
  ctx.compute.team->parallel_for(x.rows, 4, [&](int64_t begin, int64_t end, int) {
    const kernels::RopeArgs args{cos_sin.slice(begin, end - begin), spec.head_dim, spec.rotary_dim, spec.neox};
    ctx.compute.kernels->rope(x.slice(begin, end - begin), heads, args);
  });
}

}  // namespace lamina
