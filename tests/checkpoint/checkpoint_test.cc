// Checkpoint folders: which files are read, and how a folder that does not hold together is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using fixture::TempFolder;
using fixture::Tensors;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

fixture::Tensor number(float value) { return fixture::f32_tensor({1}, {&value, 1}); }

const Tensors kFour = {{"a", number(1)}, {"b", number(2)}, {"c", number(3)}, {"d", number(4)}};

std::string fault(const TempFolder& folder) {
  const auto checkpoint = Checkpoint::open(folder.path());
  EXPECT_FALSE(checkpoint.ok());
  return checkpoint.ok() ? "" : checkpoint.error().message;
}

float value_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) return -1;
  float value = 0;
  std::memcpy(&value, checkpoint.data(*tensor).data(), sizeof value);
  return value;
}

TEST(CheckpointFolder, OneFile) {
  TempFolder folder;
  write_checkpoint(folder, kFour);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->file_count(), 1);
  EXPECT_EQ(checkpoint->total_bytes(), 16U);
  EXPECT_EQ(value_of(*checkpoint, "c"), 3);
  EXPECT_EQ(checkpoint->find("cc"), nullptr);
  EXPECT_TRUE(checkpoint->ignored_files().empty());
}

TEST(CheckpointFolder, OnlyShardsOfTheIndexAreReadAndTheRestIsLoggedOnce) {
  TempFolder folder;
  write_checkpoint(folder, kFour, 2);
  folder.write("model.safetensors", fixture::safetensors_file({{"a", number(100)}}));
  folder.write("consolidated.00.pth", "x");
  ::testing::internal::CaptureStderr();
  const auto checkpoint = Checkpoint::open(folder.path());
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->file_count(), 2);
  EXPECT_EQ(value_of(*checkpoint, "a"), 1);
  EXPECT_EQ(value_of(*checkpoint, "d"), 4);
  EXPECT_THAT(checkpoint->ignored_files(), ElementsAre("consolidated.00.pth", "model.safetensors"));
  EXPECT_THAT(log, HasSubstr("consolidated.00.pth, model.safetensors"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1);
}

TEST(CheckpointFolder, EveryMissingShardIsListed) {
  TempFolder folder;
  write_checkpoint(folder, kFour, 4);
  std::filesystem::remove(folder.file(fixture::shard_name(2, 4)));
  std::filesystem::remove(folder.file(fixture::shard_name(4, 4)));
  EXPECT_THAT(fault(folder),
              AllOf(HasSubstr("lacks 2 of 4"), HasSubstr("model-00002-of-00004.safetensors, model-00004-of-00004.safetensors"),
                    HasSubstr("incomplete download?")));
}

TEST(CheckpointFolder, ShardsThatAreNoSafetensorsAreNamed) {
  TempFolder folder;
  write_checkpoint(folder, kFour, 2);
  const std::string second = fixture::shard_name(2, 2);
  std::filesystem::resize_file(folder.file(second), std::filesystem::file_size(folder.file(second)) - 4);
  EXPECT_THAT(fault(folder), AllOf(HasSubstr(folder.file(second) + " is cut"), HasSubstr("incomplete download?")));
  folder.write(second, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 500\n");
  EXPECT_THAT(fault(folder), HasSubstr(folder.file(second) + " is a git-lfs pointer"));
}

TEST(CheckpointFolder, StaleIndexesAreRefused) {
  TempFolder folder;
  write_checkpoint(folder, kFour, 2);
  const std::string index = R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
    "d": "model-00002-of-00002.safetensors", "e": "model-00001-of-00002.safetensors"}})";
  folder.write("model.safetensors.index.json", index);
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("stale index?"), HasSubstr("b is in model-00001-of-00002.safetensors, not in model-00002"),
                                   HasSubstr("e is not in model-00001"), HasSubstr("c of model-00002-of-00002.safetensors is not named")));
}

TEST(CheckpointFolder, TensorInTwoShardsIsRefused) {
  TempFolder folder;
  write_checkpoint(folder, kFour, 2);
  folder.write(fixture::shard_name(2, 2), fixture::safetensors_file(kFour));
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("\"a\" is in two files"), HasSubstr("model-00001"), HasSubstr("model-00002")));
}

TEST(CheckpointFolder, BadIndexesAreRefused) {
  TempFolder folder;
  const auto with_index = [&](const char* text) {
    folder.write("model.safetensors.index.json", text);
    return fault(folder);
  };
  EXPECT_THAT(with_index("{"), HasSubstr("model.safetensors.index.json"));
  EXPECT_THAT(with_index("{}"), HasSubstr("\"weight_map\" is missing"));
  EXPECT_THAT(with_index(R"({"weight_map": {}})"), HasSubstr("\"weight_map\" is empty"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": 1}})"), HasSubstr("\"weight_map.a\" is 1"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "../other/model.safetensors"}})"), HasSubstr("in the same folder"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "pytorch_model.bin"}})"), HasSubstr("pytorch_model.bin"));
}

TEST(CheckpointFolder, FoldersWithoutWeightsSayWhatIsLookedFor) {
  TempFolder folder;
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("has no weights"), HasSubstr("model.safetensors.index.json")));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("only pytorch_model.bin"), HasSubstr("only safetensors are read")));
  EXPECT_THAT(Checkpoint::open(folder.file("nowhere")).error().message, HasSubstr("is not a folder"));
}

TEST(CheckpointFolder, OneSafetensorsFileOfAnotherNameIsRead) {
  TempFolder folder;
  folder.write("weights.safetensors", fixture::safetensors_file(kFour));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(value_of(*checkpoint, "b"), 2);
  folder.write("more.safetensors", fixture::safetensors_file({}));
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("more.safetensors, weights.safetensors"), HasSubstr("no model.safetensors.index.json")));
}

TEST(CheckpointFolder, ShardWithoutAnIndexIsRefused) {
  TempFolder folder;
  folder.write(fixture::shard_name(1, 2), fixture::safetensors_file(kFour));
  EXPECT_THAT(fault(folder), AllOf(HasSubstr("model-00001-of-00002.safetensors"), HasSubstr("incomplete download?")));
}

TEST(CheckpointFolder, AFileOfNoTensorsIsValid) {
  TempFolder folder;
  folder.write("model.safetensors", fixture::safetensors_file({}));
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
}

}  // namespace
}  // namespace lamina
