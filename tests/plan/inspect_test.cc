// The plan as JSON: every config on every topology adds up to its checkpoint.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/file.h"
#include "base/strings.h"
#include "tests/plan/support.h"

namespace lamina {
namespace {

using plan_test::at;
using plan_test::number;
using plan_test::options_of;
using plan_test::planned;
using plan_test::planned_json;
using testing::HasSubstr;

int64_t area(const Json& piece) {
  int64_t out = 1;
  for (const char* key : {"rows", "cols"}) {
    const Json::Array& ends = at(piece, key).as_array();
    out *= ends[1].as_integer() - ends[0].as_integer();
  }
  return out;
}

int64_t product(const Json& shape) {
  int64_t out = 1;
  for (const Json& extent : shape.as_array()) out *= extent.as_integer();
  return out;
}

/// Adds up the tables of a plan again: what every rank holds of every parameter.
void expect_adds_up(const Json& plan, int64_t published, const std::string& what) {
  const int64_t tp = number(at(plan, "topology"), "tp_size");
  int64_t held = 0, local = 0, bytes = 0, on_disk = 0;
  for (const Json& parameter : at(plan, "parameters").as_array()) {
    for (const Json& shape : at(parameter, "on_disk").as_array()) on_disk += product(shape);
    for (const Json& place : at(parameter, "places").as_array()) {
      local += tp * product(at(place, "local"));
      bytes += tp * ((number(place, "bytes") + 63) / 64 * 64);
      const Json& table = at(plan, "slices").as_array()[static_cast<size_t>(number(place, "slices"))];
      EXPECT_EQ(std::ssize(table.as_array()), tp) << what;
      for (const Json& pieces : table.as_array()) {
        for (const Json& piece : pieces.as_array()) held += area(piece);
      }
    }
  }
  int64_t weights = 0;
  for (const Json& rank : at(plan, "rank_table").as_array()) weights += number(at(rank, "memory"), "weights");

  const Json& sums = at(plan, "accounting");
  const auto elements = [&](const char* key) { return number(at(sums, key), "elements"); };
  const auto amount = [&](const char* key) { return number(at(sums, key), "bytes"); };
  EXPECT_EQ(on_disk, published) << what;
  EXPECT_EQ(elements("checkpoint"), published) << what;
  EXPECT_EQ(elements("checkpoint") + elements("replicas"), held) << what;
  EXPECT_EQ(held + elements("vocabulary_padding"), local) << what;
  EXPECT_EQ(elements("ranks"), local) << what;
  EXPECT_EQ(amount("ranks"), bytes) << what;
  EXPECT_EQ(bytes, weights) << what;
  EXPECT_EQ(amount("checkpoint") + number(sums, "widening_bytes") + amount("replicas") + amount("vocabulary_padding") +
                number(sums, "packing_bytes"),
            bytes)
      << what;
  EXPECT_EQ(amount("checkpoint"), 2 * published) << what;
  EXPECT_GE(number(sums, "packing_bytes"), 0) << what;
}

std::map<std::string, int64_t> published_totals() {
  std::map<std::string, int64_t> totals;
  for (const std::string& line : split(*read_file(plan_test::kConfigs + "parameters.tsv"), '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = split(line, '\t');
    totals[fields[0]] = std::stoll(fields[1]);
  }
  return totals;
}

/// Stages of uneven length: the first takes up to two layers more than an even share, the last what is left.
std::vector<int> uneven(int64_t layers, int stages) {
  const int more = static_cast<int>(std::min<int64_t>(2, layers - stages));
  std::vector<int> out(static_cast<size_t>(stages), static_cast<int>((layers - more) / stages));
  out.front() += more;
  out.back() += static_cast<int>((layers - more) % stages);
  return out;
}

std::vector<Topology> topologies(int64_t layers) {
  std::vector<Topology> out;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int pp : {1, 2, 16}) {
      if (pp == 16 && tp < 8) continue;
      for (int dp = 1; dp <= std::min(tp, 2); ++dp) {
        out.push_back({.tp_size = tp, .pp_size = pp, .dp_attention = dp});
        if (pp > 1) out.back().pp_layer_partition = uneven(layers, pp);
      }
    }
  }
  return out;
}

bool divides(const ModelConfig& config, const Topology& topology) {
  const int64_t ranks = topology.attn_tp(), kv_heads = config.num_key_value_heads;
  return config.num_attention_heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0) &&
         config.intermediate_size % topology.tp_size == 0;
}

TEST(InspectJson, FullRanksOfEveryTopologyAddUpToTheCheckpoint) {
  const auto totals = published_totals();
  ASSERT_FALSE(totals.empty());
  int planned_ones = 0, refused = 0;
  for (const auto& [name, total] : totals) {
    const auto config = load_model_config(plan_test::kConfigs + name, "");
    ASSERT_TRUE(config.ok());
    for (const Topology& topology : topologies(config->num_hidden_layers)) {
      const auto plan = planned(options_of(name, topology));
      const std::string what = cat(name, " tp ", topology.tp_size, " pp ", topology.pp_size, " dp ", topology.dp_attention);
      ASSERT_EQ(plan.ok(), divides(*config, topology)) << what << ": " << (plan.ok() ? "planned" : plan.error().message);
      ++(plan.ok() ? planned_ones : refused);
      if (!plan.ok()) {
        EXPECT_THAT(plan.error().message, HasSubstr("--tp-size")) << what;
        continue;
      }
      const auto json = inspect_json(*plan);
      ASSERT_TRUE(json.ok()) << what << ": " << json.error().message;
      expect_adds_up(*json, total, what);
    }
  }
  std::printf("%d plans add up, %d are refused\n", planned_ones, refused);
  EXPECT_GT(planned_ones, 10 * refused);
  EXPECT_GT(refused, 0);
}

