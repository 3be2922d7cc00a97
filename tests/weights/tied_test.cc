#include "weights/tied.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

struct Outcome {
  bool differs;
  std::string log;
};

Outcome check(const fixture::Tensors& tensors) {
  const toy::Files files(tensors);
  testing::internal::CaptureStderr();
  const bool differs = warn_if_tied_head_differs(files.checkpoint(), "lm_head.weight", "model.embed_tokens.weight");
  return {differs, testing::internal::GetCapturedStderr()};
}

TEST(TiedHead, AbsentOrEqualHeadsAreSilent) {
  fixture::Tensors tensors = toy::tensors();
  EXPECT_EQ(check(tensors).log, "");
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  const Outcome outcome = check(tensors);
  EXPECT_FALSE(outcome.differs);
  EXPECT_EQ(outcome.log, "");
}

TEST(TiedHead, ADifferentHeadIsOneWarningWithBothNames) {
  fixture::Tensors tensors = toy::tensors();
  fixture::Tensor last_byte = tensors["model.embed_tokens.weight"];
  last_byte.bytes.back() ^= 1;
  fixture::Tensor other_shape = tensors["model.embed_tokens.weight"];
  other_shape.shape = {24, 259};
  const fixture::Tensor other_type = toy::tensor("model.embed_tokens.weight", {259, 24}, DType::kBF16);
  for (const fixture::Tensor& head : {last_byte, other_shape, other_type}) {
    tensors["lm_head.weight"] = head;
    const Outcome outcome = check(tensors);
    EXPECT_TRUE(outcome.differs);
    EXPECT_THAT(outcome.log, testing::HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
    EXPECT_EQ(std::count(outcome.log.begin(), outcome.log.end(), '\n'), 1);
  }
}

}  // namespace
}  // namespace lamina
