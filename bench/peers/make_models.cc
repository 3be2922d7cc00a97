// make_bench_models CONFIG OUT: a checkpoint of made-up numbers in the shape of the folder CONFIG (a config.json of LlamaForCausalLM or
// Qwen3ForCausalLM), as a Hugging Face folder in bf16 (OUT/hf) and as GGUF files of the same numbers (OUT/bf16.gguf, q8_0.gguf, q4_0.gguf;
// embedding and head too are in the format). The same bytes for the same config.

#include <cmath>
#include <filesystem>
#include <memory>

#include "base/cpu.h"
#include "base/file.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "base/strings.h"
#include "base/thread_team.h"
#include "bench/peers/gguf.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors_writer.h"
#include "layers/rotary.h"
#include "models/name_rules.h"

namespace lamina::bench {
namespace {

struct Tensor {
  std::string name, gguf;      // in the checkpoint, in GGUF
  std::vector<int64_t> shape;  // [out, in], or [dim] of a norm
  int64_t paired_rows = 0;     // head_dim of q and k of LLaMA, whose rows GGUF keeps in rope pairs; 0: rows as they are

  int64_t cols() const { return shape.back(); }
  int64_t rows() const { return shape.size() > 1 ? shape.front() : 1; }
  bool is_norm() const { return shape.size() == 1; }
};

void add_layer(const ModelConfig& config, int64_t layer, std::vector<Tensor>& out) {
  const std::string hf = cat("model.layers.", layer, "."), gguf = cat("blk.", layer, ".");
  const bool is_llama = config.model_type == "llama";
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size, dim = config.head_dim;
  const int64_t q = config.num_attention_heads * dim, kv = config.num_key_value_heads * dim, paired = is_llama ? dim : 0;
  const auto add = [&](const char* name, const char* other, std::vector<int64_t> shape, int64_t paired_rows = 0) {
    out.push_back({cat(hf, name, ".weight"), cat(gguf, other, ".weight"), std::move(shape), paired_rows});
  };
  add("input_layernorm", "attn_norm", {hidden});
  add("self_attn.q_proj", "attn_q", {q, hidden}, paired);
  add("self_attn.k_proj", "attn_k", {kv, hidden}, paired);
  add("self_attn.v_proj", "attn_v", {kv, hidden});
  add("self_attn.o_proj", "attn_output", {hidden, q});
  if (!is_llama) add("self_attn.q_norm", "attn_q_norm", {dim});
  if (!is_llama) add("self_attn.k_norm", "attn_k_norm", {dim});
  add("post_attention_layernorm", "ffn_norm", {hidden});
  add("mlp.gate_proj", "ffn_gate", {inner, hidden});
  add("mlp.up_proj", "ffn_up", {inner, hidden});
  add("mlp.down_proj", "ffn_down", {hidden, inner});
}

std::vector<Tensor> tensors_of(const ModelConfig& config) {
  std::vector<Tensor> out = {{"model.embed_tokens.weight", "token_embd.weight", {config.vocab_size, config.hidden_size}}};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) add_layer(config, layer, out);
  out.push_back({"model.norm.weight", "output_norm.weight", {config.hidden_size}});
  if (!config.tie_word_embeddings) out.push_back({"lm_head.weight", "output.weight", {config.vocab_size, config.hidden_size}});
  return out;
}

/// Uniform values, eight a counter: of norms around 1, of matrices such that a product keeps the size of its input.
void fill(ThreadTeam& team, const Tensor& tensor, uint32_t stream, uint16_t* out) {
  const float span = tensor.is_norm() ? 0.1F : std::sqrt(3.0F / static_cast<float>(tensor.cols()));
  const float base = tensor.is_norm() ? 1.0F : 0.0F;
  team.parallel_for(tensor.rows() * tensor.cols() / 8, 1 << 12, [&](int64_t begin, int64_t end, int) {
    for (int64_t group = begin; group < end; ++group) {
      const auto words = philox4x32({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), stream, 0}, {0x6c616d69, 0x6e61});
      for (size_t i = 0; i < 8; ++i) {
        const uint32_t half = (words[i / 2] >> (16 * (i % 2))) & 0xFFFFU;
        out[group * 8 + static_cast<int64_t>(i)] = f32_to_bf16(base + span * ((static_cast<float>(half) - 32767.5F) / 32768.0F));
      }
    }
  });
}

