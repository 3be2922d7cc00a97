// `lamina inspect --weights`: what fills each parameter, and all that is wrong with a checkpoint that is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/program.h"
#include "tests/support/quant_writer.h"

namespace lamina::e2e {
namespace {

using fixture::Outcome;
using fixture::QuantRecipe;
using fixture::QuantToy;
using fixture::run_lamina;
using fixture::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLayer = "model.layers.0.";
constexpr QuantRecipe kGptq{.kind = QuantRecipe::Kind::kGptq};

TEST(InspectWeights, ListsSourcesFormatGroupAndBytesOfAGptqCheckpoint) {
  const TempFolder folder;
  fixture::quant_toy(kGptq).model.write(folder);
  const Outcome text = run_lamina({"inspect", folder.path(), "--weights", "--tp", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr(kLayer + "self_attn.qkv_proj.qweight  gptq 4 bit, groups of 32  attn_tp of 2  "),
                              HasSubstr("  <- " + kLayer + "self_attn.q_proj.qweight I32, " + kLayer + "self_attn.k_proj.qweight I32, "),
                              HasSubstr(kLayer + "self_attn.qkv_proj.scales  f16 scales  attn_tp of 2  "),
                              HasSubstr(kLayer + "input_layernorm.weight  f32 vector  not cut  256 bytes")));
  EXPECT_THAT(text.out, Not(HasSubstr("boundaries")));
}

/// Five faults of different kinds.
QuantToy damaged() {
  QuantToy toy = fixture::quant_toy(kGptq);
  fixture::Tensors& tensors = toy.model.tensors;
  tensors.erase(kLayer + "mlp.down_proj.scales");
  tensors.erase("model.norm.weight");
  tensors["model.layers.1.surprise.weight"] = fixture::constant_tensor({8}, 1);
  tensors[kLayer + "self_attn.o_proj.qweight"].shape = {64, 8};
  tensors[kLayer + "self_attn.o_proj.scales"] = fixture::i32_tensor({2, 64}, std::vector<uint32_t>(128));
  Json block = *toy.model.config.find("quantization_config");
  block.set("modules_to_not_convert", Json(Json::Array{Json("layers.1.self_attn.q_proj")}));
  toy.model.config.set("quantization_config", block);
  return toy;
}

/// One error line on stderr and exit code 1.
void expect_refused(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error: checkpoint does not fit the model: mixed 1 ("), Not(HasSubstr("\nerror: "))));
}

TEST(InspectWeights, OfARefusedCheckpointNameAllThatIsWrong) {
  const TempFolder folder;
  damaged().model.write(folder);
  const Outcome text = run_lamina({"inspect", folder.path(), "--weights"});
  expect_refused(text);
  EXPECT_THAT(text.out, AllOf(HasSubstr("the checkpoint is refused"), HasSubstr("\n  " + kLayer + "mlp.down_proj.scales\n"),
                              HasSubstr("\n  model.norm.weight\n"), HasSubstr("\n  model.layers.1.surprise.weight\n"),
                              HasSubstr("\n  " + kLayer + "self_attn.o_proj.qweight: file has [64, 8], the model needs [8, 64]\n"),
                              HasSubstr("\n  " + kLayer + "self_attn.o_proj.scales: type I32 cannot be loaded here"),
                              HasSubstr("model.layers.1.self_attn.qkv_proj: q_proj is plain, k_proj is gptq 4 bit, groups of 32\n")));

  const Outcome json = run_lamina({"inspect", folder.path(), "--weights", "--json"});
  expect_refused(json);
  const Result<Json> plan = parse_json(json.out, "stdout");
  ASSERT_TRUE(plan.ok()) << json.out;
  EXPECT_THAT(json.err, HasSubstr(plan->find("refused")->as_string()));
  const Json& audit = *plan->find("audit");
  EXPECT_EQ(audit.find("missing")->as_array().size(), 3U);     // and the plain weight of the part that the config leaves out
  EXPECT_EQ(audit.find("unexpected")->as_array().size(), 5U);  // and what the file has in its place
  for (const char* one : {"mis-shaped", "mistyped", "mixed"}) EXPECT_EQ(audit.find(one)->as_array().size(), 1U) << one;

  const Outcome page = run_lamina({"inspect", folder.path(), "--html", folder.file("page.html")});
  expect_refused(page);
  EXPECT_EQ(page.out, "");
  EXPECT_THAT(read_file(folder.file("page.html")).value(),
              AllOf(HasSubstr("<h2>missing: 3</h2>"), HasSubstr("<li><code>model.norm.weight</code></li>"), HasSubstr("<h2>mixed: 1</h2>"),
                    Not(HasSubstr("<script"))));
}

}  // namespace
}  // namespace lamina::e2e
