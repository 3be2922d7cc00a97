#include "weights/tied.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

struct Outcome {
  Status status;
  std::string log;
};

Outcome check(const fixture::Tensors& tensors) {
  const toy::Files files(tensors);
  testing::internal::CaptureStderr();
  Status status = check_tied_head(files.checkpoint(), {});
  return {std::move(status), testing::internal::GetCapturedStderr()};
}

TEST(TiedHead, AbsentOrEqualHeadsAreSilent) {
  fixture::Tensors tensors = toy::tensors();
  EXPECT_EQ(check(tensors).log, "");
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  const Outcome outcome = check(tensors);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.log, "");
}

TEST(TiedHead, ABiasOfZerosIsNone) {
  fixture::Tensors tensors = toy::tensors();
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  tensors["lm_head.bias"] = {"F32", {259}, std::string(259 * 4, '\0')};
  EXPECT_TRUE(check(tensors).status.ok());
  tensors["lm_head.bias"].bytes.back() = 1;
  EXPECT_THAT(check(tensors).status.error().message, testing::HasSubstr("lm_head.bias"));
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
    EXPECT_TRUE(outcome.status.ok());
    EXPECT_THAT(outcome.log, testing::HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
    EXPECT_EQ(std::count(outcome.log.begin(), outcome.log.end(), '\n'), 1);
  }
}

TEST(TiedHead, QuantisedHeadsRepeatTheEmbeddingOrAreRefused) {
  const std::string head = "lm_head.", embedding = "model.embed_tokens.";
  fixture::Tensors tensors = toy::tensors();
  for (const std::string& module : {head, embedding}) {
    tensors[module + "weight"] = {"I8", {259, 24}, std::string(259 * 24, 'c')};
    tensors[module + "weight_scale"] = toy::tensor("s", {259, 1});
  }
  EXPECT_TRUE(check(tensors).status.ok());
  EXPECT_EQ(check(tensors).log, "");

  fixture::Tensors changed = tensors;
  changed[head + "weight_scale"].bytes.back() ^= 1;
  EXPECT_THAT(check(changed).status.error().message,
              testing::HasSubstr("tensor lm_head.weight_scale differs from model.embed_tokens.weight_scale"));
  changed = tensors;
  changed[head + "weight"].bytes[7] = 'd';
  EXPECT_THAT(check(changed).status.error().message, testing::HasSubstr("tensor lm_head.weight differs"));
  changed = tensors;
  changed.erase(head + "weight_scale");
  changed[head + "weight"] = toy::tensor("w", {259, 24});
  EXPECT_THAT(check(changed).status.error().message, testing::HasSubstr("tensor lm_head.weight differs"));
  changed = tensors;
  changed[head + "weight_scale_inv"] = toy::tensor("s", {259, 1});
  EXPECT_THAT(check(changed).status.error().message, testing::HasSubstr("no weight_scale_inv as lm_head.weight_scale_inv is"));
}

}  // namespace
}  // namespace lamina