/// The row of the checkpoint that is row `row` of GGUF: there the two rows that rope turns together, half a head apart, are neighbours.
int64_t source_row(const Tensor& tensor, int64_t row) {
  if (tensor.paired_rows == 0) return row;
  const int64_t within = row % tensor.paired_rows;
  return row - within + within % 2 * (tensor.paired_rows / 2) + within / 2;
}

/// What divides the frequencies of rope (llama3 scaling), as GGUF keeps it; nothing for a plain rope.
Result<std::vector<float>> rope_divisors(const ModelConfig& config) {
  RotarySpec spec = rotary_spec(config, LayerId{0});
  if (spec.kind == RopeKind::kDefault) return std::vector<float>{};
  if (spec.kind != RopeKind::kLlama3) return Error{cat(config.source, ": rope scaling other than llama3 is not written to GGUF")};
  LAMINA_ASSIGN(const RotaryEmbedding scaled, RotaryEmbedding::create(spec));
  spec.kind = RopeKind::kDefault;
  LAMINA_ASSIGN(const RotaryEmbedding plain, RotaryEmbedding::create(spec));
  const size_t half = static_cast<size_t>(spec.rotary_dim) / 2;
  std::vector<double> above(half), below(half);
  plain.inverse_frequencies(0, above.data());
  scaled.inverse_frequencies(0, below.data());
  std::vector<float> out(half);
  for (size_t i = 0; i < half; ++i) out[i] = static_cast<float>(above[i] / below[i]);
  return out;
}

struct Format {
  const char* name;
  GgufType type;
  uint32_t file_type;  // general.file_type of files that are mostly of this type
};
constexpr Format kFormats[] = {{"bf16", GgufType::kBF16, 32}, {"q8_0", GgufType::kQ8_0, 7}, {"q4_0", GgufType::kQ4_0, 2}};

GgufHeader describe(const ModelConfig& config, const Format& format) {
  const std::string arch = config.model_type;
  GgufHeader header;
  const auto number = [&](const char* key, int64_t value) { header.set(cat(arch, ".", key), static_cast<uint32_t>(value)); };
  header.set("general.architecture", std::string_view(arch));
  header.set("general.quantization_version", uint32_t{2});
  header.set("general.file_type", format.file_type);
  header.set("tokenizer.ggml.model", "no_vocab");
  number("vocab_size", config.vocab_size);
  number("context_length", config.max_position_embeddings);
  number("embedding_length", config.hidden_size);
  number("block_count", config.num_hidden_layers);
  number("feed_forward_length", config.intermediate_size);
  number("attention.head_count", config.num_attention_heads);
  number("attention.head_count_kv", config.num_key_value_heads);
  number("attention.key_length", config.head_dim);
  number("attention.value_length", config.head_dim);
  number("rope.dimension_count", config.head_dim);
  header.set(cat(arch, ".rope.freq_base"), static_cast<float>(config.rope(LayerId{0}).theta));
  header.set(cat(arch, ".attention.layer_norm_rms_epsilon"), static_cast<float>(config.rms_norm_eps));
  return header;
}

/// One GGUF file that is being written.
struct Target {
  GgufType type;
  NewFile file;
  uint64_t at = 0;  // where the next bytes go

  Status append(std::span<const uint8_t> bytes) {
    LAMINA_TRY(file.write(at, bytes));
    at += bytes.size() + gguf_padding(bytes.size());
    return {};
  }

