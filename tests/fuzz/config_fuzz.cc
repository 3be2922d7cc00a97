// config.json: parse_model_config(). An input that is an array of two objects is a config and what overrides it.
#include "base/check.h"
#include "checkpoint/config.h"
#include "tests/fuzz/json_mutator.h"

LAMINA_FUZZ_JSON_INPUT()

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto root = lamina::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!root.ok()) return 0;
  if (root->is_array() && root->as_array().size() == 2 && root->as_array()[0].is_object() && root->as_array()[1].is_object()) {
    lamina::Json base = root->as_array()[0];
    lamina::merge_json(base, root->as_array()[1]);
    *root = std::move(base);
  }
  const auto config = lamina::parse_model_config(*root, "config.json");
  if (!config.ok()) return 0;
  LAMINA_CHECK(config->context_length() > 0, "a model without positions");
  for (int layer = 0; layer < config->num_hidden_layers; ++layer) {
    LAMINA_CHECK(config->sliding_window(lamina::LayerId(layer)) >= 0, "a negative window");
    LAMINA_CHECK(config->rope(lamina::LayerId(layer)).context_length() > 0, "a rope without positions");
  }
  return 0;
}
