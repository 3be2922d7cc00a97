#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace lamina {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : folder_(cat(testing::TempDir(), "lamina-file-", getpid())) { std::filesystem::create_directories(folder_); }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
};

TEST_F(FileTest, ReadsWholeFilesUpToALimit) {
  const std::string text("a\0b\n", 4);
  const std::string file = write("x", text);
  EXPECT_EQ(*read_file(file), text);
  EXPECT_EQ(*read_file(file, 4), text);
  EXPECT_EQ(read_file(file, 3).error().message, file + " has 4 bytes; at most 3 are allowed");
  EXPECT_EQ(*read_file(write("empty", "")), "");
  EXPECT_EQ(*file_size(file), 4U);
}

TEST_F(FileTest, ReadsFilesThatDoNotTellTheirSize) {
  EXPECT_GT(read_file("/proc/self/status")->size(), 0U);
  EXPECT_FALSE(read_file("/dev/zero", 1 << 16).ok());
}

TEST_F(FileTest, ErrorsNameThePath) {
  const std::string absent = path("absent");
  EXPECT_NE(read_file(absent).error().message.find(absent + ": No such file"), std::string::npos);
  EXPECT_NE(file_size(absent).error().message.find(absent), std::string::npos);
  EXPECT_NE(list_folder(absent).error().message.find(absent), std::string::npos);
  EXPECT_NE(MappedFile::open(absent).error().message.find(absent), std::string::npos);
  EXPECT_EQ(read_file(folder_).error().message, folder_ + " is a folder, not a file");
  EXPECT_EQ(MappedFile::open(folder_).error().message, folder_ + " is a folder, not a file");
  EXPECT_FALSE(MappedFile::open("/dev/null").ok());
}

TEST_F(FileTest, TellsFilesFromFolders) {
  const std::string file = write("x", "1");
  EXPECT_TRUE(file_exists(file));
  EXPECT_FALSE(file_exists(folder_));
  EXPECT_FALSE(file_exists(path("absent")));
  EXPECT_TRUE(is_directory(folder_));
  EXPECT_FALSE(is_directory(file));
}

TEST_F(FileTest, ListsNamesSorted) {
  write("b", ""), write("a", ""), write(".hidden", "");
  EXPECT_EQ(*list_folder(folder_), (std::vector<std::string>{".hidden", "a", "b"}));
}

TEST_F(FileTest, MapsWholeFilesAndKeepsThemReadableAfterADrop) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += cat(i, "\n");
  auto mapped = *MappedFile::open(write("x", text));
  const auto bytes = mapped.bytes();
  mapped.will_need(100, 1 << 30);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), text);
  mapped.drop(0, bytes.size());
  mapped.drop(bytes.size() + 5, 1);
  mapped.will_need(bytes.size() + 5, 1);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), text);
  const MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.bytes().data(), bytes.data());
  EXPECT_TRUE(MappedFile::open(write("empty", ""))->bytes().empty());
}

}  // namespace
}  // namespace lamina
