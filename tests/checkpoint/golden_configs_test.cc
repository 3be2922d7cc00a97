// Every config.json of the golden models whose family is supported parses; the others are refused by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace lamina {
namespace {

const std::string kModels = LAMINA_SOURCE_DIR "/../shared/golden/models";

bool is_supported(const std::string& name) {
  for (const char* prefix : {"llama", "mistral", "phi3", "internlm3", "iquestcoder"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name.starts_with("qwen") && name.find("moe") == std::string::npos;
}

TEST(GoldenConfigs, SupportedFamiliesLoadAndOthersAreRefusedByName) {
  if (!is_directory(kModels)) GTEST_SKIP() << "no " << kModels;
  const auto names = list_folder(kModels);
  ASSERT_TRUE(names.ok());
  int loaded = 0;
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const auto config = load_model_config(kModels + "/" + name);
    if (!is_supported(name)) {
      ASSERT_FALSE(config.ok());
      EXPECT_NE(config.error().message.find("is not supported; supported: LlamaForCausalLM, MistralForCausalLM"), std::string::npos)
          << config.error().message;
      continue;
    }
    ASSERT_TRUE(config.ok()) << config.error().message;
    ++loaded;
    const auto checkpoint = Checkpoint::open(kModels + "/" + name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const TensorInfo* embedding = checkpoint->find("model.embed_tokens.weight");
    if (embedding == nullptr) embedding = checkpoint->find("embed_tokens.weight");
    ASSERT_NE(embedding, nullptr);
    EXPECT_EQ(embedding->shape, (std::vector<int64_t>{config->vocab_size, config->hidden_size}));
    EXPECT_EQ(checkpoint->data(*embedding).size(), embedding->bytes());
    EXPECT_EQ(config->layer_ropes.size(), static_cast<size_t>(config->num_hidden_layers));
  }
  EXPECT_GE(loaded, 35);
}

}  // namespace
}  // namespace lamina
