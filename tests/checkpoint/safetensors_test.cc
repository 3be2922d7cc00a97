#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using fixture::raw_safetensors;
using ::testing::HasSubstr;

Result<std::vector<TensorInfo>> parse(const std::string& bytes) {
  return parse_safetensors({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "x.safetensors");
}

std::string claims(uint64_t length, std::string_view rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(rest);
}

TEST(Safetensors, TensorsComeSortedWithAbsoluteRanges) {
  const std::string header = R"({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [2, 10]},
    "b": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}, "s": {"dtype": "U8", "shape": [], "data_offsets": [10, 11]}})";
  const auto tensors = parse(raw_safetensors(header, "0123456789a"));
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3U);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[1].name, "s");
  EXPECT_EQ((*tensors)[1].elements(), 1);
  EXPECT_EQ((*tensors)[2].begin, 8 + header.size() + 2);
  EXPECT_EQ((*tensors)[2].bytes(), 8U);
  EXPECT_EQ((*tensors)[2].shape, (std::vector<int64_t>{1, 2}));
}

TEST(Safetensors, TensorsOfNoElementsAreFine) {
  const auto tensors = parse(raw_safetensors(R"({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
    "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "c": {"dtype": "F32", "shape": [3, 0], "data_offsets": [4, 4]}})",
                                             "1234"));
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].elements(), 0);
  EXPECT_EQ((*tensors)[2].bytes(), 0U);
}

TEST(Safetensors, DamagedFilesGiveAnErrorOrRangesInsideTheFile) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const std::string whole = fixture::safetensors_file(
      {{"a.weight", fixture::f32_tensor({2, 3}, values)}, {"b.weight", fixture::make_tensor(DType::kBF16, {6}, values)}});
  ASSERT_TRUE(parse(whole).ok());
  const unsigned seed = 20240229;
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (unsigned hits = 1 + random() % 3; hits > 0; --hits) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const auto tensors = parse(damaged);
    refused += tensors.ok() ? 0 : 1;
    if (!tensors.ok()) continue;
    for (const TensorInfo& tensor : *tensors) ASSERT_LE(tensor.end, damaged.size()) << "seed " << seed << ", round " << round;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 3000);  // hits in the data are not seen
}

struct BadFile {
  const char* name;
  std::string bytes;
  std::vector<std::string> wanted;
};
class BadFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, IsRefusedByNameAndNumber) {
  const auto tensors = parse(GetParam().bytes);
  ASSERT_FALSE(tensors.ok());
  EXPECT_THAT(tensors.error().message, HasSubstr("x.safetensors"));
  for (const std::string& part : GetParam().wanted) EXPECT_THAT(tensors.error().message, HasSubstr(part));
}

/// A file of one F32 tensor "w" of shape [2] whose entry reads `entry`, followed by `data`.
std::string one(std::string_view entry, std::string_view data = "12345678") { return raw_safetensors(cat(R"({"w": )", entry, "}"), data); }

INSTANTIATE_TEST_SUITE_P(
    Faults, BadFiles,
    ::testing::Values(
        BadFile{"Empty", "", {"has 0 bytes"}}, BadFile{"SevenBytes", "1234567", {"has 7 bytes"}},
        BadFile{"Lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", {"git-lfs pointer"}},
        BadFile{"HugeHeader", claims(uint64_t{1} << 62, "{}"), {"4611686018427387904", "at most 100000000"}},
        BadFile{"HeaderOverCap", claims(100'000'001, "{}"), {"100000001"}},
        BadFile{"HeaderBeyondFile", claims(1000, "{}"), {"header takes 1008 bytes, the file has 10"}},
        BadFile{"HeaderCutJson", raw_safetensors(R"({"w": {"dtype")", ""), {"(header)"}},
        BadFile{"HeaderArray", raw_safetensors("[]", ""), {"header is an array"}},
        BadFile{"HeaderDeep", raw_safetensors(R"({"w": [[[[[[1]]]]]]})", ""), {"(header)"}},
        BadFile{"NoObject", one("3"), {"tensor \"w\" is an integer"}},
        BadFile{"NoDtype", one(R"({"shape": [2], "data_offsets": [0, 8]})"), {"tensor \"w\"", "\"dtype\" is missing"}},
        BadFile{"UnknownDtype", one(R"({"dtype": "F7", "shape": [2], "data_offsets": [0, 8]})"), {"tensor \"w\"", "F7"}},
        BadFile{"NegativeShape", one(R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})"), {"tensor \"w\"", "[-2]"}},
        BadFile{"OverflowingShape",
                one(R"({"dtype": "F32", "shape": [4294967296, 4294967296, 4], "data_offsets": [0, 8]})"),
                {"tensor \"w\"", "impossible shape [4294967296, 4294967296, 4]"}},
        BadFile{"ShapeNotBytes",
                one(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]})"),
                {"tensor \"w\"", "spans 8 bytes, but [3] of F32 takes 12"}},
        BadFile{"Backwards", one(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})"), {"tensor \"w\"", "[8,0] are no range"}},
        BadFile{"OneOffset", one(R"({"dtype": "F32", "shape": [2], "data_offsets": [8]})"), {"tensor \"w\"", "no range"}},
        BadFile{"Cut",
                one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", "123"),
                {"is cut", "take 77 bytes, the file has 72", "incomplete download?"}},
        BadFile{"Trailing",
                one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", "1234567890"),
                {"too long", "take 77 bytes, the file has 79"}},
        BadFile{"Hole", one(R"({"dtype": "F32", "shape": [2], "data_offsets": [4, 12]})", "123456789012"), {"hole of 4 bytes", "\"w\""}},
        BadFile{"Overlap",
                raw_safetensors(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
                                "123456789012"),
                {"tensor \"b\" overlaps"}},
        BadFile{
            "FarOffset", one(R"({"dtype": "F32", "shape": [2], "data_offsets": [9223372036854775799, 9223372036854775807]})"), {"is cut"}},
        BadFile{"Duplicate",
                raw_safetensors(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                                "12"),
                {"\"a\""}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lamina
