#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using fixture::TempFolder;
using ::testing::ElementsAre;

std::vector<NewTensor> some_tensors() {
  return {{"model.a.weight", DType::kI8, {3, 5}},
          {"model.a.weight_scale", DType::kF32, {3, 1}},
          {"model.b.weight_shape", DType::kI64, {2}},
          {"model.b.weight_packed", DType::kI32, {4, 2}},
          {"model.b.weight_scale", DType::kBF16, {4, 1}},
          {"model.empty", DType::kF32, {0, 7}},
          {"model.scalar", DType::kBF16, {}}};
}

std::vector<uint8_t> random_bytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(size);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  return out;
}

std::vector<uint8_t> content(const NewTensor& tensor, size_t index) {
  return random_bytes(tensor.bytes(), static_cast<unsigned>(index) + 1);
}

/// Every tensor in two pieces, the later one first.
void write_all(SafetensorsWriter& writer, const std::vector<NewTensor>& tensors) {
  for (size_t i = tensors.size(); i-- > 0;) {
    const std::vector<uint8_t> bytes = content(tensors[i], i);
    const std::span<const uint8_t> all(bytes);
    const size_t half = bytes.size() / 2;
    ASSERT_TRUE(writer.write(i, half, all.subspan(half)).ok());
    ASSERT_TRUE(writer.write(i, 0, all.first(half)).ok());
  }
}

void expect_read_back(const std::string& folder, const std::vector<NewTensor>& tensors) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo* found = checkpoint->find(tensors[i].name);
    ASSERT_NE(found, nullptr) << tensors[i].name;
    EXPECT_EQ(found->dtype, tensors[i].dtype);
    EXPECT_EQ(found->shape, tensors[i].shape);
    EXPECT_EQ(found->begin % static_cast<uint64_t>(dtype_bytes(found->dtype)), 0U) << tensors[i].name;
    const std::span<const uint8_t> bytes = checkpoint->data(*found);
    EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), content(tensors[i], i)) << tensors[i].name;
  }
}

TEST(SafetensorsWriter, OurReaderFindsWhatWasWrittenAlignedToItsElements) {
  const TempFolder folder;
  const std::vector<NewTensor> tensors = some_tensors();
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder.path(), tensors);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  write_all(*writer, tensors);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_THAT(writer->file_names(), ElementsAre("model.safetensors"));
  EXPECT_THAT(*list_folder(folder.path()), ElementsAre("model.safetensors"));
  EXPECT_EQ(writer->tensor_bytes(), 15U + 12 + 16 + 32 + 8 + 0 + 2);
  expect_read_back(folder.path(), tensors);
}

TEST(SafetensorsWriter, ShardsAreFilledInOrderAndIndexed) {
  const TempFolder folder;
  const std::vector<NewTensor> tensors = some_tensors();
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder.path(), tensors, 30);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  write_all(*writer, tensors);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_THAT(*list_folder(folder.path()),
              ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                          "model-00004-of-00004.safetensors", "model.safetensors.index.json"));
  expect_read_back(folder.path(), tensors);
  const Json index = *read_json_object(folder.file("model.safetensors.index.json"));
  EXPECT_EQ(index.find("metadata")->find("total_size")->as_integer(), 85);
  const Json& map = *index.find("weight_map");
  EXPECT_EQ(map.find("model.a.weight_scale")->as_string(), "model-00001-of-00004.safetensors");
  EXPECT_EQ(map.find("model.b.weight_packed")->as_string(), "model-00003-of-00004.safetensors") << "too large for any shard";
  EXPECT_EQ(map.find("model.scalar")->as_string(), "model-00004-of-00004.safetensors");
}

TEST(SafetensorsWriter, WithoutFinishNothingIsLeft) {
  const TempFolder folder;
  {
    const std::vector<NewTensor> tensors = some_tensors();
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder.path(), tensors, 30);
    ASSERT_TRUE(writer.ok());
    write_all(*writer, tensors);
    EXPECT_FALSE(Checkpoint::open(folder.path()).ok());
  }
  EXPECT_TRUE(list_folder(folder.path())->empty());
}

TEST(SafetensorsWriter, FolderThatIsNotThereIsNamed) {
  EXPECT_EQ(SafetensorsWriter::create("/nonexistent", some_tensors()).error().message,
            "cannot create /nonexistent/model.safetensors: No such file or directory");
}

}  // namespace
}  // namespace lamina
