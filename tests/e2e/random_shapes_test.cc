// Models of random odd shapes, stored in random types and run with random page, chunk and thread counts, equal the oracle.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/e2e/toy_run.h"

namespace lamina::e2e {
namespace {

using fixture::TempFolder;
using fixture::toy_model;
using fixture::toy_oracle;
using fixture::toy_prompt;
using fixture::ToyModel;
using fixture::ToyShape;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)); }
  bool coin() { return between(0, 1) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, std::ssize(values) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

ToyShape random_shape(Dice& dice) {
  ToyShape shape;
  shape.vocab = dice.between(2, 400), shape.hidden = dice.between(1, 150), shape.inner = dice.between(1, 150);
  shape.kv_heads = dice.between(1, 3), shape.heads = shape.kv_heads * dice.between(1, 5);
  shape.head_dim = dice.one_of({2, 4, 6, 10, 16, 24, 40, 64, 72, 128});
  shape.layers = dice.between(1, 3);
  shape.qkv_bias = shape.o_bias = dice.coin(), shape.mlp_bias = dice.coin(), shape.tied = dice.coin();
  return shape;
}

void store_as(fixture::Tensor& tensor, DType dtype) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  tensor = fixture::make_tensor(dtype, tensor.shape, values);
}

std::string describe(const ToyShape& s, const EngineOptions& o) {
  return cat("vocab ", s.vocab, ", hidden ", s.hidden, ", inner ", s.inner, ", heads ", s.heads, "/", s.kv_heads, " of ", s.head_dim,
             ", layers ", s.layers, ", pages of ", o.page_size, ", chunks of ", o.chunked_prefill_size, ", ", o.threads, " threads, ",
             o.isa);
}

TEST(RandomShapes, LogitsEqualTheOracle) {
  const unsigned seed = 20250704;
  Dice dice(seed);
  const std::vector<Isa> isas = supported_isas(decode_features(read_cpuid()));
  for (int round = 0; round < 40; ++round) {
    const ToyShape shape = random_shape(dice);
    ToyModel model = toy_model(shape);
    for (auto& [name, tensor] : model.tensors) store_as(tensor, dice.one_of({DType::kF32, DType::kF16, DType::kBF16}));
    oracle::Model wanted = toy_oracle(shape);
    if (dice.coin() && !shape.qkv_bias && !shape.mlp_bias) {
      wanted.windows = {dice.between(1, 20)};
      model.config.set("architectures", Json(Json::Array{"MistralForCausalLM"}));
      model.config.set("sliding_window", wanted.windows[0]);
    }
    const TempFolder folder;
    model.write(folder, static_cast<int>(dice.between(1, 3)));
    EngineOptions options = toy_options(folder);
    options.dtype = "float32";
    options.page_size = dice.one_of({1, 3, 16, 64}), options.chunked_prefill_size = dice.one_of({1, 5, 7, 512});
    options.threads = dice.one_of({1, 2, 3}), options.isa = isa_name(isas[static_cast<size_t>(dice.between(0, std::ssize(isas) - 1))]);
    const std::vector<TokenId> prompt = toy_prompt(static_cast<int>(dice.between(1, 60)), shape.vocab);
    SCOPED_TRACE(cat("seed ", seed, ", round ", round, ": ", describe(shape, options), ", ", prompt.size(), " tokens"));
    expect_oracle(serve(options, prompt), wanted, model.tensors, prompt);
  }
}

}  // namespace
}  // namespace lamina::e2e
