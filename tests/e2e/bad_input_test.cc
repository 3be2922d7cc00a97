// Broken checkpoints through the program: exit code 1 and one error line that names file, tensor or key, before memory is reserved for
// weights. The parsers' own cases are in tests/checkpoint and tests/weights; here each kind takes the whole way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/config_reader.h"
#include "tests/support/program.h"
#include "tests/support/toy_model.h"

namespace lamina::e2e {
namespace {

using fixture::constant_tensor;
using fixture::Outcome;
using fixture::raw_safetensors;
using fixture::run_lamina;
using fixture::shard_name;
using fixture::TempFolder;
using fixture::toy_model;
using fixture::toy_tokenizer;
using fixture::ToyModel;
using ::testing::HasSubstr;

const std::string kWeights = "model.safetensors";
const std::string kLfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 4976698672\n";
const std::string kDown = "model.layers.1.mlp.down_proj.weight";

/// A sound T0 and what is done to it, in this order.
struct Damage {
  const char* name;
  std::vector<std::string> wanted;     // parts of the one error line
  const char* config = "{}";           // merged over config.json
  const char* absent = "";             // a key taken out of it
  void (*model)(ToyModel&) = nullptr;  // before it is written
  int shards = 1;
  void (*folder)(const TempFolder&) = nullptr;  // after it is written
  const char* overrides = "";                   // --json-model-override-args
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class BadInput : public ::testing::TestWithParam<Damage> {};

TEST_P(BadInput, EndsWithOneLineThatNamesTheFault) {
  const Damage& damage = GetParam();
  const TempFolder folder;
  ToyModel model = toy_model();
  model.drop(damage.absent);
  merge_json(model.config, *parse_json(damage.config, damage.name));
  if (damage.model != nullptr) damage.model(model);
  model.write(folder, damage.shards);
  if (damage.folder != nullptr) damage.folder(folder);
  std::vector<std::string> args = {"logits", folder.path(), "--prompt-ids", "1,2"};
  if (*damage.overrides != 0) args.insert(args.end(), {"--json-model-override-args", damage.overrides});
  const std::string error = fixture::only_error(run_lamina(args), 1);
  for (const std::string& part : damage.wanted) EXPECT_THAT(error, HasSubstr(part));
}

auto damage_name = [](const auto& test) { return test.param.name; };

void remove(const TempFolder& folder, const std::string& name) { std::filesystem::remove(folder.file(name)); }

const Damage kConfigs[] = {
    {.name = "NoFolder", .wanted = {"' is not a folder"}, .folder = [](const TempFolder& f) { std::filesystem::remove_all(f.path()); }},
    {.name = "NoConfig", .wanted = {"/config.json is missing"}, .folder = [](const TempFolder& f) { remove(f, "config.json"); }},
    {.name = "EmptyConfig", .wanted = {"/config.json is empty"}, .folder = [](const TempFolder& f) { f.write("config.json", ""); }},
    {.name = "IsNoJson", .wanted = {"/config.json"}, .folder = [](const TempFolder& f) { f.write("config.json", "{\"hidden_size\": 64"); }},
    {.name = "IsAnArray", .wanted = {"/config.json", "an array"}, .folder = [](const TempFolder& f) { f.write("config.json", "[]"); }},
    {.name = "IsAnLfsPointer",
     .wanted = {"/config.json", "git-lfs pointer"},
     .folder = [](const TempFolder& f) { f.write("config.json", kLfsPointer); }},
    {.name = "UnknownArchitecture",
     .wanted = {"GPT2LMHeadModel", "supported: LlamaForCausalLM", "Qwen3ForCausalLM"},
     .config = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"})"},
    {.name = "UnknownTaskOfAFamily",
     .wanted = {"LlamaForTokenClassification", "supported: LlamaForCausalLM"},
     .config = R"({"architectures": ["LlamaForTokenClassification"]})"},
    {.name = "UnknownByOverride",
     .wanted = {"BertModel", "supported: LlamaForCausalLM"},
     .overrides = R"({"architectures": ["BertModel"], "model_type": "bert"})"},
    {.name = "OverrideIsNoJson", .wanted = {"--json-model-override-args"}, .overrides = "{"},
    {.name = "KeyMissing", .wanted = {"/config.json", "\"hidden_size\" is missing"}, .absent = "hidden_size"},
    {.name = "KeyNull", .wanted = {"/config.json", "\"vocab_size\" is null"}, .config = R"({"vocab_size": null})"},
    {.name = "KeyOfAnotherType",
     .wanted = {"/config.json", "\"hidden_size\" is a string", "an integer"},
     .config = R"({"hidden_size": "64"})"},
    {.name = "HeadsDoNotDivide",
     .wanted = {"\"num_attention_heads\" is 6", "hidden_size (64)"},
     .config = R"({"num_attention_heads": 6})",
     .absent = "head_dim"},
    {.name = "KvHeadsDoNotDivide", .wanted = {"\"num_key_value_heads\" is 3", "(4)"}, .config = R"({"num_key_value_heads": 3})"},
    {.name = "HugeSizes",
     .wanted = {"model.embed_tokens.weight", "[259, 64]", "[67108864, 1048576]"},
     .config = R"({"vocab_size": 67108864, "hidden_size": 1048576})"},
    {.name = "UnknownRope",
     .wanted = {"\"rope_scaling.type\" is \"spiral\"", "supported: default"},
     .config = R"({"rope_scaling": {"type": "spiral", "factor": 2}})"},
    {.name = "UnknownQuantisation",
     .wanted = {"quantization_config.quant_method", "exl2", "supported: fp8"},
     .config = R"({"quantization_config": {"quant_method": "exl2"}})"},
    {.name = "BadGenerationConfig",
     .wanted = {"/generation_config.json", "\"eos_token_id\""},
     .folder = [](const TempFolder& f) { f.write("generation_config.json", R"({"eos_token_id": "</s>"})"); }},
};
INSTANTIATE_TEST_SUITE_P(Config, BadInput, ::testing::ValuesIn(kConfigs), damage_name);

/// The index of a checkpoint whose down_proj has another name.
void put_stale_index(const TempFolder& folder) {
  ToyModel other = toy_model();
  other.rename(kDown, "model.layers.1.mlp.w2.weight");
  const TempFolder elsewhere;
  other.write(elsewhere, 2);
  std::filesystem::copy_file(elsewhere.file("model.safetensors.index.json"), folder.file("model.safetensors.index.json"),
                             std::filesystem::copy_options::overwrite_existing);
}

/// A weight file of this many bytes whose first 8 claim a header of `claimed`.
std::string claiming(uint64_t claimed, size_t bytes) {
  std::string out(reinterpret_cast<const char*>(&claimed), sizeof claimed);
  out.resize(bytes, ' ');
  return out;
}

const Damage kFiles[] = {
    {.name = "NoWeights", .wanted = {"has no weights", kWeights}, .folder = [](const TempFolder& f) { remove(f, kWeights); }},
    {.name = "OnlyBin",
     .wanted = {"only pytorch_model.bin", "only safetensors are read"},
     .folder = [](const TempFolder& f) { std::filesystem::rename(f.file(kWeights), f.file("pytorch_model.bin")); }},
    {.name = "A01MissingShards",
     .wanted = {"lacks 2 of 4", "model-00002-of-00004.safetensors, model-00004-of-00004.safetensors", "incomplete download?"},
     .shards = 4,
     .folder = [](const TempFolder& f) { remove(f, shard_name(2, 4)), remove(f, shard_name(4, 4)); }},
    {.name = "StaleIndex",
     .wanted = {"model.safetensors.index.json", "stale index?", "model.layers.1.mlp.w2.weight", kDown},
     .shards = 2,
     .folder = put_stale_index},
    {.name = "A05TruncatedShard",
     .wanted = {"model-00002-of-00002.safetensors is cut", "bytes, the file has", "incomplete download?"},
     .shards = 2,
     .folder =
         [](const TempFolder& f) {
           const std::string path = f.file(shard_name(2, 2));
           std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
         }},
    {.name = "A07LfsPointer",
     .wanted = {"model-00002-of-00002.safetensors is a git-lfs pointer"},
     .shards = 2,
     .folder = [](const TempFolder& f) { f.write(shard_name(2, 2), kLfsPointer); }},
    {.name = "HeaderLongerThanTheFile",
     .wanted = {"model.safetensors is cut", "4104 bytes", "the file has 10"},
     .folder = [](const TempFolder& f) { f.write(kWeights, claiming(4096, 10)); }},
    {.name = "HeaderBeyondAnyFile",
     .wanted = {kWeights, "4611686018427387904", "100000000"},
     .folder = [](const TempFolder& f) { f.write(kWeights, claiming(uint64_t{1} << 62, 10)); }},
    {.name = "HeaderCut",
     .wanted = {"model.safetensors is cut"},
     .folder = [](const TempFolder& f) { std::filesystem::resize_file(f.file(kWeights), 500); }},
    {.name = "HeaderIsNoJson",
     .wanted = {"model.safetensors (header)"},
     .folder = [](const TempFolder& f) { f.write(kWeights, raw_safetensors(R"({"a": {"dtype": "F32")", "")); }},
    {.name = "EmptyFile", .wanted = {"model.safetensors has 0 bytes"}, .folder = [](const TempFolder& f) { f.write(kWeights, ""); }},
    {.name = "WeightsAreAFolder",
     .wanted = {kWeights},
     .folder = [](const TempFolder& f) { remove(f, kWeights), std::filesystem::create_directory(f.file(kWeights)); }},
    {.name = "OverlappingTensors",
     .wanted = {kWeights, "tensor \"b\" overlaps"},
     .folder =
         [](const TempFolder& f) {
           f.write(kWeights, raw_safetensors(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                                 "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
                                             "123456789012"));
         }},
    {.name = "TensorOutsideTheFile",
     .wanted = {"model.safetensors is cut"},
     .folder =
         [](const TempFolder& f) {
           f.write(kWeights, raw_safetensors(R"({"a": {"dtype": "F32", "shape": [2],
                                                 "data_offsets": [9223372036854775799, 9223372036854775807]}})",
                                             "12345678"));
         }},
};
INSTANTIATE_TEST_SUITE_P(Files, BadInput, ::testing::ValuesIn(kFiles), damage_name);

