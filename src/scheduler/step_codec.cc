#include "scheduler/step_codec.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "base/strings.h"

namespace lamina {

namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

template <class T, class U>
concept Like = std::same_as<std::remove_const_t<T>, U>;

/// Written as it lies in memory: a number, or an index (an integer with a type).
template <class T>
inline constexpr bool kPlain = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <class Tag, class Rep>
inline constexpr bool kPlain<Id<Tag, Rep>> = sizeof(Id<Tag, Rep>) == sizeof(Rep);

// The fields of each type, for both directions. A structured binding names all of them: a field that is added does not compile until it
// is named here.

template <class Archive, Like<LogitBias> T>
bool fields(Archive& archive, T& value) {
  auto& [token, bias] = value;
  return archive(token, bias);
}

template <class Archive, Like<SamplingParams> T>
bool fields(Archive& archive, T& value) {
  auto& [max_new_tokens, min_new_tokens, temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty,
         logit_bias, ignore_eos, stop_token_ids, stop, seed, choice, top_logprobs, prompt_logprobs] = value;
  return archive(max_new_tokens, min_new_tokens, temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty,
                 logit_bias, ignore_eos, stop_token_ids, stop, seed, choice, top_logprobs, prompt_logprobs);
}

template <class Archive, Like<TokenLogprob::Alternative> T>
bool fields(Archive& archive, T& value) {
  auto& [token, logprob] = value;
  return archive(token, logprob);
}

template <class Archive, Like<TokenLogprob> T>
bool fields(Archive& archive, T& value) {
  auto& [token, logprob, top] = value;
  return archive(token, logprob, top);
}

template <class Archive, Like<StepEntry> T>
bool fields(Archive& archive, T& value) {
  auto& [request, dp_rank, token_begin, token_count, page_begin, page_count, prefix_len, rope_length, sample, all_logits, prompt_logprobs,
         pool] = value;
  return archive(request, dp_rank, token_begin, token_count, page_begin, page_count, prefix_len, rope_length, sample, all_logits,
                 prompt_logprobs, pool);
}

template <class Archive, Like<StepAdmission> T>
bool fields(Archive& archive, T& value) {
  auto& [request, sampling, prompt] = value;
  return archive(request, sampling, prompt);
}

template <class Archive, Like<PageCopy> T>
bool fields(Archive& archive, T& value) {
  auto& [from, to, tokens, dp_rank] = value;
  return archive(from, to, tokens, dp_rank);
}

template <class Archive, Like<StepPlan> T>
bool fields(Archive& archive, T& value) {
  auto& [step, admitted, released, copies, entries, tokens, pages] = value;
  return archive(step, admitted, released, copies, entries, tokens, pages);
}

template <class Archive, Like<StepOutput> T>
bool fields(Archive& archive, T& value) {
  auto& [request, token, logprob, prompt_logprobs, prompt_logits, embedding, captured, failure] = value;
  return archive(request, token, logprob, prompt_logprobs, prompt_logits, embedding, captured, failure);
}

template <class Archive, Like<StepResult> T>
bool fields(Archive& archive, T& value) {
  auto& [step, fault, outputs] = value;
  return archive(step, fault, outputs);
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(bytes) { bytes_.clear(); }

  template <class... T>
  bool operator()(const T&... values) {
    (put(values), ...);
    return true;
  }

 private:
  void raw(const void* from, size_t size) {
    if (size == 0) return;
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  template <class T>
  void put(const T& value) {
    if constexpr (kPlain<T>)
      raw(&value, sizeof(T));
    else
      fields(*this, value);
  }
  void put(bool value) { put(static_cast<uint8_t>(value)); }
  void put(const std::string& value) { put_range(value); }
  template <class T>
  void put(const std::vector<T>& value) {
    put_range(value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  template <class Range>
  void put_range(const Range& range) {
    using T = typename Range::value_type;
    put(static_cast<uint64_t>(range.size()));
    if constexpr (kPlain<T>) {
      raw(range.data(), range.size() * sizeof(T));
    } else {
      for (const T& value : range) put(value);
    }
  }

  std::vector<std::byte>& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class... T>
  bool operator()(T&... values) {
    return (get(values) && ...);
  }
  size_t rest() const { return rest_.size(); }
  /// Why the last operator() returned false.
  const char* problem() const { return problem_; }

 private:
  bool fail(const char* problem) {
    problem_ = problem;
    return false;
  }
  bool raw(void* to, size_t size) {
    if (size > rest_.size()) return fail("ends early");
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return true;
  }

  template <class T>
  bool get(T& value) {
    if constexpr (kPlain<T>)
      return raw(&value, sizeof(T));
    else
      return fields(*this, value);
  }
  bool get(bool& value) {
    uint8_t byte = 0;
    if (!get(byte)) return false;
    if (byte > 1) return fail("holds a flag that is neither 0 nor 1");
    value = byte == 1;
    return true;
  }
  bool get(std::string& value) { return get_range(value); }
  template <class T>
  bool get(std::vector<T>& value) {
    return get_range(value);
  }
  template <class T>
  bool get(std::optional<T>& value) {
    bool present = false;
    if (!get(present)) return false;
    if (!present) {
      value.reset();
      return true;
    }
    if (!value) value.emplace();
    return get(*value);
  }

  /// Elements that are not plain are made one by one as their bytes are found, so that no length alone takes memory.
  template <class Range>
  bool get_range(Range& range) {
    using T = typename Range::value_type;
    uint64_t count = 0;
    if (!get(count)) return false;
    if (count > rest_.size() / (kPlain<T> ? sizeof(T) : 1)) return fail("holds a length that goes beyond its end");
    const auto size = static_cast<size_t>(count);
    if constexpr (kPlain<T>) {
      range.resize(size);
      return raw(range.data(), size * sizeof(T));
    } else {
      range.resize(std::min(range.size(), size));
      for (size_t i = 0; i < size; ++i) {
        if (i == range.size()) range.emplace_back();
        if (!get(range[i])) return false;
      }
      return true;
    }
  }

  std::span<const std::byte> rest_;
  const char* problem_ = "";
};

template <class T>
inline constexpr uint32_t kMark = 0;  // the first word tells what it is
template <>
inline constexpr uint32_t kMark<StepPlan> = 0x4E4C5031;  // "1PLN"
template <>
inline constexpr uint32_t kMark<StepResult> = 0x53455231;  // "1RES"

template <class T>
void write(const T& value, std::vector<std::byte>& bytes) {
  Writer writer(bytes);
  writer(kMark<T>, value);
}

template <class T>
Status read(std::span<const std::byte> bytes, T& value, const char* what) {
  Reader reader(bytes);
  uint32_t mark = 0;
  if (!reader(mark) || (mark == kMark<T> && !reader(value)))
    return error("an encoded ", what, " of ", bytes.size(), " bytes ", reader.problem());
  if (mark != kMark<T>) return error(bytes.size(), " bytes are not an encoded ", what);
  if (reader.rest() > 0) return error("an encoded ", what, " of ", bytes.size(), " bytes has ", reader.rest(), " too many");
  return {};
}

}  // namespace

void encode(const StepPlan& plan, std::vector<std::byte>& bytes) { write(plan, bytes); }
void encode(const StepResult& result, std::vector<std::byte>& bytes) { write(result, bytes); }
Status decode(std::span<const std::byte> bytes, StepPlan& plan) { return read(bytes, plan, "step plan"); }
Status decode(std::span<const std::byte> bytes, StepResult& result) { return read(bytes, result, "step result"); }

}  // namespace lamina
