#include "tests/support/toy_model.h"

#include <cmath>
#include <random>

namespace lamina::fixture {
namespace {

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

class Builder {
 public:
  explicit Builder(Tensors& tensors) : tensors_(tensors) {}

  /// A projection with the deviation gain / sqrt(in), and its bias.
  void linear(const std::string& prefix, int64_t out, int64_t in, double gain, bool bias) {
    add(prefix + ".weight", {out, in}, gain / std::sqrt(static_cast<double>(in)), 0);
    if (bias) add(prefix + ".bias", {out}, 0.5, 0);
  }
  void norm(const std::string& name, int64_t width) { add(name, {width}, 0.2, 1); }
  void add(const std::string& name, std::vector<int64_t> shape, double deviation, double mean) {
    tensors_[name] = random_tensor(name, std::move(shape), deviation, mean);
  }

 private:
  Tensors& tensors_;
};

/// The alphabet of byte-level tokenizers: printable bytes stand for themselves, the others for code points from 256 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> out;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const int code = printable ? byte : next++;
    if (code < 128) {
      out.emplace_back(1, static_cast<char>(code));
    } else {
      out.push_back({static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))});
    }
  }
  return out;
}

}  // namespace

Tensor random_tensor(std::string_view name, std::vector<int64_t> shape, double deviation, double mean) {
  std::mt19937_64 random(hash_name(name));
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;  // deviation sqrt(1/12)
    values.push_back(static_cast<float>(mean + deviation * unit * std::sqrt(12.0)));
  }
  return f32_tensor(std::move(shape), values);
}

Tensor constant_tensor(std::vector<int64_t> shape, float value) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const std::vector<float> values(static_cast<size_t>(count), value);
  return f32_tensor(std::move(shape), values);
}

ToyModel toy_model(const ToyShape& s) {
  ToyModel out;
  out.config = *parse_json(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "max_position_embeddings": 512, "torch_dtype": "float32"})",
                           "toy config");
  const std::pair<const char*, int64_t> sizes[] = {{"vocab_size", s.vocab},          {"hidden_size", s.hidden},
                                                   {"intermediate_size", s.inner},   {"num_hidden_layers", s.layers},
                                                   {"num_attention_heads", s.heads}, {"num_key_value_heads", s.kv_heads},
                                                   {"head_dim", s.head_dim}};
  for (const auto& [key, value] : sizes) out.config.set(key, value);
  out.config.set("tie_word_embeddings", s.tied);
  if (s.qkv_bias) out.config.set("attention_bias", true);
  if (s.mlp_bias) out.config.set("mlp_bias", true);

  Builder build(out.tensors);
  build.add("model.embed_tokens.weight", {s.vocab, s.hidden}, 0.4, 0);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string prefix = cat("model.layers.", layer);
    const std::string attention = prefix + ".self_attn", mlp = prefix + ".mlp";
    build.norm(prefix + ".input_layernorm.weight", s.hidden);
    build.norm(prefix + ".post_attention_layernorm.weight", s.hidden);
    build.linear(attention + ".q_proj", s.heads * s.head_dim, s.hidden, 1.5, s.qkv_bias);
    build.linear(attention + ".k_proj", s.kv_heads * s.head_dim, s.hidden, 1.5, s.qkv_bias);
    build.linear(attention + ".v_proj", s.kv_heads * s.head_dim, s.hidden, 1, s.qkv_bias);
    build.linear(attention + ".o_proj", s.hidden, s.heads * s.head_dim, 1, s.o_bias);
    if (s.qk_norm) build.norm(attention + ".q_norm.weight", s.head_dim), build.norm(attention + ".k_norm.weight", s.head_dim);
    build.linear(mlp + ".gate_proj", s.inner, s.hidden, 1, s.mlp_bias);
    build.linear(mlp + ".up_proj", s.inner, s.hidden, 1, s.mlp_bias);
    build.linear(mlp + ".down_proj", s.hidden, s.inner, 1, s.mlp_bias);
  }
  build.norm("model.norm.weight", s.hidden);
  if (!s.tied) build.linear("lm_head", s.vocab, s.hidden, 3, false);
  return out;
}

oracle::Model toy_oracle(const ToyShape& s) {
  return {.layers = s.layers,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .head_dim = s.head_dim,
          .eps = 1e-5,
          .tied = s.tied,
          .ropes = {oracle::plain_rope(10000, static_cast<int>(s.head_dim))},
          .windows = {0}};
}

void ToyModel::write(const TempFolder& folder, int shards) const {
  folder.write("config.json", config.dump(2));
  write_checkpoint(folder, tensors, shards);
}

void ToyModel::drop(std::string_view key) {
  std::erase_if(config.as_object(), [&](const Json::Member& member) { return member.first == key; });
}

void ToyModel::rename(const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  LAMINA_CHECK(!node.empty(), "a toy model has no such tensor");
  node.key() = to;
  tensors.insert(std::move(node));
}

std::vector<int32_t> toy_prompt(int length, int64_t vocab) {
  std::mt19937_64 random(7);
  std::vector<int32_t> out;
  while (static_cast<int>(out.size()) < length) out.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  return out;
}

std::string toy_tokenizer(int tokens) {
  const std::vector<std::string> alphabet = byte_alphabet();
  Json root = *parse_json(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}})",
                          "toy tokenizer");
  Json vocab = Json::object(), added = Json::array(), model;
  for (int id = 0; id < std::min(tokens, 256); ++id) vocab.set(alphabet[static_cast<size_t>(id)], id);
  for (int id = 256; id < tokens; ++id) {
    Json token;
    token.set("id", id), token.set("content", cat("<", id, ">"));
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token.set(flag, false);
    token.set("special", true);
    added.push(std::move(token));
  }
  model.set("type", "BPE"), model.set("vocab", std::move(vocab)), model.set("merges", Json::array());
  root.set("added_tokens", std::move(added)), root.set("model", std::move(model));
  return root.dump();
}

double worst_difference(const std::vector<double>& wanted, const std::vector<float>& got) {
  if (wanted.size() != got.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(wanted[i] - static_cast<double>(got[i]));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

}  // namespace lamina::fixture