fixture::Tensor integers(int64_t rows, int64_t cols) {
  return {"I32", {rows, cols}, std::string(static_cast<size_t>(rows * cols * 4), '\1')};
}

void pack_attention(ToyModel& model) {
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    const std::string prefix = cat("model.layers.0.self_attn.", part);
    model.tensors.erase(prefix + ".weight");
    model.tensors[prefix + ".qweight"] = integers(8, 64);
  }
}

const Damage kTensors[] = {
    {.name = "A17Renamed",
     .wanted = {"missing 1 (" + kDown, "unexpected 1 (model.layers.1.mlp.down_prj.weight"},
     .model = [](ToyModel& m) { m.rename(kDown, "model.layers.1.mlp.down_prj.weight"); }},
    {.name = "A17PackedVariantOfAFusedLayer",
     .wanted = {"missing 3", "unexpected 3", "model.layers.0.self_attn.q_proj.qweight"},
     .model = pack_attention},
    {.name = "Missing", .wanted = {"missing 1 (model.norm.weight)"}, .model = [](ToyModel& m) { m.tensors.erase("model.norm.weight"); }},
    {.name = "Unknown",
     .wanted = {"unexpected 1 (model.layers.0.self_attn.sinks)"},
     .model = [](ToyModel& m) { m.tensors["model.layers.0.self_attn.sinks"] = constant_tensor({4}, 0); }},
    {.name = "BiasNobodyAskedFor",
     .wanted = {"unexpected 1 (model.layers.0.self_attn.o_proj.bias)"},
     .model = [](ToyModel& m) { m.tensors["model.layers.0.self_attn.o_proj.bias"] = constant_tensor({64}, 3); }},
    {.name = "BiasAskedForAndAbsent", .wanted = {"missing 6", "model.layers.0.mlp.gate_proj.bias"}, .config = R"({"mlp_bias": true})"},
    {.name = "A39LayersAboveTheLast",
     .wanted = {"unexpected 1 (model.layers.2.mlp.down_proj.weight)"},
     .model = [](ToyModel& m) { m.tensors["model.layers.2.mlp.down_proj.weight"] = m.tensors.at(kDown); }},
    {.name = "LayersThatAreNotThere", .wanted = {"missing 9", "model.layers.2."}, .config = R"({"num_hidden_layers": 3})"},
    {.name = "Misshaped",
     .wanted = {"mis-shaped 1 (" + kDown, "[128, 64]", "[64, 128]"},
     .model = [](ToyModel& m) { m.tensors[kDown] = constant_tensor({128, 64}, 1); }},
    {.name = "OfAnotherRank",
     .wanted = {"mis-shaped 1 (model.norm.weight", "[64, 1]", "[64]"},
     .model = [](ToyModel& m) { m.tensors["model.norm.weight"] = constant_tensor({64, 1}, 1); }},
    {.name = "Integers", .wanted = {kDown, "I32"}, .model = [](ToyModel& m) { m.tensors[kDown] = integers(64, 128); }},
    {.name = "SplitAndFusedAtOnce",
     .wanted = {"duplicate", "model.layers.0.mlp.gate_up_proj.weight"},
     .model = [](ToyModel& m) { m.tensors["model.layers.0.mlp.gate_up_proj.weight"] = constant_tensor({256, 64}, 1); }},
    {.name = "UntiedWithoutHead",
     .wanted = {"missing 1 (lm_head.weight)"},
     .model = [](ToyModel& m) { m.tensors.erase("lm_head.weight"); }},
    {.name = "NamesWithLineBreaksStayOneLine",
     .wanted = {"two\\nlines\\r"},
     .model = [](ToyModel& m) { m.tensors["two\nlines\r"] = constant_tensor({1}, 1); }},
};
INSTANTIATE_TEST_SUITE_P(Tensors, BadInput, ::testing::ValuesIn(kTensors), damage_name);

