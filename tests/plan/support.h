#pragma once
// Plans of the published configs.

#include <gtest/gtest.h>

#include "plan/inspect.h"

namespace lamina::plan_test {

inline const std::string kConfigs = LAMINA_SOURCE_DIR "/tests/configs/";

inline PlanOptions options_of(const std::string& config, const Topology& topology, const std::string& overrides = "") {
  PlanOptions options;
  options.model = kConfigs + config;
  options.topology = topology;
  options.json_model_override_args = overrides;
  options.isa = "ref";
  return options;
}

inline MemoryRequest memory_request(uint64_t available = uint64_t{1} << 50) {
  MemoryRequest request;
  request.available = available;
  request.context_length = 4096;
  return request;
}

/// All ranks of a topology, without files.
inline Result<Inspection> planned(const PlanOptions& options, const MemoryRequest& request = memory_request(), bool shared = true) {
  LAMINA_ASSIGN(const std::shared_ptr<const ModelSource> source, read_model_source(options, false));
  return inspect_ranks(options, source, request, shared);
}

inline Json planned_json(const PlanOptions& options) {
  const Result<Inspection> inspection = planned(options);
  EXPECT_TRUE(inspection.ok()) << inspection.error().message;
  const Result<Json> json = inspect_json(*inspection);
  EXPECT_TRUE(json.ok()) << json.error().message;
  return *json;
}

inline const Json& at(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  EXPECT_NE(found, nullptr) << key;
  static const Json none;
  return found == nullptr ? none : *found;
}
inline int64_t number(const Json& object, std::string_view key) { return at(object, key).as_integer(); }

}  // namespace lamina::plan_test