TEST(InspectJson, PlanOf128RanksOf405B) {
  Topology topology{.tp_size = 8, .pp_size = 16};
  const auto start = std::chrono::steady_clock::now();
  const Json plan = planned_json(options_of("llama-3.1-405b", topology));
  const std::string text = plan.dump();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("128 ranks in %.3f s, %zu bytes of JSON\n", seconds, text.size());
  EXPECT_EQ(number(plan, "ranks"), 128);
  EXPECT_LT(text.size(), size_t{2} << 20);
  const Json::Array& pipeline = at(plan, "pipeline").as_array();
  ASSERT_EQ(pipeline.size(), 16U);
  int64_t next = 0;
  for (size_t s = 0; s < pipeline.size(); ++s) {
    const Json::Array& layers = at(pipeline[s], "layers").as_array();
    EXPECT_EQ(layers[0].as_integer(), next);
    next = layers[1].as_integer();
    EXPECT_EQ(next - layers[0].as_integer(), s < 2 ? 7 : 8);  // 126 = 2 x 7 + 14 x 8
    EXPECT_EQ(pipeline[s].find("hands_over") != nullptr, s + 1 < pipeline.size());
  }
  EXPECT_EQ(next, 126);
  expect_adds_up(plan, 405853388800, "405b");
  ASSERT_EQ(at(plan, "rank_table").as_array().size(), 128U);
}

TEST(InspectJson, RanksNameTheirHeadsReplicasAndVocabulary) {
  const Json plan = planned_json(options_of("llama-3.2-3b", {.tp_size = 8, .pp_size = 2}));
  const Json::Array& ranks = at(plan, "rank_table").as_array();
  ASSERT_EQ(ranks.size(), 16U);
  const Json& rank = ranks[13];
  EXPECT_EQ(number(rank, "stage"), 1);
  EXPECT_EQ(number(rank, "tp_rank"), 5);
  EXPECT_EQ(at(rank, "heads").dump(), "[15,18]");
  EXPECT_EQ(at(rank, "kv_heads").dump(), "[5,6]");
  EXPECT_EQ(at(rank, "layers").dump(), "[14,28]");
  ASSERT_EQ(at(rank, "vocabulary").as_array().size(), 1U);
  const Json& head = at(rank, "vocabulary").as_array()[0];
  EXPECT_EQ(at(head, "name").as_string(), "model.embed_tokens.weight");  // tied
  EXPECT_EQ(at(head, "rows").dump(), "[80320,96384]");
  EXPECT_EQ(number(head, "padding"), 0);
  const Json& last = at(ranks[15], "vocabulary").as_array()[0];
  EXPECT_EQ(at(last, "rows").dump(), "[112448,128256]");
  EXPECT_EQ(number(last, "padding"), 256);
}

TEST(InspectJson, KvHeadsFewerThanRanksDoubleTheKvBytes) {
  // 32 heads, 4 KV heads
  const Json four = planned_json(options_of("tinyllama-1.1b", {.tp_size = 4}));
  const Json eight = planned_json(options_of("tinyllama-1.1b", {.tp_size = 8}));
  EXPECT_EQ(number(at(eight, "kv"), "bytes_per_token_all_ranks"), 2 * number(at(four, "kv"), "bytes_per_token_all_ranks"));
  for (const Json& rank : at(eight, "rank_table").as_array()) {
    const int64_t head = number(rank, "rank") / 2;
    EXPECT_EQ(at(rank, "kv_heads").dump(), cat("[", head, ",", head + 1, "]"));
    EXPECT_EQ(number(rank, "kv_replicas"), 2);
  }
  for (const Json& rank : at(four, "rank_table").as_array()) EXPECT_EQ(number(rank, "kv_replicas"), 1);
}

TEST(InspectJson, BoundariesHaveAPlanAndBytesForEachVariant) {
  const Json plan = planned_json(options_of("llama-3.2-1b", {.tp_size = 4, .pp_size = 2, .dp_attention = 2}));
  const Json::Array& boundaries = at(plan, "stages").as_array();
  ASSERT_EQ(boundaries.size(), 2U * 16 + 1);
  EXPECT_EQ(number(boundaries.front(), "pipeline_stage"), 0);
  EXPECT_EQ(number(boundaries.back(), "pipeline_stage"), 1);
  for (const Json& boundary : boundaries) {
    EXPECT_FALSE(at(boundary, "plan").as_string().empty());
    ASSERT_GE(at(boundary, "variants").as_array().size(), 2U);
    for (const Json& variant : at(boundary, "variants").as_array()) {
      EXPECT_FALSE(at(variant, "variant").as_string().empty());
      EXPECT_FALSE(at(variant, "plan").as_string().empty());
      EXPECT_GE(number(variant, "wire_bytes_per_row"), 0);
    }
  }
}

TEST(InspectJson, MemoryOfARankThatIsTooSmallSaysSoAndKeepsThePlan) {
  const auto small = planned(options_of("llama-3.2-1b", {.tp_size = 2}), plan_test::memory_request(uint64_t{2} << 30));
  ASSERT_TRUE(small.ok());
  EXPECT_THAT(small->fault, HasSubstr("not enough memory"));
  const auto each = planned(options_of("llama-3.2-1b", {.tp_size = 2}), plan_test::memory_request(uint64_t{2} << 30), false);
  ASSERT_TRUE(each.ok());
  EXPECT_EQ(each->fault, "");
  const Json plan = *inspect_json(*each);
  EXPECT_GT(number(at(plan, "memory"), "largest_context"), 0);
  EXPECT_EQ(at(at(plan, "memory"), "available_to").as_string(), "each rank");
}

}  // namespace
}  // namespace lamina