const Damage kTokenizers[] = {
    {.name = "A23MoreIdsThanRows",
     .wanted = {"/tokenizer.json", "262", "259"},
     .folder = [](const TempFolder& f) { f.write("tokenizer.json", toy_tokenizer(263)); }},
    {.name = "IsNoJson", .wanted = {"/tokenizer.json"}, .folder = [](const TempFolder& f) { f.write("tokenizer.json", "{\"model\": "); }},
    {.name = "IsEmpty", .wanted = {"/tokenizer.json"}, .folder = [](const TempFolder& f) { f.write("tokenizer.json", ""); }},
    {.name = "HasNoModel",
     .wanted = {"/tokenizer.json", "\"model\" is missing"},
     .folder = [](const TempFolder& f) { f.write("tokenizer.json", "{}"); }},
    {.name = "HasNoMerges",
     .wanted = {"/tokenizer.json", "merges"},
     .folder = [](const TempFolder& f) { f.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}}})"); }},
    {.name = "IsOfAnotherKind",
     .wanted = {"/tokenizer.json", "WordLevel"},
     .folder = [](const TempFolder& f) { f.write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {}}})"); }},
    {.name = "BadTokenizerConfig",
     .wanted = {"/tokenizer_config.json", "bos_token"},
     .folder =
         [](const TempFolder& f) {
           f.write("tokenizer.json", toy_tokenizer(259));
           f.write("tokenizer_config.json", R"({"bos_token": 1})");
         }},
};
INSTANTIATE_TEST_SUITE_P(Tokenizer, BadInput, ::testing::ValuesIn(kTokenizers), damage_name);