  Status append(ThreadTeam& team, const Tensor& tensor, const uint16_t* values, std::vector<uint8_t>& scratch) {
    const GgufType stored = tensor.is_norm() ? GgufType::kF32 : type;
    const size_t row_bytes = gguf_bytes(stored, static_cast<uint64_t>(tensor.cols()));
    scratch.resize(row_bytes * static_cast<size_t>(tensor.rows()));
    team.parallel_for(tensor.rows(), 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const uint16_t* source = values + source_row(tensor, row) * tensor.cols();
        encode(stored, {source, static_cast<size_t>(tensor.cols())}, scratch.data() + row_bytes * static_cast<size_t>(row));
      }
    });
    return append(scratch);
  }
};

template <class T>
std::span<const uint8_t> bytes_of(const T& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

Result<Target> open_target(const ModelConfig& config, const Format& format, const std::string& out, const std::vector<Tensor>& tensors) {
  LAMINA_ASSIGN(const std::vector<float> divisors, rope_divisors(config));
  GgufHeader header = describe(config, format);
  const int64_t length = static_cast<int64_t>(divisors.size());
  if (length > 0) header.add_tensor("rope_freqs.weight", {&length, 1}, GgufType::kF32);
  for (const Tensor& tensor : tensors) {
    header.add_tensor(tensor.gguf, tensor.shape, tensor.is_norm() ? GgufType::kF32 : format.type);
  }
  const std::string bytes = header.bytes();
  LAMINA_ASSIGN(NewFile file, NewFile::create(cat(out, "/", format.name, ".gguf"), bytes.size() + header.tensor_bytes()));
  Target target{format.type, std::move(file)};
  LAMINA_TRY(target.append(bytes_of(bytes)));
  if (length > 0) LAMINA_TRY(target.append(bytes_of(divisors)));
  return target;
}

Result<SafetensorsWriter> open_checkpoint(const std::string& config_folder, const std::string& out, const std::vector<Tensor>& tensors) {
  std::error_code failed;
  std::filesystem::create_directories(out, failed);
  LAMINA_ASSIGN(const std::string config, read_file(config_folder + "/config.json"));
  LAMINA_TRY(write_file(out + "/config.json", config));
  std::vector<NewTensor> described;
  for (const Tensor& tensor : tensors) described.push_back({tensor.name, DType::kBF16, tensor.shape});
  return SafetensorsWriter::create(out, std::move(described));
}

Status make_models(const std::string& folder, const std::string& out) {
  LAMINA_ASSIGN(const ModelConfig config, load_model_config(folder));
  if (config.model_type != "llama" && config.model_type != "qwen3") {
    return Error{cat(config.source, ": model_type ", config.model_type, "; written to GGUF are llama and qwen3")};
  }
  const std::vector<Tensor> tensors = tensors_of(config);
  LAMINA_ASSIGN(SafetensorsWriter checkpoint, open_checkpoint(folder, out + "/hf", tensors));
  std::vector<Target> targets;
  for (const Format& format : kFormats) {
    LAMINA_ASSIGN(Target target, open_target(config, format, out, tensors));
    targets.push_back(std::move(target));
  }
  ThreadTeam team(usable_cpus(), usable_cpus());
  std::vector<uint16_t> values;
  std::vector<uint8_t> scratch;
  for (size_t i = 0; i < tensors.size(); ++i) {
    values.resize(static_cast<size_t>(tensors[i].rows() * tensors[i].cols()));
    fill(team, tensors[i], static_cast<uint32_t>(i), values.data());
    LAMINA_TRY(checkpoint.write(i, 0, bytes_of(values)));
    for (Target& target : targets) LAMINA_TRY(target.append(team, tensors[i], values.data(), scratch));
  }
  for (Target& target : targets) LAMINA_TRY(target.file.commit());
  return checkpoint.finish();
}

}  // namespace
}  // namespace lamina::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    lamina::log_error("usage: make_bench_models CONFIG_FOLDER OUT_FOLDER");
    return 2;
  }
  const lamina::Status status = lamina::bench::make_models(argv[1], argv[2]);
  if (!status.ok()) lamina::log_error(status.error().message);
  return status.ok() ? 0 : 1;
}