/// A checkpoint of one wide layer whose weights take `kWideBytes`; its file is a hole but for the header, so that making it costs nothing.
constexpr int64_t kWide = 512, kWideInner = 32768;
constexpr uint64_t kWideBytes = uint64_t{3} * kWide * kWideInner * 4;  // 201 MB

void write_wide(const TempFolder& folder, void (*damage)(Json& header)) {
  ToyModel model = toy_model({.hidden = kWide, .heads = 8, .kv_heads = 8, .head_dim = 64, .inner = 1, .layers = 1});
  model.config.set("intermediate_size", kWideInner);
  Json header = Json::object();
  uint64_t at = 0;
  for (const auto& [name, tensor] : model.tensors) {
    Json shape = Json::array(), entry;
    uint64_t elements = 1;
    for (const int64_t extent : tensor.shape) {
      const int64_t size = extent == 1 ? kWideInner : extent;
      shape.push(size);
      elements *= static_cast<uint64_t>(size);
    }
    entry.set("dtype", "F32"), entry.set("shape", std::move(shape));
    entry.set("data_offsets", Json(Json::Array{Json(at), Json(at + 4 * elements)}));
    header.set(name, std::move(entry));
    at += 4 * elements;
  }
  damage(header);
  folder.write("config.json", model.config.dump());
  const std::string text = header.dump();
  folder.write("model.safetensors", raw_safetensors(text, ""));
  std::filesystem::resize_file(folder.file("model.safetensors"), 8 + text.size() + at);
}

void rename_last(Json& header) { header.as_object().back().first += "x"; }

TEST(BadInputFull, NoMemoryIsReservedBeforeARefusal) {
  const auto peak_of = [](const TempFolder& folder, int exit_code) {
    const Outcome outcome = run_lamina({"logits", folder.path(), "--prompt-ids", "1", "--max-total-tokens", "64"});
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return outcome.peak_rss;
  };
  const TempFolder sound, renamed, cut, tokenizer;
  write_wide(sound, [](Json&) {});
  EXPECT_GT(peak_of(sound, 0), kWideBytes);  // what is measured would show it
  write_wide(renamed, rename_last);
  EXPECT_LT(peak_of(renamed, 1), kWideBytes / 4);
  write_wide(cut, [](Json&) {});
  std::filesystem::resize_file(cut.file("model.safetensors"), kWideBytes);
  EXPECT_LT(peak_of(cut, 1), kWideBytes / 4);
  write_wide(tokenizer, [](Json&) {});
  tokenizer.write("tokenizer.json", fixture::toy_tokenizer(263));
  EXPECT_LT(peak_of(tokenizer, 1), kWideBytes / 4);
}

}  // namespace
}  // namespace lamina::e2e
